"""Open SQLite connections the one right way, and translate what the driver raises."""

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from aegis.domain.errors import ConfigurationError, StoreUnavailable
from aegis.stores.sql.sqlite.statements import CREATE, HEAD_REVISION

BUSY_TIMEOUT_MILLIS = 5_000
WAL_TRIES_MAX = 50
WAL_RETRY_SECONDS = 0.1
CACHE_KIB = 16_384


@contextmanager
def translated() -> Generator[None]:
    """Turn every error of the driver into `StoreUnavailable`; its text stays inside."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        raise StoreUnavailable(f"the SQLite store failed with {name}") from error


def open_writer(path: Path, synchronous: str) -> sqlite3.Connection:
    """Open the only connection of this process that writes; create the database if it is new.

    Raises `ConfigurationError` where the schema is of another release, `StoreUnavailable` where
    the file cannot be opened.
    """
    with translated():
        connection = _connect(path)
        _use_wal(connection)
        connection.execute(f"PRAGMA synchronous={synchronous}")
        _create_or_check(connection, path)
        return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that cannot write."""
    with translated():
        connection = _connect(path)
        connection.execute("PRAGMA query_only=ON")
        return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    # The busy timeout comes first: several processes that start together contend for the rest.
    connection.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MILLIS}")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL. The busy timeout does not cover this pragma, so it is retried."""
    for attempt in range(WAL_TRIES_MAX):
        try:
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        except sqlite3.OperationalError:
            if attempt == WAL_TRIES_MAX - 1:
                raise
        else:
            if mode == "wal":
                return
        time.sleep(WAL_RETRY_SECONDS)
    raise StoreUnavailable("the database could not be switched to write-ahead logging")


def _create_or_check(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        revision = _revision(connection)
        if revision is None:
            for statement in CREATE:
                connection.execute(statement)
            connection.execute(
                "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"
            )
            connection.execute("INSERT INTO alembic_version VALUES (?)", (HEAD_REVISION,))
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
    if revision is not None and revision != HEAD_REVISION:
        connection.close()
        known = "older" if revision < HEAD_REVISION else "newer"
        what_to_do = "run `aegis migrate`" if known == "older" else "install a newer Aegis"
        raise ConfigurationError(
            f"the database {path.name!r} has schema {revision!r}, {known} than"
            f" {HEAD_REVISION!r} of this release: {what_to_do}"
        )


def _revision(connection: sqlite3.Connection) -> str | None:
    """Return the schema revision, None for a database without tables."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    if not tables:
        return None
    if ("alembic_version",) not in tables:
        raise ConfigurationError("the file is a database of another program; choose another path")
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(row[0]) if row else None
