"""Canonical JSON (RFC 8785) and the digests made from it.

What is compared, hashed, shown for approval and run is always the canonical form, so that two
spellings of one call are one call.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, cast

import rfc8785

from aegis.domain.errors import NotCanonical

DEPTH_MAX = 64
"""Nesting allowed in any JSON document that comes from outside."""


def canonical_json(value: object) -> str:
    """Return the RFC 8785 text of `value` (what `json.loads` returns: dict, list, str, ...).

    Raises `NotCanonical` for integers beyond 2^53-1, non-finite numbers, lone surrogates, keys that
    are not strings and types that JSON does not have.
    """
    try:
        return rfc8785.dumps(cast("Any", value)).decode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise NotCanonical("the value has no canonical JSON form (RFC 8785)") from error
    except RecursionError as error:
        raise NotCanonical("the value is nested too deeply") from error


def strict_json(text: str) -> object:
    """Parse one JSON document, refusing duplicate keys, NaN, Infinity and deep nesting.

    Raises `NotCanonical` with a sentence that names the broken rule, without quoting the input.
    """
    if _nesting(text) > DEPTH_MAX:
        raise NotCanonical(f"the JSON document nests deeper than {DEPTH_MAX}")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise NotCanonical("the text is not exactly one JSON document") from error


def sha256_hex(data: str | bytes) -> str:
    """Return the SHA-256 of `data` (text as UTF-8) in lower-case hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _nesting(text: str) -> int:
    depth = deepest = 0
    in_string = escaped = False
    for char in text:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif char in "]}":
            depth -= 1
    return deepest


def _unique(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotCanonical("the JSON document repeats a key")
    return members


def _no_constant(_name: str) -> object:
    raise NotCanonical("the JSON document holds NaN or Infinity")
