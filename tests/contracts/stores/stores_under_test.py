"""What every store test starts from: an open store, its clock, and short words for changes.

A test takes the fixture `world` and runs on each store; a new store joins in `OPENERS`.
"""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import structs

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.change import TaskChange
from aegis.domain.claim import Claim
from aegis.domain.ending import Ending, Succeeded, end_task
from aegis.domain.entry import CallFinished, Entry, ModelReplied, WriteStarted
from aegis.domain.evidence import Evidence, EvidenceStatus, Trust
from aegis.domain.limits import Limits, Usage
from aegis.domain.micros import MICROS_PER_SECOND, Micros
from aegis.domain.model import FinalAnswer
from aegis.domain.principal import Principal
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState, PlannedCall
from aegis.ports.blobs import Blobs
from aegis.ports.task_leases import TaskLeases
from aegis.ports.task_repository import Added, IdempotencyKey, NewTask, TaskRepository
from aegis.ports.task_views import TaskFilter, TaskViews
from aegis.stores.memory.store import MemoryStore
from aegis.stores.sql.sqlite.store import SqliteSettings, SqliteStore
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

ALICE = Principal(tenant="acme", subject="alice", roles=("operator",))
BOB = Principal(tenant="acme", subject="bob")
ALICE_ELSEWHERE = Principal(tenant="globex", subject="alice")
AGENT = AgentSpec(
    name="ops-diagnosis",
    model="scripted",
    instructions="Find the cause.",
    tools=("metrics_query", "rollback"),
    limits=Limits(model_output_tokens_max=100),
)
LEASE: Micros = 3 * MICROS_PER_SECOND
READ = PlannedCall(
    id="1.0",
    provider_call_id="p1",
    name="metrics_query",
    arguments='{"resource":"payment-service"}',
    effect=Effect.READ,
    tool_hash="hash-of-metrics",
)
WRITE = PlannedCall(
    id="1.1",
    provider_call_id="p2",
    name="rollback",
    arguments='{"service":"payment-service"}',
    effect=Effect.WRITE,
    tool_hash="hash-of-rollback",
)


LateFactBody = tuple[CallFinished, Evidence | None]
LateFact = tuple[str, CallFinished, Evidence | None]
"""Task, the end of a write that came after the claim was lost, and its evidence."""


class Store(TaskRepository, TaskLeases, TaskViews, Blobs, Protocol):
    """The task ports that one store gives."""


class World:
    """A store and what surrounds it.

    `told` is every task row that the store announced; `late_facts` reads those that it kept.
    """

    def __init__(
        self,
        store: Store,
        clock: ManualClock,
        ids: SequentialIds,
        limits: ServerLimits,
        told: list[Task],
        late_facts: Callable[[], list[LateFact]],
    ) -> None:
        self.store = store
        self.clock = clock
        self.ids = ids
        self.limits = limits
        self.told = told
        self.late_facts = late_facts

    def new_task(
        self, *, principal: Principal = ALICE, agent: AgentSpec = AGENT, prompt: str = "Why?"
    ) -> NewTask:
        task = Task(
            id=self.ids.new("task"),
            principal=principal,
            agent=agent.name,
            agent_digest=digest_of(agent),
            prompt=prompt,
            state=TaskState.PENDING,
            created_at=self.clock.now(),
            last_seq=1,
        )
        return NewTask(task=task, agent=agent)

    def key(self, key: str, body: str = "body", seconds: float = 3600) -> IdempotencyKey:
        return IdempotencyKey(
            route="POST /v1/tasks",
            key=key,
            body_hash=sha256_hex(body),
            expires_at=self.clock.now() + round(seconds * MICROS_PER_SECOND),
        )

    async def added(
        self,
        *,
        principal: Principal = ALICE,
        agent: AgentSpec = AGENT,
        prompt: str = "Why?",
        key: IdempotencyKey | None = None,
    ) -> Added:
        return await self.store.add(
            self.new_task(principal=principal, agent=agent, prompt=prompt), key
        )

    async def add(self, *, principal: Principal = ALICE, agent: AgentSpec = AGENT) -> Task:
        return (await self.added(principal=principal, agent=agent)).task

    async def take(
        self,
        task_id: str | None = None,
        *,
        owner: str = "worker-1",
        agents: Sequence[str] = (AGENT.name,),
        lease: Micros = LEASE,
    ) -> Claim | None:
        return await self.store.claim(owner, lease, agents, task_id)

    async def claim(self, task_id: str | None = None, *, owner: str = "worker-1") -> Claim:
        claim = await self.take(task_id, owner=owner)
        assert claim is not None
        return claim

    async def running(self) -> tuple[Claim, TaskSnapshot]:
        """Add a task, claim it and load it."""
        task = await self.add()
        claim = await self.claim(task.id)
        return claim, await self.store.load(claim)

    async def planned(self, *calls: PlannedCall) -> tuple[Claim, TaskSnapshot]:
        """Bring a task to where the model has proposed `calls`."""
        claim, snapshot = await self.running()
        return claim, await self.store.commit(claim, self.step(snapshot, *calls))

    async def started(self) -> tuple[Claim, TaskSnapshot]:
        """Bring a task to where the intent of a write is committed."""
        claim, snapshot = await self.planned(WRITE)
        return claim, await self.store.commit(claim, self.start(claim, snapshot))

    def change(
        self,
        base: TaskSnapshot,
        *entries: Entry,
        evidence: tuple[Evidence, ...] = (),
        needs_lease: bool = False,
        usage: Usage | None = None,
    ) -> TaskChange:
        return TaskChange(
            id=self.ids.random(),
            base=base,
            state=TaskState.RUNNING,
            usage=usage if usage is not None else base.task.usage,
            entries=entries,
            evidence=evidence,
            needs_lease=needs_lease,
        )

    def step(self, base: TaskSnapshot, *calls: PlannedCall, text: str = "I look.") -> TaskChange:
        used = base.task.usage
        return self.change(
            base,
            ModelReplied(step=used.steps + 1, text=text, calls=calls),
            usage=structs.replace(
                used, steps=used.steps + 1, tool_calls=used.tool_calls + len(calls)
            ),
        )

    def start(self, claim: Claim, base: TaskSnapshot) -> TaskChange:
        entry = WriteStarted(
            call_id=WRITE.id,
            epoch=claim.epoch,
            idempotency_key="key-of-the-call",
            send_by=claim.lease_expires_at,
        )
        return self.change(base, entry, needs_lease=True)

    def result(
        self,
        base: TaskSnapshot,
        call: PlannedCall,
        state: CallState = CallState.SUCCEEDED,
        content: str = "error rate 12 %",
    ) -> TaskChange:
        item = self.evidence(base.task, call, content)
        finished = CallFinished(call_id=call.id, state=state, evidence_id=item.id)
        return self.change(base, finished, evidence=(item,))

    def evidence(self, task: Task, call: PlannedCall, content: str = "12 %") -> Evidence:
        return Evidence(
            id=self.ids.new("ev"),
            task_id=task.id,
            call_id=call.id,
            tool=call.name,
            tool_hash=call.tool_hash,
            source="prometheus:shop",
            status=EvidenceStatus.OK,
            trust=Trust.MEASURED,
            synthetic=True,
            content=content,
            truncated=False,
            digest=sha256_hex(content),
            size_bytes=len(content.encode()),
            observed_at=self.clock.now(),
        )

    def end(self, base: TaskSnapshot, ending: Ending | None = None) -> TaskChange:
        chosen = ending or Succeeded(output=FinalAnswer(summary="The release broke it."))
        return end_task(base, chosen, change_id=self.ids.random())

    async def finished(self, *, principal: Principal = ALICE) -> Task:
        """Add a task and bring it to its answer."""
        task = await self.add(principal=principal)
        claim = await self.claim(task.id)
        snapshot = await self.store.load(claim)
        return (await self.store.commit(claim, self.end(snapshot))).task

    async def journal(self, task: Task) -> list[Entry]:
        """Return the entries of `task`, having checked that their numbers have no gap."""
        items = await self.store.entries(task.principal, task.id, 0, 1000)
        assert [item.seq for item in items] == list(range(1, len(items) + 1))
        assert all(item.task_id == task.id for item in items)
        return [item.entry for item in items]

    async def everything(self, *principals: Principal) -> list[object]:
        """Return all that these principals can read, for comparing stores or moments."""
        seen: list[object] = [await self.store.counts()]
        for principal in principals or (ALICE, BOB, ALICE_ELSEWHERE):
            for task in await self.store.list(principal, TaskFilter(count_max=1000)):
                seen += [task, await self.store.get(principal, task.id)]
                seen += await self.store.entries(principal, task.id, 0, 1000)
        return seen


def digest_of(agent: AgentSpec) -> str:
    return sha256_hex(msgspec.json.encode(agent))


def without_permits(snapshot: TaskSnapshot) -> TaskSnapshot:
    """Return `snapshot` as any other process would load it."""
    return structs.replace(snapshot, permits=frozenset())


Opener = Callable[..., AbstractAsyncContextManager[World]]


@asynccontextmanager
async def open_memory(
    folder: Path,
    *,
    limits: ServerLimits | None = None,
    clock: ManualClock | None = None,
    ids: SequentialIds | None = None,
) -> AsyncGenerator[World]:
    """Open a memory store; `folder` is what other stores need."""
    del folder
    clock = clock or ManualClock()
    ids = ids or SequentialIds()
    limits = limits or ServerLimits()
    told: list[Task] = []
    store = MemoryStore(clock=clock, ids=ids, limits=limits, on_commit=told.append)

    def late_facts() -> list[LateFact]:
        return [(fact.task_id, fact.entry, fact.evidence) for fact in store.late_facts]

    await store.open()
    try:
        yield World(store, clock, ids, limits, told, late_facts)
    finally:
        await store.close()


@asynccontextmanager
async def open_sqlite(
    folder: Path,
    *,
    limits: ServerLimits | None = None,
    clock: ManualClock | None = None,
    ids: SequentialIds | None = None,
) -> AsyncGenerator[World]:
    """Open (or open again) the SQLite store of `folder`."""
    clock = clock or ManualClock()
    ids = ids or SequentialIds()
    limits = limits or ServerLimits()
    told: list[Task] = []
    store = SqliteStore(
        SqliteSettings(path=folder / "aegis.db"),
        clock=clock,
        ids=ids,
        limits=limits,
        on_commit=told.append,
    )
    await store.open()
    try:
        yield World(store, clock, ids, limits, told, partial(late_facts_in, folder / "aegis.db"))
    finally:
        await store.close()


def late_facts_in(path: Path) -> list[LateFact]:
    """Read the late facts of a SQLite file: no port shows them yet."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT task_id, body FROM late_facts ORDER BY at").fetchall()
    return [(row[0], *msgspec.json.decode(row[1], type=LateFactBody)) for row in rows]


OPENERS: dict[str, Opener] = {"memory": open_memory, "sqlite": open_sqlite}
