"""The verbs of `TaskViews`, and `load`, as functions of one read transaction."""

import sqlite3
from collections.abc import Sequence

from aegis.domain.claim import Claim
from aegis.domain.entry import JournalEntry
from aegis.domain.errors import LostClaim, NotFound, StoreUnavailable
from aegis.domain.evidence import Evidence
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.ports.task_views import QueueCounts, TaskFilter
from aegis.stores.sql import codec
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.changing import missing
from aegis.stores.sql.sqlite.journal import Agents, read_entries, read_snapshot
from aegis.stores.sql.sqlite.lane import Job
from aegis.stores.sql.sqlite.writer import Batch, Ledger

LAST_ID = "\U0010ffff"
"""Sorts after every id."""


class Reading:
    """Runs read jobs, each in a transaction of its own, on the reader thread."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._batch = Batch(connection, Ledger(0, 0, 0, 0), 0)

    def process(self, jobs: Sequence[Job[Batch, object]]) -> None:
        """Give every job its value or its error."""
        for job in jobs:
            try:
                self._batch.connection.execute("BEGIN")
                try:
                    job.value = job.run(self._batch)
                finally:
                    self._batch.connection.execute("COMMIT")
            except sqlite3.Error as error:
                name = getattr(error, "sqlite_errorname", type(error).__name__)
                job.error = StoreUnavailable(f"the SQLite store could not read: {name}")
            except Exception as error:  # noqa: BLE001 - whatever one read raises is its own caller's
                job.error = error


def claimed(batch: Batch, agents: Agents, claim: Claim) -> TaskSnapshot:
    """See `TaskRepository.load`."""
    rows = batch.rows(sql.TASK_READ_CLAIMED, {"task_id": claim.task_id, "claim_epoch": claim.epoch})
    if not rows:
        raise LostClaim("the claim on the task no longer holds")
    return read_snapshot(batch, agents, codec.task_from_row(rows[0]))


def get(batch: Batch, agents: Agents, principal: Principal, task_id: str) -> TaskSnapshot:
    """See `TaskViews.get`."""
    return read_snapshot(batch, agents, _mine(batch, principal, task_id))


def listed(batch: Batch, principal: Principal, chosen: TaskFilter) -> list[Task]:
    """See `TaskViews.list`."""
    rows = batch.rows(
        sql.TASK_LIST,
        {
            "tenant": principal.tenant,
            "subject": principal.subject,
            "before": chosen.before if chosen.before is not None else LAST_ID,
            "state": chosen.state.value if chosen.state is not None else None,
            "agent": chosen.agent,
            "count_max": chosen.count_max,
        },
    )
    return [codec.task_from_row(row) for row in rows]


def entries(
    batch: Batch, principal: Principal, task_id: str, after_seq: int, count_max: int
) -> list[JournalEntry]:
    """See `TaskViews.entries`."""
    _mine(batch, principal, task_id)
    return read_entries(batch, task_id, after_seq, count_max)


def evidence(batch: Batch, principal: Principal, evidence_id: str) -> Evidence:
    """See `TaskViews.evidence`."""
    rows = batch.rows(
        sql.EVIDENCE_READ_MINE,
        {
            "evidence_id": evidence_id,
            "tenant": principal.tenant,
            "subject": principal.subject,
        },
    )
    if not rows:
        raise NotFound("there is no such evidence")
    return codec.evidence_from_text(str(rows[0][0]))


def counts(batch: Batch, now: Micros) -> QueueCounts:
    """See `TaskViews.counts`."""
    by_state = {TaskState(str(row[0])): int(str(row[1])) for row in batch.rows(sql.TASK_COUNTS, {})}
    return QueueCounts(
        by_state=by_state,
        oldest_pending_at=_moment(batch, sql.OLDEST_PENDING, now),
        oldest_expired_lease_at=_moment(batch, sql.OLDEST_LAPSED, now),
    )


def _moment(batch: Batch, statement: str, now: Micros) -> Micros | None:
    value = batch.rows(statement, {"now": now})[0][0]
    return value if isinstance(value, int) else None


def _mine(batch: Batch, principal: Principal, task_id: str) -> Task:
    params: dict[str, object] = {
        "task_id": task_id,
        "tenant": principal.tenant,
        "subject": principal.subject,
    }
    rows = batch.rows(sql.TASK_READ_MINE, params)
    if not rows:
        raise missing(batch, params)
    return codec.task_from_row(rows[0])
