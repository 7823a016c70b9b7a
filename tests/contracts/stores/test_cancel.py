"""Cancelling: from every state, against a finishing worker, and what it tells the caller."""

import asyncio

import pytest

from aegis.domain.entry import TaskCancelled
from aegis.domain.errors import LostClaim, NotFound
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.tool_call import CallState
from aegis.ports.task_repository import Cancelled
from tests.contracts.stores.stores_under_test import (
    ALICE,
    ALICE_ELSEWHERE,
    BOB,
    READ,
    WRITE,
    World,
)

RACES = 1000


async def test_a_pending_task_is_cancelled(world: World) -> None:
    task = await world.add()
    world.clock.advance(1)

    cancelled = await world.store.cancel(ALICE, task.id)

    assert cancelled.outcome == "cancelled"
    row = cancelled.snapshot.task
    assert (row.state, row.epoch, row.version, row.last_seq) == (TaskState.CANCELLED, 1, 2, 2)
    assert (row.finished_at, row.running_micros) == (world.clock.now(), 0)
    assert await world.store.get(ALICE, task.id) == cancelled.snapshot
    assert (await world.journal(task))[-1] == TaskCancelled(by="alice")
    assert await world.take(task.id) is None
    assert await world.take(None) is None
    assert world.told[-1] == row


async def test_a_running_task_is_cancelled_and_its_holder_learns_it(world: World) -> None:
    claim, snapshot = await world.planned(READ, WRITE)
    snapshot = await world.store.commit(claim, world.start(claim, snapshot))
    world.clock.advance(1)

    cancelled = await world.store.cancel(ALICE, claim.task_id)

    # The answer lists the calls that had started, each with its truthful end.
    states = {record.call.id: record.state for record in cancelled.snapshot.calls}
    assert states == {READ.id: CallState.INTERRUPTED, WRITE.id: CallState.IN_DOUBT}
    entry = (await world.journal(snapshot.task))[-1]
    assert entry == TaskCancelled(by="alice", in_doubt=(WRITE.id,), interrupted=(READ.id,))
    row = cancelled.snapshot.task
    assert (row.epoch, row.running_since) == (2, None)
    assert row.running_micros == 1 * MICROS_PER_SECOND
    assert list(await world.store.renew([claim], 1)) == [None]
    for verb in (world.store.load, world.store.release):
        with pytest.raises(LostClaim):
            await verb(claim)
    with pytest.raises(LostClaim):
        await world.store.commit(claim, world.result(snapshot, READ))
    assert await world.store.get(ALICE, claim.task_id) == cancelled.snapshot


async def test_a_claim_that_was_cancelled_before_its_first_load_is_lost(world: World) -> None:
    task = await world.add()
    claim = await world.claim(task.id)
    await world.store.cancel(ALICE, task.id)
    with pytest.raises(LostClaim):
        await world.store.load(claim)


async def test_a_task_that_was_handed_back_is_cancelled(world: World) -> None:
    claim, _ = await world.running()
    await world.store.release(claim)
    world.clock.advance(100)
    cancelled = await world.store.cancel(ALICE, claim.task_id)
    assert cancelled.snapshot.task.state is TaskState.CANCELLED
    assert cancelled.snapshot.task.running_micros == 0


async def test_a_second_cancel_tells_that_it_had_ended(world: World) -> None:
    task = await world.add()
    first = await world.store.cancel(ALICE, task.id)
    before, told = await world.everything(), len(world.told)
    second = await world.store.cancel(ALICE, task.id)
    assert second == Cancelled(outcome="already_terminal", snapshot=first.snapshot)
    assert await world.everything() == before
    assert len(world.told) == told


async def test_a_finished_task_keeps_its_answer(world: World) -> None:
    task = await world.finished()
    answer = await world.store.cancel(ALICE, task.id)
    assert (answer.outcome, answer.snapshot.task) == ("already_terminal", task)


async def test_foreign_and_absent_tasks_look_the_same(world: World) -> None:
    task = await world.add()
    for principal, task_id in ((BOB, task.id), (ALICE_ELSEWHERE, task.id), (ALICE, "task_none")):
        with pytest.raises(NotFound):
            await world.store.cancel(principal, task_id)
    assert (await world.store.get(ALICE, task.id)).task == task


async def test_of_concurrent_cancels_one_did_it(world: World) -> None:
    task = await world.add()
    answers = await asyncio.gather(*(world.store.cancel(ALICE, task.id) for _ in range(20)))
    assert sorted(answer.outcome for answer in answers) == ["already_terminal"] * 19 + ["cancelled"]
    assert len({answer.snapshot.task.version for answer in answers}) == 1


async def test_cancel_against_finish_has_one_winner_who_is_named(world: World) -> None:
    outcomes: dict[str, int] = {"cancelled": 0, "already_terminal": 0}
    for number in range(RACES):
        claim, snapshot = await world.running()
        verbs = [
            world.store.commit(claim, world.end(snapshot)),
            world.store.cancel(ALICE, claim.task_id),
        ]
        if number % 2:
            verbs.reverse()
        answers = await asyncio.gather(*verbs, return_exceptions=True)
        if number % 2:
            answers.reverse()
        finished, cancelled = answers
        assert isinstance(cancelled, Cancelled)
        outcomes[cancelled.outcome] += 1
        row = (await world.store.get(ALICE, claim.task_id)).task
        assert cancelled.snapshot.task == row
        if cancelled.outcome == "cancelled":
            assert isinstance(finished, LostClaim)
            assert row.state is TaskState.CANCELLED
        else:
            assert isinstance(finished, TaskSnapshot)
            assert finished.task == row
            assert row.state is TaskState.SUCCEEDED
        assert len(await world.journal(row)) == row.last_seq == 3
    # Both really happened, so that the race was one.
    assert min(outcomes.values()) > RACES // 10
