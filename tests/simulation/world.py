"""A whole runtime in virtual time: real loop, worker, stores, tools and scripted models."""

import asyncio
from pathlib import Path
from typing import Any

from msgspec import Struct

from aegis.agent_loop.run_task import run_task
from aegis.bootstrap.declared import declared
from aegis.bootstrap.models import build_models
from aegis.bootstrap.tools import build_tools
from aegis.dispatch.in_process.queue import InProcessDispatch
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.settings import load_settings
from aegis.stores.memory.store import MemoryStore
from aegis.stores.sql.sqlite.connection import open_reader, open_writer
from aegis.stores.sql.sqlite.reading import Reading
from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore
from aegis.stores.sql.sqlite.writer import GroupCommit
from aegis.use_cases.cancel_task import CancelTask, TaskCancellation
from aegis.use_cases.create_task import CreateTask, TaskCreation
from aegis.worker.worker import Worker, WorkerParts
from tests.fakes.ids import SequentialIds
from tests.fakes.inline_lane import InlineLane
from tests.fakes.virtual_loop import LoopClock, VirtualLoop

DEVELOPER = Principal(tenant="demo", subject="developer", roles=("operator",))
LIMITS = ServerLimits()


class World:
    """One store; workers that come and go; one caller."""

    def __init__(self, loop: VirtualLoop, folder: Path, store_kind: str, limits=LIMITS) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.ids = SequentialIds()
        self.limits = limits
        self.dispatch = InProcessDispatch(self.clock, 1000)
        self.told = []
        self.store = self._open(folder, store_kind)
        everything = declared(load_settings({}, folder))
        self.agents = everything.agents
        self.models = build_models(everything)
        built = build_tools(
            everything,
            environ={},
            folder=folder,
            blobs=self.store,
            clock=self.clock,
            ids=self.ids,
        )
        self.tools = built.executor

    def _open(self, folder: Path, store_kind: str):
        given = {"clock": self.clock, "ids": self.ids, "limits": self.limits}
        if store_kind == "memory":
            return MemoryStore(**given, on_commit=self._on_commit)
        store = SqliteStore(
            SqliteSettings(path=folder / "sim.db", synchronous="OFF"),
            **given,
            on_commit=self._on_commit,
        )
        writer = open_writer(folder / "sim.db", "OFF")
        reader = open_reader(folder / "sim.db")
        store._connections = [writer, reader]
        inside: Any = store
        inside._writer = InlineLane(GroupCommit(writer, self.clock).process)
        inside._reader = InlineLane(Reading(reader).process)
        return store

    def _on_commit(self, task) -> None:
        self.told.append(task)
        if task.state.value in {"PENDING", "READY_TO_RESUME"}:
            self.dispatch.announce(task.id)

    async def create(self, agent: str, key: str | None = None, prompt: str = "Why?") -> str:
        creation = TaskCreation(
            repository=self.store,
            agents=self.agents,
            clock=self.clock,
            ids=self.ids,
            idempotency_ttl_micros=self.limits.idempotency_ttl_micros,
        )
        added = await creation.create(
            CreateTask(principal=DEVELOPER, agent=agent, prompt=prompt, idempotency_key=key)
        )
        return added.task.id

    async def cancel(self, task_id: str):
        cancellation = TaskCancellation(repository=self.store, signal=self.dispatch.signal_cancel)
        return await cancellation.cancel(CancelTask(principal=DEVELOPER, task_id=task_id))

    async def show(self, task_id: str):
        return await self.store.get(DEVELOPER, task_id)

    async def journal(self, task_id: str):
        return await self.store.entries(DEVELOPER, task_id, 0, 10_000)

    def worker(self, *, repository=None, leases=None, models=None, tools=None, concurrency=4):
        tasks = repository if repository is not None else self.store

        async def run_claimed(context):
            return await run_task(tasks, context)

        return Worker(
            WorkerParts(
                leases=leases if leases is not None else self.store,
                run_claimed=run_claimed,
                dispatch=self.dispatch,
                models=models if models is not None else self.models,
                tools=tools if tools is not None else self.tools,
                clock=self.clock,
                ids=self.ids,
                limits=self.limits,
                agents=frozenset(self.agents),
                concurrency=concurrency,
                on_delta=lambda _delta: None,
            )
        )

    async def until_ended(self, task_id: str, seconds_max: float = 300.0):
        """Wait in virtual time until the task is terminal, and return its snapshot."""
        async with asyncio.timeout(seconds_max):
            while True:
                snapshot = await self.show(task_id)
                if snapshot.task.finished_at is not None:
                    return snapshot
                await asyncio.sleep(0.05)


class Running(Struct, kw_only=True):
    """A worker that runs, and how to end it: gently, or as `kill -9` would."""

    task: asyncio.Task
    stop: asyncio.Event

    async def drain(self) -> None:
        self.stop.set()
        await asyncio.wait([self.task])
        self.task.result()

    async def kill(self) -> None:
        """End it with everything that it started, and let nothing of it write any more."""
        mine = {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}
        keep = {task for task in mine if task.get_name().startswith("test-")}
        doomed = mine - keep
        for task in doomed:
            task.cancel()
        await asyncio.gather(*doomed, return_exceptions=True)


def start(worker: Worker) -> Running:
    stop = asyncio.Event()
    task = asyncio.get_running_loop().create_task(worker.run(stop), name="worker")
    return Running(task=task, stop=stop)
