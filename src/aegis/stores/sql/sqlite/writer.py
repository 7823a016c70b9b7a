"""Group commit: many changes in one transaction, each failing alone (06, rule 9)."""

import sqlite3
from collections.abc import Callable, Sequence

from aegis.domain.errors import AegisError, StoreUnavailable
from aegis.domain.micros import Micros
from aegis.ports.clock import Clock
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.lane import Job

BUSY_RETRIES_MAX = 5


class Ledger:
    """The counters of the store within one batch: read at its start, written at its end."""

    __slots__ = ("clock", "pending", "pruned", "stored")

    def __init__(self, pending: int, stored: int, pruned: int, clock: Micros) -> None:
        self.pending = pending
        self.stored = stored
        self.pruned = pruned
        self.clock = clock


class Batch:
    """What one change works with: the connection, the counters, and one time for the batch.

    `now` was read after BEGIN IMMEDIATE and is never below the largest time that any writer of
    this database has seen (06, rule 18).
    """

    __slots__ = ("connection", "ledger", "now")

    def __init__(self, connection: sqlite3.Connection, ledger: Ledger, now: Micros) -> None:
        self.connection = connection
        self.ledger = ledger
        self.now = now

    def rows(self, statement: str, params: dict[str, object]) -> list[tuple[object, ...]]:
        """Run `statement` and return all its rows."""
        return self.connection.execute(statement, params).fetchall()

    def count(self, statement: str, params: dict[str, object]) -> int:
        """Run `statement` and return how many rows it changed."""
        return self.connection.execute(statement, params).rowcount

    def insert(self, statement: str, rows: Sequence[dict[str, object]]) -> None:
        """Run `statement` once for each of `rows`."""
        if len(rows) == 1:
            self.connection.execute(statement, rows[0])
        elif rows:
            self.connection.executemany(statement, rows)


WriteJob = Job[Batch, object]


class GroupCommit:
    """Runs batches on the writer connection. Lives on the writer thread alone."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def process(self, jobs: Sequence[WriteJob]) -> None:
        """Give every job its value or its error. Nothing is told before COMMIT has returned.

        The hot path takes no savepoints: should any change fail, the whole transaction is rolled
        back and run again with a savepoint for each change, so that only the failing one fails.
        """
        for attempt in range(BUSY_RETRIES_MAX):
            try:
                if not self._run(jobs, self._plain):
                    self._run(jobs, self._guarded)
            except sqlite3.OperationalError as error:
                self._roll_back()
                if _is_busy(error) and attempt < BUSY_RETRIES_MAX - 1:
                    continue
                _fail_all(jobs, error)
            except sqlite3.Error as error:
                self._roll_back()
                _fail_all(jobs, error)
            return

    def _run(
        self, jobs: Sequence[WriteJob], each: Callable[[Batch, Sequence[WriteJob]], bool]
    ) -> bool:
        """Run one transaction. False: a change failed and everything was rolled back."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        row = connection.execute(sql.LEDGER_READ).fetchone()
        ledger = Ledger(*row)
        now = max(self._clock.now(), ledger.clock)
        batch = Batch(connection, ledger, now)
        if not each(batch, jobs):
            connection.execute("ROLLBACK")
            return False
        connection.execute(
            sql.LEDGER_WRITE,
            {
                "pending": ledger.pending,
                "stored": ledger.stored,
                "pruned": ledger.pruned,
                "clock": now,
            },
        )
        connection.execute("COMMIT")
        return True

    def _plain(self, batch: Batch, jobs: Sequence[WriteJob]) -> bool:
        for job in jobs:
            job.error = None
            try:
                job.value = job.run(batch)
            except sqlite3.OperationalError:
                # Busy, disk full, I/O: the engine is in trouble, not one change.
                raise
            except Exception:  # noqa: BLE001 - the guarded run gives this error to its own job alone
                return False
        return True

    def _guarded(self, batch: Batch, jobs: Sequence[WriteJob]) -> bool:
        connection, ledger = batch.connection, batch.ledger
        for job in jobs:
            before = (ledger.pending, ledger.stored, ledger.pruned)
            job.value, job.error = None, None
            connection.execute("SAVEPOINT one_change")
            try:
                job.value = job.run(batch)
            except Kept as kept:
                job.error = kept.error
            except Exception as error:  # whatever one change raises, its siblings commit
                if not connection.in_transaction:
                    # The engine ended the transaction by itself: every change is unknown.
                    raise
                job.error = _translated(error)
                connection.execute("ROLLBACK TO one_change")
                ledger.pending, ledger.stored, ledger.pruned = before
            connection.execute("RELEASE one_change")
        return True

    def _roll_back(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


class Kept(AegisError):
    """A change was refused, and what it wrote about the refusal is kept (late facts)."""

    def __init__(self, error: AegisError) -> None:
        super().__init__(str(error))
        self.error = error


def _translated(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        return StoreUnavailable(f"the SQLite store refused a change with {name}")
    return error


def _fail_all(jobs: Sequence[WriteJob], error: sqlite3.Error) -> None:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    for job in jobs:
        job.value = None
        job.error = StoreUnavailable(f"the SQLite store did not commit: {name}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return getattr(error, "sqlite_errorname", "").startswith("SQLITE_BUSY")
