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

_INTEGER_MAX = 2**53 - 1
_PLAIN = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
)


def canonical_json(value: object) -> str:
    """Return the RFC 8785 text of `value` (what `json.loads` returns: dict, list, str, ...).

    Raises `NotCanonical` for integers beyond 2^53-1, non-finite numbers, lone surrogates, keys that
    are not strings and types that JSON does not have.
    """
    if _is_plain(value, DEPTH_MAX):
        # For such values the encoder of the standard library writes the very same bytes, in C.
        return _PLAIN.encode(value)
    try:
        if _holds_a_large_integer(value):
            raise NotCanonical("the value holds an integer beyond 2^53-1, spelled as a fraction")
        return rfc8785.dumps(cast("Any", value)).decode("utf-8")
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise NotCanonical("the value has no canonical JSON form (RFC 8785)") from error
    except RecursionError as error:
        raise NotCanonical("the value is nested too deeply") from error


def strict_json(text: str) -> object:
    """Parse one JSON document, refusing duplicate keys, NaN, Infinity and deep nesting.

    Raises `NotCanonical` with a sentence that names the broken rule, without quoting the input.
    """
    if text.count("[") + text.count("{") > DEPTH_MAX and _nesting(text) > DEPTH_MAX:
        raise NotCanonical(f"the JSON document nests deeper than {DEPTH_MAX}")
    try:
        return _STRICT.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotCanonical("the text is not exactly one JSON document") from error


def sha256_hex(data: str | bytes) -> str:
    """Return the SHA-256 of `data` (text as UTF-8) in lower-case hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def _is_plain(value: object, depth: int) -> bool:
    """Whether `value` has no number, key or text on which JSON writers differ."""
    kind = type(value)
    if kind is str:
        return cast("str", value).isascii()
    if kind is int:
        return -_INTEGER_MAX <= cast("int", value) <= _INTEGER_MAX
    if kind is dict and depth:
        return all(
            type(key) is str and key.isascii() and _is_plain(member, depth - 1)
            for key, member in cast("dict[object, object]", value).items()
        )
    if kind is list and depth:
        return all(_is_plain(member, depth - 1) for member in cast("list[object]", value))
    return kind is bool or value is None


def _holds_a_large_integer(value: object) -> bool:
    """Whether a float in `value` would be written as an integer that no reader need keep."""
    if isinstance(value, float):
        return value.is_integer() and abs(value) > _INTEGER_MAX
    if isinstance(value, dict):
        return any(map(_holds_a_large_integer, cast("dict[object, object]", value).values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_a_large_integer, cast("list[object]", value)))
    return False


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


_STRICT = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)
