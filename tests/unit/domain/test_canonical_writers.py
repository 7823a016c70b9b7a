"""The quick writer of canonical JSON and the full one give the same bytes wherever both apply."""

import json

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from aegis.domain.canonical import DEPTH_MAX, canonical_json, strict_json
from aegis.domain.errors import NotCanonical

SAFE = st.integers(-(2**53) + 1, 2**53 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda value: not value.is_integer() or abs(value) < 2**53
)
LEAVES = st.none() | st.booleans() | SAFE | FLOATS | TEXT
ANY_JSON = st.recursive(
    LEAVES | st.text(st.characters(max_codepoint=127)),
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
    max_leaves=20,
)


@given(ANY_JSON)
def test_any_value_is_written_as_the_standard_says(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value).decode()  # pyright: ignore[reportArgumentType] - any JSON


@given(ANY_JSON)
def test_what_was_written_reads_back_and_is_written_the_same(value: object) -> None:
    text = canonical_json(value)
    assert canonical_json(strict_json(text)) == text


@pytest.mark.parametrize(
    "number", [2**53, -(2**53), [2**53], {"a": 2**64}, 2.0**53, [-1e20], {"a": [1e300]}]
)
def test_integers_that_not_every_reader_keeps_are_refused(number: object) -> None:
    with pytest.raises(NotCanonical):
        canonical_json(number)


@pytest.mark.parametrize("value", [{1: 2}, {None: 1}, (object(),), "\ud800", {"\ud800": 1}, 1j])
def test_what_json_does_not_have_is_refused(value: object) -> None:
    with pytest.raises(NotCanonical):
        canonical_json(value)


def test_the_nesting_bound_counts_depth_and_not_brackets() -> None:
    deepest = "[" * DEPTH_MAX + "]" * DEPTH_MAX
    wide = "[" + ",".join(["[]"] * 1000) + "]"
    assert strict_json(deepest) == json.loads(deepest)
    assert strict_json(wide) == json.loads(wide)
    assert strict_json('"' + "[" * 100 + '"') == "[" * 100
    with pytest.raises(NotCanonical, match="nests deeper"):
        strict_json("[" + deepest + "]")
    assert canonical_json(strict_json(deepest)) == deepest


def test_brackets_inside_of_strings_do_not_nest() -> None:
    tricky = json.dumps(['\\"' + "[" * 100, '"]"', "\\"])
    assert strict_json(tricky) == json.loads(tricky)
    with pytest.raises(NotCanonical, match="nests deeper"):
        strict_json('["\\\\","\\"",' + "[" * 100 + "]" * 101)


def test_a_value_that_nests_without_end_is_refused() -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(NotCanonical, match="nested too deeply"):
        canonical_json(endless)
