"""The snapshot: a task with its agent and ledger, folded from the journal. Immutable."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from msgspec import Struct, structs

from aegis.domain.agent import AgentSpec
from aegis.domain.entry import (
    CallFinished,
    Entry,
    JournalEntry,
    ModelReplied,
    TaskCancelled,
    TaskClaimed,
    TaskCreated,
    TaskFailed,
    TaskReleased,
    TaskSucceeded,
    WriteStarted,
)
from aegis.domain.evidence import Evidence
from aegis.domain.task import Task
from aegis.domain.tool_call import OPEN_CALL_STATES, CallRecord, CallState


class Step(Struct, frozen=True, kw_only=True):
    """One model reply: what it said and the ids of the calls that it proposed."""

    number: int
    text: str
    call_ids: tuple[str, ...]


class TaskSnapshot(Struct, frozen=True, kw_only=True):
    """Everything the loop decides on.

    `calls` is the ledger in the order of proposal. `permits` is never stored: it names the write
    whose Start was committed by this very process, so a loaded snapshot has none and a STARTED
    write in it is in doubt (06, rule 1).
    """

    task: Task
    agent: AgentSpec
    steps: tuple[Step, ...] = ()
    calls: tuple[CallRecord, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    permits: frozenset[str] = frozenset()

    @property
    def open_calls(self) -> tuple[CallRecord, ...]:
        """Calls that have no end yet, in order."""
        return tuple(record for record in self.calls if record.state in OPEN_CALL_STATES)


def fold(
    task: Task, agent: AgentSpec, entries: Iterable[JournalEntry], evidence: Sequence[Evidence]
) -> TaskSnapshot:
    """Rebuild the snapshot of `task` from its whole journal, in order of `seq`."""
    steps: list[Step] = []
    calls: dict[str, CallRecord] = {}
    for item in entries:
        _fold_one(item.entry, steps, calls)
    return TaskSnapshot(
        task=task,
        agent=agent,
        steps=tuple(steps),
        calls=tuple(calls.values()),
        evidence=tuple(evidence),
    )


def extend(
    base: TaskSnapshot, task: Task, entries: Iterable[Entry], evidence: Sequence[Evidence]
) -> TaskSnapshot:
    """Return `base` after a commit: the same fold, from where it stood. `task` is the new row."""
    steps = list(base.steps)
    calls = {record.call.id: record for record in base.calls}
    permits: set[str] = set()
    for entry in entries:
        _fold_one(entry, steps, calls)
        if isinstance(entry, WriteStarted):
            permits.add(entry.call_id)
    return TaskSnapshot(
        task=task,
        agent=base.agent,
        steps=tuple(steps),
        calls=tuple(calls.values()),
        evidence=(*base.evidence, *evidence),
        permits=frozenset(permits),
    )


def _fold_one(entry: Entry, steps: list[Step], calls: dict[str, CallRecord]) -> None:
    match entry:
        case ModelReplied():
            ids = tuple(call.id for call in entry.calls)
            steps.append(Step(number=entry.step, text=entry.text, call_ids=ids))
            for call in entry.calls:
                state = CallState.PLANNED if call.refusal is None else CallState.DENIED
                calls[call.id] = CallRecord(
                    call=call, step=entry.step, state=state, error=call.refusal
                )
        case WriteStarted():
            calls[entry.call_id] = structs.replace(
                calls[entry.call_id],
                state=CallState.STARTED,
                epoch_started=entry.epoch,
                send_by=entry.send_by,
            )
        case CallFinished():
            calls[entry.call_id] = structs.replace(
                calls[entry.call_id],
                state=entry.state,
                evidence_id=entry.evidence_id,
                error=entry.error,
            )
        case TaskFailed() | TaskCancelled():
            for state, ids in (
                (CallState.IN_DOUBT, entry.in_doubt),
                (CallState.INTERRUPTED, entry.interrupted),
                (CallState.SKIPPED, entry.skipped),
            ):
                for call_id in ids:
                    calls[call_id] = structs.replace(calls[call_id], state=state)
        case TaskCreated() | TaskClaimed() | TaskReleased() | TaskSucceeded():
            pass
        case _:
            assert_never(entry)
