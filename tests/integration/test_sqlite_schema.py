"""The generated statements, the DDL and the migrations say the same; no tool of them runs."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from aegis.domain.errors import ConfigurationError
from aegis.stores.sql.generate import HEAD_REVISION, create_statements, statements_module
from aegis.stores.sql.migrate import MIGRATIONS, upgrade
from aegis.stores.sql.sqlite import statements as sql
from aegis.stores.sql.sqlite.connection import open_writer

OBJECTS = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type, name"


def schema_of(path: Path):
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(OBJECTS).fetchall()
    finally:
        connection.close()
    return [
        (kind, name, " ".join(text.split()))
        for kind, name, text in rows
        if name != "alembic_version"
    ]


def test_the_generated_file_is_what_the_declarations_say():
    generated = Path(sql.__file__).read_text(encoding="utf-8")
    assert generated == statements_module()


def test_a_fresh_database_and_a_migrated_one_have_the_same_schema(tmp_path):
    open_writer(tmp_path / "fresh.db", "FULL").close()
    assert upgrade(tmp_path / "migrated.db") == (None, HEAD_REVISION)
    assert schema_of(tmp_path / "fresh.db") == schema_of(tmp_path / "migrated.db")
    # Both open: neither is refused by the other's way of being made.
    open_writer(tmp_path / "migrated.db", "FULL").close()
    assert upgrade(tmp_path / "fresh.db") == (HEAD_REVISION, HEAD_REVISION)


def test_the_head_revision_is_the_newest_migration():
    names = sorted(path.name for path in (MIGRATIONS / "versions").glob("r*.py"))
    assert names[-1].startswith(f"r{HEAD_REVISION}_")
    assert sql.HEAD_REVISION == HEAD_REVISION
    assert len(create_statements()) == len(sql.CREATE)


def test_a_schema_outside_of_the_known_range_is_refused_in_words(tmp_path):
    path = tmp_path / "a.db"
    open_writer(path, "FULL").close()
    for revision, words in (("0000", "aegis migrate"), ("9999", "newer Aegis")):
        connection = sqlite3.connect(path)
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
        connection.close()
        with pytest.raises(ConfigurationError, match=words):
            open_writer(path, "FULL")


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(ConfigurationError, match="another program"):
        open_writer(path, "FULL")


def test_twenty_processes_that_start_together_all_open_one_database(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from aegis.stores.sql.sqlite.connection import open_writer\n"
        "c = open_writer(Path(sys.argv[1]), 'FULL')\n"
        "ask = lambda name: c.execute('PRAGMA ' + name).fetchone()[0]\n"
        "print(ask('journal_mode'), ask('synchronous'))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "one.db")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(20)
    ]
    ended = [process.communicate(timeout=120) for process in started]
    assert [out.strip() for out, _ in ended] == ["wal 2"] * 20, ended


def test_claims_do_not_scan_a_hundred_thousand_finished_tasks(tmp_path):
    connection = open_writer(tmp_path / "many.db", "OFF")
    row = dict.fromkeys(sql.TASK_COLUMNS, 0) | {
        "tenant": "t",
        "subject": "s",
        "roles": "[]",
        "agent": "a",
        "agent_digest": "d",
        "prompt": "p",
        "state": "SUCCEEDED",
        "reason": None,
        "output": None,
        "usage": "{}",
        "last_change_id": "",
        "owner": None,
        "lease_expires_at": 1,
        "renewed_at": 1,
        "in_doubt": 0,
    }
    connection.execute("BEGIN")
    connection.executemany(
        sql.TASK_INSERT, ({**row, "id": f"task_{number:09d}"} for number in range(100_000))
    )
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    given = {
        "hint": None,
        "now": 5,
        "agents": '["a"]',
        "attempts_max": 3,
        "format_version": 1,
        "created_before": 1,
        "count_max": 10,
        "task_id": "task_000000001",
        "claim_epoch": 1,
        "expires_at": 9,
    }
    for statement in (sql.CLAIM_FIND, sql.EXPIRE_FIND_LAPSED, sql.EXPIRE_FIND_AGED, sql.RENEW):
        plan = [line[3] for line in connection.execute("EXPLAIN QUERY PLAN " + statement, given)]
        scans = [line for line in plan if line.startswith("SCAN") and "anon" not in line]
        assert all("tasks_claimable" in line for line in scans), (statement[:40], plan)
    connection.close()
