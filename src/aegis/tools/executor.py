"""The executor: assess without effect, authorize again, run, and tell the truth about it."""

import asyncio
import json
import logging
from collections.abc import Sequence

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
from aegis.tools.tool import ToolFailed

READS_AT_ONCE_MAX = 8

log = logging.getLogger("aegis.tools")


class Executor:
    """`ToolExecutor` over a registry. Nothing reaches a tool by another way."""

    def __init__(
        self, registry: Registry, authorizer: Authorizer, recorder: Recorder, clock: Clock
    ) -> None:
        self._registry = registry
        self._authorizer = authorizer
        self._recorder = recorder
        self._clock = clock

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
        return [await self._assess(call, context) for call in calls]

    async def execute(
        self, calls: Sequence[PlannedCall], context: ToolContext
    ) -> Sequence[ToolResult]:
        """See `ToolExecutor.execute`."""
        if len(calls) == 1:
            call = calls[0]
            if call.effect is Effect.WRITE:
                return [await self._execute_write(call, context)]
            return [await self._execute_read(call, context)]
        places = asyncio.Semaphore(READS_AT_ONCE_MAX)

        async def run(call: PlannedCall) -> ToolResult:
            async with places:
                return await self._execute_read(call, context)

        async with asyncio.TaskGroup() as group:
            running = [group.create_task(run(call)) for call in calls]
        return [task.result() for task in running]

    async def _assess(self, call: ProposedCall, context: ToolContext) -> Assessment:
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
        if not await self._allows(found, arguments, context):
            return RefusedCall(name=call.name, arguments=arguments, reason=ReasonCode.TOOL_DENIED)
        return AssessedCall(
            name=call.name,
            arguments=arguments,
            effect=found.spec.effect,
            tool_hash=found.hash,
        )

    async def _allows(self, found: Registered, arguments: str, context: ToolContext) -> bool:
        call = CallToAuthorize(
            principal=context.principal,
            agent=context.agent.name,
            environment=context.agent.environment,
            tool=found.spec.name,
            effect=found.spec.effect,
            arguments=arguments,
        )
        try:
            return await self._authorizer.allows(call)
        except Exception as error:  # noqa: BLE001 - a policy that fails denies (D2)
            log.error("policy failed with %s: denied", type(error).__name__)  # noqa: TRY400 - the text may hold values
            return False

    async def _permitted(self, call: PlannedCall, context: ToolContext) -> Registered | None:
        """Return the tool if this very call may still run: same tool, same bytes, still allowed."""
        found = self._registry.find(call.name)
        if found is None or found.hash != call.tool_hash or call.name not in context.agent.tools:
            return None
        try:
            if found.canonical(call.arguments) != call.arguments:
                return None
        except InvalidArguments:
            return None
        return found if await self._allows(found, call.arguments, context) else None

    async def _execute_read(self, call: PlannedCall, context: ToolContext) -> ToolResult:
        found = await self._permitted(call, context)
        if found is None:
            return _denied(call)
        error = ReasonCode.TOOL_ERROR
        limit = asyncio.timeout(seconds(context.timeout_micros))
        try:
            async with limit:
                return await self._observe(found, call, context)
        except ToolFailed as failed:
            detail = failed.detail
        except StoreUnavailable:
            # Our own store, not the tool: nothing can be recorded, so the run stops here.
            raise
        except TimeoutError:
            detail = "timeout"
            if limit.expired():
                error = ReasonCode.TOOL_TIMEOUT
        except Exception as defect:  # noqa: BLE001 - whatever a tool raises is a failed call
            _log_defect(call, defect)
            detail = "tool_error"
        return self._failed(call, found, error, detail, context)

    async def _execute_write(self, call: PlannedCall, context: ToolContext) -> ToolResult:
        found = await self._permitted(call, context)
        if found is None:
            return _denied(call)
        if self._clock.boottime() >= context.send_deadline:
            # Nothing was sent: the lease may be somebody else's before an answer could come.
            return ToolResult(call_id=call.id, state=CallState.SKIPPED)
        # A write that was sent is never torn down by us: its outcome is worth the wait.
        return await asyncio.shield(asyncio.ensure_future(self._send(found, call, context)))

    async def _send(self, found: Registered, call: PlannedCall, context: ToolContext) -> ToolResult:
        try:
            async with asyncio.timeout(seconds(context.timeout_micros)):
                return await self._observe(found, call, context)
        except ToolFailed as failed:
            if failed.nothing_happened:
                return self._failed(call, found, ReasonCode.TOOL_ERROR, failed.detail, context)
        except Exception as defect:  # noqa: BLE001 - sent, and no answer that we understand: in doubt
            _log_defect(call, defect)
        return ToolResult(
            call_id=call.id,
            state=CallState.IN_DOUBT,
            evidence=self._recorder.failure(call, found.tool.source, "outcome_unknown", context),
            error=ReasonCode.OUTCOME_UNKNOWN,
        )

    async def _observe(
        self, found: Registered, call: PlannedCall, context: ToolContext
    ) -> ToolResult:
        info = ToolCallInfo(
            principal=context.principal,
            task_id=context.task_id,
            idempotency_key=idempotency_key(context.task_id, call.id),
            fencing_token=context.epoch,
        )
        seen = await found.tool.run(json.loads(call.arguments), info)
        evidence = await self._recorder.success(call, found.tool.source, seen, context)
        return ToolResult(call_id=call.id, state=CallState.SUCCEEDED, evidence=evidence)

    def _failed(
        self,
        call: PlannedCall,
        found: Registered,
        error: ReasonCode,
        detail: str,
        context: ToolContext,
    ) -> ToolResult:
        evidence = self._recorder.failure(call, found.tool.source, detail, context)
        return ToolResult(call_id=call.id, state=CallState.FAILED, evidence=evidence, error=error)


def _denied(call: PlannedCall) -> ToolResult:
    return ToolResult(call_id=call.id, state=CallState.DENIED, error=ReasonCode.TOOL_DENIED)


def _log_defect(call: PlannedCall, defect: Exception) -> None:
    # The class alone: the text may hold what a back end said, or a secret.
    kind = defect.code if isinstance(defect, AegisError) else type(defect).__name__
    log.warning("tool %s ended with %s", call.name, kind)
