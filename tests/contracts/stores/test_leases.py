"""Claims, renewals, releases and expiry: who owns a task until when, and what a takeover costs."""

import asyncio

import pytest
from msgspec import structs

from aegis.domain.entry import TaskClaimed, TaskFailed, TaskReleased
from aegis.domain.errors import LostClaim
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.reason import ReasonCode
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import FORMAT_VERSION
from aegis.domain.tool_call import CallState
from tests.contracts.stores.conftest import WorldWith
from tests.contracts.stores.stores_under_test import (
    AGENT,
    ALICE,
    LEASE,
    READ,
    WRITE,
    World,
    without_permits,
)

SECOND = MICROS_PER_SECOND


async def test_a_claim_makes_the_task_running(world: World) -> None:
    task = await world.add()
    world.clock.advance(1)

    claim = await world.claim(task.id)

    snapshot = await world.store.load(claim)
    now = world.clock.now()
    assert snapshot == TaskSnapshot(
        task=structs.replace(
            task,
            state=TaskState.RUNNING,
            version=2,
            epoch=1,
            attempt=1,
            last_seq=2,
            running_since=now,
        ),
        agent=AGENT,
    )
    assert (claim.task_id, claim.epoch, claim.owner) == (task.id, 1, "worker-1")
    assert claim.lease_expires_at == now + LEASE
    assert claim.send_deadline == world.clock.boottime() + LEASE
    assert await world.store.get(ALICE, task.id) == snapshot
    assert (await world.journal(task))[1:] == [TaskClaimed(epoch=1, attempt=1)]
    assert world.told[-1] == snapshot.task


async def test_a_claim_without_a_hint_takes_the_oldest(world: World) -> None:
    tasks = [await world.add() for _ in range(3)]
    assert [(await world.claim()).task_id for _ in tasks] == [task.id for task in tasks]
    assert await world.take() is None


async def test_a_lapsed_lease_goes_before_waiting_tasks(world: World) -> None:
    lapsed = await world.add()
    await world.claim(lapsed.id)
    await world.add()
    world.clock.advance(3)
    assert (await world.claim()).task_id == lapsed.id


async def test_a_hint_that_is_not_due_takes_nothing(world: World) -> None:
    running = await world.add()
    await world.claim(running.id)
    ended = await world.finished()
    waiting = await world.add()

    for hint in (running.id, ended.id, "task_unknown"):
        assert await world.take(hint) is None

    # The task that was due is still there for the sweep.
    assert (await world.claim()).task_id == waiting.id


async def test_only_known_agents_are_claimed(world: World) -> None:
    other = structs.replace(AGENT, name="other")
    task = await world.add(agent=other)
    assert await world.take(task.id) is None
    assert await world.take(None) is None
    assert await world.take(task.id, agents=()) is None
    claim = await world.take(None, agents=("other", AGENT.name))
    assert claim is not None
    assert (await world.store.load(claim)).agent == other


async def test_a_newer_format_is_left_to_newer_workers(world: World) -> None:
    new = world.new_task()
    newer = structs.replace(new.task, format_version=FORMAT_VERSION + 1)
    await world.store.add(structs.replace(new, task=newer), None)
    assert await world.take(newer.id) is None
    assert await world.take(None) is None


async def test_of_twenty_claimants_one_wins(world: World) -> None:
    for _ in range(20):
        task = await world.add()
        claims = await asyncio.gather(
            *(world.take(task.id, owner=f"worker-{number}") for number in range(20))
        )
        won = [claim for claim in claims if claim is not None]
        assert [claim.epoch for claim in won] == [1]
        assert (await world.store.load(won[0])).task.attempt == 1


async def test_twenty_sweeps_share_twenty_tasks(world: World) -> None:
    tasks = {(await world.add()).id for _ in range(20)}
    claims = await asyncio.gather(*(world.take() for _ in range(25)))
    assert {claim.task_id for claim in claims if claim is not None} == tasks
    assert sum(claim is None for claim in claims) == 5


async def test_a_takeover_adds_attempt_time_and_a_lost_model_call(world: World) -> None:
    first, _ = await world.running()
    world.clock.advance(2)
    renewed = (await world.store.renew([first], LEASE))[0]
    assert renewed is not None
    world.clock.advance(2.999999)
    assert await world.take(first.task_id) is None
    world.clock.advance(0.000001)

    second = await world.claim(first.task_id, owner="worker-2")

    task = (await world.store.load(second)).task
    assert (second.epoch, task.attempt, task.version) == (2, 2, 3)
    # Charged until the last renewal, not until somebody noticed; one step and the reserved output.
    assert task.running_micros == 2 * SECOND
    assert task.running_since == world.clock.now()
    assert (task.usage.steps, task.usage.output_tokens) == (1, 100)
    entry = (await world.journal(task))[-1]
    assert entry == TaskClaimed(epoch=2, attempt=2, takeover=True, charged=True)
    with pytest.raises(LostClaim):
        await world.store.load(first)


@pytest.mark.parametrize("write", [False, True])
async def test_a_takeover_with_open_calls_is_not_charged(world: World, *, write: bool) -> None:
    claim, snapshot = await (world.started() if write else world.planned(READ))
    world.clock.advance(3)

    second = await world.claim(claim.task_id)

    loaded = await world.store.load(second)
    assert loaded.task.usage == snapshot.task.usage
    # What the first worker did is there; its permit is not: a started write is in doubt.
    assert loaded.calls == snapshot.calls
    assert loaded.permits == frozenset()


async def test_exhausted_attempts_are_not_claimed_and_expire(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(attempts_max=2)) as world:
        task = await world.add()
        for _ in range(2):
            await world.claim(task.id)
            assert await world.store.expire_due() == []
            world.clock.advance(3)
        assert await world.take(task.id) is None
        assert await world.take(None) is None

        assert await world.store.expire_due() == [task.id]

        ended = (await world.store.get(ALICE, task.id)).task
        assert (ended.state, ended.reason) == (TaskState.FAILED, ReasonCode.WORKER_LOST)
        assert ended.finished_at == world.clock.now()
        assert ended.running_since is None
        assert (await world.journal(ended))[-1] == TaskFailed(reason=ReasonCode.WORKER_LOST)
        assert world.told[-1] == ended
        assert await world.store.expire_due() == []


async def test_expiry_settles_open_calls(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(attempts_max=1)) as world:
        claim, snapshot = await world.planned(READ, WRITE)
        await world.store.commit(claim, world.start(claim, snapshot))
        world.clock.advance(3)
        assert await world.store.expire_due() == [claim.task_id]
        ended = await world.store.get(ALICE, claim.task_id)
        states = [call.state for call in ended.calls]
        assert states == [CallState.INTERRUPTED, CallState.IN_DOUBT]


async def test_waiting_too_long_is_a_timeout(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(age_micros_max=60 * SECOND, pending_max=2)) as world:
        pending = await world.add()
        handed_back = await world.add()
        await world.store.release(await world.claim(handed_back.id))
        running = await world.add()
        claim = await world.take(running.id, lease=3600 * SECOND)
        assert claim is not None
        world.clock.advance(59)
        assert await world.store.expire_due() == []
        world.clock.advance(1)

        assert sorted(await world.store.expire_due()) == [pending.id, handed_back.id]

        for task_id in (pending.id, handed_back.id):
            ended = (await world.store.get(ALICE, task_id)).task
            assert (ended.state, ended.reason) == (TaskState.FAILED, ReasonCode.TASK_TIMEOUT)
        assert (await world.store.load(claim)).task.state is TaskState.RUNNING
        # Both places in the queue are free again, and not more than those.
        await world.add()
        await world.add()
        assert (await world.store.counts()).by_state[TaskState.PENDING] == 2


async def test_expiry_works_in_bounded_bites(world_with: WorldWith) -> None:
    limits = ServerLimits(age_micros_max=SECOND, pending_max=1000)
    async with world_with(limits) as world:
        tasks = [(await world.add()).id for _ in range(250)]
        world.clock.advance(1)
        ended: list[str] = []
        bites = 0
        while bite := await world.store.expire_due():
            assert len(bite) <= 100
            ended += bite
            bites += 1
        assert sorted(ended) == tasks
        assert bites == 3


async def test_renewal_extends_and_never_revives(world: World) -> None:
    claim, snapshot = await world.running()
    world.clock.advance(2)
    renewed = (await world.store.renew([claim], LEASE))[0]
    assert renewed == structs.replace(
        claim,
        lease_expires_at=world.clock.now() + LEASE,
        send_deadline=world.clock.boottime() + LEASE,
    )
    # A renewal is no write of the task: version and journal stand as they were.
    assert await world.store.get(ALICE, claim.task_id) == without_permits(snapshot)

    world.clock.advance(3)
    assert list(await world.store.renew([claim], LEASE)) == [None]
    assert (await world.claim(claim.task_id)).epoch == 2


async def test_a_batch_of_renewals_answers_each_claim_in_order(world: World) -> None:
    live, _ = await world.running()
    released, _ = await world.running()
    cancelled, _ = await world.running()
    other, _ = await world.running()
    await world.store.release(released)
    await world.store.cancel(ALICE, cancelled.task_id)
    unknown = structs.replace(live, task_id="task_unknown")
    stale = structs.replace(other, epoch=other.epoch + 1)

    answers = await world.store.renew([live, released, unknown, cancelled, stale, other], LEASE)

    assert [answer is not None for answer in answers] == [True, False, False, False, False, True]
    assert list(await world.store.renew([], LEASE)) == []


async def test_a_release_hands_the_task_back_without_an_attempt(world: World) -> None:
    claim, snapshot = await world.planned(READ)
    world.clock.advance(1)

    await world.store.release(claim)

    back = await world.store.get(ALICE, claim.task_id)
    assert back.task.state is TaskState.READY_TO_RESUME
    assert (back.task.running_micros, back.task.running_since) == (1 * SECOND, None)
    assert (back.task.handovers, back.task.attempt) == (1, 1)
    assert back.calls == snapshot.calls
    assert (await world.journal(back.task))[-1] == TaskReleased(epoch=1)
    assert world.told[-1] == back.task
    for verb in (world.store.release, world.store.load):
        with pytest.raises(LostClaim):
            await verb(claim)
    with pytest.raises(LostClaim):
        await world.store.commit(claim, world.end(snapshot))

    world.clock.advance(10)
    again = await world.store.load(await world.claim(claim.task_id))
    assert (again.task.attempt, again.task.epoch) == (1, 2)
    # The ten seconds in the queue are not running time.
    assert again.task.running_micros == 1 * SECOND
    assert again.task.usage == snapshot.task.usage


async def test_too_many_releases_end_the_task(world_with: WorldWith) -> None:
    async with world_with(ServerLimits(handovers_max=2)) as world:
        task = await world.add()
        for _ in range(2):
            await world.store.release(await world.claim(task.id))
        await world.store.release(await world.claim(task.id))
        ended = (await world.store.get(ALICE, task.id)).task
        assert (ended.state, ended.reason) == (TaskState.FAILED, ReasonCode.WORKER_LOST)


async def test_time_never_runs_backwards(world: World) -> None:
    claim, snapshot = await world.running()
    before = world.clock.now()
    world.clock.jump(-3600)

    snapshot = await world.store.commit(claim, world.end(snapshot))

    assert snapshot.task.finished_at == before
    items = await world.store.entries(ALICE, claim.task_id, 0, 10)
    assert [item.at for item in items] == [before] * 3


async def test_a_clock_that_jumps_back_keeps_no_lease_alive_for_ever(world: World) -> None:
    claim, _ = await world.running()
    world.clock.jump(3)
    # Somebody writes at the later time; then the clock goes back by an hour.
    await world.add()
    world.clock.jump(-3600)
    assert (await world.claim(claim.task_id)).epoch == 2
