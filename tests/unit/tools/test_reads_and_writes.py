"""How calls run: reads side by side, a write alone, and what a cancel does to each.

Proved here: the fan-out bound and the one deadline of a batch; that a write is sent at most once,
never after its deadline, never torn down once sent, and is in doubt wherever nobody knows.
"""

import asyncio

import pytest
from msgspec import structs

from aegis.domain.errors import StoreUnavailable
from aegis.domain.evidence import EvidenceStatus
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState, idempotency_key
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.tools.executor import READS_AT_ONCE_MAX
from aegis.tools.tool import ToolFailed
from tests.contracts.tool_executor.executor_under_test import (
    ALICE,
    CANARY,
    Bench,
    Runs,
    ToolFake,
    never_ends,
    raising,
    returning,
)


def writer(runs: Runs) -> ToolFake:
    return ToolFake(runs, name="change", effect=Effect.WRITE)


class Gate:
    """A tool's inside that waits until the test opens it; `full` is set once `expected` wait."""

    def __init__(self, expected: int = 1) -> None:
        self.full = asyncio.Event()
        self._expected = expected
        self.open = asyncio.Event()
        self.waiting = 0
        self.waiting_most = 0
        self.stopped = 0

    async def run(self, _arguments: dict[str, object], _info: ToolCallInfo) -> object:
        self.waiting += 1
        self.waiting_most = max(self.waiting, self.waiting_most)
        if self.waiting == self._expected:
            self.full.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        finally:
            self.waiting -= 1
        return "through"


async def test_reads_run_side_by_side_up_to_the_bound() -> None:
    gate = Gate(READS_AT_ONCE_MAX)
    bench = Bench([ToolFake(gate.run)])
    calls = [await bench.plan("look", call_id=f"1.{index}") for index in range(11)]
    batch = asyncio.ensure_future(bench.execute(*calls))
    await gate.full.wait()
    gate.open.set()
    results = await batch
    assert gate.waiting_most == READS_AT_ONCE_MAX
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert all(result.state is CallState.SUCCEEDED for result in results)


async def test_a_failed_sibling_lets_the_others_finish() -> None:
    bench = Bench(
        [
            ToolFake(raising(ValueError(CANARY)), name="broken"),
            ToolFake(returning("seen")),
        ]
    )
    calls = [
        await bench.plan("look", call_id="1.0"),
        await bench.plan("broken", call_id="1.1"),
        await bench.plan("look", call_id="1.2"),
    ]
    results = await bench.execute(*calls)
    assert [result.state for result in results] == [
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.SUCCEEDED,
    ]


async def test_a_batch_has_one_deadline_also_for_those_that_wait_their_turn() -> None:
    # Given more endless reads than run at once
    tool = ToolFake(never_ends)
    bench = Bench([tool])
    count = READS_AT_ONCE_MAX + 3
    calls = [await bench.plan("look", call_id=f"1.{index}") for index in range(count)]
    # When their time is over
    results = await bench.execute(*calls, context=bench.context(timeout_seconds=0.05))
    # Then all have timed out, and those that never had their turn say so
    assert {result.error for result in results} == {ReasonCode.TOOL_TIMEOUT}
    assert len(tool.given) == READS_AT_ONCE_MAX
    last = results[-1].evidence
    assert last is not None
    assert last.content == '{"error":"TOOL_TIMEOUT","detail":"never_begun"}'


@pytest.mark.parametrize("count", [1, 2])
async def test_cancelling_stops_reads_and_goes_on_outwards(count: int) -> None:
    gate = Gate(count)
    bench = Bench([ToolFake(gate.run)])
    calls = [await bench.plan("look", call_id=f"1.{index}") for index in range(count)]
    batch = asyncio.ensure_future(bench.execute(*calls))
    await gate.full.wait()
    batch.cancel()
    with pytest.raises(asyncio.CancelledError):
        await batch
    assert gate.stopped == count


async def test_the_tool_is_told_for_whom_it_runs_by_the_server_alone() -> None:
    tool = writer(returning("done"))
    result = await Bench([tool]).run("change", '{"principal":"root","task_id":"task_other"}')
    assert result.state is CallState.SUCCEEDED
    (info,) = tool.infos
    assert info == ToolCallInfo(
        principal=ALICE,
        task_id="task_1",
        idempotency_key=idempotency_key("task_1", "1.0"),
        fencing_token=7,
    )


async def test_a_batch_with_a_write_in_it_runs_nothing() -> None:
    look, change = ToolFake(returning("x")), writer(returning("x"))
    bench = Bench([look, change])
    calls = [await bench.plan("look"), await bench.plan("change", call_id="1.1")]
    with pytest.raises(ValueError, match="alone"):
        await bench.execute(*calls)
    assert (look.given, change.given) == ([], [])


async def test_a_write_that_calls_itself_a_read_is_denied() -> None:
    change = writer(returning("x"))
    bench = Bench([change])
    call = structs.replace(await bench.plan("change"), effect=Effect.READ)
    (result,) = await bench.execute(call)
    assert result.state is CallState.DENIED
    assert change.given == []


@pytest.mark.parametrize("beyond_seconds", [60, 61, 3600])
async def test_a_write_is_not_sent_once_its_deadline_is_over(beyond_seconds: int) -> None:
    change = writer(returning("x"))
    bench = Bench([change])
    call, context = await bench.plan("change"), bench.context(send_seconds=60)
    bench.clock.advance(beyond_seconds)
    (result,) = await bench.execute(call, context=context)
    assert (result.state, result.error, result.evidence) == (CallState.SKIPPED, None, None)
    assert change.given == []


async def test_a_wall_clock_that_jumps_moves_no_deadline() -> None:
    change = writer(returning("x"))
    bench = Bench([change])
    call, context = await bench.plan("change"), bench.context(send_seconds=60)
    bench.clock.jump(86_400)
    (result,) = await bench.execute(call, context=context)
    assert result.state is CallState.SUCCEEDED


async def test_a_write_without_any_time_left_is_not_sent() -> None:
    change = writer(returning("x"))
    bench = Bench([change])
    result = await bench.run("change", context=bench.context(timeout_seconds=0))
    assert result.state in {CallState.SKIPPED, CallState.DENIED}
    assert change.given == []


async def test_a_read_does_not_mind_the_send_deadline() -> None:
    bench = Bench([ToolFake(returning("x"))])
    result = await bench.run("look", context=bench.context(send_seconds=-1))
    assert result.state is CallState.SUCCEEDED


@pytest.mark.parametrize(
    "runs",
    [
        raising(RuntimeError(CANARY)),
        raising(ToolFailed("bad_gateway")),
        raising(TimeoutError(CANARY)),
        raising(StoreUnavailable(CANARY)),
        raising(asyncio.CancelledError(CANARY)),
        raising(SystemExit(CANARY)),
        returning("a\x00b"),
        never_ends,
    ],
    ids=["defect", "failed", "timeout", "store", "cancelled", "exit", "unstorable", "slow"],
)
async def test_a_write_that_was_sent_and_has_no_known_outcome_is_in_doubt(runs: Runs) -> None:
    change = writer(runs)
    bench = Bench([change])
    seconds = 0.01 if runs is never_ends else 30.0
    result = await bench.run("change", context=bench.context(timeout_seconds=seconds))
    assert (result.state, result.error) == (CallState.IN_DOUBT, ReasonCode.OUTCOME_UNKNOWN)
    assert result.evidence is not None
    assert result.evidence.status is EvidenceStatus.FAILED
    assert CANARY not in repr(result)
    assert len(change.given) == 1


async def test_a_write_whose_tool_knows_that_nothing_happened_has_failed() -> None:
    error = ToolFailed("refused_by_target", nothing_happened=True)
    result = await Bench([writer(raising(error))]).run("change")
    assert (result.state, result.error) == (CallState.FAILED, ReasonCode.TOOL_ERROR)
    assert result.evidence is not None
    assert result.evidence.content == '{"error":"TOOL_ERROR","detail":"refused_by_target"}'


async def test_a_write_whose_long_result_finds_no_store_is_in_doubt() -> None:
    bench = Bench([writer(returning("x" * 100))])

    async def refuse(tenant: str, content: bytes) -> str:
        raise StoreUnavailable(CANARY)

    bench.blobs.put = refuse
    result = await bench.run("change", context=bench.context(shown_bytes_max=10))
    assert (result.state, result.error) == (CallState.IN_DOUBT, ReasonCode.OUTCOME_UNKNOWN)


async def test_a_write_in_flight_is_not_torn_down_by_a_cancel() -> None:
    # Given a write that was sent
    gate = Gate()
    bench = Bench([writer(gate.run)])
    call = await bench.plan("change")
    waiting = asyncio.ensure_future(bench.execute(call))
    await gate.full.wait()
    # When whoever awaits it is cancelled
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    # Then the write runs on to its own end
    (sending,) = bench.executor._sending
    assert (gate.waiting, gate.stopped) == (1, 0)
    gate.open.set()
    result = await sending
    assert result.state is CallState.SUCCEEDED
    await asyncio.sleep(0)
    assert not bench.executor._sending


async def test_a_write_that_nobody_awaits_still_ends_within_its_own_time() -> None:
    gate = Gate()
    bench = Bench([writer(gate.run)])
    call = await bench.plan("change")
    context = bench.context(timeout_seconds=0.05)
    waiting = asyncio.ensure_future(bench.execute(call, context=context))
    await gate.full.wait()
    waiting.cancel()
    (sending,) = bench.executor._sending
    result = await sending
    assert (result.state, gate.stopped) == (CallState.IN_DOUBT, 1)
    with pytest.raises(asyncio.CancelledError):
        await waiting
