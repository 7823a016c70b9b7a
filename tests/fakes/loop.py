"""A loop on the memory store with a model and tools that a test scripts in Python."""

from collections.abc import Callable, Sequence

import msgspec

from aegis.agent_loop.context import LoopContext
from aegis.agent_loop.run_task import run_task
from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.errors import ConfigurationError
from aegis.domain.evidence import Evidence, EvidenceStatus, Trust
from aegis.domain.model import ModelReply
from aegis.domain.principal import Principal
from aegis.domain.reason import ReasonCode
from aegis.domain.server_limits import ServerLimits
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.tool import Effect, ToolSpec
from aegis.domain.tool_call import AssessedCall, CallState, PlannedCall, ProposedCall
from aegis.domain.tool_result import ToolResult
from aegis.ports.task_repository import NewTask
from aegis.stores.memory.store import MemoryStore
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

WHO = Principal(tenant="t", subject="s", roles=("operator",))
LEASE = 3_000_000


class PythonModel:
    """Answers with the given replies in order; a callable is called, an exception raised."""

    def __init__(self, *replies) -> None:
        self._replies = list(replies)
        self.requests = []

    async def reply(self, request, on_delta):
        self.requests.append(request)
        answer = self._replies[request.step - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


class PythonTools:
    """Every call succeeds unless `ends` names another end for its tool. `ran` is the effect."""

    def __init__(self, ends: dict[str, CallState] | None = None, *, lacking=False) -> None:
        self.ends = ends or {}
        self.lacking = lacking
        self.ran: list[str] = []
        self.before_run: Callable[[], None] = lambda: None

    def describe(self, names: Sequence[str]):
        if self.lacking:
            raise ConfigurationError("a tool is gone")
        return [
            ToolSpec(name=name, description=name, input_schema="{}", effect=Effect.READ)
            for name in names
        ]

    async def assess(self, calls: Sequence[ProposedCall], context):
        return [
            AssessedCall(
                name=call.name,
                arguments=call.arguments,
                effect=Effect.WRITE if call.name.startswith("write") else Effect.READ,
                tool_hash="hash",
            )
            for call in calls
        ]

    async def execute(self, calls: Sequence[PlannedCall], context):
        results = []
        for call in calls:
            self.before_run()
            self.ran.append(call.id)
            state = self.ends.get(call.name, CallState.SUCCEEDED)
            error = {
                CallState.SUCCEEDED: None,
                CallState.SKIPPED: None,
                CallState.FAILED: ReasonCode.TOOL_ERROR,
                CallState.DENIED: ReasonCode.TOOL_DENIED,
                CallState.IN_DOUBT: ReasonCode.OUTCOME_UNKNOWN,
            }[state]
            item = None
            if state is CallState.SUCCEEDED:
                item = Evidence(
                    id=f"ev_{call.id}",
                    task_id=context.task_id,
                    call_id=call.id,
                    tool=call.name,
                    tool_hash=call.tool_hash,
                    source="python",
                    status=EvidenceStatus.OK,
                    trust=Trust.MEASURED,
                    synthetic=True,
                    content="{}",
                    truncated=False,
                    digest=sha256_hex("{}"),
                    size_bytes=2,
                    observed_at=0,
                )
            results.append(ToolResult(call_id=call.id, state=state, evidence=item, error=error))
        return results


class FixedLease:
    """The claim as it was made: nobody renews it."""

    def __init__(self, claim) -> None:
        self._claim = claim

    def current(self):
        return self._claim


class Loop:
    """One task of `agent` on a memory store, and what the loop told on its way."""

    def __init__(self, agent: AgentSpec, model, tools=None) -> None:
        self.agent = agent
        self.model = model
        self.tools = tools or PythonTools()
        self.clock = ManualClock()
        self.ids = SequentialIds()
        self.store = MemoryStore(
            clock=self.clock, ids=self.ids, limits=ServerLimits(), on_commit=lambda _task: None
        )
        self.told = []
        self.faults = []
        self.stop_after: int | None = None

    async def claim(self, *, add: bool = True):
        if add:
            task = Task(
                id="task_1",
                principal=WHO,
                agent=self.agent.name,
                agent_digest=sha256_hex(msgspec.json.encode(self.agent)),
                prompt="Why?",
                state=TaskState.PENDING,
                created_at=self.clock.now(),
                last_seq=1,
            )
            await self.store.add(NewTask(task=task, agent=self.agent), None)
        return await self.store.claim("w", LEASE, [self.agent.name], "task_1")

    async def run(self, claim=None, repository=None):
        held = claim or await self.claim()
        return await run_task(repository or self.store, self.context(held))

    def context(self, claim) -> LoopContext:
        return LoopContext(
            lease=FixedLease(claim),
            models=self.model,
            tools=self.tools,
            clock=self.clock,
            ids=self.ids,
            on_delta=lambda _delta: None,
            on_call=self.told.append,
            stopping=lambda: (
                self.stop_after is not None and len(self.model.requests) >= self.stop_after
            ),
            on_fault=self.faults.append,
        )


def asks(*names: str, arguments: str = "{}", text: str = "") -> ModelReply:
    calls = tuple(
        ProposedCall(provider_call_id=f"p{n}", name=name, arguments=arguments)
        for n, name in enumerate(names)
    )
    return ModelReply(text=text, calls=calls)
