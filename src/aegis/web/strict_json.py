"""The one reader of request bodies: a byte limit, one strict JSON document, an object."""

import asyncio
from typing import cast

from starlette.requests import ClientDisconnect, Request

from aegis.domain.canonical import strict_json
from aegis.domain.errors import NotCanonical
from aegis.web.problems import Refused

BODY_SECONDS_MAX = 10.0


async def read_object(request: Request, size_bytes_max: int) -> dict[str, object]:
    """Return the body as a JSON object.

    Raises `Refused`: 415 another content type, 413 more than `size_bytes_max` bytes, 400 not one
    strict JSON document (bad UTF-8, duplicate key, NaN, second document, depth), 408 too slow, 422
    with a pointer for a document that is no object.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Refused("UNSUPPORTED_MEDIA_TYPE", "the body must be application/json")
    data = await _read(request, size_bytes_max)
    try:
        document = strict_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused("INVALID_REQUEST", "the body is not UTF-8", status=400) from None
    except NotCanonical as error:
        raise Refused("INVALID_REQUEST", str(error), status=400) from None
    if not isinstance(document, dict):
        raise Refused("INVALID_REQUEST", "the document must be an object", pointer="")
    return cast("dict[str, object]", document)


def take_fields(document: dict[str, object], required: tuple[str, ...]) -> list[str]:
    """Return the values of `required`, all strings. Raises `Refused` 422 that points at the member.

    Members that are not listed are refused: a body cannot carry a tenant, or anything else.
    """
    for name in document:
        if name not in required:
            raise Refused(
                "INVALID_REQUEST", "this member is not known here", pointer=pointer_to(name)
            )
    values: list[str] = []
    for name in required:
        value = document.get(name)
        if name not in document:
            raise Refused("INVALID_REQUEST", "this member is missing", pointer=pointer_to(name))
        if not isinstance(value, str):
            raise Refused("INVALID_REQUEST", "must be a string", pointer=pointer_to(name))
        values.append(value)
    return values


def pointer_to(name: str) -> str:
    """Return the JSON pointer to a member of the document (RFC 6901), safe to send back."""
    escaped = name.replace("~", "~0").replace("/", "~1")
    return "/" + escaped.encode("utf-8", errors="replace").decode()[:256]


async def _read(request: Request, size_bytes_max: int) -> bytes:
    too_large = Refused("BODY_TOO_LARGE", f"the body must be at most {size_bytes_max} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared[:20]) > size_bytes_max:
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
