"""A worker that dies before or after any commit changes nothing about how a task ends.

Each scenario is first run undisturbed to count its commits; then once for every commit and for
both sides of it, with another worker taking over. Virtual time; both stores.
"""

import asyncio

import pytest

from aegis.domain.entry import ModelReplied
from aegis.domain.errors import StoreUnavailable
from tests.fakes.virtual_loop import VirtualLoop, run_virtual
from tests.simulation.world import World, start

SCENARIOS = {
    "E1": "fault-normal",
    "E2": "fault-tool-error",
    "E3": "fault-repeat",
    "E4": "fault-steps",
    "E5": "fault-tool-budget",
    "E9": "fault-slow",
    "E10": "fault-rollback-denied",
    "E11": "fault-bad-evidence",
}
COMMITS_MAX = 40


class Dies(StoreUnavailable):
    """The worker's last act."""


class DyingStore:
    """Claims and commits through to the store until the `at`-th, where the worker dies.

    `side` is before (nothing was written) or after (it was written and nobody heard). From then on
    nothing of this worker reaches the store.
    """

    def __init__(self, store, at: int | None = None, side: str = "before") -> None:
        self._store = store
        self._at = at
        self._side = side
        self.writes = 0
        self.dead = False

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def claim(self, *given):
        return await self._write(lambda: self._store.claim(*given), counts=given[3] is not None)

    async def commit(self, claim, change):
        return await self._write(lambda: self._store.commit(claim, change), counts=True)

    async def renew(self, claims, lease):
        if self.dead:
            raise Dies
        return await self._store.renew(claims, lease)

    async def release(self, claim):
        if self.dead:
            raise Dies
        await self._store.release(claim)

    async def expire_due(self):
        if self.dead:
            raise Dies
        return await self._store.expire_due()

    async def _write(self, write, *, counts: bool):
        if self.dead:
            raise Dies
        self.writes += counts
        if counts and self.writes == self._at:
            self.dead = True
            if self._side == "after":
                await write()
            raise Dies
        return await write()


async def play(world: World, agent: str, at: int | None, side: str):
    """Run one scenario; return its final snapshot, journal, and the first worker's store."""
    dying = DyingStore(world.store, at, side)
    first = start(world.worker(repository=dying, leases=dying, concurrency=1))
    task_id = await world.create(agent)
    cancelled = False
    second = None
    for _ in range(20_000):
        snapshot = await world.show(task_id)
        if snapshot.task.finished_at is not None:
            break
        if dying.dead and second is None:
            await first.kill()
            second = start(world.worker(concurrency=1))
        first_result = snapshot.calls and snapshot.calls[0].state.value == "SUCCEEDED"
        if agent == "fault-slow" and first_result and not cancelled:
            # In the middle of the second model call.
            cancelled = True
            assert (await world.cancel(task_id)).outcome == "cancelled"
        await asyncio.sleep(0.1)
    await (second or first).drain()
    return await world.show(task_id), await world.journal(task_id), dying


def run_scenario(folder, store_kind, agent, at=None, side="before"):
    loop = VirtualLoop()

    async def main():
        world = World(loop, folder, store_kind)
        try:
            return await play(world, agent, at, side)
        finally:
            await world.store.close()

    return run_virtual(main(), loop)


def outcome(snapshot):
    """What must not depend on a crash: the end, the answer without ids, and what ran."""
    task = snapshot.task
    return (
        task.state,
        task.reason,
        task.output and task.output.summary,
        task.output and len(task.output.evidence_ids),
    )


@pytest.mark.parametrize("store_kind", ["memory", "sqlite"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_crash_at_any_commit_ends_in_the_same_state(tmp_path, scenario, store_kind):
    agent = SCENARIOS[scenario]
    (tmp_path / "clean").mkdir()
    expected, _, counted = run_scenario(tmp_path / "clean", store_kind, agent)
    assert expected.task.finished_at is not None
    assert 2 <= counted.writes <= COMMITS_MAX

    died = 0
    for at in range(1, counted.writes + 1):
        for side in ("before", "after"):
            folder = tmp_path / f"{at}-{side}"
            folder.mkdir()
            snapshot, journal, dying = run_scenario(folder, store_kind, agent, at, side)

            died += dying.dead
            assert outcome(snapshot) == outcome(expected), (at, side)
            numbers = [item.seq for item in journal]
            assert numbers == list(range(1, len(numbers) + 1)), (at, side)
            kinds = [type(item.entry).__name__ for item in journal]
            terminal = [kind for kind in kinds if kind in ENDINGS]
            assert terminal == kinds[-1:], (at, side, kinds)
            steps = [item.entry.step for item in journal if isinstance(item.entry, ModelReplied)]
            assert steps == sorted(set(steps)), "a recorded step was repeated"
    assert died == 2 * counted.writes, "every crash really happened"


ENDINGS = {"TaskSucceeded", "TaskFailed", "TaskCancelled"}
