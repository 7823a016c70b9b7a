"""Reading: pages, cursors, counts, blobs; nobody sees what belongs to somebody else (I17)."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec import structs

from aegis.domain.canonical import sha256_hex
from aegis.domain.entry import TaskClaimed, TaskCreated
from aegis.domain.errors import InvalidRequest, NotFound
from aegis.domain.state import TaskState
from aegis.ports.task_views import QueueCounts, TaskFilter
from tests.contracts.stores.stores_under_test import (
    AGENT,
    ALICE,
    ALICE_ELSEWHERE,
    BOB,
    READ,
    World,
)


async def test_a_list_is_newest_first_in_pages(world: World) -> None:
    tasks = [await world.add() for _ in range(5)]
    tasks.reverse()
    first = await world.store.list(ALICE, TaskFilter(count_max=2))
    second = await world.store.list(ALICE, TaskFilter(count_max=2, before=first[-1].id))
    third = await world.store.list(ALICE, TaskFilter(count_max=2, before=second[-1].id))
    assert [*first, *second, *third] == tasks
    assert list(await world.store.list(ALICE, TaskFilter(before=third[-1].id))) == []


async def test_a_list_filters_by_state_and_agent(world: World) -> None:
    other = structs.replace(AGENT, name="other")
    one = await world.add()
    two = await world.add(agent=other)
    await world.claim(one.id)

    async def listed(chosen: TaskFilter) -> list[str]:
        return [task.id for task in await world.store.list(ALICE, chosen)]

    assert await listed(TaskFilter(state=TaskState.RUNNING)) == [one.id]
    assert await listed(TaskFilter(state=TaskState.PENDING)) == [two.id]
    assert await listed(TaskFilter(agent="other")) == [two.id]
    assert await listed(TaskFilter(agent="other", state=TaskState.RUNNING)) == []


async def test_entries_continue_after_a_cursor(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    task_id = snapshot.task.id
    items = list(await world.store.entries(ALICE, task_id, 0, 10))
    assert [item.entry for item in items[:2]] == [TaskCreated(), TaskClaimed(epoch=1, attempt=1)]
    assert [item.seq for item in items] == [1, 2, 3]
    assert list(await world.store.entries(ALICE, task_id, 1, 10)) == items[1:]
    assert list(await world.store.entries(ALICE, task_id, 0, 2)) == items[:2]
    assert list(await world.store.entries(ALICE, task_id, 3, 10)) == []
    assert list(await world.store.entries(ALICE, task_id, 99, 10)) == []
    del claim


async def test_evidence_is_read_as_it_was_recorded(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    change = world.result(snapshot, READ, content="12 % of checkouts fail\n支払い\t🙂")
    await world.store.commit(claim, change)
    item = change.evidence[0]
    assert await world.store.evidence(ALICE, item.id) == item
    with pytest.raises(NotFound):
        await world.store.evidence(ALICE, "ev_none")


async def test_nobody_reads_what_belongs_to_somebody_else(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    snapshot = await world.store.commit(claim, world.result(snapshot, READ))
    task_id, evidence_id = snapshot.task.id, snapshot.evidence[0].id

    for other in (BOB, ALICE_ELSEWHERE):
        for read in (
            lambda who: world.store.get(who, task_id),
            lambda who: world.store.entries(who, task_id, 0, 10),
            lambda who: world.store.evidence(who, evidence_id),
            lambda who: world.store.cancel(who, task_id),
        ):
            with pytest.raises(NotFound):
                await read(other)
        assert list(await world.store.list(other, TaskFilter())) == []
        assert list(await world.store.list(other, TaskFilter(before=task_id + "z"))) == []


async def test_roles_are_no_part_of_who_owns_a_task(world: World) -> None:
    task = await world.add()
    demoted = structs.replace(ALICE, roles=())
    assert (await world.store.get(demoted, task.id)).task.principal == ALICE


async def test_counts_show_the_queue_over_all_tenants(world: World) -> None:
    nothing = QueueCounts(by_state={}, oldest_pending_at=None, oldest_expired_lease_at=None)
    assert await world.store.counts() == nothing
    oldest = await world.add(principal=BOB)
    world.clock.advance(1)
    await world.add(principal=ALICE_ELSEWHERE)
    claim, _ = await world.running()
    counts = await world.store.counts()
    assert counts.by_state == {TaskState.PENDING: 2, TaskState.RUNNING: 1}
    assert counts.oldest_pending_at == oldest.created_at
    assert counts.oldest_expired_lease_at is None
    world.clock.advance(3)
    assert (await world.store.counts()).oldest_expired_lease_at == claim.lease_expires_at


@pytest.mark.parametrize("text", ["\ud800", "\x00", "'; DROP TABLE tasks; --", "", "x" * 100_000])
async def test_ids_that_cannot_exist_do_not_exist(world: World, text: str) -> None:
    task = await world.add()
    reads: list[Callable[[], Awaitable[object]]] = [
        lambda: world.store.get(ALICE, text),
        lambda: world.store.entries(ALICE, text, 0, 10),
        lambda: world.store.evidence(ALICE, text),
        lambda: world.store.cancel(ALICE, text),
        lambda: world.store.fetch("acme", text),
    ]
    for read in reads:
        with pytest.raises((NotFound, InvalidRequest)):
            await read()
    assert (await world.store.get(ALICE, task.id)).task == task


async def test_blobs_are_named_by_their_content_and_kept_per_tenant(world: World) -> None:
    content = bytes(range(256)) * 5000
    digest = await world.store.put("acme", content)
    assert digest == sha256_hex(content)
    assert await world.store.put("acme", content) == digest
    assert await world.store.fetch("acme", digest) == content
    with pytest.raises(NotFound):
        await world.store.fetch("globex", digest)
    with pytest.raises(NotFound):
        await world.store.fetch("acme", sha256_hex(b"other"))
    assert await world.store.fetch("acme", await world.store.put("acme", b"")) == b""
