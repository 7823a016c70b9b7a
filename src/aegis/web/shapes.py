"""What the API shows, as records: the one source of responses and of the OpenAPI schemas."""

from datetime import UTC, datetime

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.evidence import Evidence
from aegis.domain.limits import Limits, Usage
from aegis.domain.micros import Micros, seconds
from aegis.domain.model import Conclusion
from aegis.domain.reason import REASON_IN_WORDS
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.tool_call import CallState


class LimitsShape(Struct, frozen=True, kw_only=True):
    """The budgets of a task; null is unlimited."""

    steps_max: int
    tool_calls_max: int
    tokens_max: int | None
    cost_nano_dollars_max: int | None
    result_bytes_max: int
    running_seconds_max: float
    model_call_seconds_max: float
    tool_call_seconds_max: float


class OutputShape(Struct, frozen=True, kw_only=True):
    """The final answer and the evidence that it cites."""

    summary: str
    evidence_ids: tuple[str, ...]
    conclusion: Conclusion


class CallShape(Struct, frozen=True, kw_only=True):
    """One tool call and where it stands; `arguments` is canonical JSON text."""

    id: str
    name: str
    arguments: str
    effect: str
    state: CallState
    error: str | None
    evidence_id: str | None


class StepShape(Struct, frozen=True, kw_only=True):
    """One model reply with the calls that it proposed."""

    number: int
    text: str
    calls: tuple[CallShape, ...]


class TaskSummary(Struct, frozen=True, kw_only=True):
    """A task as lists show it. Times are RFC 3339 in UTC."""

    id: str
    agent: str
    state: TaskState
    reason_code: str | None
    reason_text: str | None
    created_at: str
    finished_at: str | None


class TaskShape(Struct, frozen=True, kw_only=True):
    """A task as a whole. `last_seq` is the durable cursor of its newest event."""

    id: str
    agent: str
    prompt: str
    state: TaskState
    reason_code: str | None
    reason_text: str | None
    output: OutputShape | None
    limits: LimitsShape
    usage: Usage
    attempts: int
    steps: tuple[StepShape, ...]
    evidence_ids: tuple[str, ...]
    created_at: str
    finished_at: str | None
    last_seq: int


class TaskPage(Struct, frozen=True, kw_only=True):
    """A page of tasks, newest first; `next_cursor` is null on the last one."""

    tasks: tuple[TaskSummary, ...]
    next_cursor: str | None


class CancelShape(Struct, frozen=True, kw_only=True):
    """What a cancel did, and the task as it is now. `calls_in_doubt` were sent, outcome unknown."""

    cancel: str
    calls_in_doubt: tuple[str, ...]
    task: TaskShape


class EvidenceShape(Struct, frozen=True, kw_only=True):
    """One observation: what was seen, where, when, and the digest of its whole content."""

    id: str
    task_id: str
    call_id: str
    tool: str
    source: str
    status: str
    trust: str
    synthetic: bool
    content: str
    truncated: bool
    digest: str
    size_bytes: int
    observed_at: str
    window_start: str | None
    window_end: str | None


class EvidenceList(Struct, frozen=True, kw_only=True):
    """All evidence of one task, in the order in which it was obtained."""

    evidence: tuple[EvidenceShape, ...]


class AgentShape(Struct, frozen=True, kw_only=True):
    """A declared agent that can run here."""

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    limits: LimitsShape


class AgentList(Struct, frozen=True, kw_only=True):
    """The agents that can run here."""

    agents: tuple[AgentShape, ...]


class QueueShape(Struct, frozen=True, kw_only=True):
    """How many tasks stand in each state, and since when the oldest waits."""

    by_state: dict[str, int]
    oldest_pending_at: str | None
    oldest_expired_lease_at: str | None


def show_task(snapshot: TaskSnapshot) -> TaskShape:
    """Return a task with its ledger."""
    task = snapshot.task
    by_id = {record.call.id: record for record in snapshot.calls}
    steps = tuple(
        StepShape(
            number=step.number,
            text=step.text,
            calls=tuple(
                CallShape(
                    id=record.call.id,
                    name=record.call.name,
                    arguments=record.call.arguments,
                    effect=record.call.effect.value,
                    state=record.state,
                    error=record.error.value if record.error else None,
                    evidence_id=record.evidence_id,
                )
                for record in (by_id[call_id] for call_id in step.call_ids)
            ),
        )
        for step in snapshot.steps
    )
    return TaskShape(
        id=task.id,
        agent=task.agent,
        prompt=task.prompt,
        state=task.state,
        reason_code=task.reason.value if task.reason else None,
        reason_text=REASON_IN_WORDS[task.reason] if task.reason else None,
        output=OutputShape(
            summary=task.output.summary,
            evidence_ids=task.output.evidence_ids,
            conclusion=task.output.conclusion,
        )
        if task.output
        else None,
        limits=show_limits(snapshot.agent.limits),
        usage=task.usage,
        attempts=task.attempt,
        steps=steps,
        evidence_ids=tuple(item.id for item in snapshot.evidence),
        created_at=show_time(task.created_at),
        finished_at=_maybe_time(task.finished_at),
        last_seq=task.last_seq,
    )


def show_summary(task: Task) -> TaskSummary:
    """Return a task as lists show it."""
    return TaskSummary(
        id=task.id,
        agent=task.agent,
        state=task.state,
        reason_code=task.reason.value if task.reason else None,
        reason_text=REASON_IN_WORDS[task.reason] if task.reason else None,
        created_at=show_time(task.created_at),
        finished_at=_maybe_time(task.finished_at),
    )


def show_evidence(item: Evidence) -> EvidenceShape:
    """Return one observation."""
    return EvidenceShape(
        id=item.id,
        task_id=item.task_id,
        call_id=item.call_id,
        tool=item.tool,
        source=item.source,
        status=item.status.value,
        trust=item.trust.value,
        synthetic=item.synthetic,
        content=item.content,
        truncated=item.truncated,
        digest=item.digest,
        size_bytes=item.size_bytes,
        observed_at=show_time(item.observed_at),
        window_start=show_time(item.window.start) if item.window else None,
        window_end=show_time(item.window.end) if item.window else None,
    )


def show_agent(agent: AgentSpec) -> AgentShape:
    """Return a declared agent."""
    return AgentShape(
        name=agent.name,
        description=agent.description,
        model=agent.model,
        tools=agent.tools,
        limits=show_limits(agent.limits),
    )


def show_limits(limits: Limits) -> LimitsShape:
    """Return budgets with their times in seconds."""
    return LimitsShape(
        steps_max=limits.steps_max,
        tool_calls_max=limits.tool_calls_max,
        tokens_max=limits.tokens_max,
        cost_nano_dollars_max=limits.cost_nano_dollars_max,
        result_bytes_max=limits.result_bytes_max,
        running_seconds_max=seconds(limits.running_micros_max),
        model_call_seconds_max=seconds(limits.model_call_micros_max),
        tool_call_seconds_max=seconds(limits.tool_call_micros_max),
    )


def show_time(at: Micros) -> str:
    """Return an absolute time as RFC 3339 in UTC with microseconds."""
    moment = datetime.fromtimestamp(at // 1_000_000, UTC).replace(microsecond=at % 1_000_000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _maybe_time(at: Micros | None) -> str | None:
    return None if at is None else show_time(at)
