"""The checks of all calls of one reply, before any of them starts. Pure."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.text import cut_to_bytes
from aegis.domain.tool import Effect
from aegis.domain.tool_call import (
    AssessedCall,
    Assessment,
    CallState,
    PlannedCall,
    ProposedCall,
    RefusedCall,
    repeat_key,
)

REFUSED_ARGUMENTS_BYTES_MAX = 2048
"""How much of a refused call's arguments the journal keeps."""

_NEVER_RAN = frozenset({CallState.DENIED, CallState.SKIPPED})


class Plan(Struct, frozen=True, kw_only=True):
    """The calls of one reply; `first_refusal` is None where every call may run."""

    calls: tuple[PlannedCall, ...]
    first_refusal: ReasonCode | None

    @property
    def admitted(self) -> int:
        """How many calls are reserved in the budget."""
        return sum(call.refusal is None for call in self.calls)


def plan_calls(
    snapshot: TaskSnapshot,
    step: int,
    proposed: Sequence[ProposedCall],
    assessments: Sequence[Assessment],
) -> Plan:
    """Check each call in the order repeat, budget, authorization (A5), and reserve the budget."""
    agent = snapshot.agent
    usage = snapshot.task.usage
    ran = _ran_since_last_write(snapshot)
    reserved = usage.tool_calls
    bytes_left = usage.result_bytes < agent.limits.result_bytes_max
    calls: list[PlannedCall] = []
    first: ReasonCode | None = None
    for index, (call, assessment) in enumerate(zip(proposed, assessments, strict=True)):
        key = repeat_key(assessment.name, assessment.arguments)
        within = reserved < agent.limits.tool_calls_max and bytes_left
        refusal = _refusal(agent, ran[key], within, assessment)
        if refusal is None:
            ran[key] += 1
            reserved += 1
        elif first is None:
            first = refusal
        calls.append(_planned(f"{step}.{index}", call, assessment, refusal))
    return Plan(calls=tuple(calls), first_refusal=first)


def _refusal(
    agent: AgentSpec, ran: int, within_budget: bool, assessment: Assessment
) -> ReasonCode | None:
    if ran >= agent.repeat_max:
        return ReasonCode.REPEATED_TOOL_CALL
    if not within_budget:
        return ReasonCode.TOOL_BUDGET_EXHAUSTED
    return assessment.reason if isinstance(assessment, RefusedCall) else None


def _planned(
    call_id: str, call: ProposedCall, assessment: Assessment, refusal: ReasonCode | None
) -> PlannedCall:
    if isinstance(assessment, AssessedCall):
        arguments, effect, pinned = (
            assessment.arguments,
            assessment.effect,
            assessment.tool_hash,
        )
    else:
        arguments = cut_to_bytes(assessment.arguments, REFUSED_ARGUMENTS_BYTES_MAX)
        effect, pinned = Effect.READ, ""
    return PlannedCall(
        id=call_id,
        provider_call_id=call.provider_call_id,
        name=assessment.name,
        arguments=arguments,
        effect=effect,
        tool_hash=pinned,
        refusal=refusal,
    )


def _ran_since_last_write(snapshot: TaskSnapshot) -> Counter[str]:
    """Count calls since the last successful write: after it, a read tells new things."""
    counts: Counter[str] = Counter()
    for record in snapshot.calls:
        call = record.call
        if call.effect is Effect.WRITE and record.state is CallState.SUCCEEDED:
            counts.clear()
        if record.state not in _NEVER_RAN:
            counts[repeat_key(call.name, call.arguments)] += 1
    return counts
