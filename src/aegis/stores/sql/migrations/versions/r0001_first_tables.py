"""The tables of release 0.1.0. Frozen: a released migration never changes."""

from alembic import op

revision = "0001"
down_revision = None

_STATEMENTS = (
    "CREATE TABLE blobs ( tenant TEXT NOT NULL, digest TEXT NOT NULL, body BLOB NOT NULL, "
    "touched_at BIGINT NOT NULL, PRIMARY KEY (tenant, digest) )",
    "CREATE TABLE entries ( task_id TEXT NOT NULL, task_seq BIGINT NOT NULL, at BIGINT "
    "NOT NULL, body TEXT NOT NULL, PRIMARY KEY (task_id, task_seq) ) WITHOUT ROWID",
    "CREATE TABLE evidence ( task_id TEXT NOT NULL, ordinal BIGINT NOT NULL, id TEXT NOT "
    "NULL, body TEXT NOT NULL, PRIMARY KEY (task_id, ordinal) ) WITHOUT ROWID",
    "CREATE UNIQUE INDEX evidence_by_id ON evidence (id)",
    "CREATE TABLE idempotency_keys ( tenant TEXT NOT NULL, subject TEXT NOT NULL, route "
    'TEXT NOT NULL, "key" TEXT NOT NULL, body_hash TEXT NOT NULL, task_id TEXT NOT NULL, '
    "response TEXT NOT NULL, expires_at BIGINT NOT NULL, PRIMARY KEY (tenant, subject, "
    'route, "key") ) WITHOUT ROWID',
    "CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at)",
    "CREATE INDEX idempotency_keys_by_task ON idempotency_keys (task_id)",
    "CREATE TABLE late_facts ( task_id TEXT NOT NULL, call_id TEXT NOT NULL, change_id "
    "TEXT NOT NULL, at BIGINT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (task_id, "
    "call_id, change_id) ) WITHOUT ROWID",
    "CREATE TABLE ledger ( id BIGINT NOT NULL, pending BIGINT NOT NULL, stored BIGINT NOT "
    "NULL, pruned BIGINT NOT NULL, clock BIGINT NOT NULL, PRIMARY KEY (id) )",
    "CREATE TABLE pruned_tasks ( id TEXT NOT NULL, tenant TEXT NOT NULL, subject TEXT NOT "
    "NULL, PRIMARY KEY (id) ) WITHOUT ROWID",
    "CREATE TABLE tasks ( id TEXT NOT NULL, tenant TEXT NOT NULL, subject TEXT NOT NULL, "
    "roles TEXT NOT NULL, agent TEXT NOT NULL, agent_digest TEXT NOT NULL, prompt TEXT "
    "NOT NULL, state TEXT NOT NULL, reason TEXT, output TEXT, usage TEXT NOT NULL, "
    "version BIGINT NOT NULL, epoch BIGINT NOT NULL, attempt BIGINT NOT NULL, handovers "
    "BIGINT NOT NULL, last_seq BIGINT NOT NULL, running_since BIGINT, running_micros "
    "BIGINT NOT NULL, created_at BIGINT NOT NULL, finished_at BIGINT, last_change_id TEXT "
    "NOT NULL, format_version BIGINT NOT NULL, owner TEXT, lease_expires_at BIGINT, "
    "renewed_at BIGINT, in_doubt BIGINT NOT NULL, PRIMARY KEY (id) ) WITHOUT ROWID",
    "CREATE INDEX tasks_claimable ON tasks (id) WHERE state IN ('PENDING', 'READY_TO_RESUME')",
    "CREATE INDEX tasks_leased ON tasks (lease_expires_at) WHERE state = 'RUNNING'",
    "CREATE INDEX tasks_of_principal ON tasks (tenant, subject, id)",
    "CREATE TRIGGER tasks_end_once BEFORE UPDATE ON tasks WHEN OLD.state IN ('SUCCEEDED', "
    "'FAILED', 'CANCELLED') BEGIN SELECT RAISE(ABORT, 'a task that has ended does not "
    "change'); END",
    "INSERT INTO ledger (id, pending, stored, pruned, clock) VALUES (1, 0, 0, 0, 0)",
)


def upgrade() -> None:
    """Create every table of the first release."""
    for statement in _STATEMENTS:
        op.execute(statement)
