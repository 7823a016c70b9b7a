"""The tables, declared once for every engine. Not imported at run time."""

import sqlalchemy as sa

metadata = sa.MetaData()

TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


def _text(name: str, *, null: bool = False, key: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text, nullable=null, primary_key=key)


def _integer(name: str, *, null: bool = False, key: bool = False) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger, nullable=null, primary_key=key, autoincrement=False)


tasks = sa.Table(
    "tasks",
    metadata,
    _text("id", key=True),
    _text("tenant"),
    _text("subject"),
    _text("roles"),
    _text("agent"),
    _text("agent_digest"),
    _text("prompt"),
    _text("state"),
    _text("reason", null=True),
    _text("output", null=True),
    _text("usage"),
    _integer("version"),
    _integer("epoch"),
    _integer("attempt"),
    _integer("handovers"),
    _integer("last_seq"),
    _integer("running_since", null=True),
    _integer("running_micros"),
    _integer("created_at"),
    _integer("finished_at", null=True),
    _text("last_change_id"),
    _integer("format_version"),
    # The columns below belong to claim, renew and cancel; a change never writes them.
    _text("owner", null=True),
    _integer("lease_expires_at", null=True),
    _integer("renewed_at", null=True),
    # Set with the end of a task: such a task is never pruned.
    _integer("in_doubt"),
    sqlite_with_rowid=False,
)
sa.Index("tasks_of_principal", tasks.c.tenant, tasks.c.subject, tasks.c.id)
sa.Index(
    "tasks_claimable",
    tasks.c.id,
    sqlite_where=tasks.c.state.in_(("PENDING", "READY_TO_RESUME")),
)
sa.Index(
    "tasks_leased",
    tasks.c.lease_expires_at,
    sqlite_where=tasks.c.state == "RUNNING",
)

entries = sa.Table(
    "entries",
    metadata,
    _text("task_id", key=True),
    _integer("task_seq", key=True),
    _integer("at"),
    _text("body"),
    sqlite_with_rowid=False,
)

evidence = sa.Table(
    "evidence",
    metadata,
    _text("task_id", key=True),
    _integer("ordinal", key=True),
    _text("id"),
    _text("body"),
    sqlite_with_rowid=False,
)
sa.Index("evidence_by_id", evidence.c.id, unique=True)

late_facts = sa.Table(
    "late_facts",
    metadata,
    _text("task_id", key=True),
    _text("call_id", key=True),
    _text("change_id", key=True),
    _integer("at"),
    _text("body"),
    sqlite_with_rowid=False,
)

blobs = sa.Table(
    "blobs",
    metadata,
    _text("tenant", key=True),
    _text("digest", key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    _integer("touched_at"),
)

idempotency_keys = sa.Table(
    "idempotency_keys",
    metadata,
    _text("tenant", key=True),
    _text("subject", key=True),
    _text("route", key=True),
    _text("key", key=True),
    _text("body_hash"),
    _text("task_id"),
    _text("response"),
    _integer("expires_at"),
    sqlite_with_rowid=False,
)
sa.Index("idempotency_keys_by_expiry", idempotency_keys.c.expires_at)
sa.Index("idempotency_keys_by_task", idempotency_keys.c.task_id)

pruned_tasks = sa.Table(
    "pruned_tasks",
    metadata,
    _text("id", key=True),
    _text("tenant"),
    _text("subject"),
    sqlite_with_rowid=False,
)

# One row: how many tasks are pending and stored, and the largest time that a writer has seen.
ledger = sa.Table(
    "ledger",
    metadata,
    _integer("id", key=True),
    _integer("pending"),
    _integer("stored"),
    _integer("pruned"),
    _integer("clock"),
)

SQLITE_TRIGGER = (
    "CREATE TRIGGER tasks_end_once BEFORE UPDATE ON tasks"
    " WHEN OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')"
    " BEGIN SELECT RAISE(ABORT, 'a task that has ended does not change'); END"
)
FIRST_LEDGER_ROW = "INSERT INTO ledger (id, pending, stored, pruned, clock) VALUES (1, 0, 0, 0, 0)"
