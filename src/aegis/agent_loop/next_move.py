"""Decide the next move from a snapshot and the time. Pure."""

from aegis.agent_loop.move import AskModel, Fail, Move, RunTools, StartWrite
from aegis.domain.limits import Limits, Usage
from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.task import running_deadline
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallRecord, CallState


def next_move(snapshot: TaskSnapshot, now: Micros) -> Move:
    """Return what to do at `now` with a RUNNING task.

    A write in doubt comes first: whatever else is true, its outcome is not known. Then the total
    deadline, so that TASK_TIMEOUT is never reported as the timeout of a call.
    """
    limits = snapshot.agent.limits
    open_calls = snapshot.open_calls
    if any(_is_in_doubt(record, snapshot) for record in open_calls):
        return Fail(reason=ReasonCode.OUTCOME_UNKNOWN)
    remaining = running_deadline(snapshot.task, limits) - now
    if remaining <= 0:
        return Fail(reason=ReasonCode.TASK_TIMEOUT)
    if open_calls:
        return _next_call(snapshot, open_calls, remaining)
    exhausted = exhausted_budget(snapshot.task.usage, limits)
    if exhausted is not None:
        return Fail(reason=exhausted)
    timeout, reason = _bound(remaining, limits.model_call_micros_max, ReasonCode.LLM_TIMEOUT)
    # The position counts recorded replies, not charged steps: a lost call is asked again.
    return AskModel(step=len(snapshot.steps) + 1, timeout_micros=timeout, on_timeout=reason)


def exhausted_budget(usage: Usage, limits: Limits) -> ReasonCode | None:
    """Return which budget does not cover another model call, reserving its whole output."""
    if usage.steps >= limits.steps_max:
        return ReasonCode.MAX_STEPS_EXHAUSTED
    if (
        limits.tokens_max is not None
        and usage.tokens + limits.model_output_tokens_max > limits.tokens_max
    ):
        return ReasonCode.TOKEN_BUDGET_EXHAUSTED
    if (
        limits.cost_nano_dollars_max is not None
        and usage.cost_nano_dollars >= limits.cost_nano_dollars_max
    ):
        return ReasonCode.COST_BUDGET_EXHAUSTED
    return None


def _is_in_doubt(record: CallRecord, snapshot: TaskSnapshot) -> bool:
    """Whether another process, or this one before a lost commit, may have sent it (06, rule 1)."""
    return record.state is CallState.STARTED and record.call.id not in snapshot.permits


def _next_call(
    snapshot: TaskSnapshot, open_calls: tuple[CallRecord, ...], remaining: Micros
) -> Move:
    limits = snapshot.agent.limits
    timeout, reason = _bound(remaining, limits.tool_call_micros_max, ReasonCode.TOOL_TIMEOUT)
    first = open_calls[0]
    if first.state is CallState.STARTED:
        return RunTools(records=(first,), timeout_micros=timeout, on_timeout=reason)
    if first.call.effect is Effect.WRITE:
        return StartWrite(record=first)
    reads: list[CallRecord] = []
    for record in open_calls:
        if record.call.effect is Effect.WRITE:
            break
        reads.append(record)
    return RunTools(records=tuple(reads), timeout_micros=timeout, on_timeout=reason)


def _bound(
    remaining: Micros, call_max: Micros, call_reason: ReasonCode
) -> tuple[Micros, ReasonCode]:
    if remaining <= call_max:
        return remaining, ReasonCode.TASK_TIMEOUT
    return call_max, call_reason
