"""A whole runtime in one process: store, use cases, worker, feed, and what closes them."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import Struct

from aegis.agent_loop.context import LoopContext
from aegis.agent_loop.run_task import run_task
from aegis.bootstrap.declared import Declared, declared, default_agent
from aegis.bootstrap.health import RuntimeHealth
from aegis.bootstrap.models import build_models
from aegis.bootstrap.stores import Store, build_store
from aegis.bootstrap.system import SystemClock, SystemIds
from aegis.bootstrap.tools import BuiltTools, build_tools
from aegis.dispatch.in_process.feed import InProcessFeed
from aegis.dispatch.in_process.queue import InProcessDispatch
from aegis.domain.agent import AgentSpec
from aegis.domain.errors import ConfigurationError
from aegis.domain.model import ModelDelta
from aegis.domain.state import CLAIMABLE_STATES
from aegis.domain.task import Task
from aegis.settings import Settings
from aegis.use_cases.cancel_task import TaskCancellation
from aegis.use_cases.create_task import TaskCreation
from aegis.use_cases.use_cases import UseCases
from aegis.worker.worker import Worker, WorkerParts

DISPATCHED_IDS_MAX = 10_000


class Runtime(Struct, frozen=True, kw_only=True):
    """What the doors need, wired. Open it with `open_runtime`, end it with `close`."""

    settings: Settings
    store: Store
    use_cases: UseCases
    feed: InProcessFeed
    worker: Worker
    agents: dict[str, AgentSpec]
    unavailable: dict[str, str]
    default_agent: str
    health: RuntimeHealth
    tools: BuiltTools

    async def run_worker(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then drain."""
        await self.worker.run(stop)

    async def close(self) -> None:
        """Close tools and store. The worker must have been stopped."""
        for reader in self.tools.readers:
            await reader.close()
        await self.store.close()


async def open_runtime(settings: Settings, watch: Callable[[Task], None] | None = None) -> Runtime:
    """Build and open everything. Raises `ConfigurationError`, `StoreUnavailable`.

    `watch` is told of every task row after its commit, on the event loop.
    """
    clock, ids = SystemClock(), SystemIds()
    dispatch = InProcessDispatch(clock, DISPATCHED_IDS_MAX)
    feed = InProcessFeed()

    def on_commit(task: Task) -> None:
        if task.state in CLAIMABLE_STATES:
            dispatch.announce(task.id)
        feed.publish(task.id)
        if watch is not None:
            watch(task)

    store = build_store(settings, clock, ids, on_commit)
    everything = declared(settings)
    folder = settings.file.parent if settings.file else Path.cwd()
    tools = build_tools(
        everything,
        environ=settings.environ,
        folder=folder,
        blobs=store,
        clock=clock,
        ids=ids,
    )
    agents, unavailable = _available(everything, tools)
    models = build_models(everything)

    async def run_claimed(context: LoopContext) -> None:
        await run_task(store, context)

    worker = Worker(
        WorkerParts(
            leases=store,
            run_claimed=run_claimed,
            dispatch=dispatch,
            models=models,
            tools=tools.executor,
            clock=clock,
            ids=ids,
            limits=settings.limits,
            agents=frozenset(everything.agents),
            concurrency=settings.configuration.server.concurrency,
            on_delta=_ignore,
        )
    )
    creation = TaskCreation(
        repository=store,
        agents=agents,
        clock=clock,
        ids=ids,
        idempotency_ttl_micros=settings.limits.idempotency_ttl_micros,
    )
    cancellation = TaskCancellation(repository=store, signal=dispatch.signal_cancel)
    await store.open()
    return Runtime(
        settings=settings,
        store=store,
        use_cases=UseCases(create_task=creation.create, cancel_task=cancellation.cancel),
        feed=feed,
        worker=worker,
        agents=agents,
        unavailable=unavailable,
        default_agent=default_agent(settings, frozenset(agents)),
        health=RuntimeHealth(ping=store.ping, worker_is_alive=partial(_alive, worker)),
        tools=tools,
    )


def _available(
    everything: Declared, tools: BuiltTools
) -> tuple[dict[str, AgentSpec], dict[str, str]]:
    """Split agents into those that can run here and those that cannot, with the reason.

    An agent of `aegis.toml` that names what does not exist is an error at start, not at run time.
    """
    agents: dict[str, AgentSpec] = {}
    unavailable: dict[str, str] = {}
    for name, agent in everything.agents.items():
        lacking = [tool for tool in agent.tools if tool not in tools.names]
        if agent.model not in everything.models:
            raise ConfigurationError(f"agents.{name}: model {agent.model!r} is not declared")
        undeclared = [tool for tool in lacking if tool not in tools.missing]
        if undeclared:
            raise ConfigurationError(f"agents.{name}: tool {undeclared[0]!r} is not declared")
        if lacking:
            unavailable[name] = tools.missing[lacking[0]]
        else:
            agents[name] = agent
    return agents, unavailable


def _alive(worker: Worker) -> bool:
    return worker.is_alive


def _ignore(_delta: ModelDelta) -> None:
    """Nobody watches a task word by word yet: the committed reply is what streams show."""
