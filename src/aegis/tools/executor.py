"""The executor: assess without effect, authorize again, run, and tell the truth about it."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from aegis.domain.errors import AegisError, ConfigurationError, StoreUnavailable
from aegis.domain.micros import seconds
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect, ToolSpec
from aegis.domain.tool_call import (
    AssessedCall,
    Assessment,
    CallState,
    PlannedCall,
    ProposedCall,
    RefusedCall,
    idempotency_key,
)
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.domain.tool_result import ToolResult
from aegis.ports.authorizer import Authorizer, CallToAuthorize
from aegis.ports.clock import Clock
from aegis.ports.tool_executor import ToolContext
from aegis.tools.observing import Recorder
from aegis.tools.registry import InvalidArguments, Registered, Registry, canonical_or_raw
from aegis.tools.tool import Observation, ToolFailed

READS_AT_ONCE_MAX = 8

log = logging.getLogger("aegis.tools")


class Trouble(Struct, frozen=True, kw_only=True):
    """How a tool failed. `nothing_happened` is its own word that a write had no effect."""

    error: ReasonCode
    detail: str
    nothing_happened: bool


class Executor:
    """`ToolExecutor` over a registry. Nothing reaches a tool by another way."""

    def __init__(
        self, registry: Registry, authorizer: Authorizer, recorder: Recorder, clock: Clock
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._recorder = recorder
        self._clock = clock
        # asyncio holds its tasks weakly: a write that nobody awaits any more must not vanish.
        self._sending: set[asyncio.Future[ToolResult]] = set()

    def describe(self, names: Sequence[str]) -> Sequence[ToolSpec]:
        """See `ToolExecutor.describe`."""
        specs: list[ToolSpec] = []
        for name in names:
            found = self._registry.find(name)
            if found is None:
                raise ConfigurationError(f"tool {name!r} is not configured here")
            specs.append(found.spec)
        return specs

    async def assess(
        self, calls: Sequence[ProposedCall], context: ToolContext
    ) -> Sequence[Assessment]:
        """See `ToolExecutor.assess`."""
        until = _until(context)
        return [await self._assess(call, context, until) for call in calls]

    async def execute(
        self, calls: Sequence[PlannedCall], context: ToolContext
    ) -> Sequence[ToolResult]:
        """See `ToolExecutor.execute`.

        All calls share one deadline: a read that waits for its turn uses up its own time. A write
        whose send deadline is over is SKIPPED: nothing was sent. Raises `StoreUnavailable` where a
        result cannot be kept, and `ValueError` for a write that is not alone.
        """
        until = _until(context)
        if len(calls) == 1:
            if calls[0].effect is Effect.WRITE:
                return [await self._execute_write(calls[0], context, until)]
            # The common case: no task is made for a read that is alone.
            return [await self._execute_read(calls[0], context, until)]
        if any(call.effect is Effect.WRITE for call in calls):
            raise ValueError("a write runs alone, and this batch has more than one call")
        places = asyncio.Semaphore(READS_AT_ONCE_MAX)

        async def run(call: PlannedCall) -> ToolResult:
            try:
                async with asyncio.timeout_at(until), places:
                    return await self._execute_read(call, context, until)
            except TimeoutError:
                # Its own limit ends a read that has begun, so this one never had its turn.
                return self._failed(call, ReasonCode.TOOL_TIMEOUT, "never_begun", context)

        try:
            async with asyncio.TaskGroup() as group:
                running = [group.create_task(run(call)) for call in calls]
        except ExceptionGroup as several:
            # Only an unavailable store gets here; the worker knows it by its own name.
            raise several.exceptions[0] from None
        return [task.result() for task in running]

    async def _assess(self, call: ProposedCall, context: ToolContext, until: float) -> Assessment:
        found = self._registry.find(call.name)
        if found is None or call.name not in context.agent.tools:
            return RefusedCall(
                name=call.name,
                arguments=canonical_or_raw(call.arguments),
                reason=ReasonCode.TOOL_DENIED,
            )
        try:
            arguments = found.canonical(call.arguments)
        except InvalidArguments:
            return RefusedCall(
                name=call.name,
                arguments=canonical_or_raw(call.arguments),
                reason=ReasonCode.INVALID_DECISION,
            )
        if not await self._allows(found, arguments, context, until):
            return RefusedCall(name=call.name, arguments=arguments, reason=ReasonCode.TOOL_DENIED)
        return AssessedCall(
            name=call.name,
            arguments=arguments,
            effect=found.spec.effect,
            tool_hash=found.hash,
        )

    async def _allows(
        self, found: Registered, arguments: str, context: ToolContext, until: float
    ) -> bool:
        call = CallToAuthorize(
            principal=context.principal,
            agent=context.agent.name,
            environment=context.agent.environment,
            tool=found.spec.name,
            effect=found.spec.effect,
            arguments=arguments,
        )
        try:
            async with asyncio.timeout_at(until):
                # Only a plain yes is a yes; no answer in time is none.
                return await self._authorizer.allows(call) is True
        except Exception as error:  # noqa: BLE001 - a policy that fails denies (D2)
            log.error("policy failed with %s: denied", type(error).__name__)  # noqa: TRY400 - the text may hold values
            return False

    async def _permitted(
        self, call: PlannedCall, context: ToolContext, until: float
    ) -> Registered | None:
        """Return the tool if this very call may still run: same tool, same bytes, still allowed."""
        found = self._registry.find(call.name)
        if found is None or call.name not in context.agent.tools or call.refusal is not None:
            return None
        if found.hash != call.tool_hash or found.spec.effect is not call.effect:
            return None
        if not found.reproduces(call.arguments):
            return None
        return found if await self._allows(found, call.arguments, context, until) else None

    async def _execute_read(
        self, call: PlannedCall, context: ToolContext, until: float
    ) -> ToolResult:
        found = await self._permitted(call, context, until)
        if found is None:
            return _denied(call)
        seen = await self._attempt(found, call, context, until)
        if isinstance(seen, Observation):
            try:
                return await self._succeeded(found, call, seen, context)
            except ToolFailed as unstorable:
                return self._failed(call, ReasonCode.TOOL_ERROR, unstorable.detail, context)
        return self._failed(call, seen.error, seen.detail, context)

    async def _execute_write(
        self, call: PlannedCall, context: ToolContext, until: float
    ) -> ToolResult:
        found = await self._permitted(call, context, until)
        if found is None:
            return _denied(call)
        # A write that was sent is never torn down by us: its outcome is worth the wait. Whoever
        # is cancelled stops waiting; the write itself ends within its own time limit.
        sending = asyncio.ensure_future(self._send(found, call, context, until))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)
        return await asyncio.shield(sending)

    async def _send(
        self, found: Registered, call: PlannedCall, context: ToolContext, until: float
    ) -> ToolResult:
        late = asyncio.get_running_loop().time() >= until
        if late or self._clock.boottime() >= context.send_deadline:
            # Nothing was sent: the lease may be somebody else's before an answer could come.
            return ToolResult(call_id=call.id, state=CallState.SKIPPED)
        seen = await self._attempt(found, call, context, until)
        if isinstance(seen, Trouble):
            if seen.nothing_happened:
                return self._failed(call, seen.error, seen.detail, context)
            return self._in_doubt(call, seen.detail, context)
        try:
            return await self._succeeded(found, call, seen, context)
        except ToolFailed as unstorable:
            # It returned, but what it said cannot be kept: nobody could show that it happened.
            return self._in_doubt(call, unstorable.detail, context)
        except StoreUnavailable:
            return self._in_doubt(call, "result_not_kept", context)

    async def _attempt(
        self, found: Registered, call: PlannedCall, context: ToolContext, until: float
    ) -> Observation | Trouble:
        """Run the tool once, to `until` at the latest; every way to fail becomes a `Trouble`."""
        info = ToolCallInfo(
            principal=context.principal,
            task_id=context.task_id,
            idempotency_key=idempotency_key(context.task_id, call.id),
            fencing_token=context.epoch,
        )
        detail, nothing_happened = "", False
        limit = asyncio.timeout_at(until)
        try:
            async with limit:
                return await found.tool.run(msgspec.json.decode(call.arguments), info)
        except ToolFailed as failed:
            detail, nothing_happened = failed.detail, failed.nothing_happened
        except asyncio.CancelledError:
            if _cancel_was_asked():
                raise
            # Nobody cancelled us: a future inside the tool was, which is its failure.
            log.warning("tool %s cancelled itself", call.name)
        except (Exception, SystemExit) as defect:
            # Whatever a tool raises is a failed call, also an attempt to end the process.
            if isinstance(defect, StoreUnavailable) and call.effect is Effect.READ:
                # Our own store, not the tool: nothing can be recorded, so the run stops here.
                raise
            if not limit.expired():
                _log_defect(call, defect)
        error = ReasonCode.TOOL_TIMEOUT if limit.expired() else ReasonCode.TOOL_ERROR
        return Trouble(error=error, detail=detail, nothing_happened=nothing_happened)

    async def _succeeded(
        self, found: Registered, call: PlannedCall, seen: Observation, context: ToolContext
    ) -> ToolResult:
        evidence = await self._recorder.success(call, found.tool.source, seen, context)
        return ToolResult(call_id=call.id, state=CallState.SUCCEEDED, evidence=evidence)

    def _failed(
        self, call: PlannedCall, error: ReasonCode, detail: str, context: ToolContext
    ) -> ToolResult:
        evidence = self._recorder.failure(call, self._source(call), error, detail, context)
        return ToolResult(call_id=call.id, state=CallState.FAILED, evidence=evidence, error=error)

    def _in_doubt(self, call: PlannedCall, detail: str, context: ToolContext) -> ToolResult:
        error = ReasonCode.OUTCOME_UNKNOWN
        evidence = self._recorder.failure(call, self._source(call), error, detail, context)
        return ToolResult(call_id=call.id, state=CallState.IN_DOUBT, evidence=evidence, error=error)

    def _source(self, call: PlannedCall) -> str:
        found = self._registry.find(call.name)
        return found.tool.source if found is not None else "unknown"


def _denied(call: PlannedCall) -> ToolResult:
    return ToolResult(call_id=call.id, state=CallState.DENIED, error=ReasonCode.TOOL_DENIED)


def _until(context: ToolContext) -> float:
    return asyncio.get_running_loop().time() + seconds(context.timeout_micros)


def _cancel_was_asked() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _log_defect(call: PlannedCall, defect: BaseException) -> None:
    # The class alone: the text may hold what a back end said, or a secret.
    kind = defect.code if isinstance(defect, AegisError) else type(defect).__name__
    log.warning("tool %s ended with %s", call.name, kind)
