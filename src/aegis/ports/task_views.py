"""Reading tasks: what a principal may see, as immutable records."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from aegis.domain.entry import JournalEntry
from aegis.domain.evidence import Evidence
from aegis.domain.principal import Principal
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task


class TaskFilter(Struct, frozen=True, kw_only=True):
    """Which tasks to list, newest first. `before` is the id that the last page ended with."""

    state: TaskState | None = None
    agent: str | None = None
    before: str | None = None
    count_max: int = 50


class QueueCounts(Struct, frozen=True, kw_only=True):
    """How many tasks stand in each state, over all tenants, and the oldest that waits."""

    by_state: dict[TaskState, int]
    oldest_pending_at: int | None
    oldest_expired_lease_at: int | None


class TaskViews(Protocol):
    """Reads. Foreign and missing look the same: `NotFound`. Pruned and mine: `Gone`."""

    async def get(self, principal: Principal, task_id: str) -> TaskSnapshot:
        """Return the task with its ledger and evidence."""
        ...

    async def list(self, principal: Principal, chosen: TaskFilter) -> Sequence[Task]:
        """Return up to `chosen.count_max` tasks, newest first."""
        ...

    async def entries(
        self, principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        """Return entries with seq > `after_seq`, in order, at most `count_max`."""
        ...

    async def evidence(self, principal: Principal, evidence_id: str) -> Evidence:
        """Return one piece of evidence."""
        ...

    async def counts(self) -> QueueCounts:
        """Return the queue as operators see it."""
        ...
