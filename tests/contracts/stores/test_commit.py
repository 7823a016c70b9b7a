"""Committing as the holder of a claim: guards, late facts, lost answers, one entry each."""

import asyncio
from collections.abc import Awaitable

import pytest
from msgspec import structs

from aegis.domain.change import TaskChange
from aegis.domain.claim import Claim
from aegis.domain.ending import Cancelled, Failed, Succeeded, end_task
from aegis.domain.entry import CallFinished, ModelReplied, TaskClaimed, TaskCreated, TaskSucceeded
from aegis.domain.errors import IllegalTransition, LostClaim, StoreUnavailable
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.model import FinalAnswer
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.tool_call import CallState
from tests.contracts.stores.stores_under_test import (
    ALICE,
    READ,
    WRITE,
    World,
    without_permits,
)

ANSWER = FinalAnswer(summary="Roll back. 回滚", evidence_ids=("ev_1",))


async def assert_lost(world: World, claim: Claim, change: TaskChange) -> None:
    """Expect `LostClaim` and that nothing which anybody can read has changed."""
    before = await world.everything()
    told = len(world.told)
    with pytest.raises(LostClaim):
        await world.store.commit(claim, change)
    assert await world.everything() == before
    assert len(world.told) == told


async def test_a_short_task_is_a_claim_and_three_commits(world: World) -> None:
    claim, snapshot = await world.running()
    world.clock.advance(1)
    snapshot = await world.store.commit(claim, world.step(snapshot, READ))
    assert snapshot.calls[0].state is CallState.PLANNED
    result = world.result(snapshot, READ)
    snapshot = await world.store.commit(claim, result)
    last = end_task(
        snapshot,
        Succeeded(output=ANSWER),
        change_id=world.ids.random(),
        entries=(ModelReplied(step=2, text="Done."),),
    )
    snapshot = await world.store.commit(claim, last)

    task = snapshot.task
    assert (task.state, task.output) == (TaskState.SUCCEEDED, ANSWER)
    assert task.finished_at == world.clock.now()
    assert task.running_micros == 1 * MICROS_PER_SECOND
    assert (task.version, task.last_seq, task.epoch) == (5, 6, 1)
    assert task.last_change_id == last.id
    assert await world.store.get(ALICE, task.id) == snapshot
    assert await world.journal(task) == [
        TaskCreated(),
        TaskClaimed(epoch=1, attempt=1),
        ModelReplied(step=1, text="I look.", calls=(READ,)),
        *result.entries,
        ModelReplied(step=2, text="Done."),
        TaskSucceeded(output=ANSWER),
    ]
    assert world.told[-1] == task


async def test_a_commit_returns_what_another_process_would_load(world: World) -> None:
    claim, snapshot = await world.planned(READ, WRITE)
    for change in (
        lambda base: world.result(base, READ, content="12 % 🙂"),
        lambda base: world.start(claim, base),
        lambda base: world.result(base, WRITE, CallState.FAILED),
        lambda base: world.step(base, text="again"),
    ):
        snapshot = await world.store.commit(claim, change(snapshot))
        assert await world.store.get(ALICE, claim.task_id) == without_permits(snapshot)
        assert await world.store.load(claim) == without_permits(snapshot)


async def test_only_the_commit_that_starts_a_write_gives_its_permit(world: World) -> None:
    claim, snapshot = await world.planned(READ, WRITE)
    started = await world.store.commit(claim, world.start(claim, snapshot))
    assert started.permits == {WRITE.id}
    assert (await world.store.load(claim)).permits == frozenset()
    after = await world.store.commit(claim, world.result(started, READ))
    assert after.permits == frozenset()


async def test_a_stale_epoch_writes_nothing(world: World) -> None:
    first, old = await world.running()
    world.clock.advance(3)
    second = await world.claim(first.task_id)
    new = await world.store.load(second)

    await assert_lost(world, first, world.step(old))
    await assert_lost(world, first, world.end(old))
    # Neither does a stale claim with fresh knowledge, nor a live claim with stale knowledge.
    await assert_lost(world, first, world.end(new))
    await assert_lost(world, second, world.end(old))
    await world.store.commit(second, world.end(new))


async def test_a_stale_version_writes_nothing(world: World) -> None:
    claim, old = await world.running()
    new = await world.store.commit(claim, world.step(old))
    await assert_lost(world, claim, world.step(old, text="again"))
    await world.store.commit(claim, world.end(new))


async def test_a_claim_on_one_task_writes_no_other(world: World) -> None:
    claim, _ = await world.running()
    _, other = await world.running()
    await assert_lost(world, claim, world.end(other))


async def test_of_concurrent_commits_on_one_version_one_wins(world: World) -> None:
    claim, snapshot = await world.running()
    outcomes = await asyncio.gather(
        *(world.store.commit(claim, world.step(snapshot, text=str(n))) for n in range(20)),
        return_exceptions=True,
    )
    won = [one for one in outcomes if isinstance(one, TaskSnapshot)]
    assert len(won) == 1
    assert sum(isinstance(one, LostClaim) for one in outcomes) == 19
    assert await world.store.get(ALICE, claim.task_id) == won[0]
    assert len(await world.journal(snapshot.task)) == 3


async def test_a_failing_change_leaves_its_neighbours_alone(world: World) -> None:
    pairs = [await world.running() for _ in range(10)]
    await world.store.cancel(ALICE, pairs[3][0].task_id)
    twin = world.new_task()
    await world.store.add(twin, None)
    outcomes = await asyncio.gather(
        *(world.store.commit(claim, world.end(snapshot)) for claim, snapshot in pairs),
        world.store.add(twin, None),
        world.add(),
        return_exceptions=True,
    )
    assert [type(one) for one in outcomes[:10] if not isinstance(one, TaskSnapshot)] == [LostClaim]
    assert isinstance(outcomes[3], LostClaim)
    assert isinstance(outcomes[10], StoreUnavailable)
    assert not isinstance(outcomes[11], BaseException)
    assert (await world.store.counts()).by_state == {
        TaskState.SUCCEEDED: 9,
        TaskState.CANCELLED: 1,
        TaskState.PENDING: 2,
    }


async def test_the_first_task_of_an_agent_beside_a_failing_change_can_be_claimed(
    world: World,
) -> None:
    claim, snapshot = await world.running()
    await world.store.cancel(ALICE, claim.task_id)
    agents = [structs.replace(snapshot.agent, name=f"agent-{number}") for number in range(20)]
    # A store that batches runs these together: what it keeps in memory of a change that was
    # rolled back must be forgotten with it.
    verbs: list[Awaitable[object]] = []
    for agent in agents:
        verbs += [world.add(agent=agent), world.store.commit(claim, world.end(snapshot))]
    outcomes = await asyncio.gather(*verbs, return_exceptions=True)

    assert {type(one) for one in outcomes[1::2]} == {LostClaim}
    for agent, task in zip(agents, outcomes[::2], strict=True):
        assert isinstance(task, Task)
        taken = await world.take(task.id, agents=(agent.name,))
        assert taken is not None
        assert (await world.store.load(taken)).agent == agent


async def test_results_commit_on_the_epoch_alone(world: World) -> None:
    claim, snapshot = await world.started()
    world.clock.advance(3)
    after = await world.store.commit(claim, world.result(snapshot, WRITE))
    assert after.calls[0].state is CallState.SUCCEEDED


async def test_a_start_needs_a_live_lease(world: World) -> None:
    claim, snapshot = await world.planned(WRITE)
    world.clock.advance(2.999999)
    # One microsecond before the end it is live still; at the end it is not.
    world.clock.advance(0.000001)
    await assert_lost(world, claim, world.start(claim, snapshot))


async def test_a_start_within_a_renewed_lease_commits(world: World) -> None:
    claim, snapshot = await world.planned(WRITE)
    world.clock.advance(2.999999)
    renewed = (await world.store.renew([claim], 3 * MICROS_PER_SECOND))[0]
    assert renewed is not None
    world.clock.advance(2.999999)
    started = await world.store.commit(renewed, world.start(renewed, snapshot))
    assert started.calls[0].state is CallState.STARTED


async def test_a_terminal_task_never_changes(world: World) -> None:
    claim, snapshot = await world.running()
    ended = await world.store.commit(
        claim, world.end(snapshot, Failed(reason=ReasonCode.LLM_ERROR))
    )
    world.clock.advance(10)

    await assert_lost(world, claim, world.end(snapshot))
    with pytest.raises((IllegalTransition, LostClaim)):
        await world.store.commit(claim, world.end(ended))
    assert list(await world.store.renew([claim], 1)) == [None]
    with pytest.raises(LostClaim):
        await world.store.release(claim)
    assert await world.take(claim.task_id) is None
    await world.store.expire_due()
    assert (await world.store.cancel(ALICE, claim.task_id)).outcome == "already_terminal"
    assert await world.store.get(ALICE, claim.task_id) == ended


async def test_a_transition_that_no_table_lists_is_refused(world: World) -> None:
    claim, snapshot = await world.running()
    before = await world.everything()
    back = structs.replace(world.end(snapshot), state=TaskState.PENDING)
    with pytest.raises(IllegalTransition):
        await world.store.commit(claim, back)
    assert await world.everything() == before


async def test_a_change_whose_answer_was_lost_is_recognised(world: World) -> None:
    claim, snapshot = await world.planned(WRITE)
    start = world.start(claim, snapshot)
    started = await world.store.commit(claim, start)
    assert await world.store.commit(claim, start) == started
    end = world.end(started)
    ended = await world.store.commit(claim, end)
    told = len(world.told)
    assert await world.store.commit(claim, end) == ended
    assert len(await world.journal(ended.task)) == ended.task.last_seq
    assert {task.version for task in world.told[told:]} <= {ended.task.version}
    # An older change is not the last one any more.
    with pytest.raises(LostClaim):
        await world.store.commit(claim, start)


async def test_a_change_is_not_recognised_once_the_task_was_taken_over(world: World) -> None:
    # Else the former holder would be told that it may execute the write it started.
    claim, snapshot = await world.planned(WRITE)
    start = world.start(claim, snapshot)
    await world.store.commit(claim, start)
    world.clock.advance(3)
    await world.claim(claim.task_id)
    await assert_lost(world, claim, start)


async def test_a_cancelled_caller_does_not_stop_a_commit(world: World) -> None:
    claim, snapshot = await world.running()
    commit = asyncio.ensure_future(world.store.commit(claim, world.end(snapshot)))
    await asyncio.sleep(0)
    commit.cancel()
    await asyncio.gather(commit, return_exceptions=True)
    # Whatever was submitted before runs first, so this sees what became of it.
    cancelled = await world.store.cancel(ALICE, claim.task_id)
    assert cancelled.outcome == "already_terminal"
    assert cancelled.snapshot.task.state is TaskState.SUCCEEDED


async def test_evidence_ids_are_unique(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    snapshot = await world.store.commit(claim, world.result(snapshot, READ))
    other_claim, other = await world.planned(READ)
    before = await world.everything()
    stolen = structs.replace(snapshot.evidence[0], task_id=other.task.id, content="forged")
    finished = CallFinished(call_id=READ.id, state=CallState.SUCCEEDED, evidence_id=stolen.id)
    with pytest.raises(StoreUnavailable):
        await world.store.commit(other_claim, world.change(other, finished, evidence=(stolen,)))
    assert await world.everything() == before
    assert await world.store.evidence(ALICE, stolen.id) == snapshot.evidence[0]


async def test_a_late_result_of_a_write_never_touches_the_task(world: World) -> None:
    claim, snapshot = await world.started()
    await world.store.cancel(ALICE, claim.task_id)
    result = world.result(snapshot, WRITE)
    await assert_lost(world, claim, result)
    with pytest.raises(LostClaim):
        await world.store.commit(claim, result)
    ended = await world.store.get(ALICE, claim.task_id)
    assert [call.state for call in ended.calls] == [CallState.IN_DOUBT]
    assert ended.evidence == ()
    # It is kept apart, once, however often it is told.
    assert world.late_facts() == [(claim.task_id, result.entries[0], result.evidence[0])]


async def test_a_late_result_of_a_read_is_dropped(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    await world.store.cancel(ALICE, claim.task_id)
    await assert_lost(world, claim, world.result(snapshot, READ))
    assert world.late_facts() == []


async def test_every_transition_writes_one_entry_in_the_same_commit(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    await world.store.release(claim)
    second = await world.claim(claim.task_id)
    world.clock.advance(3)
    third = await world.claim(claim.task_id)
    del second
    snapshot = await world.store.load(third)
    await world.store.commit(third, world.end(snapshot, Cancelled(by="worker")))
    kinds = [type(entry).__name__ for entry in await world.journal(snapshot.task)]
    assert kinds == [
        "TaskCreated",
        "TaskClaimed",
        "ModelReplied",
        "TaskReleased",
        "TaskClaimed",
        "TaskClaimed",
        "TaskCancelled",
    ]
