"""A tool may do anything; its call still gets one truthful, storable result, and nothing leaks.

Reads here: too much output, text that no engine stores, values that JSON cannot say, endless work,
attempts to end the process or to look cancelled, exceptions that carry a secret.
"""

import asyncio
import logging
import math
from datetime import UTC, datetime

import msgspec
import pytest

from aegis.domain.canonical import sha256_hex
from aegis.domain.errors import ConfigurationError, LostClaim, StoreUnavailable
from aegis.domain.evidence import EvidenceStatus
from aegis.domain.reason import ReasonCode
from aegis.domain.text import is_storable
from aegis.domain.tool_call import CallState
from aegis.tools.observing import OUTPUT_BYTES_MAX, as_text
from aegis.tools.tool import ToolFailed
from tests.contracts.tool_executor.executor_under_test import (
    CANARY,
    Bench,
    Runs,
    ToolFake,
    never_ends,
    raising,
    returning,
)


def _cycle() -> list[object]:
    cycle: list[object] = []
    cycle.append(cycle)
    return cycle


def _deep() -> object:
    value: object = "bottom"
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        ("x" * 20_000_000, "result_too_large"),
        (["x" * 1000] * 20_000, "result_too_large"),
        ("é" * (OUTPUT_BYTES_MAX // 2 + 1), "result_too_large"),
        ("a\x00b", "unstorable_result"),
        ({"line": "a\x00b"}, "unstorable_result"),
        ({"a\x00b": 1}, "unstorable_result"),
        ("\ud800", "unstorable_result"),
        ({"line": "\udfff"}, "unstorable_result"),
        ({"value": math.nan}, "unstorable_result"),
        ([math.inf], "unstorable_result"),
        ({"at": datetime(2026, 1, 1, tzinfo=UTC)}, "unstorable_result"),
        ({("a", "b"): 1}, "unstorable_result"),
        (b"bytes", "unstorable_result"),
        ({1, 2}, "unstorable_result"),
        (object(), "unstorable_result"),
        (_cycle(), "unstorable_result"),
        (_deep(), "unstorable_result"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "value",
)
async def test_a_result_that_cannot_be_kept_is_a_failed_call(content: object, detail: str) -> None:
    bench = Bench([ToolFake(returning(content))])
    result = await bench.run("look")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert result.evidence is not None
    assert result.evidence.status is EvidenceStatus.FAILED
    assert result.evidence.content == f'{{"error":"TOOL_ERROR","detail":"{detail}"}}'
    assert bench.blobs.kept == {}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, "null"),
        ({"é": [1, 2.5, True]}, '{"é":[1,2.5,true]}'),
        ({"error": None}, '{"error":null}'),
        # A log line that speaks of the escape holds no NUL.
        ({"line": r"invalid \u0000 in input"}, r'{"line":"invalid \\u0000 in input"}'),
        (r"invalid \u0000 in input", r"invalid \u0000 in input"),
    ],
)
async def test_a_result_is_serialised_once_and_strings_stay_strings(
    content: object, text: str
) -> None:
    result = await Bench([ToolFake(returning(content))]).run("look")
    assert result.state is CallState.SUCCEEDED
    assert result.evidence is not None
    assert result.evidence.content == text
    assert not result.evidence.truncated


def test_escaped_nul_after_an_escaped_backslash_is_still_found() -> None:
    with pytest.raises(ToolFailed, match="unstorable_result"):
        as_text({"line": "\\\x00"})


async def test_long_output_is_cut_at_a_code_point_and_kept_whole() -> None:
    whole = "a" + "é" * 100
    bench = Bench([ToolFake(returning(whole))])
    result = await bench.run("look", context=bench.context(shown_bytes_max=10))
    evidence = result.evidence
    assert evidence is not None
    assert (evidence.content, evidence.truncated, evidence.size_bytes) == ("aéééé", True, 201)
    assert evidence.digest == sha256_hex(whole)
    assert await bench.blobs.fetch("acme", evidence.digest) == whole.encode()


async def test_output_of_exactly_what_is_shown_is_not_cut() -> None:
    bench = Bench([ToolFake(returning("ééééé"))])
    result = await bench.run("look", context=bench.context(shown_bytes_max=10))
    assert result.evidence is not None
    assert (result.evidence.truncated, bench.blobs.kept) == (False, {})


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(CANARY),
        ToolFailed(CANARY),
        ToolFailed(f"a sentence with {CANARY}"),
        SystemExit(CANARY),
        ConfigurationError(CANARY),
        LostClaim(CANARY),
        TimeoutError(CANARY),
        ExceptionGroup(CANARY, [ValueError(CANARY)]),
        RecursionError(CANARY),
        MemoryError(CANARY),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_the_text_of_an_exception_goes_nowhere(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    result = await Bench([ToolFake(raising(error))]).run("look")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert CANARY not in repr(result)
    assert CANARY not in msgspec.json.encode(result).decode()
    for record in caplog.records:
        assert CANARY not in record.getMessage()
        assert record.exc_info is None


async def test_a_defect_is_logged_by_tool_and_class_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await Bench([ToolFake(raising(ValueError(CANARY)))]).run("look")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [
        ("aegis.tools", "tool look ended with ValueError")
    ]


async def test_a_stable_word_of_the_tool_is_kept() -> None:
    result = await Bench([ToolFake(raising(ToolFailed("bad_data")))]).run("look")
    assert result.evidence is not None
    assert result.evidence.content == '{"error":"TOOL_ERROR","detail":"bad_data"}'


async def test_a_read_that_never_ends_times_out() -> None:
    tool = ToolFake(never_ends)
    bench = Bench([tool])
    result = await bench.run("look", context=bench.context(timeout_seconds=0.01))
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_TIMEOUT)
    assert result.evidence is not None
    assert result.evidence.content == '{"error":"TOOL_TIMEOUT"}'
    assert len(tool.given) == 1


async def _raises_when_stopped(_arguments: dict[str, object], _info: object) -> object:
    try:
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        raise RuntimeError(CANARY) from None


async def test_a_tool_that_hides_its_own_stop_has_timed_out_all_the_same() -> None:
    bench = Bench([ToolFake(_raises_when_stopped)])
    result = await bench.run("look", context=bench.context(timeout_seconds=0.01))
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_TIMEOUT)


@pytest.mark.parametrize("beside_another", [False, True])
async def test_a_tool_that_looks_cancelled_has_failed(beside_another: bool) -> None:
    # Given a tool inside of which a future was cancelled, and nobody who cancelled the call
    bench = Bench(
        [ToolFake(raising(asyncio.CancelledError())), ToolFake(returning("x"), name="other")]
    )
    calls = [await bench.plan("look")]
    if beside_another:
        calls.append(await bench.plan("other", call_id="1.1"))
    # When it runs
    results = await bench.execute(*calls)
    # Then the call failed, and whoever awaited it goes on
    assert (results[0].state, results[0].error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert [result.state for result in results[1:]] == [CallState.SUCCEEDED] * beside_another


@pytest.mark.parametrize("calls", [1, 3])
async def test_our_own_store_failing_is_no_result_of_a_tool(calls: int) -> None:
    bench = Bench([ToolFake(raising(StoreUnavailable(CANARY)))])
    planned = [await bench.plan("look", call_id=f"1.{index}") for index in range(calls)]
    with pytest.raises(StoreUnavailable):
        await bench.execute(*planned)


async def test_evidence_for_each_run_is_its_own() -> None:
    async def changing(arguments: dict[str, object], _info: object) -> object:
        arguments["spoiled"] = True
        return {"seen": 1}

    runs: Runs = changing
    tool = ToolFake(runs)
    bench = Bench([tool])
    call = await bench.plan("look", '{"a":1}')
    (first,) = await bench.execute(call)
    (second,) = await bench.execute(call)
    assert first.evidence is not None
    assert second.evidence is not None
    assert first.evidence.id != second.evidence.id
    assert first.evidence.digest == second.evidence.digest
    assert is_storable(first.evidence.content)
    assert is_storable(second.evidence.content)
    assert call.arguments == '{"a":1}'
