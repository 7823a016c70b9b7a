"""Run the Alembic migrations on a SQLite file. Only `aegis migrate` and tests import this."""

import sqlite3
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from sqlalchemy.exc import DBAPIError

from aegis.domain.errors import ConfigurationError, StoreUnavailable
from aegis.stores.sql.sqlite.connection import translated
from aegis.stores.sql.sqlite.statements import HEAD_REVISION

MIGRATIONS = Path(__file__).parent / "migrations"


def upgrade(path: Path, revision: str = "head") -> tuple[str | None, str]:
    """Bring the database at `path` to `revision`; return the revisions before and after.

    Every step runs in one transaction under the write lock, so several processes may start it at
    once. Raises `ConfigurationError` for a database that is not ours or is of a newer release,
    and `StoreUnavailable`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine("sqlite://", creator=lambda: _connect(path))
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with translated():
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
                before = _revision(connection)
                _check_ours(connection, before, path)
                config.attributes["connection"] = connection
                command.upgrade(config, revision)
                after = _revision(connection)
                connection.exec_driver_sql("COMMIT")
        except DBAPIError as error:
            raise StoreUnavailable("the migration did not run; nothing was changed") from error
        finally:
            engine.dispose()
    return before, after or ""


def _check_ours(connection: sa.Connection, revision: str | None, path: Path) -> None:
    if revision is None:
        if sa.inspect(connection).get_table_names():
            raise ConfigurationError(
                f"the file {path.name!r} is a database of another program; choose another path"
            )
    elif revision > HEAD_REVISION:
        raise ConfigurationError(
            f"the database {path.name!r} has schema {revision!r}, newer than {HEAD_REVISION!r} of"
            " this release: install a newer Aegis"
        )


def _connect(path: Path) -> sqlite3.Connection:
    # The driver must not open or commit transactions by itself: the whole upgrade is one.
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA journal_mode=WAL")
    return connection


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table("alembic_version"):
        return None
    return connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
