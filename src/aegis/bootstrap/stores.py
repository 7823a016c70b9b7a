"""Which store stands behind the task ports."""

from collections.abc import Callable
from typing import Protocol

from aegis.domain.errors import ConfigurationError
from aegis.domain.task import Task
from aegis.ports.blobs import Blobs
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.task_leases import TaskLeases
from aegis.ports.task_repository import TaskRepository
from aegis.ports.task_views import TaskViews
from aegis.settings import Settings


class Store(TaskRepository, TaskLeases, TaskViews, Blobs, Protocol):
    """Every task port in one, with a life of its own."""

    async def open(self) -> None:
        """Make it ready. Raises `ConfigurationError`, `StoreUnavailable`."""
        ...

    async def close(self) -> None:
        """Finish what was submitted and let go of everything."""
        ...

    async def ping(self) -> None:
        """Raise `StoreUnavailable` unless the store takes writes."""
        ...


def build_store(
    settings: Settings, clock: Clock, ids: Ids, on_commit: Callable[[Task], None]
) -> Store:
    """Return the store that the settings name, not yet open."""
    if settings.database is None:
        from aegis.stores.memory.store import MemoryStore

        return MemoryStore(clock=clock, ids=ids, limits=settings.limits, on_commit=on_commit)
    from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore

    if str(settings.database).startswith(("//", "\\\\")):
        raise ConfigurationError("a SQLite database must be on a local disk, not on the network")
    return SqliteStore(
        SqliteSettings(
            path=settings.database, synchronous=settings.configuration.store.synchronous
        ),
        clock=clock,
        ids=ids,
        limits=settings.limits,
        on_commit=on_commit,
    )
