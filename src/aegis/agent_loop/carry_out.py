"""Carry a move out: the only awaits on the world. Returns the change to commit."""

from collections.abc import Sequence
from typing import assert_never

from msgspec import structs

from aegis.agent_loop.conclude import (
    TEXT_CODE_POINTS_MAX,
    Answer,
    Calls,
    Refused,
    conclude,
    unpriced,
)
from aegis.agent_loop.context import Calling, LoopContext
from aegis.agent_loop.move import AskModel, Fail, Move, RunTools, StartWrite
from aegis.agent_loop.next_move import exhausted_budget
from aegis.agent_loop.plan import plan_calls
from aegis.agent_loop.prompt import build_request
from aegis.domain.agent import OnToolFailure
from aegis.domain.change import TaskChange
from aegis.domain.ending import Failed, Succeeded, end_task
from aegis.domain.entry import CallFinished, Entry, ModelReplied, WriteStarted
from aegis.domain.errors import ConfigurationError, LostClaim
from aegis.domain.limits import Usage, after_model_call
from aegis.domain.micros import Micros
from aegis.domain.model import ModelFailed, ModelReply
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.text import cut_to_bytes, is_storable
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState, ProposedCall, idempotency_key
from aegis.domain.tool_result import ToolResult
from aegis.ports.tool_executor import ToolContext


async def carry_out(move: Move, snapshot: TaskSnapshot, context: LoopContext) -> TaskChange:
    """Do what `move` says and return what it changes. Raises `LostClaim`."""
    match move:
        case AskModel():
            return await _ask_model(move, snapshot, context)
        case StartWrite():
            return _start_write(move, snapshot, context)
        case RunTools():
            return await _run_tools(move, snapshot, context)
        case Fail():
            return fail(snapshot, context, move.reason)
        case _:
            assert_never(move)


async def _ask_model(move: AskModel, snapshot: TaskSnapshot, context: LoopContext) -> TaskChange:
    if context.lease.current().lease_expires_at <= context.clock.now():
        raise LostClaim("the lease ran out before the model was asked")
    try:
        tools = tuple(context.tools.describe(snapshot.agent.tools))
    except ConfigurationError:
        return fail(snapshot, context, ReasonCode.AGENT_UNAVAILABLE)
    context.on_call(Calling(writes=False, timeout_micros=move.timeout_micros))
    try:
        reply = await context.models.reply(build_request(snapshot, tools, move), context.on_delta)
    except ModelFailed as failed:
        usage = after_model_call(snapshot.task.usage, failed.usage)
        reason = failed.reason
        if reason is ReasonCode.LLM_TIMEOUT:
            reason = move.on_timeout
        return fail(snapshot, context, reason, usage=usage)
    usage = after_model_call(snapshot.task.usage, reply.usage)
    if unpriced(snapshot.agent, reply):
        return fail(snapshot, context, ReasonCode.COST_BUDGET_EXHAUSTED, usage=usage)
    decision = conclude(snapshot, reply)
    match decision:
        case Answer():
            return end_task(
                snapshot,
                Succeeded(output=decision.final),
                change_id=context.ids.random(),
                usage=usage,
                entries=(_replied(move, reply),),
            )
        case Refused():
            entries = (_replied(move, reply),)
            return fail(snapshot, context, decision.reason, usage=usage, entries=entries)
        case Calls():
            return await _plan(move, snapshot, context, reply, decision.calls, usage)
        case _:
            assert_never(decision)


async def _plan(  # noqa: PLR0913, PLR0917 - one private step of _ask_model, with what that step knows
    move: AskModel,
    snapshot: TaskSnapshot,
    context: LoopContext,
    reply: ModelReply,
    proposed: tuple[ProposedCall, ...],
    usage: Usage,
) -> TaskChange:
    tool_context = _tool_context(
        snapshot, context, min(move.timeout_micros, snapshot.agent.limits.tool_call_micros_max)
    )
    assessments = await context.tools.assess(proposed, tool_context)
    plan = plan_calls(snapshot, move.step, proposed, assessments)
    usage = structs.replace(usage, tool_calls=usage.tool_calls + plan.admitted)
    replied = structs.replace(_replied(move, reply), calls=plan.calls)
    reason: ReasonCode | None = None
    if snapshot.agent.on_tool_failure is OnToolFailure.FAIL:
        reason = plan.first_refusal
    if reason is None and usage.steps >= snapshot.agent.limits.steps_max:
        # No step is left to read a result, so nothing of this reply is worth running.
        reason = exhausted_budget(usage, snapshot.agent.limits)
    if reason is not None:
        return fail(snapshot, context, reason, usage=usage, entries=(replied,))
    return TaskChange(
        id=context.ids.random(),
        base=snapshot,
        state=TaskState.RUNNING,
        usage=usage,
        entries=(replied,),
    )


def _start_write(move: StartWrite, snapshot: TaskSnapshot, context: LoopContext) -> TaskChange:
    claim = context.lease.current()
    task, call = snapshot.task, move.record.call
    return TaskChange(
        id=context.ids.random(),
        base=snapshot,
        state=TaskState.RUNNING,
        usage=task.usage,
        entries=(
            WriteStarted(
                call_id=call.id,
                epoch=claim.epoch,
                idempotency_key=idempotency_key(task.id, call.id),
                send_by=claim.lease_expires_at,
            ),
        ),
        needs_lease=True,
    )


async def _run_tools(move: RunTools, snapshot: TaskSnapshot, context: LoopContext) -> TaskChange:
    calls = tuple(record.call for record in move.records)
    writes = calls[0].effect is Effect.WRITE
    tool_context = _tool_context(snapshot, context, move.timeout_micros)
    context.on_call(Calling(writes=writes, timeout_micros=move.timeout_micros))
    results = await context.tools.execute(calls, tool_context)
    usage = snapshot.task.usage
    received = sum(result.evidence.size_bytes for result in results if result.evidence)
    usage = structs.replace(usage, result_bytes=usage.result_bytes + received)
    entries: list[Entry] = [_finished(result) for result in results]
    evidence = tuple(result.evidence for result in results if result.evidence is not None)
    reason = _ends_task(move, snapshot, results)
    if reason is not None:
        return end_task(
            snapshot,
            Failed(reason=reason),
            change_id=context.ids.random(),
            usage=usage,
            entries=tuple(entries),
            evidence=evidence,
        )
    if any(result.state is not CallState.SUCCEEDED for result in results):
        entries.extend(_skip_the_rest(move, snapshot))
    return TaskChange(
        id=context.ids.random(),
        base=snapshot,
        state=TaskState.RUNNING,
        usage=usage,
        entries=tuple(entries),
        evidence=evidence,
    )


def _ends_task(
    move: RunTools, snapshot: TaskSnapshot, results: Sequence[ToolResult]
) -> ReasonCode | None:
    for result in results:
        if result.state is CallState.IN_DOUBT:
            return ReasonCode.OUTCOME_UNKNOWN
        if result.error is ReasonCode.TOOL_TIMEOUT and move.on_timeout is ReasonCode.TASK_TIMEOUT:
            return ReasonCode.TASK_TIMEOUT
    if snapshot.agent.on_tool_failure is OnToolFailure.TELL_MODEL:
        return None
    for result in results:
        if result.state is not CallState.SUCCEEDED:
            return result.error or ReasonCode.TOOL_ERROR
    return None


def _skip_the_rest(move: RunTools, snapshot: TaskSnapshot) -> list[Entry]:
    running = {record.call.id for record in move.records}
    return [
        CallFinished(call_id=record.call.id, state=CallState.SKIPPED)
        for record in snapshot.open_calls
        if record.call.id not in running
    ]


def fail(
    snapshot: TaskSnapshot,
    context: LoopContext,
    reason: ReasonCode,
    *,
    usage: Usage | None = None,
    entries: tuple[Entry, ...] = (),
) -> TaskChange:
    """Return the change that fails the task with `reason`, decided by the loop itself."""
    return end_task(
        snapshot,
        Failed(reason=reason),
        change_id=context.ids.random(),
        usage=usage,
        entries=entries,
    )


def _replied(move: AskModel, reply: ModelReply) -> ModelReplied:
    # A refused reply is journalled too, but never text that an engine could not store.
    text = cut_to_bytes(reply.text, TEXT_CODE_POINTS_MAX) if is_storable(reply.text) else ""
    return ModelReplied(step=move.step, text=text, usage=reply.usage, attempts=reply.attempts)


def _finished(result: ToolResult) -> CallFinished:
    return CallFinished(
        call_id=result.call_id,
        state=result.state,
        evidence_id=result.evidence.id if result.evidence is not None else None,
        error=result.error,
    )


def _tool_context(
    snapshot: TaskSnapshot, context: LoopContext, timeout_micros: Micros
) -> ToolContext:
    claim = context.lease.current()
    return ToolContext(
        principal=snapshot.task.principal,
        agent=snapshot.agent,
        task_id=snapshot.task.id,
        epoch=claim.epoch,
        timeout_micros=timeout_micros,
        send_deadline=claim.send_deadline,
    )
