"""Arguments have one canonical spelling, or none: what two spellings of one call become.

Proved here: strictness of the JSON, defaults (nested ones too), the size bound, the schema's own
validity, and that what a refused call is remembered by can always be stored.
"""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.domain.errors import ConfigurationError
from aegis.domain.text import is_storable
from aegis.tools.registry import (
    ARGUMENTS_BYTES_MAX,
    DEFAULTS_DEPTH_MAX,
    REMEMBERED_CHARACTERS_MAX,
    REMEMBERED_MAX,
    InvalidArguments,
    Registered,
    Registry,
    canonical_or_raw,
)
from tests.contracts.tool_executor.executor_under_test import ToolFake, returning
from tests.fakes.http_backend import HttpBackendFake, as_json

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "window_minutes": {"type": "integer", "default": 30},
            "note": {"type": "string"},
            "filter": {"$ref": "#/$defs/Filter"},
            "plain": {"type": "object", "properties": {"deep": {"default": [1]}}},
        },
        "additionalProperties": False,
        "$defs": {
            "Filter": {
                "type": "object",
                "properties": {
                    "level": {"type": "string", "default": "error"},
                    "inner": {"$ref": "#/$defs/Filter"},
                },
                "additionalProperties": False,
            }
        },
    }
)


def registered(schema: str = SCHEMA) -> Registered:
    return Registered(ToolFake(returning("x"), schema=schema))


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("{}", '{"window_minutes":30}'),
        (' { "window_minutes" : 30 } ', '{"window_minutes":30}'),
        ('{"window_minutes":30.0}', '{"window_minutes":30}'),
        ('{"window_minutes":3e1}', '{"window_minutes":30}'),
        ('{"window_minutes":5,"note":"\\u00e9"}', '{"note":"é","window_minutes":5}'),
        ('{"filter":{}}', '{"filter":{"level":"error"},"window_minutes":30}'),
        (
            '{"filter":{"inner":{}}}',
            '{"filter":{"inner":{"level":"error"},"level":"error"},"window_minutes":30}',
        ),
        ('{"plain":{}}', '{"plain":{"deep":[1]},"window_minutes":30}'),
    ],
)
def test_spellings_of_one_call_become_one_text(spelled: str, canonical: str) -> None:
    tool = registered()
    assert tool.canonical(spelled) == canonical
    assert tool.canonical(canonical) == canonical


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "nonsense",
        "[]",
        '"text"',
        "{}{}",
        '{"note":"a","note":"b"}',
        '{"note":NaN}',
        '{"window_minutes":Infinity}',
        '{"window_minutes":1e400}',
        '{"window_minutes":9007199254740992}',
        '{"window_minutes":-9007199254740992}',
        '{"window_minutes":9007199254740992.0}',
        '{"window_minutes":1e20}',
        '{"window_minutes":1e300}',
        '{"window_minutes":' + "1" * 5000 + "}",
        '{"window_minutes":"30"}',
        '{"window_minutes":true}',
        '{"note":"\\ud800"}',
        '{"note":"\ud800"}',
        '{"unknown":1}',
        '{"filter":{"unknown":1}}',
        "\ufeff{}",
        '{"note":' + "[" * 100 + "]" * 100 + "}",
        '{"note":' + "[" * 100_000,
        '{"note":"' + "x" * ARGUMENTS_BYTES_MAX + '"}',
    ],
)
def test_anything_else_is_invalid(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        registered().canonical(arguments)
    assert not registered().reproduces(arguments)


def test_the_size_bound_counts_bytes_and_not_characters() -> None:
    arguments = '{"note":"' + "é" * (ARGUMENTS_BYTES_MAX // 2) + '"}'
    assert len(arguments) < ARGUMENTS_BYTES_MAX
    with pytest.raises(InvalidArguments):
        registered().canonical(arguments)


def test_the_largest_exact_integers_are_kept() -> None:
    assert registered().canonical('{"window_minutes":9007199254740991}') == (
        '{"window_minutes":9007199254740991}'
    )


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "window_minutes": st.integers(-(2**53) + 1, 2**53 - 1),
            "note": st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
            "filter": st.fixed_dictionaries({}, optional={"level": st.just("warn")}),
        },
    )
)
def test_the_canonical_text_reproduces_itself(arguments: dict[str, object]) -> None:
    text = registered().canonical(json.dumps(arguments))
    assert registered().canonical(text) == text
    assert registered().reproduces(text)


def test_only_bytes_that_validation_makes_are_reproduced() -> None:
    tool = registered()
    assert tool.reproduces('{"window_minutes":30}')
    for other in ("{}", '{"window_minutes": 30}', '{"window_minutes":30.0}', '{"unknown":1}'):
        assert not tool.reproduces(other)


def test_what_is_remembered_is_bounded() -> None:
    tool = registered()
    for number in range(3 * REMEMBERED_MAX):
        tool.canonical(f'{{"window_minutes":{number}}}')
    tool.canonical('{"note":"' + "x" * REMEMBERED_CHARACTERS_MAX + '"}')
    assert len(tool._reproduced) <= REMEMBERED_MAX
    assert max(map(len, tool._reproduced)) <= REMEMBERED_CHARACTERS_MAX


@pytest.mark.parametrize(
    "schema",
    [
        '{"type":"array"}',
        '{"type":"object","properties":{"a":{"type":"nonsense"}}}',
    ],
    ids=["no object", "invalid"],
)
def test_a_tool_with_another_kind_of_schema_is_refused_at_start(schema: str) -> None:
    with pytest.raises(ConfigurationError, match="'look'"):
        registered(schema)


async def test_a_schema_that_would_have_to_be_fetched_is_refused_and_not_fetched() -> None:
    async with HttpBackendFake(lambda _heard: as_json({"type": "string"})) as elsewhere:
        schema = json.dumps(
            {"type": "object", "properties": {"a": {"$ref": elsewhere.url + "/schema.json"}}}
        )
        with pytest.raises(ConfigurationError, match="'look'"):
            await asyncio.to_thread(registered, schema)
        assert elsewhere.heard == []


def test_a_name_is_declared_once() -> None:
    tool = ToolFake(returning("x"))
    with pytest.raises(ConfigurationError, match="'look' is declared twice"):
        Registry([tool, tool])


@given(st.text())
def test_what_a_refused_call_is_remembered_by_can_be_stored(arguments: str) -> None:
    kept = canonical_or_raw(arguments)
    assert is_storable(kept)
    assert len(kept.encode()) <= ARGUMENTS_BYTES_MAX


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{ "b": 1, "a": 2 }', '{"a":2,"b":1}'),
        ('{"a":NaN}', '{"a":NaN}'),
        ("a\x00b\ud800", "a\ufffdb?"),
        ("é" * ARGUMENTS_BYTES_MAX, "é" * (ARGUMENTS_BYTES_MAX // 2)),
    ],
)
def test_a_refused_call_keeps_what_the_model_wrote(arguments: str, kept: str) -> None:
    assert canonical_or_raw(arguments) == kept


def test_a_record_that_holds_itself_gets_defaults_to_a_bounded_depth() -> None:
    deep = '{"filter":' + '{"inner":' * 20 + "{}" + "}" * 20 + "}"
    filled = registered().canonical(deep)
    assert 1 <= filled.count('"level":"error"') <= DEFAULTS_DEPTH_MAX
    assert registered().canonical(filled) == filled
