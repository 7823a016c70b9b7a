"""Adding tasks: what is stored, admission, retention by count, idempotency keys, storable text."""

import asyncio

import pytest
from msgspec import structs

from aegis.domain.ending import Cancelled
from aegis.domain.entry import CallFinished, TaskCreated
from aegis.domain.errors import (
    CapacityExhausted,
    Gone,
    IdempotencyKeyReused,
    InvalidRequest,
    LostClaim,
    NotFound,
    QueueFull,
    StoreUnavailable,
)
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.tool_call import CallState
from tests.contracts.stores.conftest import WorldWith
from tests.contracts.stores.stores_under_test import (
    AGENT,
    ALICE,
    ALICE_ELSEWHERE,
    BOB,
    WRITE,
    World,
)

NUL = "a\x00b"
LONE_SURROGATE = "a\ud800b"


async def test_an_added_task_is_pending_with_one_entry(world: World) -> None:
    new = world.new_task(prompt="Why does payment fail? 支払い 🙂")

    added = await world.store.add(new, None)

    assert added.task == new.task
    assert added.replayed is False
    assert await world.store.get(ALICE, new.task.id) == TaskSnapshot(task=new.task, agent=AGENT)
    assert await world.journal(new.task) == [TaskCreated()]
    assert world.told == [new.task]


async def test_the_same_id_twice_is_refused_and_changes_nothing(world: World) -> None:
    new = world.new_task()
    await world.store.add(new, None)
    before = await world.everything()

    twin = structs.replace(new, task=structs.replace(new.task, prompt="Another"))
    with pytest.raises(StoreUnavailable):
        await world.store.add(twin, None)

    assert await world.everything() == before


async def test_one_more_than_the_pending_limit_is_queue_full(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(pending_max=2)) as world:
        first = await world.add()
        await world.add()
        with pytest.raises(QueueFull):
            await world.add()

        # A claim makes room, and so does a cancel; a full queue left nothing behind.
        await world.claim(first.id)
        second = await world.add()
        with pytest.raises(QueueFull):
            await world.add()
        await world.store.cancel(ALICE, second.id)
        await world.add()
        counts = (await world.store.counts()).by_state
        assert counts == {TaskState.PENDING: 2, TaskState.RUNNING: 1, TaskState.CANCELLED: 1}


async def test_a_task_handed_back_does_not_count_as_pending_twice(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(pending_max=1)) as world:
        task = await world.add()
        await world.store.release(await world.claim(task.id))
        again = await world.claim(task.id)
        await world.store.release(again)
        await world.store.cancel(ALICE, task.id)

        await world.add()
        with pytest.raises(QueueFull):
            await world.add()


async def test_admission_counts_every_concurrent_add(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(pending_max=10)) as world:
        outcomes = await asyncio.gather(*(world.add() for _ in range(30)), return_exceptions=True)

        assert sum(isinstance(one, QueueFull) for one in outcomes) == 20
        assert (await world.store.counts()).by_state == {TaskState.PENDING: 10}


async def test_beyond_the_stored_limit_the_oldest_ended_task_goes(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=3)) as world:
        open_task = await world.add()
        oldest = await world.finished()
        await world.finished()

        added = await world.add()

        with pytest.raises(Gone):
            await world.store.get(ALICE, oldest.id)
        with pytest.raises(Gone):
            await world.store.entries(ALICE, oldest.id, 0, 10)
        with pytest.raises(Gone):
            await world.store.cancel(ALICE, oldest.id)
        # To everybody else it never existed.
        for other in (BOB, ALICE_ELSEWHERE):
            with pytest.raises(NotFound):
                await world.store.get(other, oldest.id)
        assert (await world.store.get(ALICE, open_task.id)).task == open_task
        assert (await world.store.get(ALICE, added.id)).task == added


async def test_the_evidence_of_a_pruned_task_goes_with_it(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=1)) as world:
        claim, snapshot = await world.planned(WRITE)
        snapshot = await world.store.commit(claim, world.start(claim, snapshot))
        snapshot = await world.store.commit(claim, world.result(snapshot, WRITE))
        await world.store.commit(claim, world.end(snapshot))

        await world.add()

        with pytest.raises((NotFound, Gone)):
            await world.store.evidence(ALICE, snapshot.evidence[0].id)


async def test_the_late_facts_of_a_pruned_task_go_with_it(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=1, attempts_max=3)) as world:
        first, snapshot = await world.started()
        world.clock.advance(3)
        second = await world.claim(first.task_id)
        with pytest.raises(LostClaim):
            await world.store.commit(first, world.result(snapshot, WRITE))
        assert len(world.late_facts()) == 1
        loaded = await world.store.load(second)
        loaded = await world.store.commit(second, world.result(loaded, WRITE))
        await world.store.commit(second, world.end(loaded))

        await world.add()

        assert world.late_facts() == []


async def test_an_add_that_is_refused_prunes_nothing(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=1)) as world:
        ended = await world.finished()
        before = await world.everything()
        with pytest.raises(InvalidRequest):
            await world.added(prompt=NUL)
        assert await world.everything() == before
        assert (await world.store.get(ALICE, ended.id)).task == ended


async def test_nothing_prunable_is_capacity_exhausted(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=2)) as world:
        first = await world.add()
        await world.add()
        before = await world.everything()

        with pytest.raises(CapacityExhausted):
            await world.add()

        assert await world.everything() == before
        await world.store.cancel(ALICE, first.id)
        await world.add()


@pytest.mark.parametrize("how", ["by the end", "by the loop and an answer", "by the loop, cancel"])
async def test_a_task_with_a_write_in_doubt_is_never_pruned(
    world_with: WorldWith, how: str
) -> None:
    async with world_with(ServerLimits(stored_max=1)) as world:
        claim, snapshot = await world.started()
        task_id = snapshot.task.id
        if how != "by the end":
            doubt = CallFinished(call_id=WRITE.id, state=CallState.IN_DOUBT)
            snapshot = await world.store.commit(claim, world.change(snapshot, doubt))
        if how == "by the loop and an answer":
            await world.store.commit(claim, world.end(snapshot))
        else:
            await world.store.cancel(ALICE, task_id)
        kept = await world.store.get(ALICE, task_id)
        assert [call.state for call in kept.calls] == [CallState.IN_DOUBT]

        with pytest.raises(CapacityExhausted):
            await world.add()

        assert await world.store.get(ALICE, task_id) == kept


async def test_a_task_with_a_live_idempotency_key_is_not_pruned(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=1)) as world:
        task = (await world.added(key=world.key("k", seconds=60))).task
        await world.store.cancel(ALICE, task.id)
        with pytest.raises(CapacityExhausted):
            await world.add()
        assert (await world.added(key=world.key("k", seconds=60))).replayed

        world.clock.advance(61)
        await world.add()

        with pytest.raises(Gone):
            await world.store.get(ALICE, task.id)


async def test_a_server_that_prunes_never_refuses_for_ever(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(stored_max=3)) as world:
        tasks = [await world.finished() for _ in range(50)]

        assert sum((await world.store.counts()).by_state.values()) <= 3
        # Tombstones are bounded too: ten for each stored task; beyond that a task is forgotten.
        with pytest.raises(NotFound):
            await world.store.get(ALICE, tasks[0].id)
        with pytest.raises(Gone):
            await world.store.get(ALICE, tasks[-5].id)


async def test_the_same_key_and_body_is_the_same_task(world: World) -> None:
    first = await world.added(key=world.key("k"), prompt="one")
    claim = await world.claim(first.task.id)
    await world.store.commit(claim, world.end(await world.store.load(claim)))
    told = len(world.told)

    again = await world.added(key=world.key("k"), prompt="one")

    # The answer is the row as it was when created, although the task has ended since.
    assert again.task == first.task
    assert again.replayed is True
    assert len(world.told) == told
    assert sum((await world.store.counts()).by_state.values()) == 1


async def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    await world.added(key=world.key("k", body="one"))
    with pytest.raises(IdempotencyKeyReused):
        await world.added(key=world.key("k", body="two"))
    assert (await world.store.counts()).by_state == {TaskState.PENDING: 1}


async def test_keys_of_other_principals_and_routes_are_unrelated(world: World) -> None:
    mine = await world.added(key=world.key("k", body="one"))
    others = [
        await world.added(key=world.key("k", body="two"), principal=BOB),
        await world.added(key=world.key("k", body="three"), principal=ALICE_ELSEWHERE),
        await world.added(key=structs.replace(world.key("k", body="four"), route="POST /other")),
    ]
    assert not any(added.replayed for added in others)
    assert len({mine.task.id, *(added.task.id for added in others)}) == 4


async def test_concurrent_adds_with_one_key_make_one_task(world: World) -> None:
    answers = await asyncio.gather(*(world.added(key=world.key("k")) for _ in range(20)))

    assert len({answer.task.id for answer in answers}) == 1
    assert sum(not answer.replayed for answer in answers) == 1
    assert (await world.store.counts()).by_state == {TaskState.PENDING: 1}


async def test_an_expired_key_is_free_again(world: World) -> None:
    first = await world.added(key=world.key("k", body="one", seconds=60))
    world.clock.advance(59)
    assert (await world.added(key=world.key("k", body="one"))).task == first.task

    world.clock.advance(1)
    second = await world.added(key=world.key("k", body="two", seconds=60))

    assert second.replayed is False
    assert second.task.id != first.task.id
    assert (await world.added(key=world.key("k", body="two"))).task == second.task


async def test_a_replay_is_answered_by_a_full_server(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(pending_max=1, stored_max=1)) as world:
        first = await world.added(key=world.key("k"))
        with pytest.raises(QueueFull):
            await world.added(key=world.key("other"))
        assert (await world.added(key=world.key("k"))).task == first.task


async def test_a_refused_add_does_not_use_up_its_key(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(pending_max=1)) as world:
        blocker = await world.add()
        with pytest.raises(QueueFull):
            await world.added(key=world.key("k", body="one"))
        await world.store.cancel(ALICE, blocker.id)
        assert (await world.added(key=world.key("k", body="two"))).replayed is False


@pytest.mark.parametrize("text", [NUL, LONE_SURROGATE])
async def test_text_that_no_engine_can_store_is_refused(world: World, text: str) -> None:
    before = await world.everything()
    with pytest.raises(InvalidRequest):
        await world.added(prompt=text)
    with pytest.raises(InvalidRequest):
        await world.added(key=world.key(text))
    assert await world.everything() == before


async def test_text_that_only_looks_like_a_nul_is_kept(world: World) -> None:
    claim, snapshot = await world.running()
    change = world.step(snapshot, text="the six characters \\u0000 and \\ud800")
    after = await world.store.commit(claim, change)
    assert after.steps[0].text == "the six characters \\u0000 and \\ud800"
    assert await world.store.get(ALICE, snapshot.task.id) == after


@pytest.mark.parametrize("text", [NUL, LONE_SURROGATE])
async def test_an_entry_that_cannot_be_stored_is_refused_alone(world: World, text: str) -> None:
    claim, snapshot = await world.running()
    before = await world.everything()
    with pytest.raises(InvalidRequest):
        await world.store.commit(claim, world.step(snapshot, text=text))
    assert await world.everything() == before
    # The task is not stuck: its holder goes on.
    await world.store.commit(claim, world.end(snapshot, Cancelled(by="alice")))


@pytest.mark.parametrize("text", [NUL, LONE_SURROGATE])
async def test_evidence_that_cannot_be_stored_is_refused(world: World, text: str) -> None:
    claim, snapshot = await world.started()
    before = await world.everything()
    item = structs.replace(world.evidence(snapshot.task, WRITE), content=text)
    entry = CallFinished(call_id=WRITE.id, state=CallState.SUCCEEDED, evidence_id=item.id)
    with pytest.raises(InvalidRequest):
        await world.store.commit(claim, world.change(snapshot, entry, evidence=(item,)))
    assert await world.everything() == before
