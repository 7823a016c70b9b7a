"""The verbs of `TaskLeases` as functions of one batch: claim, renew, release, expire."""

from collections.abc import Sequence

from msgspec import Struct

from aegis.domain.change import TaskChange, snapshot_after, task_after
from aegis.domain.claim import Claim
from aegis.domain.ending import Lost, end_task
from aegis.domain.errors import LostClaim
from aegis.domain.micros import Micros
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.taking import claimed, expiry_reason, release_change, released
from aegis.domain.task import FORMAT_VERSION, Task
from aegis.stores.sql import codec
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.changing import count_left, has_doubt
from aegis.stores.sql.sqlite.journal import Agents, append, change_params, read_snapshot
from aegis.stores.sql.sqlite.writer import Batch

EXPIRED_AT_ONCE_MAX = 100


class Wanted(Struct, frozen=True, kw_only=True):
    """A claim request. `agents` is a JSON array of names, `send_deadline` local boot time."""

    owner: str
    lease_micros: Micros
    agents: str
    task_id: str | None
    send_deadline: Micros


def claim(
    batch: Batch, agents: Agents, wanted: Wanted, limits: ServerLimits
) -> tuple[Claim, TaskSnapshot] | None:
    """See `TaskLeases.claim`. Also returns the snapshot that the claim made."""
    params: dict[str, object] = {
        "hint": wanted.task_id,
        "now": batch.now,
        "agents": wanted.agents,
        "attempts_max": limits.attempts_max,
        "format_version": FORMAT_VERSION,
    }
    rows = batch.rows(sql.CLAIM_FIND, params)
    if not rows:
        return None
    row = rows[0]
    before = codec.task_from_row(row)
    renewed_at = row[-1] if isinstance(row[-1], int) else batch.now
    snapshot, entry = claimed(_base(batch, agents, before), batch.now, renewed_at)
    task = snapshot.task
    expires_at = batch.now + wanted.lease_micros
    taken = batch.count(
        sql.CLAIM_TAKE,
        {
            "task_id": task.id,
            "base_epoch": before.epoch,
            "base_version": before.version,
            "attempt": task.attempt,
            "usage": codec.encode(task.usage),
            "now": batch.now,
            "running_micros": task.running_micros,
            "owner": wanted.owner,
            "expires_at": expires_at,
        },
    )
    if taken != 1:
        return None
    append(batch, task.id, task.last_seq, (entry,))
    if before.state is TaskState.PENDING:
        count_left(batch, before)
    made = Claim(
        task_id=task.id,
        epoch=task.epoch,
        owner=wanted.owner,
        lease_expires_at=expires_at,
        send_deadline=wanted.send_deadline,
    )
    return made, snapshot


def renew(
    batch: Batch, claims: Sequence[Claim], lease_micros: Micros, send_deadline: Micros
) -> list[Claim | None]:
    """See `TaskLeases.renew`."""
    expires_at = batch.now + lease_micros
    renewed: list[Claim | None] = []
    for held in claims:
        kept = batch.count(
            sql.RENEW,
            {
                "task_id": held.task_id,
                "claim_epoch": held.epoch,
                "now": batch.now,
                "expires_at": expires_at,
            },
        )
        renewed.append(
            Claim(
                task_id=held.task_id,
                epoch=held.epoch,
                owner=held.owner,
                lease_expires_at=expires_at,
                send_deadline=send_deadline,
            )
            if kept
            else None
        )
    return renewed


def release(
    batch: Batch, agents: Agents, held: Claim, change_id: str, limits: ServerLimits
) -> Task:
    """See `TaskLeases.release`."""
    rows = batch.rows(sql.TASK_READ_CLAIMED, {"task_id": held.task_id, "claim_epoch": held.epoch})
    if not rows:
        raise LostClaim("the claim on the task no longer holds")
    base = read_snapshot(batch, agents, codec.task_from_row(rows[0]))
    change = release_change(base, change_id, limits.handovers_max)
    task = released(change, batch.now)
    _write(batch, sql.COMMIT_CHANGE, change, task)
    return task


def expire_due(
    batch: Batch, agents: Agents, change_ids: Sequence[str], limits: ServerLimits
) -> list[Task]:
    """See `TaskLeases.expire_due`: at most one task for each of `change_ids`."""
    params: dict[str, object] = {
        "now": batch.now,
        "attempts_max": limits.attempts_max,
        "created_before": batch.now - limits.age_micros_max,
        "count_max": len(change_ids),
    }
    rows = batch.rows(sql.EXPIRE_FIND_LAPSED, params) + batch.rows(sql.EXPIRE_FIND_AGED, params)
    ended: list[Task] = []
    for row, change_id in zip(rows, change_ids, strict=False):
        before = codec.task_from_row(row)
        base = read_snapshot(batch, agents, before)
        change = end_task(base, Lost(reason=expiry_reason(before.state)), change_id=change_id)
        task = task_after(change, batch.now)
        if _write(batch, sql.EXPIRE_END, change, task):
            count_left(batch, before)
            ended.append(task)
    return ended


def _write(batch: Batch, statement: str, change: TaskChange, task: Task) -> bool:
    base = change.base.task
    doubt = has_doubt(snapshot_after(change, task))
    params = change_params(
        task, base, len(change.entries), change.id, in_doubt=doubt, now=batch.now
    )
    if not batch.rows(statement, params):
        return False
    append(batch, task.id, task.last_seq, change.entries)
    return True


def _base(batch: Batch, agents: Agents, task: Task) -> TaskSnapshot:
    if task.attempt == 0:
        # A task that nobody ran has the one entry of its creation, which folds to nothing.
        agent = agents.find(batch, task.principal.tenant, task.agent_digest)
        return TaskSnapshot(task=task, agent=agent)
    return read_snapshot(batch, agents, task)
