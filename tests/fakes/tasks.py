"""Small builders of domain records for tests of the loop."""

from msgspec import structs

from aegis.domain.agent import AgentSpec
from aegis.domain.evidence import Evidence, EvidenceStatus, Trust
from aegis.domain.limits import Limits, Usage
from aegis.domain.principal import Principal
from aegis.domain.snapshot import Step, TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallRecord, CallState, PlannedCall

SECOND = 1_000_000
NOW = 1_000 * SECOND


def agent(**changes) -> AgentSpec:
    limits = changes.pop("limits", {})
    spec = AgentSpec(
        name="a", model="m", instructions="Do it.", tools=("read", "write"), limits=Limits(**limits)
    )
    return structs.replace(spec, **changes)


def call(call_id="1.0", effect=Effect.READ, name=None, arguments="{}", refusal=None) -> PlannedCall:
    return PlannedCall(
        id=call_id,
        provider_call_id=f"p{call_id}",
        name=name or effect.value,
        arguments=arguments,
        effect=effect,
        tool_hash="hash",
        refusal=refusal,
    )


def record(call_id="1.0", state=CallState.PLANNED, effect=Effect.READ, **changes) -> CallRecord:
    planned = call(call_id, effect, changes.pop("name", None), changes.pop("arguments", "{}"))
    return CallRecord(call=planned, step=int(call_id.split(".")[0]), state=state, **changes)


def evidence(evidence_id="ev_1", status=EvidenceStatus.OK, content="{}", **changes) -> Evidence:
    item = Evidence(
        id=evidence_id,
        task_id="task_1",
        call_id="1.0",
        tool="read",
        tool_hash="hash",
        source="test",
        status=status,
        trust=Trust.MEASURED,
        synthetic=False,
        content=content,
        truncated=False,
        digest="d",
        size_bytes=len(content),
        observed_at=NOW,
    )
    return structs.replace(item, **changes)


def snapshot(*records: CallRecord, spec=None, items=(), permits=(), **task) -> TaskSnapshot:
    usage = task.pop("usage", {})
    row = Task(
        id="task_1",
        principal=Principal(tenant="t", subject="s"),
        agent="a",
        agent_digest="d",
        prompt="Why?",
        state=TaskState.RUNNING,
        created_at=NOW,
        usage=Usage(**usage),
        running_since=NOW,
    )
    numbers = sorted({item.step for item in records})
    steps = tuple(
        Step(number=n, text=f"step {n}", call_ids=tuple(r.call.id for r in records if r.step == n))
        for n in numbers
    )
    return TaskSnapshot(
        task=structs.replace(row, **task),
        agent=spec or agent(),
        steps=steps,
        calls=tuple(records),
        evidence=tuple(items),
        permits=frozenset(permits),
    )
