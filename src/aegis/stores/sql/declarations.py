"""The statements, declared with SQLAlchemy Core. Not imported at run time.

`scripts/generate-sql` compiles every name of `STATEMENTS` for each engine; a test compares.
"""

# pyright: basic
# SQLAlchemy leaves the type of a bind parameter open, so strict would say nothing but that.

from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam as p

from aegis.stores.sql.schema import (
    TERMINAL,
    blobs,
    entries,
    evidence,
    idempotency_keys,
    late_facts,
    ledger,
    pruned_tasks,
    tasks,
)

_c = tasks.c
TASK_COLUMNS = tuple(
    _c[name]
    for name in (
        "id",
        "tenant",
        "subject",
        "roles",
        "agent",
        "agent_digest",
        "prompt",
        "state",
        "reason",
        "output",
        "usage",
        "version",
        "epoch",
        "attempt",
        "handovers",
        "last_seq",
        "running_since",
        "running_micros",
        "created_at",
        "finished_at",
        "last_change_id",
        "format_version",
    )
)
_LEASE_COLUMNS = (_c.lease_expires_at, _c.renewed_at)
_STOPPED = _c.state.in_(("PENDING", "READY_TO_RESUME"))
_LAPSED = (_c.state == "RUNNING") & (_c.lease_expires_at <= p("now"))
_KNOWN_AGENT = _c.agent.in_(
    sa.select(sa.func.json_each(p("agents")).table_valued("value").c.value).scalar_subquery()
) & (_c.format_version <= p("format_version"))
_TAKEOVER = _LAPSED & (_c.attempt < p("attempts_max"))
_DUE = sa.or_(_STOPPED, _TAKEOVER) & _KNOWN_AGENT
_due_takeover = (
    sa.select(_c.id).where(_TAKEOVER, _KNOWN_AGENT).order_by(_c.lease_expires_at).limit(1)
)
_due_stopped = sa.select(_c.id).where(_STOPPED, _KNOWN_AGENT).order_by(_c.id).limit(1)
_mine = (_c.tenant == p("tenant")) & (_c.subject == p("subject"))
_live_key = (
    sa.select(sa.literal(1))
    .where((idempotency_keys.c.task_id == _c.id) & (idempotency_keys.c.expires_at > p("now")))
    .exists()
)
_change = {
    "state": p("new_state"),
    "reason": p("reason"),
    "output": p("output"),
    "usage": p("usage"),
    "version": _c.version + 1,
    "last_seq": _c.last_seq + p("entry_count"),
    "running_since": p("running_since"),
    "running_micros": p("running_micros"),
    "handovers": p("handovers"),
    "finished_at": p("finished_at"),
    "last_change_id": p("change_id"),
    "in_doubt": p("in_doubt"),
}
_commit = (
    sa.update(tasks)
    .where(_c.id == p("task_id"), _c.epoch == p("claim_epoch"), _c.state == "RUNNING")
    .where(_c.version == p("base_version"))
)
_started = entries.alias("started")
_finished = entries.alias("finished")


def _fact(journal: Any, name: str) -> Any:
    return sa.func.json_extract(journal.c.body, sa.literal_column(f"'$.{name}'"))


_open_write = (
    sa.select(sa.literal_column("1"))
    .where(_started.c.task_id == _c.id, _fact(_started, "type") == "call.started")
    .where(
        ~sa.select(sa.literal_column("1"))
        .where(_finished.c.task_id == _started.c.task_id)
        .where(_fact(_finished, "type") == "call.finished")
        .where(_fact(_finished, "state") != "IN_DOUBT")
        .where(_fact(_finished, "call_id") == _fact(_started, "call_id"))
        .exists()
    )
    .exists()
)
_expired_keys = (
    sa.select(idempotency_keys.c.tenant, idempotency_keys.c.key)
    .where(idempotency_keys.c.expires_at <= p("now"))
    .limit(p("count_max"))
)


def _insert(table: sa.Table) -> Any:
    return sa.insert(table).values({column.name: p(column.name) for column in table.columns})


STATEMENTS: dict[str, Any] = {
    "LEDGER_READ": sa.select(ledger.c.pending, ledger.c.stored, ledger.c.pruned, ledger.c.clock),
    "LEDGER_WRITE": sa.update(ledger).values(
        pending=p("pending"), stored=p("stored"), pruned=p("pruned"), clock=p("clock")
    ),
    "TASK_INSERT": _insert(tasks),
    "TASK_READ": sa.select(*TASK_COLUMNS).where(_c.id == p("task_id")),
    "TASK_READ_MINE": sa.select(*TASK_COLUMNS).where(_c.id == p("task_id"), _mine),
    "TASK_READ_CLAIMED": sa.select(*TASK_COLUMNS).where(
        _c.id == p("task_id"), _c.epoch == p("claim_epoch"), _c.state == "RUNNING"
    ),
    "TASK_LIST": sa.select(*TASK_COLUMNS)
    .where(_mine, _c.id < p("before"))
    .where(sa.or_(p("state").is_(None), _c.state == p("state")))
    .where(sa.or_(p("agent").is_(None), _c.agent == p("agent")))
    .order_by(_c.id.desc())
    .limit(p("count_max")),
    "TASK_COUNTS": sa.select(_c.state, sa.func.count()).group_by(_c.state),
    "OLDEST_PENDING": sa.select(sa.func.min(_c.created_at)).where(_STOPPED, _c.state == "PENDING"),
    "OLDEST_LAPSED": sa.select(sa.func.min(_c.lease_expires_at)).where(_LAPSED),
    # Hint and sweep are one statement: with no hint, first a lapsed lease, then the oldest waiting.
    "CLAIM_FIND": sa.select(*TASK_COLUMNS, *_LEASE_COLUMNS).where(
        _c.id
        == sa.func.coalesce(
            p("hint"), _due_takeover.scalar_subquery(), _due_stopped.scalar_subquery()
        ),
        _DUE,
    ),
    "CLAIM_TAKE": sa.update(tasks)
    .where(_c.id == p("task_id"), _c.epoch == p("base_epoch"), _c.version == p("base_version"))
    .values(
        state="RUNNING",
        epoch=_c.epoch + 1,
        version=_c.version + 1,
        last_seq=_c.last_seq + 1,
        attempt=p("attempt"),
        usage=p("usage"),
        running_since=p("now"),
        running_micros=p("running_micros"),
        owner=p("owner"),
        lease_expires_at=p("expires_at"),
        renewed_at=p("now"),
    ),
    "RENEW": sa.update(tasks)
    .where(
        _c.id == p("task_id"),
        _c.epoch == p("claim_epoch"),
        _c.state == "RUNNING",
        _c.lease_expires_at > p("now"),
    )
    .values(lease_expires_at=p("expires_at"), renewed_at=p("now")),
    "COMMIT_CHANGE": _commit.values(_change).returning(_c.last_seq),
    "COMMIT_LEASED_CHANGE": _commit.where(_c.lease_expires_at > p("now"))
    .values(_change)
    .returning(_c.last_seq),
    "EXPIRE_FIND_LAPSED": sa.select(*TASK_COLUMNS)
    .where(_LAPSED, _c.attempt >= p("attempts_max"))
    .order_by(_c.lease_expires_at)
    .limit(p("count_max")),
    "EXPIRE_FIND_AGED": sa.select(*TASK_COLUMNS)
    .where(_STOPPED, _c.created_at <= p("created_before"))
    .order_by(_c.id)
    .limit(p("count_max")),
    "EXPIRE_END": sa.update(tasks)
    .where(_c.id == p("task_id"), _c.version == p("base_version"), _c.state.not_in(TERMINAL))
    .values(_change)
    .returning(_c.last_seq),
    "CANCEL_GATE": sa.update(tasks)
    .where(_c.id == p("task_id"), _mine, _c.state.not_in(TERMINAL))
    .values(
        state="CANCELLED",
        epoch=_c.epoch + 1,
        version=_c.version + 1,
        last_seq=_c.last_seq + 1,
        running_micros=_c.running_micros
        + sa.func.max(0, p("now") - sa.func.coalesce(_c.running_since, p("now"))),
        running_since=sa.null(),
        finished_at=p("now"),
        last_change_id=p("change_id"),
        in_doubt=sa.cast(_open_write, sa.Integer),
    )
    .returning(*TASK_COLUMNS),
    "ENTRY_INSERT": _insert(entries),
    "ENTRIES_READ": sa.select(entries.c.task_seq, entries.c.at, entries.c.body)
    .where(entries.c.task_id == p("task_id"), entries.c.task_seq > p("after_seq"))
    .order_by(entries.c.task_seq)
    .limit(p("count_max")),
    "EVIDENCE_INSERT": _insert(evidence),
    "EVIDENCE_OF_TASK": sa.select(evidence.c.body)
    .where(evidence.c.task_id == p("task_id"))
    .order_by(evidence.c.ordinal),
    "EVIDENCE_READ_MINE": sa.select(evidence.c.body)
    .join(tasks, _c.id == evidence.c.task_id)
    .where(evidence.c.id == p("evidence_id"), _mine),
    "LATE_FACT_INSERT": _insert(late_facts).prefix_with("OR IGNORE", dialect="sqlite"),
    "BLOB_INSERT": _insert(blobs).prefix_with("OR IGNORE", dialect="sqlite"),
    "BLOB_READ": sa.select(blobs.c.body).where(
        blobs.c.tenant == p("tenant"), blobs.c.digest == p("digest")
    ),
    "KEY_READ": sa.select(
        idempotency_keys.c.body_hash, idempotency_keys.c.response, idempotency_keys.c.expires_at
    ).where(
        idempotency_keys.c.tenant == p("tenant"),
        idempotency_keys.c.subject == p("subject"),
        idempotency_keys.c.route == p("route"),
        idempotency_keys.c.key == p("key"),
    ),
    "KEY_INSERT": _insert(idempotency_keys).prefix_with("OR REPLACE", dialect="sqlite"),
    "KEYS_FORGET": sa.delete(idempotency_keys).where(
        sa.tuple_(idempotency_keys.c.tenant, idempotency_keys.c.key).in_(_expired_keys),
        idempotency_keys.c.expires_at <= p("now"),
    ),
    "PRUNE_FIND": sa.select(_c.id, _c.tenant, _c.subject)
    .where(_c.state.in_(TERMINAL), _c.in_doubt == 0, ~_live_key)
    .order_by(_c.id)
    .limit(p("count_max")),
    "PRUNE_TASK": sa.delete(tasks).where(_c.id == p("task_id")),
    "PRUNE_ENTRIES": sa.delete(entries).where(entries.c.task_id == p("task_id")),
    "PRUNE_EVIDENCE": sa.delete(evidence).where(evidence.c.task_id == p("task_id")),
    "PRUNE_LATE_FACTS": sa.delete(late_facts).where(late_facts.c.task_id == p("task_id")),
    "TOMBSTONE_INSERT": _insert(pruned_tasks),
    "TOMBSTONE_READ": sa.select(sa.literal(1)).where(
        pruned_tasks.c.id == p("task_id"),
        pruned_tasks.c.tenant == p("tenant"),
        pruned_tasks.c.subject == p("subject"),
    ),
    "TOMBSTONES_FORGET": sa.delete(pruned_tasks).where(
        pruned_tasks.c.id.in_(
            sa.select(pruned_tasks.c.id).order_by(pruned_tasks.c.id).limit(p("count_max"))
        )
    ),
}
