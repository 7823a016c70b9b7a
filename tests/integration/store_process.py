"""Another process on a shared SQLite store, for tests that race or kill it.

Run as `python -m tests.integration.store_process PATH NUMBER VERB [TASK_ID ...]`. It waits for a
line on its input before each of the tasks, so that several processes meet at each, and writes one
line for whatever the store has acknowledged.
"""

import asyncio
import sys
from pathlib import Path

from aegis.domain.errors import LostClaim
from aegis.domain.server_limits import ServerLimits
from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore
from tests.contracts.stores.stores_under_test import ALICE, World
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

LIMITS = ServerLimits(pending_max=100_000, stored_max=100_000)


class ProcessIds(SequentialIds):
    """Ids that name their process, so that no two processes share one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def new(self, prefix: str) -> str:
        return f"{super().new(prefix)}-{self._number}"

    def random(self) -> str:
        return f"{super().random()}-{self._number}"


def say(*words: object) -> None:
    sys.stdout.write(" ".join(str(word) for word in words) + "\n")
    sys.stdout.flush()


async def claim(world: World, task_id: str) -> object:
    taken = await world.take(task_id)
    return "none" if taken is None else taken.epoch


async def finish(world: World, task_id: str) -> object:
    taken = await world.take(task_id)
    if taken is None:
        return "none"
    try:
        await world.store.commit(taken, world.end(await world.store.load(taken)))
    except LostClaim:
        return "lost"
    return "finished"


async def cancel(world: World, task_id: str) -> object:
    return (await world.store.cancel(ALICE, task_id)).outcome


VERBS = {"claim": claim, "finish": finish, "cancel": cancel}


async def work_for_ever(world: World) -> None:
    """Add, claim and finish side by side until killed."""

    async def worker() -> None:
        while True:
            task = await world.add()
            say(task.id, "added")
            claim = await world.claim(task.id)
            say(task.id, "claimed")
            snapshot = await world.store.load(claim)
            await world.store.commit(claim, world.end(snapshot))
            say(task.id, "finished")

    await asyncio.gather(*(worker() for _ in range(8)))


async def run(path: Path, number: int, verb: str, task_ids: list[str]) -> None:
    clock, ids = ManualClock(), ProcessIds(number)
    store = SqliteStore(
        SqliteSettings(path=path), clock=clock, ids=ids, limits=LIMITS, on_commit=lambda _: None
    )
    await store.open()
    say("ready")
    world = World(store, clock, ids, LIMITS, [], list)
    if verb == "work":
        await work_for_ever(world)
    for task_id in task_ids:
        await asyncio.to_thread(sys.stdin.readline)
        say(task_id, await VERBS[verb](world, task_id))
    await store.close()


if __name__ == "__main__":
    _, path, number, verb, *task_ids = sys.argv
    asyncio.run(run(Path(path), int(number), verb, task_ids))
