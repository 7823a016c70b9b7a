"""Assemble the request to the model from the ledger. Pure."""

import msgspec

from aegis.agent_loop.move import AskModel
from aegis.domain.evidence import Evidence
from aegis.domain.model import AssistantMessage, Message, ModelRequest, ToolMessage, UserMessage
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.tool import ToolSpec
from aegis.domain.tool_call import CallRecord, CallState, ProposedCall

_WHAT_HAPPENED = {
    CallState.FAILED: "the tool failed",
    CallState.DENIED: "the call was refused and did not run",
    CallState.SKIPPED: "the call was not begun",
    CallState.INTERRUPTED: "the call may have begun; its result is not known",
    CallState.IN_DOUBT: "the write was started; its outcome is not known",
}


def build_request(
    snapshot: TaskSnapshot, tools: tuple[ToolSpec, ...], move: AskModel
) -> ModelRequest:
    """Return the request for `move`.

    The transcript is built from the ledger, so that every call has exactly one truthful result
    whatever happened to it. Tool text stands only in tool messages, never in the instructions.
    """
    by_id = {record.call.id: record for record in snapshot.calls}
    evidence = {item.id: item for item in snapshot.evidence}
    messages: list[Message] = [UserMessage(text=snapshot.task.prompt)]
    for step in snapshot.steps:
        records = [by_id[call_id] for call_id in step.call_ids]
        proposed = tuple(
            ProposedCall(
                provider_call_id=record.call.provider_call_id,
                name=record.call.name,
                arguments=record.call.arguments,
            )
            for record in records
        )
        messages.append(AssistantMessage(text=step.text, calls=proposed))
        messages.extend(_tool_message(record, evidence) for record in records)
    agent = snapshot.agent
    return ModelRequest(
        model=agent.model,
        step=move.step,
        instructions=agent.instructions,
        messages=tuple(messages),
        tools=tools,
        output_tokens_max=agent.limits.model_output_tokens_max,
        timeout_micros=move.timeout_micros,
    )


def _tool_message(record: CallRecord, evidence: dict[str, Evidence]) -> ToolMessage:
    found = evidence.get(record.evidence_id) if record.evidence_id else None
    if record.state is CallState.SUCCEEDED and found is not None:
        content = found.content
        if found.truncated:
            shown = len(found.content.encode())
            content += f"\n[cut: the first {shown} of {found.size_bytes} bytes are shown]"
    else:
        content = _not_a_result(record, found)
    return ToolMessage(
        provider_call_id=record.call.provider_call_id,
        name=record.call.name,
        state=record.state,
        content=content,
        evidence_id=record.evidence_id,
    )


def _not_a_result(record: CallRecord, found: Evidence | None) -> str:
    facts: dict[str, object] = {
        "state": record.state.value,
        "error": record.error.value if record.error else None,
        "what_happened": _WHAT_HAPPENED.get(record.state, "no result is recorded"),
    }
    if found is not None:
        facts["detail"] = found.content
    return msgspec.json.encode(facts).decode()
