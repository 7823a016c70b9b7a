"""What the tests of the executor stand on: fakes of its ports, and short ways to call it."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.errors import NotFound
from aegis.domain.principal import Principal
from aegis.domain.tool import Effect, ToolSpec
from aegis.domain.tool_call import AssessedCall, Assessment, PlannedCall, ProposedCall
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.domain.tool_result import ToolResult
from aegis.ports.authorizer import Authorizer, CallToAuthorize
from aegis.ports.tool_executor import ToolContext
from aegis.tools.executor import Executor
from aegis.tools.observing import Recorder
from aegis.tools.registry import Registry
from aegis.tools.tool import Observation, Tool
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

CANARY = "hunter2-canary"
ALICE = Principal(tenant="acme", subject="alice", roles=("operator",))
ANY_OBJECT = '{"type":"object"}'

Runs = Callable[[dict[str, object], ToolCallInfo], Awaitable[object]]


class Policy:
    """`Authorizer` that says what `allowed` says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.allowed = True
        self.asked: list[CallToAuthorize] = []

    async def allows(self, call: CallToAuthorize) -> bool:
        self.asked.append(call)
        return self.allowed


class KeptBlobs:
    """`Blobs` in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}

    async def put(self, tenant: str, content: bytes) -> str:
        digest = sha256_hex(content)
        self.kept[tenant, digest] = content
        return digest

    async def fetch(self, tenant: str, digest: str) -> bytes:
        try:
            return self.kept[tenant, digest]
        except KeyError:
            raise NotFound(f"no blob {digest!r}") from None


class ToolFake:
    """`Tool` from a function; counts how often it began, and keeps what it was given."""

    def __init__(
        self,
        runs: Runs,
        *,
        name: str = "look",
        effect: Effect = Effect.READ,
        schema: str = ANY_OBJECT,
    ) -> None:
        self._runs = runs
        self.spec = ToolSpec(
            name=name, description="For tests.", input_schema=schema, effect=effect
        )
        self.source = f"fake:{name}"
        self.given: list[dict[str, object]] = []
        self.infos: list[ToolCallInfo] = []

    async def run(self, arguments: dict[str, object], info: ToolCallInfo) -> Observation:
        self.given.append(arguments)
        self.infos.append(info)
        content = await self._runs(arguments, info)
        return content if isinstance(content, Observation) else Observation(content=content)


class Bench:
    """An executor over `tools` with fakes around it."""

    def __init__(self, tools: Iterable[Tool], authorizer: Authorizer | None = None) -> None:
        registry = Registry(tools)
        self.names = tuple(registry.tools)
        self.policy = Policy()
        self.blobs = KeptBlobs()
        self.clock = ManualClock()
        recorder = Recorder(self.blobs, self.clock, SequentialIds())
        self.executor = Executor(registry, authorizer or self.policy, recorder, self.clock)

    def context(
        self,
        *,
        tools: Sequence[str] | None = None,
        timeout_seconds: float = 30.0,
        shown_bytes_max: int = 16 * 1024,
        send_seconds: float = 60.0,
    ) -> ToolContext:
        agent = AgentSpec(
            name="ops",
            model="m",
            instructions="",
            tools=tuple(tools) if tools is not None else self.names,
            result_bytes_shown_max=shown_bytes_max,
        )
        return ToolContext(
            principal=ALICE,
            agent=agent,
            task_id="task_1",
            epoch=7,
            timeout_micros=round(timeout_seconds * 1_000_000),
            send_deadline=self.clock.boottime() + round(send_seconds * 1_000_000),
        )

    async def assess(
        self, name: str, arguments: str, context: ToolContext | None = None
    ) -> Assessment:
        call = ProposedCall(provider_call_id="p1", name=name, arguments=arguments)
        (assessment,) = await self.executor.assess([call], context or self.context())
        return assessment

    async def plan(self, name: str, arguments: str = "{}", call_id: str = "1.0") -> PlannedCall:
        assessed = await self.assess(name, arguments)
        assert isinstance(assessed, AssessedCall), assessed
        return PlannedCall(
            id=call_id,
            provider_call_id="p1",
            name=assessed.name,
            arguments=assessed.arguments,
            effect=assessed.effect,
            tool_hash=assessed.tool_hash,
        )

    async def execute(
        self, *calls: PlannedCall, context: ToolContext | None = None
    ) -> Sequence[ToolResult]:
        return await self.executor.execute(calls, context or self.context())

    async def run(
        self, name: str, arguments: str = "{}", context: ToolContext | None = None
    ) -> ToolResult:
        (result,) = await self.execute(await self.plan(name, arguments), context=context)
        return result


def returning(content: object) -> Runs:
    async def run(_arguments: dict[str, object], _info: ToolCallInfo) -> object:
        return content

    return run


def raising(error: BaseException) -> Runs:
    async def run(_arguments: dict[str, object], _info: ToolCallInfo) -> object:
        raise error

    return run


async def never_ends(_arguments: dict[str, object], _info: ToolCallInfo) -> object:
    await asyncio.get_running_loop().create_future()
    return None
