"""Every task port on dictionaries. Each verb builds its outcome aside and applies it at once.

No verb awaits in the middle, so on one event loop each is a critical section by itself. Journals
are kept as the encoded text of their entries: what SQL could not store is refused here too.
"""

from collections.abc import Callable, Collection, Sequence

import msgspec
from msgspec import Struct, structs

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.change import TaskChange, snapshot_after, task_after
from aegis.domain.claim import Claim
from aegis.domain.ending import Lost, end_task
from aegis.domain.entry import CallFinished, Entry, JournalEntry, TaskCreated
from aegis.domain.errors import (
    CapacityExhausted,
    Gone,
    IdempotencyKeyReused,
    InvalidRequest,
    LostClaim,
    NotFound,
    QueueFull,
    StoreUnavailable,
)
from aegis.domain.evidence import Evidence
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot, fold
from aegis.domain.state import CLAIMABLE_STATES, TERMINAL_STATES, TaskState
from aegis.domain.taking import (
    cancel_change,
    cancelled,
    claimed,
    expiry_reason,
    release_change,
    released,
)
from aegis.domain.task import FORMAT_VERSION, Task
from aegis.domain.text import is_storable, is_storable_json
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.task_repository import Added, Cancelled, IdempotencyKey, NewTask
from aegis.ports.task_views import QueueCounts, TaskFilter

PRUNED_AT_ONCE_MAX = 32
EXPIRED_AT_ONCE_MAX = 100
TOMBSTONES_PER_STORED = 10
LAST_ID = "\U0010ffff"

OnCommit = Callable[[Task], None]


class _Row(Struct, frozen=True, kw_only=True):
    """A task with its lease, journal and evidence: replaced as a whole, never changed."""

    task: Task
    agent: AgentSpec
    journal: tuple[JournalEntry, ...]
    evidence: tuple[Evidence, ...] = ()
    owner: str | None = None
    lease_expires_at: Micros | None = None
    renewed_at: Micros | None = None

    @property
    def snapshot(self) -> TaskSnapshot:
        """The whole journal, folded."""
        return fold(self.task, self.agent, self.journal, self.evidence)


class _Key(Struct, frozen=True, kw_only=True):
    body_hash: str
    task: Task
    expires_at: Micros


class LateFact(Struct, frozen=True, kw_only=True):
    """A write's result that came after the claim was lost."""

    task_id: str
    change_id: str
    entry: CallFinished
    evidence: Evidence | None


class MemoryStore:
    """`TaskRepository`, `TaskLeases`, `TaskViews` and `Blobs` without a file. One process only."""

    def __init__(
        self, *, clock: Clock, ids: Ids, limits: ServerLimits, on_commit: OnCommit
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._on_commit = on_commit
        self._rows: dict[str, _Row] = {}
        self._keys: dict[tuple[str, str, str, str], _Key] = {}
        self._blobs: dict[tuple[str, str], bytes] = {}
        self._tombstones: dict[str, Principal] = {}
        self._evidence_ids: set[str] = set()
        self._largest_now: Micros = 0
        self.late_facts: list[LateFact] = []

    async def open(self) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""

    async def ping(self) -> None:
        """Memory takes writes as long as the process lives."""

    async def add(self, new: NewTask, key: IdempotencyKey | None) -> Added:
        """See `TaskRepository.add`."""
        now, task = self._now(), new.task
        place = key and (task.principal.tenant, task.principal.subject, key.route, key.key)
        if key is not None and place is not None:
            kept = self._keys.get(place)
            if kept is not None and kept.expires_at > now:
                if kept.body_hash != key.body_hash:
                    raise IdempotencyKeyReused("this Idempotency-Key was used with another body")
                return Added(task=kept.task, replayed=True)
        if task.id in self._rows:
            raise StoreUnavailable("a task of this id exists already")
        pruned = self._admit(now)
        if not is_storable(task.prompt) or (key is not None and not is_storable(key.key)):
            raise InvalidRequest("the text holds a NUL or a lone surrogate, which cannot be stored")
        self._prune(pruned)
        journal = _appended(task.id, (), (TaskCreated(),), now)
        self._rows[task.id] = _Row(task=task, agent=new.agent, journal=journal)
        if key is not None and place is not None:
            self._keys[place] = _Key(body_hash=key.body_hash, task=task, expires_at=key.expires_at)
        self._on_commit(task)
        return Added(task=task)

    async def load(self, claim: Claim) -> TaskSnapshot:
        """See `TaskRepository.load`."""
        row = self._rows.get(claim.task_id)
        if row is None or not _holds(row, claim):
            raise LostClaim("the claim on the task no longer holds")
        return row.snapshot

    async def commit(self, claim: Claim, change: TaskChange) -> TaskSnapshot:
        """See `TaskRepository.commit`."""
        now = self._now()
        row = self._rows.get(claim.task_id)
        task = task_after(change, now)
        after = snapshot_after(change, task)
        if row is None or not self._may_commit(row, claim, change, now):
            if row is not None and _is_what_was_written(row.task, change):
                return snapshot_after(change, row.task)
            self._keep_late_facts(change, after)
            raise LostClaim("the claim on the task no longer holds")
        self._write(row, task, change.entries, change.evidence)
        return after

    async def cancel(self, principal: Principal, task_id: str) -> Cancelled:
        """See `TaskRepository.cancel`."""
        row = self._mine(principal, task_id)
        if row.task.state in TERMINAL_STATES:
            return Cancelled(outcome="already_terminal", snapshot=row.snapshot)
        change = cancel_change(row.snapshot, principal.subject, self._ids.random())
        task = cancelled(change, self._now())
        self._write(row, task, change.entries, ())
        return Cancelled(outcome="cancelled", snapshot=snapshot_after(change, task))

    async def claim(
        self, owner: str, lease_micros: Micros, agents: Collection[str], task_id: str | None
    ) -> Claim | None:
        """See `TaskLeases.claim`."""
        send_deadline = self._clock.boottime() + lease_micros
        now = self._now()
        row = self._due(now, agents, task_id)
        if row is None:
            return None
        renewed_at = row.renewed_at if row.renewed_at is not None else now
        snapshot, entry = claimed(row.snapshot, now, renewed_at)
        expires_at = now + lease_micros
        leased = structs.replace(row, owner=owner, lease_expires_at=expires_at, renewed_at=now)
        self._write(leased, snapshot.task, (entry,), ())
        return Claim(
            task_id=snapshot.task.id,
            epoch=snapshot.task.epoch,
            owner=owner,
            lease_expires_at=expires_at,
            send_deadline=send_deadline,
        )

    async def renew(self, claims: Sequence[Claim], lease_micros: Micros) -> Sequence[Claim | None]:
        """See `TaskLeases.renew`."""
        send_deadline = self._clock.boottime() + lease_micros
        now = self._now()
        renewed: list[Claim | None] = []
        for claim in claims:
            row = self._rows.get(claim.task_id)
            if row is None or not _holds(row, claim) or (row.lease_expires_at or 0) <= now:
                renewed.append(None)
                continue
            self._rows[claim.task_id] = structs.replace(
                row, lease_expires_at=now + lease_micros, renewed_at=now
            )
            renewed.append(
                structs.replace(
                    claim, lease_expires_at=now + lease_micros, send_deadline=send_deadline
                )
            )
        return renewed

    async def release(self, claim: Claim) -> None:
        """See `TaskLeases.release`."""
        row = self._rows.get(claim.task_id)
        if row is None or not _holds(row, claim):
            raise LostClaim("the claim on the task no longer holds")
        change = release_change(row.snapshot, self._ids.random(), self._limits.handovers_max)
        self._write(row, released(change, self._now()), change.entries, ())

    async def expire_due(self) -> Sequence[str]:
        """See `TaskLeases.expire_due`."""
        now = self._now()
        due = [row for row in self._rows.values() if self._is_expired(row, now)]
        due.sort(key=_claim_order)
        ended: list[str] = []
        for row in due[:EXPIRED_AT_ONCE_MAX]:
            change = end_task(
                row.snapshot,
                Lost(reason=expiry_reason(row.task.state)),
                change_id=self._ids.random(),
            )
            self._write(row, task_after(change, now), change.entries, ())
            ended.append(row.task.id)
        return ended

    async def get(self, principal: Principal, task_id: str) -> TaskSnapshot:
        """See `TaskViews.get`."""
        return self._mine(principal, task_id).snapshot

    async def list(self, principal: Principal, chosen: TaskFilter) -> Sequence[Task]:
        """See `TaskViews.list`."""
        before = chosen.before if chosen.before is not None else LAST_ID
        mine = [
            row.task
            for row in self._rows.values()
            if _belongs(row.task.principal, principal)
            and row.task.id < before
            and chosen.state in {None, row.task.state}
            and chosen.agent in {None, row.task.agent}
        ]
        mine.sort(key=lambda task: task.id, reverse=True)
        return mine[: chosen.count_max]

    async def entries(
        self, principal: Principal, task_id: str, after_seq: int, count_max: int
    ) -> Sequence[JournalEntry]:
        """See `TaskViews.entries`."""
        journal = self._mine(principal, task_id).journal
        return journal[max(0, after_seq) : max(0, after_seq) + count_max]

    async def evidence(self, principal: Principal, evidence_id: str) -> Evidence:
        """See `TaskViews.evidence`."""
        for row in self._rows.values():
            for item in row.evidence:
                if item.id == evidence_id and _belongs(row.task.principal, principal):
                    return item
        raise NotFound("there is no such evidence")

    async def counts(self) -> QueueCounts:
        """See `TaskViews.counts`."""
        now = self._clock.now()
        by_state: dict[TaskState, int] = {}
        for row in self._rows.values():
            by_state[row.task.state] = by_state.get(row.task.state, 0) + 1
        pending = [
            row.task.created_at
            for row in self._rows.values()
            if row.task.state is TaskState.PENDING
        ]
        lapsed = [
            row.lease_expires_at
            for row in self._rows.values()
            if row.task.state is TaskState.RUNNING
            and row.lease_expires_at is not None
            and row.lease_expires_at <= now
        ]
        return QueueCounts(
            by_state=by_state,
            oldest_pending_at=min(pending, default=None),
            oldest_expired_lease_at=min(lapsed, default=None),
        )

    async def put(self, tenant: str, content: bytes) -> str:
        """See `Blobs.put`."""
        digest = sha256_hex(content)
        self._blobs[tenant, digest] = content
        return digest

    async def fetch(self, tenant: str, digest: str) -> bytes:
        """See `Blobs.fetch`."""
        content = self._blobs.get((tenant, digest))
        if content is None:
            raise NotFound("there is no such content")
        return content

    def _now(self) -> Micros:
        self._largest_now = max(self._clock.now(), self._largest_now)
        return self._largest_now

    def _write(
        self, row: _Row, task: Task, entries: Sequence[Entry], evidence: Sequence[Evidence]
    ) -> None:
        """Build the new row aside and swap it in: the only place where a task changes."""
        for item in evidence:
            _check_storable(item)
            if item.id in self._evidence_ids:
                raise StoreUnavailable("evidence of this id exists already")
        new = structs.replace(
            row,
            task=task,
            journal=_appended(task.id, row.journal, entries, self._largest_now),
            evidence=(*row.evidence, *evidence),
        )
        self._rows[task.id] = new
        self._evidence_ids.update(item.id for item in evidence)
        self._on_commit(task)

    def _may_commit(self, row: _Row, claim: Claim, change: TaskChange, now: Micros) -> bool:
        leased = not change.needs_lease or (row.lease_expires_at or 0) > now
        same = (row.task.id, row.task.version) == (change.base.task.id, change.base.task.version)
        return _holds(row, claim) and same and leased

    def _keep_late_facts(self, change: TaskChange, after: TaskSnapshot) -> None:
        writes = {record.call.id for record in after.calls if record.call.effect is Effect.WRITE}
        evidence = {item.id: item for item in change.evidence}
        known = {(fact.task_id, fact.entry.call_id, fact.change_id) for fact in self.late_facts}
        self.late_facts += [
            LateFact(
                task_id=change.base.task.id,
                change_id=change.id,
                entry=entry,
                evidence=evidence.get(entry.evidence_id or ""),
            )
            for entry in change.entries
            if isinstance(entry, CallFinished)
            and entry.call_id in writes
            and (change.base.task.id, entry.call_id, change.id) not in known
        ]

    def _due(self, now: Micros, agents: Collection[str], task_id: str | None) -> _Row | None:
        if task_id is not None:
            row = self._rows.get(task_id)
            return row if row is not None and self._is_due(row, now, agents) else None
        due = [row for row in self._rows.values() if self._is_due(row, now, agents)]
        return min(due, key=_claim_order, default=None)

    def _is_due(self, row: _Row, now: Micros, agents: Collection[str]) -> bool:
        task = row.task
        if task.agent not in agents or task.format_version > FORMAT_VERSION:
            return False
        if task.state in CLAIMABLE_STATES:
            return True
        return (
            task.state is TaskState.RUNNING
            and (row.lease_expires_at or 0) <= now
            and task.attempt < self._limits.attempts_max
        )

    def _is_expired(self, row: _Row, now: Micros) -> bool:
        task = row.task
        if task.state is TaskState.RUNNING:
            return (row.lease_expires_at or 0) <= now and task.attempt >= self._limits.attempts_max
        aged = task.created_at <= now - self._limits.age_micros_max
        return task.state in CLAIMABLE_STATES and aged

    def _mine(self, principal: Principal, task_id: str) -> _Row:
        row = self._rows.get(task_id)
        if row is not None and _belongs(row.task.principal, principal):
            return row
        owner = self._tombstones.get(task_id)
        if owner is not None and _belongs(owner, principal):
            raise Gone("the task was pruned by retention")
        raise NotFound("there is no such task")

    def _admit(self, now: Micros) -> Sequence[str]:
        """Return the ids that are to be pruned for one more task; nothing is changed yet."""
        pending = sum(row.task.state is TaskState.PENDING for row in self._rows.values())
        if pending >= self._limits.pending_max:
            raise QueueFull(
                f"{self._limits.pending_max} tasks are pending already; try again later"
            )
        if len(self._rows) < self._limits.stored_max:
            return []
        prunable = self._prunable(now)
        if len(self._rows) - len(prunable) >= self._limits.stored_max:
            raise CapacityExhausted(
                f"{self._limits.stored_max} tasks are stored and none may be pruned yet; try again"
                " later"
            )
        return prunable

    def _prunable(self, now: Micros) -> Sequence[str]:
        promised = {key.task.id for key in self._keys.values() if key.expires_at > now}
        prunable = sorted(
            row.task.id
            for row in self._rows.values()
            if row.task.state in TERMINAL_STATES
            and row.task.id not in promised
            and all(record.state is not CallState.IN_DOUBT for record in row.snapshot.calls)
        )
        return prunable[:PRUNED_AT_ONCE_MAX]

    def _prune(self, task_ids: Sequence[str]) -> None:
        if task_ids:
            gone = set(task_ids)
            self.late_facts = [fact for fact in self.late_facts if fact.task_id not in gone]
        for task_id in task_ids:
            row = self._rows.pop(task_id)
            self._tombstones[task_id] = row.task.principal
            self._evidence_ids.difference_update(item.id for item in row.evidence)
        while len(self._tombstones) > TOMBSTONES_PER_STORED * self._limits.stored_max:
            self._tombstones.pop(next(iter(self._tombstones)))


def _is_what_was_written(stored: Task, change: TaskChange) -> bool:
    """Whether `stored` is the very row that `change` made, and nobody has written since."""
    base = change.base.task
    return (stored.id, stored.last_change_id, stored.version) == (
        base.id,
        change.id,
        base.version + 1,
    )


def _holds(row: _Row, claim: Claim) -> bool:
    return row.task.epoch == claim.epoch and row.task.state is TaskState.RUNNING


def _belongs(owner: Principal, principal: Principal) -> bool:
    return (owner.tenant, owner.subject) == (principal.tenant, principal.subject)


def _claim_order(row: _Row) -> tuple[bool, Micros, str]:
    """Sort a lapsed lease first, the one that lapsed longest ago; then the oldest task."""
    lapsed = row.task.state is TaskState.RUNNING
    return (not lapsed, (row.lease_expires_at or 0) if lapsed else 0, row.task.id)


def _appended(
    task_id: str, journal: tuple[JournalEntry, ...], entries: Sequence[Entry], at: Micros
) -> tuple[JournalEntry, ...]:
    added = [
        JournalEntry(task_id=task_id, seq=len(journal) + index, at=at, entry=entry)
        for index, entry in enumerate(entries, start=1)
    ]
    for item in added:
        _check_storable(item.entry)
    return (*journal, *added)


def _check_storable(record: Entry | Evidence) -> None:
    try:
        text = msgspec.json.encode(record).decode()
    except (UnicodeError, ValueError) as error:
        raise InvalidRequest("the record holds text that cannot be stored") from error
    if not is_storable_json(text):
        raise InvalidRequest("the record holds a NUL, which cannot be stored")
