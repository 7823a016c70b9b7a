"""Reading requests: bounded bodies, forms, strict JSON objects, known parameters only."""

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from .problems import Problem

BODY_BYTES_MAX = 16 * 1024
FIELDS_MAX = 64


async def read_body(request: Request) -> bytes:
    """Return the body. Raises `Problem` 413 when it is longer than the limit."""
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_BYTES_MAX:
                raise Problem(413, "body_too_large", f"at most {BODY_BYTES_MAX} bytes")
    except ClientDisconnect:
        raise Problem(400, "body_incomplete", "the connection ended inside the body") from None
    return bytes(body)


async def read_form(request: Request) -> list[tuple[str, str]]:
    """Return the fields of form body and query string, in Prometheus' order: the body first."""
    pairs: list[tuple[str, str]] = []
    if request.method == "POST":
        pairs = _pairs((await read_body(request)).decode("utf-8", errors="replace"))
    return pairs + _pairs(request.scope["query_string"].decode("latin-1"))


def query_parameters(request: Request, allowed: Iterable[str]) -> dict[str, str]:
    """Return the query parameters, each known and at most once. Raises `Problem` 400."""
    known = set(allowed)
    given: dict[str, str] = {}
    for name, value in _pairs(request.scope["query_string"].decode("latin-1")):
        if name not in known:
            listed = ", ".join(sorted(known))
            raise Problem(400, "unknown_parameter", f"{name[:64]!r} is unknown; there are {listed}")
        if name in given:
            raise Problem(400, "repeated_parameter", f"{name!r} stands there twice")
        given[name] = value
    return given


async def read_object(request: Request) -> dict[str, Any]:
    """Return the body as one JSON object without repeated names. Raises `Problem`."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem(415, "unsupported_media_type", "send application/json")
    body = await read_body(request)
    try:
        document = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        raise Problem(400, "malformed_json", "the body must be one strict JSON object") from None
    if not isinstance(document, dict):
        raise Problem(422, "invalid_body", "the body must be a JSON object")
    return document


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX)
    except ValueError:
        raise Problem(400, "too_many_fields", f"at most {FIELDS_MAX} fields") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands there twice")
    return found


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
