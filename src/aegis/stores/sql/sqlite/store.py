"""The SQLite store: every task port on one file, one writer thread and one reader thread."""

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from msgspec import Struct

from aegis.domain.canonical import sha256_hex
from aegis.domain.change import TaskChange
from aegis.domain.claim import Claim
from aegis.domain.entry import JournalEntry
from aegis.domain.errors import NotFound, StoreUnavailable
from aegis.domain.evidence import Evidence
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.task import Task
from aegis.domain.text import is_storable
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.task_repository import Added, Cancelled, IdempotencyKey, NewTask
from aegis.ports.task_views import QueueCounts, TaskFilter
from aegis.stores.sql.sqlite import changing, leasing, reading
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.connection import open_reader, open_writer
from aegis.stores.sql.sqlite.journal import Agents
from aegis.stores.sql.sqlite.lane import Lane
from aegis.stores.sql.sqlite.writer import Batch, GroupCommit

JOBS_MAX = 4096
"""Changes that may wait for the writer; further callers wait for a place."""

OnCommit = Callable[[Task], None]
"""Told on the event loop of each task row after its commit: the source of every hint."""


class SqliteSettings(Struct, frozen=True, kw_only=True):
    """Where the database is and how it is synced. `synchronous` is FULL or NORMAL.

    NORMAL survives a killed process and may lose the last commits at a power loss.
    """

    path: Path
    synchronous: str = "FULL"


class SqliteStore:
    """`TaskRepository`, `TaskLeases`, `TaskViews` and `Blobs` on one SQLite file.

    Several processes may share the file; it must be on a local disk.
    """

    def __init__(
        self,
        settings: SqliteSettings,
        *,
        clock: Clock,
        ids: Ids,
        limits: ServerLimits,
        on_commit: OnCommit,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._on_commit = on_commit
        self._known_agents: set[tuple[str, str]] = set()
        self._writer_agents = Agents()
        self._reader_agents = Agents()
        self._claimed: dict[tuple[str, int], TaskSnapshot] = {}
        self._agents_asked: tuple[Collection[str], str] = ((), "[]")
        self._connections: list[sqlite3.Connection] = []
        self._writer: Lane[Batch] | None = None
        self._reader: Lane[Batch] | None = None

    async def open(self) -> None:
        """Open the file and start the threads. Raises `ConfigurationError`, `StoreUnavailable`."""
        path = self._settings.path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable("the folder of the database cannot be made") from error
        writer = open_writer(path, self._settings.synchronous)
        reader = open_reader(path)
        self._connections = [writer, reader]
        group = GroupCommit(writer, self._clock)
        self._writer = Lane("aegis-sqlite-writer", group.process, JOBS_MAX)
        self._reader = Lane("aegis-sqlite-reader", reading.Reading(reader).process, JOBS_MAX)

    async def close(self) -> None:
        """Finish what was submitted, end the threads and close the file. Safe to call twice."""
        for lane in (self._writer, self._reader):
            if lane is not None:
                await lane.close()
        self._writer = self._reader = None
        for connection in reversed(self._connections):
            connection.close()
        self._connections = []

    @property
    def _writing(self) -> Lane[Batch]:
        if self._writer is None:
            raise StoreUnavailable("the store is not open")
        return self._writer

    @property
    def _reads(self) -> Lane[Batch]:
        if self._reader is None:
            raise StoreUnavailable("the store is not open")
        return self._reader

    async def add(self, new: NewTask, key: IdempotencyKey | None) -> Added:
        """See `TaskRepository.add`."""
        added = await self._writing.submit(
            lambda batch: changing.add(batch, new, key, self._limits, self._known_agents)
        )
        if not added.replayed:
            self._known_agents.add((new.task.principal.tenant, new.task.agent_digest))
            self._on_commit(added.task)
        return added

    async def load(self, claim: Claim) -> TaskSnapshot:
        """See `TaskRepository.load`. What the claim itself has just read is not read again."""
        snapshot = self._claimed.pop((claim.task_id, claim.epoch), None)
        if snapshot is not None:
            return snapshot
        return await self._reads.submit(
            lambda batch: reading.claimed(batch, self._reader_agents, claim)
        )

    async def commit(self, claim: Claim, change: TaskChange) -> TaskSnapshot:
        """See `TaskRepository.commit`."""
        snapshot = await self._writing.submit(lambda batch: changing.commit(batch, claim, change))
        self._on_commit(snapshot.task)
        return snapshot

    async def cancel(self, principal: Principal, task_id: str) -> Cancelled:
        """See `TaskRepository.cancel`."""
        task_id = _storable_id(task_id)
        change_id = self._ids.random()
        cancelled = await self._writing.submit(
            lambda batch: changing.cancel(batch, self._writer_agents, principal, task_id, change_id)
        )
        if cancelled.outcome == "cancelled":
            self._claimed.pop((task_id, cancelled.snapshot.task.epoch - 1), None)
            self._on_commit(cancelled.snapshot.task)
        return cancelled

    async def claim(
        self, owner: str, lease_micros: Micros, agents: Collection[str], task_id: str | None
    ) -> Claim | None:
        """See `TaskLeases.claim`."""
        wanted = leasing.Wanted(
            owner=owner,
            lease_micros=lease_micros,
            agents=self._names(agents),
            task_id=task_id,
            send_deadline=self._clock.boottime() + lease_micros,
        )
        found = await self._writing.submit(
            lambda batch: leasing.claim(batch, self._writer_agents, wanted, self._limits)
        )
        if found is None:
            return None
        claim, snapshot = found
        self._claimed[claim.task_id, claim.epoch] = snapshot
        self._on_commit(snapshot.task)
        return claim

    def _names(self, agents: Collection[str]) -> str:
        if self._agents_asked[0] is not agents:
            self._agents_asked = (agents, json.dumps(sorted(agents)))
        return self._agents_asked[1]

    async def renew(self, claims: Sequence[Claim], lease_micros: Micros) -> Sequence[Claim | None]:
        """See `TaskLeases.renew`; it goes before everything that waits."""
        send_deadline = self._clock.boottime() + lease_micros
        return await self._writing.submit(
            lambda batch: leasing.renew(batch, claims, lease_micros, send_deadline), urgent=True
        )

    async def release(self, claim: Claim) -> None:
        """See `TaskLeases.release`."""
        self._claimed.pop((claim.task_id, claim.epoch), None)
        change_id = self._ids.random()
        task = await self._writing.submit(
            lambda batch: leasing.release(
                batch, self._writer_agents, claim, change_id, self._limits
            )
        )
        self._on_commit(task)

    async def expire_due(self) -> Sequence[str]:
        """See `TaskLeases.expire_due`."""
        change_ids = [self._ids.random() for _ in range(leasing.EXPIRED_AT_ONCE_MAX)]
        ended = await self._writing.submit(
            lambda batch: leasing.expire_due(batch, self._writer_agents, change_ids, self._limits)
        )
        for task in ended:
            self._on_commit(task)
        return [task.id for task in ended]

    async def get(self, principal: Principal, task_id: str) -> TaskSnapshot:
        """See `TaskViews.get`."""
        task_id = _storable_id(task_id)
        return await self._reads.submit(
            lambda batch: reading.get(batch, self._reader_agents, principal, task_id)
        )

    async def list(self, principal: Principal, chosen: TaskFilter) -> Sequence[Task]:
        """See `TaskViews.list`."""
        return await self._reads.submit(lambda batch: reading.listed(batch, principal, chosen))

    async def entries(
        self, principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        """See `TaskViews.entries`."""
        task_id = _storable_id(task_id)
        return await self._reads.submit(
            lambda batch: reading.entries(batch, principal, task_id, after_seq, count_max)
        )

    async def evidence(self, principal: Principal, evidence_id: str) -> Evidence:
        """See `TaskViews.evidence`."""
        evidence_id = _storable_id(evidence_id)
        return await self._reads.submit(
            lambda batch: reading.evidence(batch, principal, evidence_id)
        )

    async def counts(self) -> QueueCounts:
        """See `TaskViews.counts`."""
        now = self._clock.now()
        return await self._reads.submit(lambda batch: reading.counts(batch, now))

    async def put(self, tenant: str, content: bytes) -> str:
        """See `Blobs.put`."""
        digest = sha256_hex(content)
        await self._writing.submit(
            lambda batch: batch.insert(
                sql.BLOB_INSERT,
                [{"tenant": tenant, "digest": digest, "body": content, "touched_at": batch.now}],
            )
        )
        return digest

    async def fetch(self, tenant: str, digest: str) -> bytes:
        """See `Blobs.fetch`."""
        digest = _storable_id(digest)
        rows = await self._reads.submit(
            lambda batch: batch.rows(sql.BLOB_READ, {"tenant": tenant, "digest": digest})
        )
        if not rows:
            raise NotFound("there is no such content")
        return bytes(rows[0][0])  # pyright: ignore[reportArgumentType] - a BLOB column

    async def ping(self) -> None:
        """Write nothing, durably: raises `StoreUnavailable` unless the store takes writes."""
        await self._writing.submit(lambda _batch: None)


def _storable_id(text: str) -> str:
    """Return an id that SQLite can look for. Raises `NotFound` for one that cannot exist."""
    if not is_storable(text):
        raise NotFound("there is nothing of this id")
    return text
