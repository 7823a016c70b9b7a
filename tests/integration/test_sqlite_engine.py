"""The SQLite engine in trouble and at speed: batches, full disks, busy files, failed commits."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from aegis.domain.errors import ConfigurationError, LostClaim, StoreUnavailable
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.stores.sql.migrate import upgrade
from aegis.stores.sql.sqlite.connection import open_writer
from aegis.stores.sql.sqlite.lane import Job, Lane
from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore
from aegis.stores.sql.sqlite.writer import Batch, GroupCommit
from tests.contracts.stores.stores_under_test import ALICE, World, open_sqlite
from tests.fakes.clock import ManualClock

ADDS = 200


def writer_of(world: World) -> sqlite3.Connection:
    assert isinstance(world.store, SqliteStore)
    return world.store._connections[0]


def lane_of(world: World) -> Lane[Batch]:
    assert isinstance(world.store, SqliteStore)
    return world.store._writing


def failed(outcomes: Sequence[object]) -> list[StoreUnavailable]:
    return [one for one in outcomes if isinstance(one, StoreUnavailable)]


def test_the_running_store_loads_only_the_driver(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from tests.contracts.stores.stores_under_test import open_sqlite\n"
        "async def main():\n"
        "    async with open_sqlite(Path(sys.argv[1])) as world:\n"
        "        await world.finished()\n"
        "asyncio.run(main())\n"
        "print([name for name in ('sqlalchemy', 'alembic') if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "[]"


async def test_changes_that_arrive_together_share_a_commit(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        statements: list[str] = []
        writer_of(world).set_trace_callback(statements.append)
        adds = [world.added(key=world.key(str(number % 30))) for number in range(ADDS)]
        answers = await asyncio.gather(*adds)
        writer_of(world).set_trace_callback(None)

        assert sum(not answer.replayed for answer in answers) == 30
        commits = statements.count("COMMIT")
        assert commits == statements.count("BEGIN IMMEDIATE")
        assert commits < ADDS / 4
        assert not any(statement.startswith("SAVEPOINT") for statement in statements)


async def test_a_row_that_has_ended_is_guarded_by_the_database_itself(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        task = await world.finished()
        with closing(sqlite3.connect(tmp_path / "aegis.db")) as connection:
            for column in ("state = 'RUNNING'", "output = NULL", "finished_at = 0"):
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute(f"UPDATE tasks SET {column} WHERE id = ?", (task.id,))
        assert (await world.store.get(ALICE, task.id)).task == task


async def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with open_sqlite(tmp_path, clock=clock) as world:
        ids = world.ids
        await world.finished()
        claim, snapshot = await world.started()
        await world.add()
        before = await world.everything()

    # The clock is behind by an hour after the restart: time goes on from where it was.
    clock.jump(-3600)
    async with open_sqlite(tmp_path, clock=clock, ids=ids) as world:
        assert await world.everything() == before
        ended = await world.store.commit(claim, world.end(snapshot))
        assert ended.task.finished_at == snapshot.task.created_at


async def test_a_full_disk_acknowledges_nothing_and_recovers(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        claim, snapshot = await world.running()
        writer = writer_of(world)
        pages = writer.execute("PRAGMA page_count").fetchone()[0]
        writer.execute(f"PRAGMA max_page_count={pages}")
        before = await world.everything()
        big = "x" * 200_000

        outcomes = await asyncio.gather(
            *(world.added(prompt=big) for _ in range(3)),
            world.store.put("acme", big.encode()),
            return_exceptions=True,
        )

        assert len(failed(outcomes)) == 4
        # Operators get the engine's word for it, and no path, statement or value.
        assert {str(error) for error in failed(outcomes)} == {
            "the SQLite store did not commit: SQLITE_FULL"
        }
        # Readers go on, and what they read has not changed.
        assert await world.everything() == before
        assert len(world.told) == 2

        writer.execute("PRAGMA max_page_count=1000000")
        await world.added(prompt=big)
        await world.store.commit(claim, world.end(snapshot))
        counts = (await world.store.counts()).by_state
        assert counts == {TaskState.PENDING: 1, TaskState.SUCCEEDED: 1}


async def test_a_file_that_stays_busy_is_unavailable_and_recovers(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        writer_of(world).execute("PRAGMA busy_timeout=1")
        with closing(sqlite3.connect(tmp_path / "aegis.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreUnavailable, match="SQLITE_BUSY"):
                await world.add()
            assert (await world.store.counts()).by_state == {}
            other.execute("ROLLBACK")
        await world.add()


async def test_a_change_waits_for_a_file_that_is_busy_for_a_while(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        with closing(sqlite3.connect(tmp_path / "aegis.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            adding = asyncio.ensure_future(world.add())
            # The add waits for the lock until this reader has answered, and longer.
            assert (await world.store.counts()).by_state == {}
            assert not adding.done()
            other.execute("ROLLBACK")
        assert isinstance(await adding, Task)


class FailingCommit(sqlite3.Connection):
    """A connection whose COMMIT fails as often as `failures` says."""

    failures = 0

    def execute(self, *args, **kwargs):
        if args[0] == "COMMIT" and self.failures > 0:
            self.failures -= 1
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(*args, **kwargs)


def test_no_outcome_good_or_bad_outlives_a_commit_that_failed(tmp_path: Path) -> None:
    open_writer(tmp_path / "a.db", "FULL").close()
    connection = sqlite3.connect(
        tmp_path / "a.db", isolation_level=None, factory=FailingCommit, check_same_thread=False
    )
    group = GroupCommit(connection, ManualClock())

    def refuse(_batch: Batch) -> object:
        raise LostClaim("refused")

    def write(batch: Batch) -> object:
        batch.connection.execute("INSERT INTO pruned_tasks VALUES ('t', 'acme', 'alice')")
        return "written"

    with closing(connection):
        for runs in ([write], [write, refuse], [refuse]):
            jobs = [Job(run, asyncio.Future(loop=_NoLoop()), urgent=False) for run in runs]
            connection.failures = 1
            group.process(jobs)
            assert [type(job.error) for job in jobs] == [StoreUnavailable] * len(jobs)
            assert [job.value for job in jobs] == [None] * len(jobs)
            assert not connection.in_transaction
            assert connection.execute("SELECT * FROM pruned_tasks").fetchall() == []

            group.process(jobs)
            assert [type(job.error) for job in jobs] == [
                LostClaim if run is refuse else type(None) for run in runs
            ]
            connection.execute("DELETE FROM pruned_tasks")


class _NoLoop(asyncio.AbstractEventLoop):
    """A future needs a loop to exist; nothing here waits for one."""

    def get_debug(self) -> bool:
        return False


async def test_a_transaction_that_the_engine_ended_leaves_all_unknown(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        ran: list[str] = []

        def ends_it(batch: Batch) -> None:
            ran.append("ends it")
            batch.connection.execute("ROLLBACK")
            raise ValueError

        def holds_up(_batch: Batch) -> None:
            began.set()
            gate.wait(timeout=60)

        # The first job keeps the thread busy until the others are together in one batch.
        began, gate = threading.Event(), threading.Event()
        lane = lane_of(world)
        held = asyncio.ensure_future(lane.submit(holds_up))
        await asyncio.to_thread(began.wait, 60)
        verbs = [
            asyncio.ensure_future(lane.submit(lambda _: ran.append("before"))),
            asyncio.ensure_future(lane.submit(ends_it)),
            asyncio.ensure_future(world.add()),
        ]
        await asyncio.sleep(0)
        gate.set()
        outcomes = await asyncio.gather(held, *verbs, return_exceptions=True)

        assert outcomes[0] is None
        assert len(failed(outcomes[1:])) == 3
        # Nothing of the batch was tried again on its own.
        assert ran == ["before", "ends it"]
        assert (await world.store.counts()).by_state == {}
        await world.add()


async def test_renewals_go_before_everything_that_waits(tmp_path: Path) -> None:
    ran: list[str] = []
    gate = threading.Event()

    def process(jobs: Sequence[Job[None, object]]) -> None:
        for job in jobs:
            job.value = job.run(None)

    lane: Lane[None] = Lane("test", process, 100)

    def noted(word: str) -> "asyncio.Future[None]":
        return asyncio.ensure_future(
            lane.submit(lambda _: ran.append(word), urgent=word.startswith("renew"))
        )

    first = asyncio.ensure_future(lane.submit(lambda _: gate.wait(timeout=60)))
    rest = [noted(word) for word in ("add 1", "add 2", "renew 1", "add 3", "renew 2")]
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(first, *rest)
    await lane.close()
    assert ran == ["renew 1", "renew 2", "add 1", "add 2", "add 3"]


async def test_a_lane_that_closes_leaves_no_caller_waiting(tmp_path: Path) -> None:
    gate = threading.Event()

    def process(jobs: Sequence[Job[None, object]]) -> None:
        for job in jobs:
            job.value = job.run(None)

    lane: Lane[None] = Lane("test", process, 1)
    callers = [
        asyncio.ensure_future(lane.submit(lambda _: gate.wait(timeout=60))) for _ in range(5)
    ]
    await asyncio.sleep(0)
    closing_lane = asyncio.ensure_future(lane.close())
    await asyncio.sleep(0)
    gate.set()
    outcomes = await asyncio.wait_for(
        asyncio.gather(closing_lane, *callers, return_exceptions=True), timeout=20
    )
    # Each caller is told: it ran, or the store is closed.
    assert all(one is True or isinstance(one, StoreUnavailable) for one in outcomes[1:])
    assert outcomes[1] is True


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async with open_sqlite(tmp_path) as world:
        task = await world.add()
        await world.store.close()  # pyright: ignore[reportAttributeAccessIssue] - lifecycle is no port
        with pytest.raises(StoreUnavailable):
            await world.add()
        with pytest.raises(StoreUnavailable):
            await world.take()
        with pytest.raises(StoreUnavailable):
            await world.store.get(ALICE, task.id)


async def test_a_path_that_holds_no_database_is_refused_without_its_name(tmp_path: Path) -> None:
    (tmp_path / "folder" / "aegis.db").mkdir(parents=True)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "aegis.db").write_text("this is no database, however long it may be " * 99)
    for folder in ("folder", "text"):
        with pytest.raises(StoreUnavailable) as refused:
            async with open_sqlite(tmp_path / folder):
                pass
        assert str(tmp_path) not in str(refused.value)


def test_migrating_leaves_what_is_not_ours_or_not_yet_known_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs.db"
    with closing(sqlite3.connect(theirs)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(ConfigurationError):
        upgrade(theirs)
    with closing(sqlite3.connect(theirs)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]

    newer = tmp_path / "newer.db"
    upgrade(newer)
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(ConfigurationError):
        upgrade(newer)


def test_processes_that_migrate_together_all_succeed(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from aegis.stores.sql.migrate import upgrade\n"
        "print(upgrade(Path(sys.argv[1])))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "one.db")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    ended = [process.communicate(timeout=120) for process in started]
    answers = sorted(out.strip() for out, _ in ended)
    assert answers == ["('0001', '0001')"] * 4 + ["(None, '0001')"], ended


def test_settings_choose_how_much_is_synced(tmp_path: Path) -> None:
    assert SqliteSettings(path=tmp_path).synchronous == "FULL"
    for name, number in (("FULL", 2), ("NORMAL", 1)):
        with closing(open_writer(tmp_path / "a.db", name)) as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (number,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
