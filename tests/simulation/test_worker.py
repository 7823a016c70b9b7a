"""The worker in virtual time: cancels, lost leases, lost hints, drains, and who waits for what."""

import asyncio

import pytest

from aegis.domain.entry import CallFinished
from aegis.domain.errors import StoreUnavailable
from aegis.domain.state import TaskState
from aegis.domain.tool_call import CallState
from tests.fakes.loop import PythonModel, PythonTools, asks
from tests.fakes.virtual_loop import VirtualLoop, run_virtual
from tests.simulation.world import World, start

LEASE_SECONDS = 3.0
RENEW_SECONDS = 1.0
SWEEP_SECONDS = 1.0


def simulate(folder, play, store_kind="memory"):
    loop = VirtualLoop()

    async def main():
        return await play(World(loop, folder, store_kind))

    return run_virtual(main(), loop)


async def until(condition, seconds_max=60.0):
    async with asyncio.timeout(seconds_max):
        while not condition():
            await asyncio.sleep(0.01)


async def until_state(world, task_id, state, seconds_max=60.0):
    async with asyncio.timeout(seconds_max):
        while (await world.show(task_id)).task.state is not state:
            await asyncio.sleep(0.01)


def test_a_signalled_cancel_stops_the_model_call_at_once(tmp_path):
    async def play(world):
        worker = world.worker()
        running = start(worker)
        task_id = await world.create("fault-slow")
        await asyncio.sleep(5)
        assert worker.running == 1
        began = world.loop.time()
        assert (await world.cancel(task_id)).outcome == "cancelled"
        await until(lambda: worker.running == 0)
        assert world.loop.time() - began < 0.1
        await running.drain()
        return (await world.show(task_id)).task.state

    assert simulate(tmp_path, play) is TaskState.CANCELLED


def test_a_cancel_whose_signal_was_lost_is_learned_at_the_next_renewal(tmp_path):
    async def play(world):
        worker = world.worker()
        running = start(worker)
        task_id = await world.create("fault-slow")
        await asyncio.sleep(5)
        began = world.loop.time()
        await world.store.cancel((await world.show(task_id)).task.principal, task_id)
        await until(lambda: worker.running == 0)
        assert world.loop.time() - began <= RENEW_SECONDS + 0.1
        await running.drain()

    simulate(tmp_path, play)


def test_a_lost_hint_only_delays(tmp_path):
    async def play(world):
        world.dispatch.announce = lambda _task_id: None
        running = start(world.worker())
        await asyncio.sleep(0.5)
        task_id = await world.create("fault-normal")
        began = world.loop.time()
        await world.until_ended(task_id)
        assert world.loop.time() - began <= SWEEP_SECONDS + 0.2
        await running.drain()

    simulate(tmp_path, play)


@pytest.mark.parametrize("store_kind", ["memory", "sqlite"])
def test_a_dead_workers_task_is_taken_over_within_lease_and_sweep(tmp_path, store_kind):
    async def play(world):
        first = start(world.worker())
        task_id = await world.create("fault-interrupted")
        await until_state(world, task_id, TaskState.RUNNING)
        await asyncio.sleep(1.5)
        await first.kill()
        died = world.loop.time()
        second = start(world.worker())
        async with asyncio.timeout(60):
            while (await world.show(task_id)).task.epoch < 2:
                await asyncio.sleep(0.01)
        assert world.loop.time() - died <= LEASE_SECONDS + SWEEP_SECONDS + 0.1
        snapshot = await world.until_ended(task_id)
        assert snapshot.task.state is TaskState.SUCCEEDED
        await second.drain()

    simulate(tmp_path, play, store_kind)


def test_a_worker_that_cannot_renew_stops_what_somebody_else_took_over(tmp_path):
    async def play(world):
        class Deaf:
            dead = False

            def __getattr__(self, name):
                return getattr(world.store, name)

            async def renew(self, claims, lease):
                if self.dead:
                    raise StoreUnavailable("gone")
                return await world.store.renew(claims, lease)

        deaf = Deaf()
        first = world.worker(leases=deaf)
        running = start(first)
        task_id = await world.create("fault-slow")
        await asyncio.sleep(1)
        deaf.dead = True
        second = world.worker()
        other = start(second)
        async with asyncio.timeout(60):
            while (await world.show(task_id)).task.epoch < 2:
                await asyncio.sleep(0.1)
        deaf.dead = False
        await until(lambda: first.running == 0, 3.0)
        assert second.running == 1
        await world.cancel(task_id)
        await running.drain()
        await other.drain()

    simulate(tmp_path, play)


def test_a_drain_stops_a_model_call_and_hands_the_task_back_without_an_attempt(tmp_path):
    async def play(world):
        running = start(world.worker())
        task_id = await world.create("fault-slow")
        await asyncio.sleep(5)
        began = world.loop.time()
        await running.drain()
        assert world.loop.time() - began < 0.1
        task = (await world.show(task_id)).task
        assert (task.state, task.attempt, task.handovers) == (TaskState.READY_TO_RESUME, 1, 1)
        again = start(world.worker())
        await until_state(world, task_id, TaskState.RUNNING)
        assert (await world.show(task_id)).task.attempt == 1
        await world.cancel(task_id)
        await again.drain()

    simulate(tmp_path, play)


class SlowWrite(PythonTools):
    """A write that takes `seconds`, and cannot be torn down."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.sending = asyncio.Event()

    async def execute(self, calls, context):
        self.sending.set()
        await asyncio.sleep(self._seconds)
        return await super().execute(calls, context)


def with_write(world, seconds):
    tools = SlowWrite(seconds)
    worker = world.worker(models=PythonModel(asks("write")), tools=tools)
    return tools, worker


def test_a_drain_waits_for_a_write_that_was_started(tmp_path):
    async def play(world):
        tools, worker = with_write(world, 0.9)
        running = start(worker)
        task_id = await world.create("fault-normal")
        await tools.sending.wait()
        began = world.loop.time()
        await running.drain()
        assert 0.5 < world.loop.time() - began <= 1.0
        snapshot = await world.show(task_id)
        assert [record.state for record in snapshot.calls] == [CallState.SUCCEEDED]
        assert snapshot.task.state is TaskState.READY_TO_RESUME
        assert tools.ran == ["1.0"]

    simulate(tmp_path, play)


def test_a_drain_does_not_wait_for_a_write_beyond_its_limit(tmp_path):
    async def play(world):
        tools, worker = with_write(world, 10_000.0)
        running = start(worker)
        task_id = await world.create("fault-normal")
        await tools.sending.wait()
        began = world.loop.time()
        await running.drain()
        assert world.loop.time() - began <= 12.0
        snapshot = await world.show(task_id)
        assert [record.state for record in snapshot.calls] == [CallState.STARTED]
        again = start(world.worker(models=PythonModel(asks("write")), tools=PythonTools()))
        ended = await world.until_ended(task_id)
        assert ended.task.reason is not None
        assert ended.task.reason.value == "OUTCOME_UNKNOWN"
        assert [record.state for record in ended.calls] == [CallState.IN_DOUBT]
        await again.drain()

    simulate(tmp_path, play)


def test_a_write_in_flight_when_its_task_is_cancelled_is_kept_as_a_late_fact(tmp_path):
    async def play(world):
        tools, worker = with_write(world, 0.9)
        running = start(worker)
        task_id = await world.create("fault-normal")
        await tools.sending.wait()
        done = await world.cancel(task_id)
        assert [record.state for record in done.snapshot.calls] == [CallState.IN_DOUBT]
        await until(lambda: worker.running == 0)
        assert tools.ran == ["1.0"], "a write that was sent is not torn down"
        assert (await world.show(task_id)) == done.snapshot
        (fact,) = world.store.late_facts
        assert fact.entry == CallFinished(
            call_id="1.0", state=CallState.SUCCEEDED, evidence_id="ev_1.0"
        )
        await running.drain()

    simulate(tmp_path, play)


def test_a_store_that_fails_for_a_while_stops_no_worker(tmp_path):
    async def play(world):
        class Flaky:
            down = True

            def __getattr__(self, name):
                return getattr(world.store, name)

            async def claim(self, *given):
                if self.down:
                    raise StoreUnavailable("gone")
                return await world.store.claim(*given)

            async def expire_due(self):
                if self.down:
                    raise StoreUnavailable("gone")
                return await world.store.expire_due()

        flaky = Flaky()
        worker = world.worker(leases=flaky)
        running = start(worker)
        task_id = await world.create("fault-normal")
        await asyncio.sleep(5)
        assert worker.is_alive
        flaky.down = False
        assert (await world.until_ended(task_id)).task.state is TaskState.SUCCEEDED
        await running.drain()
        assert not worker.is_alive

    simulate(tmp_path, play)


def test_a_stuck_call_is_not_renewed_and_its_task_moves_on(tmp_path):
    async def play(world):
        class Stuck:
            async def reply(self, request, on_delta):
                # Ignores its deadline, as a provider without the wrapper would.
                await asyncio.sleep(10_000)

        first = start(world.worker(models=Stuck()))
        task_id = await world.create("fault-normal")
        await until_state(world, task_id, TaskState.RUNNING)
        second = start(world.worker())
        ended = await world.until_ended(task_id)
        assert ended.task.epoch >= 2
        await first.drain()
        await second.drain()

    simulate(tmp_path, play)


def test_one_consumer_runs_one_task_at_a_time(tmp_path):
    async def play(world):
        worker = world.worker(concurrency=1)
        running = start(worker)
        tasks = [await world.create("fault-interrupted") for _ in range(3)]
        most = 0
        for _ in range(500):
            most = max(most, worker.running)
            await asyncio.sleep(0.02)
        for task_id in tasks:
            assert (await world.until_ended(task_id)).task.state is TaskState.SUCCEEDED
        assert most == 1
        await running.drain()

    simulate(tmp_path, play)


def test_two_tasks_do_not_pause_each_other(tmp_path):
    async def play(world):
        running = start(world.worker())
        slow = await world.create("fault-slow")
        quick = await world.create("fault-normal")
        began = world.loop.time()
        await world.until_ended(quick)
        assert world.loop.time() - began < 1.0
        await world.cancel(slow)
        await running.drain()

    simulate(tmp_path, play)
