"""Where a command does its work: a server by HTTP, or a runtime in this very process.

Both give the same plain JSON values, so that a command cannot tell them apart.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from aegis.bootstrap.runtime import Runtime, open_runtime
from aegis.domain.errors import ConfigurationError
from aegis.domain.event import LAST_EVENT_TYPES, project
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.principal import Principal
from aegis.domain.state import TaskState
from aegis.ports.task_views import TaskFilter
from aegis.settings import Settings, load_settings
from aegis.use_cases.cancel_task import CancelTask
from aegis.use_cases.create_task import CreateTask
from aegis.web.shapes import show_evidence, show_summary, show_task, show_time

LOCAL_PRINCIPAL = Principal(tenant="demo", subject="developer", roles=("operator",))
"""`demo/developer`: who commands are without a server, and who holds the demo token of one."""
POLL_MICROS = 1 * MICROS_PER_SECOND
PAGE_ENTRIES_MAX = 100

Json = dict[str, Any]


class Session(Protocol):
    """What commands may ask. Every method raises `AegisError` with the code of the API."""

    async def create(self, agent: str | None, prompt: str) -> Json:
        """Create a task and return it. None is the default agent."""
        ...

    def events(self, task_id: str, after: int) -> AsyncIterator[Json]:
        """Yield `{seq, type, ...}` after `after` until the last event."""
        ...

    async def show(self, task_id: str) -> Json:
        """Return a task."""
        ...

    async def evidence(self, task_id: str) -> list[Json]:
        """Return all evidence of a task."""
        ...

    async def list(self, state: str | None, count_max: int) -> list[Json]:
        """Return tasks, newest first."""
        ...

    async def cancel(self, task_id: str) -> Json:
        """Cancel a task and return which side won, and the task."""
        ...


class LocalSession:
    """`Session` on a runtime of this process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def create(self, agent: str | None, prompt: str) -> Json:
        """See `Session.create`."""
        name = agent if agent is not None else self._runtime.default_agent
        if name in self._runtime.unavailable:
            raise ConfigurationError(
                f"agent {name!r} cannot run here: {self._runtime.unavailable[name]}"
            )
        return await self.show(await self.start(name, prompt))

    async def start(self, agent: str, prompt: str) -> str:
        """Create a task and return its id alone."""
        added = await self._runtime.use_cases.create_task(
            CreateTask(principal=LOCAL_PRINCIPAL, agent=agent, prompt=prompt)
        )
        return added.task.id

    async def events(self, task_id: str, after: int) -> AsyncIterator[Json]:
        """See `Session.events`."""
        subscription = self._runtime.feed.subscribe(task_id)
        try:
            ended = (await self._runtime.store.get(LOCAL_PRINCIPAL, task_id)).task.finished_at
            while True:
                entries = await self._runtime.store.entries(
                    LOCAL_PRINCIPAL, task_id, after, PAGE_ENTRIES_MAX
                )
                for item in entries:
                    event = project(item)
                    after = event.seq
                    yield {
                        "seq": event.seq,
                        "type": event.type,
                        "at": show_time(event.at),
                        **event.data,
                    }
                    if event.type in LAST_EVENT_TYPES:
                        return
                if ended is not None and not entries:
                    return
                if len(entries) < PAGE_ENTRIES_MAX:
                    await subscription.wait(POLL_MICROS)
        finally:
            subscription.close()

    async def show(self, task_id: str) -> Json:
        """See `Session.show`."""
        snapshot = await self._runtime.store.get(LOCAL_PRINCIPAL, task_id)
        return msgspec.to_builtins(show_task(snapshot))

    async def evidence(self, task_id: str) -> list[Json]:
        """See `Session.evidence`."""
        snapshot = await self._runtime.store.get(LOCAL_PRINCIPAL, task_id)
        return [msgspec.to_builtins(show_evidence(item)) for item in snapshot.evidence]

    async def list(self, state: str | None, count_max: int) -> list[Json]:
        """See `Session.list`."""
        chosen = TaskFilter(
            state=TaskState(state) if state is not None else None, count_max=count_max
        )
        tasks = await self._runtime.store.list(LOCAL_PRINCIPAL, chosen)
        return [msgspec.to_builtins(show_summary(task)) for task in tasks]

    async def cancel(self, task_id: str) -> Json:
        """See `Session.cancel`."""
        done = await self._runtime.use_cases.cancel_task(
            CancelTask(principal=LOCAL_PRINCIPAL, task_id=task_id)
        )
        return {
            "cancel": done.outcome,
            "task": msgspec.to_builtins(show_task(done.snapshot)),
        }


@contextlib.asynccontextmanager
async def open_session(*, with_worker: bool) -> AsyncGenerator[Session]:
    """Open what the environment names: AEGIS_URL with AEGIS_API_KEY, else this process.

    `with_worker` runs a worker for as long as the session lives (this process only).
    """
    environ = dict(os.environ)
    if environ.get("AEGIS_URL"):
        from aegis.bootstrap.remote_session import open_remote

        async with open_remote(environ["AEGIS_URL"], environ.get("AEGIS_API_KEY", "")) as remote:
            yield remote
        return
    runtime = await open_runtime(settings_of_process(environ))
    stop = asyncio.Event()
    worker = asyncio.create_task(runtime.run_worker(stop)) if with_worker else None
    try:
        yield LocalSession(runtime)
    finally:
        stop.set()
        if worker is not None:
            await asyncio.wait([worker])
        await runtime.close()


def settings_of_process(environ: Mapping[str, str]) -> Settings:
    """Return the settings of this process: its environment and its folder."""
    return load_settings(environ, Path.cwd())
