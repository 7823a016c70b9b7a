"""The verbs of `TaskRepository` as functions of one batch: add, commit, cancel."""

from aegis.domain.change import TaskChange, snapshot_after, task_after
from aegis.domain.claim import Claim
from aegis.domain.entry import CallFinished, TaskCreated
from aegis.domain.errors import (
    CapacityExhausted,
    Gone,
    IdempotencyKeyReused,
    LostClaim,
    NotFound,
    QueueFull,
    StoreUnavailable,
)
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TERMINAL_STATES
from aegis.domain.taking import cancel_change
from aegis.domain.task import Task
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState
from aegis.ports.task_repository import Added, Cancelled, IdempotencyKey, NewTask
from aegis.stores.sql import codec
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.journal import Agents, append, change_params, read_snapshot
from aegis.stores.sql.sqlite.writer import Batch, Kept

PRUNED_AT_ONCE_MAX = 32
KEYS_FORGOTTEN_AT_ONCE_MAX = 32
TOMBSTONES_PER_STORED = 10


def add(
    batch: Batch,
    new: NewTask,
    key: IdempotencyKey | None,
    limits: ServerLimits,
    known: set[tuple[str, str]],
) -> Added:
    """See `TaskRepository.add`. `known` holds the agent blobs that are surely committed."""
    if key is not None:
        replayed = _replay(batch, new.task.principal, key)
        if replayed is not None:
            return replayed
    _admit(batch, limits)
    task = new.task
    batch.insert(sql.TASK_INSERT, [codec.task_params(task)])
    if (task.principal.tenant, task.agent_digest) not in known:
        digest, body = codec.agent_to_blob(new.agent)
        _put_blob(batch, task.principal.tenant, digest, body)
    append(batch, task.id, task.last_seq, (TaskCreated(),))
    if key is not None:
        _keep_key(batch, task, key)
    batch.ledger.pending += 1
    batch.ledger.stored += 1
    return Added(task=task)


def commit(batch: Batch, claim: Claim, change: TaskChange) -> TaskSnapshot:
    """See `TaskRepository.commit`."""
    base = change.base.task
    if claim.task_id != base.id:
        raise LostClaim("the claim is on another task")
    task = task_after(change, batch.now)
    after = snapshot_after(change, task)
    in_doubt = task.state in TERMINAL_STATES and has_doubt(after)
    params = change_params(
        task, base, len(change.entries), change.id, in_doubt=in_doubt, now=batch.now
    )
    params["claim_epoch"] = claim.epoch
    statement = sql.COMMIT_LEASED_CHANGE if change.needs_lease else sql.COMMIT_CHANGE
    rows = batch.rows(statement, params)
    if not rows:
        return _explain_lost(batch, change, after)
    last_seq = rows[0][0]
    if last_seq != task.last_seq:
        raise StoreUnavailable("the journal and its counter disagree; the change was not written")
    append(
        batch,
        task.id,
        task.last_seq,
        change.entries,
        change.evidence,
        first_ordinal=len(change.base.evidence),
    )
    return after


def cancel(
    batch: Batch, agents: Agents, principal: Principal, task_id: str, change_id: str
) -> Cancelled:
    """See `TaskRepository.cancel`: the first UPDATE decides, everything else follows from it."""
    mine: dict[str, object] = {
        "task_id": task_id,
        "tenant": principal.tenant,
        "subject": principal.subject,
    }
    before = batch.rows(sql.TASK_READ_MINE, mine)
    rows = batch.rows(sql.CANCEL_GATE, {**mine, "now": batch.now, "change_id": change_id})
    if not rows:
        if not before:
            raise missing(batch, mine)
        ended = codec.task_from_row(before[0])
        return Cancelled(outcome="already_terminal", snapshot=read_snapshot(batch, agents, ended))
    base = read_snapshot(batch, agents, codec.task_from_row(before[0]))
    change = cancel_change(base, principal.subject, change_id)
    after = snapshot_after(change, codec.task_from_row(rows[0]))
    append(batch, task_id, after.task.last_seq, change.entries)
    count_left(batch, base.task)
    return Cancelled(outcome="cancelled", snapshot=after)


def count_left(batch: Batch, before: Task) -> None:
    """Count a task that leaves PENDING: it is the only state that no claim precedes."""
    if before.attempt == 0:
        batch.ledger.pending -= 1


def missing(batch: Batch, mine: dict[str, object]) -> NotFound | Gone:
    """Return the error for a task that a principal cannot see: pruned, foreign or never there."""
    if batch.rows(sql.TOMBSTONE_READ, mine):
        return Gone("the task was pruned by retention")
    return NotFound("there is no such task")


def has_doubt(snapshot: TaskSnapshot) -> bool:
    """Whether a write of the task has no known outcome: such a task is never pruned."""
    return any(record.state is CallState.IN_DOUBT for record in snapshot.calls)


def _explain_lost(batch: Batch, change: TaskChange, after: TaskSnapshot) -> TaskSnapshot:
    """Zero rows: either this very change did commit, or the claim is lost and facts are kept."""
    rows = batch.rows(sql.TASK_READ, {"task_id": change.base.task.id})
    if rows:
        stored = codec.task_from_row(rows[0])
        written = (change.id, change.base.task.version + 1)
        if (stored.last_change_id, stored.version) == written:
            return snapshot_after(change, stored)
    lost = LostClaim("the claim on the task no longer holds")
    kept = _keep_late_facts(batch, change, after)
    if kept:
        raise Kept(lost)
    raise lost


def _keep_late_facts(batch: Batch, change: TaskChange, after: TaskSnapshot) -> bool:
    writes = {record.call.id for record in after.calls if record.call.effect is Effect.WRITE}
    evidence = {item.id: item for item in change.evidence}
    rows: list[dict[str, object]] = [
        {
            "task_id": change.base.task.id,
            "call_id": entry.call_id,
            "change_id": change.id,
            "at": batch.now,
            "body": codec.encode([entry, evidence.get(entry.evidence_id or "")]),
        }
        for entry in change.entries
        if isinstance(entry, CallFinished) and entry.call_id in writes
    ]
    batch.insert(sql.LATE_FACT_INSERT, rows)
    return bool(rows)


def _replay(batch: Batch, principal: Principal, key: IdempotencyKey) -> Added | None:
    codec.storable(key.key)
    rows = batch.rows(
        sql.KEY_READ,
        {
            "tenant": principal.tenant,
            "subject": principal.subject,
            "route": key.route,
            "key": key.key,
        },
    )
    if not rows:
        return None
    body_hash, response, expires_at = rows[0]
    if int(str(expires_at)) <= batch.now:
        return None
    if body_hash != key.body_hash:
        raise IdempotencyKeyReused("this Idempotency-Key was used with another body")
    return Added(task=codec.task_from_text(str(response)), replayed=True)


def _keep_key(batch: Batch, task: Task, key: IdempotencyKey) -> None:
    batch.count(sql.KEYS_FORGET, {"now": batch.now, "count_max": KEYS_FORGOTTEN_AT_ONCE_MAX})
    batch.insert(
        sql.KEY_INSERT,
        [
            {
                "tenant": task.principal.tenant,
                "subject": task.principal.subject,
                "route": key.route,
                "key": key.key,
                "body_hash": key.body_hash,
                "task_id": task.id,
                "response": codec.encode(task),
                "expires_at": key.expires_at,
            }
        ],
    )


def _admit(batch: Batch, limits: ServerLimits) -> None:
    ledger = batch.ledger
    if ledger.pending >= limits.pending_max:
        raise QueueFull(f"{limits.pending_max} tasks are pending already; try again later")
    if ledger.stored < limits.stored_max:
        return
    _prune(batch, limits)
    if ledger.stored >= limits.stored_max:
        raise CapacityExhausted(
            f"{limits.stored_max} tasks are stored and none may be pruned yet; try again later"
        )


def _prune(batch: Batch, limits: ServerLimits) -> None:
    """Delete the oldest ended tasks, in a small batch, and leave tombstones."""
    ledger = batch.ledger
    rows = batch.rows(sql.PRUNE_FIND, {"now": batch.now, "count_max": PRUNED_AT_ONCE_MAX})
    ids: list[dict[str, object]] = [{"task_id": row[0]} for row in rows]
    for statement in (
        sql.PRUNE_ENTRIES,
        sql.PRUNE_EVIDENCE,
        sql.PRUNE_LATE_FACTS,
        sql.PRUNE_TASK,
    ):
        batch.insert(statement, ids)
    batch.insert(
        sql.TOMBSTONE_INSERT,
        [{"id": row[0], "tenant": row[1], "subject": row[2]} for row in rows],
    )
    ledger.stored -= len(rows)
    ledger.pruned += len(rows)
    excess = ledger.pruned - TOMBSTONES_PER_STORED * limits.stored_max
    if excess > 0:
        ledger.pruned -= batch.count(sql.TOMBSTONES_FORGET, {"count_max": excess})


def _put_blob(batch: Batch, tenant: str, digest: str, body: bytes) -> None:
    batch.insert(
        sql.BLOB_INSERT,
        [{"tenant": tenant, "digest": digest, "body": body, "touched_at": batch.now}],
    )
