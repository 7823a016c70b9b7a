"""The one reader of request bodies: a byte limit, one strict JSON document, an object."""

import asyncio
from typing import cast

from starlette.requests import ClientDisconnect, Request

from aegis.domain.canonical import strict_json
from aegis.domain.errors import NotCanonical
from aegis.web.problems import FieldError, Refused

BODY_SECONDS_MAX = 10.0
POINTER_CHARACTERS_MAX = 256
ERRORS_MAX = 20
LENGTH_DIGITS_MAX = 20


async def read_object(request: Request, size_bytes_max: int) -> dict[str, object]:
    """Return the body as a JSON object.

    Raises `Refused`: 415 another content type or charset, 413 more than `size_bytes_max` bytes, 400
    not one strict JSON document (bad UTF-8, duplicate key, NaN, second document, depth), 408 too
    slow, 422 with a pointer for a document that is no object.
    """
    _require_json(request.headers.get("content-type", ""))
    data = await _read(request, size_bytes_max)
    try:
        document = strict_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused("INVALID_REQUEST", "the body is not UTF-8", status=400) from None
    except NotCanonical as error:
        raise Refused("INVALID_REQUEST", str(error), status=400) from None
    if not isinstance(document, dict):
        detail = "the document must be an object"
        raise Refused("INVALID_REQUEST", detail, errors=(FieldError(pointer="", detail=detail),))
    return cast("dict[str, object]", document)


def take_strings(document: dict[str, object], required: tuple[str, ...]) -> list[str]:
    """Return the values of `required`, all strings, in that order.

    Raises `Refused` 422 that points at every member which is unknown, missing or no string: a body
    cannot carry a tenant, or anything else that is not listed.
    """
    broken = [
        FieldError(pointer=pointer_to(name), detail="this member is not known here")
        for name in document
        if name not in required
    ]
    values: list[str] = []
    for name in required:
        value = document.get(name)
        if isinstance(value, str):
            values.append(value)
            continue
        detail = "must be a string" if name in document else "this member is missing"
        broken.append(FieldError(pointer=pointer_to(name), detail=detail))
    if broken:
        raise Refused(
            "INVALID_REQUEST",
            "the document breaks its schema: see errors",
            errors=tuple(broken[:ERRORS_MAX]),
        )
    return values


def pointer_to(name: str) -> str:
    """Return the JSON pointer to a member of the document (RFC 6901), safe to send back."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    # A lone surrogate in a member's name has no UTF-8: it is shown as a question mark.
    return ("/" + escaped.encode("utf-8", errors="replace").decode())[:POINTER_CHARACTERS_MAX]


def _require_json(content_type: str) -> None:
    media_type, _, parameters = content_type.partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "")
    if media_type.strip().lower() != "application/json" or charset not in {"", "charset=utf-8"}:
        raise Refused("UNSUPPORTED_MEDIA_TYPE", "the body must be application/json in UTF-8")


async def _read(request: Request, size_bytes_max: int) -> bytes:
    too_large = Refused("BODY_TOO_LARGE", f"the body must be at most {size_bytes_max} bytes")
    declared = request.headers.get("content-length", "")
    counted = declared.isascii() and declared.isdigit()
    # Python refuses to read thousands of digits; what needs that many is too large anyway.
    if counted and (len(declared) > LENGTH_DIGITS_MAX or int(declared) > size_bytes_max):
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                data += chunk
                if len(data) > size_bytes_max:
                    raise too_large
    except TimeoutError:
        raise Refused("INVALID_REQUEST", "the body came too slowly", status=408) from None
    except ClientDisconnect:
        raise Refused("INVALID_REQUEST", "the body ended early", status=400) from None
    return bytes(data)
