"""Python functions as tools: typed arguments in, plain JSON out, and no thread that holds us up."""

import asyncio
import contextvars
import json
import threading
from datetime import UTC, date, datetime
from enum import Enum
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from aegis.domain.errors import ConfigurationError
from aegis.domain.evidence import Trust
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallState, RefusedCall
from aegis.domain.tool_declaration import ToolCallInfo, tool
from aegis.tools.python_functions import THREADS_MAX, PythonFunction
from aegis.tools.tool import Observation
from tests.contracts.tool_executor.executor_under_test import CANARY, Bench


class Level(Enum):
    LOW = "low"
    HIGH = "high"


class Span(Struct):
    first: date
    days: int = 7


class Reading(Struct):
    level: Level
    at: datetime


seen: list[object] = []
LABEL: contextvars.ContextVar[str] = contextvars.ContextVar("LABEL", default="unset")


@tool(trust="measured")
async def read_span(
    span: Span,
    level: Level = Level.LOW,
    minutes: Annotated[float, Meta(ge=1)] = 30,
) -> Reading:
    """Read a span."""
    seen.append((span, level, minutes))
    return Reading(level=level, at=datetime(2026, 1, 1, tzinfo=UTC))


async def test_arguments_arrive_as_the_types_of_the_hints_and_results_leave_as_json() -> None:
    seen.clear()
    result = await Bench([PythonFunction(read_span)]).run(
        "read_span", '{"span":{"first":"2026-01-02"},"level":"high","minutes":5}'
    )
    assert seen == [(Span(first=date(2026, 1, 2), days=7), Level.HIGH, 5.0)]
    assert result.evidence is not None
    assert result.evidence.content == '{"level":"high","at":"2026-01-01T00:00:00Z"}'
    assert (result.evidence.trust, result.evidence.synthetic) == (Trust.MEASURED, False)
    assert result.evidence.source == "python:read_span"


async def test_defaults_stand_in_the_canonical_call() -> None:
    bench = Bench([PythonFunction(read_span)])
    short = await bench.plan("read_span", '{"span":{"first":"2026-01-02"}}')
    full = await bench.plan(
        "read_span", '{"minutes":30,"level":"low","span":{"days":7,"first":"2026-01-02"}}'
    )
    assert short.arguments == full.arguments


async def test_arguments_that_only_the_type_refuses_fail_the_call_before_it_ran() -> None:
    seen.clear()
    result = await Bench([PythonFunction(read_span)]).run(
        "read_span", '{"span":{"first":"not a date"}}'
    )
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert result.evidence is not None
    assert json.loads(result.evidence.content)["detail"] == "invalid_arguments"
    assert seen == []


async def test_the_server_alone_fills_in_who_calls() -> None:
    @tool(effect="write")
    def change(what: str, info: ToolCallInfo) -> dict[str, object]:
        """Change something."""
        return {"what": what, "by": info.principal.subject, "token": info.fencing_token}

    bench = Bench([PythonFunction(change)])
    refused = await bench.assess("change", '{"what":"a","info":{"task_id":"other"}}')
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.INVALID_DECISION
    result = await bench.run("change", '{"what":"a"}')
    assert result.evidence is not None
    assert json.loads(result.evidence.content) == {"what": "a", "by": "alice", "token": 7}


async def test_a_sync_function_runs_in_another_thread_with_our_context() -> None:
    @tool()
    def where() -> list[object]:
        """Say where this runs."""
        return [threading.current_thread() is threading.main_thread(), LABEL.get()]

    LABEL.set("ours")
    result = await Bench([PythonFunction(where)]).run("where")
    assert result.evidence is not None
    assert json.loads(result.evidence.content) == [False, "ours"]


@pytest.mark.parametrize(
    "error", [ValueError, StopIteration, SystemExit, KeyboardInterrupt, asyncio.CancelledError]
)
async def test_whatever_a_sync_function_raises_is_a_failed_call(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    @tool()
    def broken() -> None:
        """Break."""
        raise error(CANARY)

    result = await Bench([PythonFunction(broken)]).run("broken")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert CANARY not in caplog.text
    assert CANARY not in repr(result)


async def test_stuck_threads_stop_no_other_tool_and_are_bounded() -> None:
    release = threading.Event()

    @tool()
    def stuck() -> str:
        """Wait for ever."""
        release.wait()
        return "late"

    @tool()
    def quick() -> str:
        """Answer."""
        return "now"

    bench = Bench([PythonFunction(stuck), PythonFunction(quick)])
    call = await bench.plan("stuck")
    hasty = bench.context(timeout_seconds=0.005)
    try:
        # Given as many stuck calls as may be
        for _ in range(THREADS_MAX):
            (result,) = await bench.execute(call, context=hasty)
            assert result.error is ReasonCode.TOOL_TIMEOUT
        # When one more is asked for, it is refused; another tool runs as ever
        (refused,) = await bench.execute(call)
        assert refused.evidence is not None
        assert "too_many_calls_at_once" in refused.evidence.content
        assert (await bench.run("quick")).state is CallState.SUCCEEDED
    finally:
        release.set()
    # Then, once the threads have ended, the tool runs again
    result = refused
    while result.state is not CallState.SUCCEEDED:
        (result,) = await bench.execute(call)


async def test_a_function_may_say_more_about_its_observation() -> None:
    @tool()
    async def made_up() -> Observation:
        """Make something up."""
        return Observation(content={"a": 1}, synthetic=True)

    result = await Bench([PythonFunction(made_up)]).run("made_up")
    assert result.evidence is not None
    assert (result.evidence.synthetic, result.evidence.trust) == (True, Trust.UNTRUSTED)


async def test_a_result_without_json_form_is_a_failed_call() -> None:
    @tool()
    async def strange() -> object:
        """Return something strange."""
        return object()

    result = await Bench([PythonFunction(strange)]).run("strange")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)


def test_a_function_that_was_not_declared_is_refused() -> None:
    def plain() -> None:
        """Nothing."""

    with pytest.raises(ConfigurationError, match="'plain' is not declared"):
        PythonFunction(plain)


def test_a_thread_that_outlives_its_loop_ends_quietly() -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []

    @tool()
    def stuck() -> str:
        """Wait."""
        threads.append(threading.current_thread())
        release.wait()
        return "late"

    async def main() -> None:
        bench = Bench([PythonFunction(stuck)])
        result = await bench.run("stuck", context=bench.context(timeout_seconds=0.05))
        assert result.error is ReasonCode.TOOL_TIMEOUT

    # Given a loop that has ended while a call of it still runs
    asyncio.run(main())
    # When the call ends, then its thread ends too, with nothing to tell
    release.set()
    for thread in threads:
        assert thread.daemon
        thread.join(timeout=30)
        assert not thread.is_alive()
