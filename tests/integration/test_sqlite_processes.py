"""Several processes on one SQLite file: one winner, no lost update, nothing lost by kill -9."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from aegis.domain.state import TaskState
from tests.contracts.stores.stores_under_test import ALICE, World, open_sqlite
from tests.integration.store_process import LIMITS

ROOT = Path(__file__).parents[2]


class Process:
    """A `store_process` that has opened the store and waits for `go`."""

    def __init__(self, folder: Path, number: int, verb: str, task_ids: list[str]) -> None:
        self._popen = subprocess.Popen(
            [
                *[sys.executable, "-m", "tests.integration.store_process"],
                *[str(folder / "aegis.db"), str(number), verb, *task_ids],
            ],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().strip()

    def go(self) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.write("go\n")
        self._popen.stdin.flush()

    def end(self) -> None:
        self._popen.communicate(timeout=120)
        assert self._popen.returncode == 0

    def kill(self) -> list[str]:
        """Kill it with -9 and return the lines that it still managed to write."""
        os.kill(self._popen.pid, signal.SIGKILL)
        said, _ = self._popen.communicate(timeout=60)
        assert self._popen.returncode == -signal.SIGKILL
        return said.splitlines()


def race(folder: Path, task_ids: list[str], *verbs: str) -> list[dict[str, str]]:
    """Let one process for each verb meet at each task; return what each was told of each."""
    processes = [
        Process(folder, number, verb, task_ids) for number, verb in enumerate(verbs, start=1)
    ]
    answers: list[dict[str, str]] = [{} for _ in processes]
    for number, task_id in enumerate(task_ids):
        # They take turns at hearing it first.
        for process in processes if number % 2 else reversed(processes):
            process.go()
        for process, told in zip(processes, answers, strict=True):
            named, told[task_id] = process.line().split(" ")
            assert named == task_id
    for process in processes:
        process.end()
    return answers


async def add_tasks(folder: Path, count: int) -> list[str]:
    async with open_sqlite(folder, limits=LIMITS) as world:
        return [(await world.add()).id for _ in range(count)]


async def check_whole(world: World, folder: Path) -> None:
    """Every journal is gapless and ends where its row says; the counters count the rows."""
    with closing(sqlite3.connect(folder / "aegis.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        wrong = connection.execute(
            "SELECT id FROM tasks WHERE last_seq <> (SELECT count(*) FROM entries"
            " WHERE task_id = id) OR last_seq <> (SELECT max(task_seq) FROM entries"
            " WHERE task_id = id)"
        ).fetchall()
        assert wrong == []
        ledger = connection.execute("SELECT pending, stored FROM ledger").fetchone()
        rows = connection.execute(
            "SELECT count(*) FILTER (WHERE state = 'PENDING'), count(*) FROM tasks"
        ).fetchone()
        assert ledger == rows
    assert sum((await world.store.counts()).by_state.values()) == rows[1]


async def test_of_two_processes_that_claim_one_wins_each_task(tmp_path: Path) -> None:
    task_ids = await add_tasks(tmp_path, 200)

    first, second = race(tmp_path, task_ids, "claim", "claim")

    for task_id in task_ids:
        assert sorted((first[task_id], second[task_id])) == ["1", "none"]
    # Both won some, so that it was a race.
    assert "1" in first.values()
    assert "1" in second.values()
    async with open_sqlite(tmp_path, limits=LIMITS) as world:
        await check_whole(world, tmp_path)
        assert (await world.store.counts()).by_state == {TaskState.RUNNING: 200}


async def test_two_processes_lose_no_update_of_each_other(tmp_path: Path) -> None:
    task_ids = await add_tasks(tmp_path, 200)

    first, second = race(tmp_path, task_ids, "finish", "finish")

    for task_id in task_ids:
        assert sorted((first[task_id], second[task_id])) == ["finished", "none"]
    async with open_sqlite(tmp_path, limits=LIMITS) as world:
        await check_whole(world, tmp_path)
        for task_id in task_ids:
            task = (await world.store.get(ALICE, task_id)).task
            assert (task.state, task.epoch, task.last_seq) == (TaskState.SUCCEEDED, 1, 3)


async def test_of_cancel_and_finish_in_two_processes_one_wins_and_is_named(tmp_path: Path) -> None:
    task_ids = await add_tasks(tmp_path, 300)

    finished, cancelled = race(tmp_path, task_ids, "finish", "cancel")

    async with open_sqlite(tmp_path, limits=LIMITS) as world:
        await check_whole(world, tmp_path)
        for task_id in task_ids:
            state = (await world.store.get(ALICE, task_id)).task.state
            if cancelled[task_id] == "cancelled":
                assert state is TaskState.CANCELLED
                # The worker never got it, or was told that it had lost it.
                assert finished[task_id] in {"none", "lost"}
            else:
                assert (state, finished[task_id]) == (TaskState.SUCCEEDED, "finished")
    assert {*cancelled.values()} == {"cancelled", "already_terminal"}


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    least = {
        "added": {TaskState.PENDING, TaskState.RUNNING, TaskState.SUCCEEDED},
        "claimed": {TaskState.RUNNING, TaskState.SUCCEEDED},
        "finished": {TaskState.SUCCEEDED},
    }
    acknowledged: dict[str, str] = {}
    for number in range(1, 4):
        process = Process(tmp_path, number, "work", [])
        lines = [process.line() for _ in range(150)]
        lines += process.kill()
        # The kill may cut the last line; what was written whole was acknowledged.
        for line in lines:
            task_id, _, word = line.partition(" ")
            if word in least:
                acknowledged[task_id] = word

    assert len(acknowledged) > 50
    async with open_sqlite(tmp_path, limits=LIMITS) as world:
        await check_whole(world, tmp_path)
        for task_id, word in acknowledged.items():
            state = (await world.store.get(ALICE, task_id)).task.state
            assert state in least[word], (task_id, word)
        # What was left half way is claimed again once its lease is over, and can be finished.
        world.clock.advance(10)
        while (claim := await world.take()) is not None:
            await world.store.commit(claim, world.end(await world.store.load(claim)))
        assert set((await world.store.counts()).by_state) == {TaskState.SUCCEEDED}
