"""The one function that ends a task, so that no ending forgets a call (06, rule 3)."""

from typing import assert_never

from msgspec import Struct

from aegis.domain.change import TaskChange
from aegis.domain.entry import Entry, TaskCancelled, TaskFailed, TaskSucceeded
from aegis.domain.evidence import Evidence
from aegis.domain.limits import Usage
from aegis.domain.model import FinalAnswer
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot, extend
from aegis.domain.state import TaskState
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState


class Succeeded(Struct, frozen=True, kw_only=True):
    """The task ends with an answer."""

    output: FinalAnswer


class Failed(Struct, frozen=True, kw_only=True):
    """The task ends without an answer, decided by the loop: no read is in flight."""

    reason: ReasonCode


class Lost(Struct, frozen=True, kw_only=True):
    """The task ends without an answer, decided by somebody who does not hold it."""

    reason: ReasonCode


class Cancelled(Struct, frozen=True, kw_only=True):
    """The task ends because `by` (a principal's subject) said so."""

    by: str


Ending = Succeeded | Failed | Lost | Cancelled


def end_task(  # noqa: PLR0913 - the optional parts of a change, by keyword
    base: TaskSnapshot,
    ending: Ending,
    *,
    change_id: str,
    usage: Usage | None = None,
    entries: tuple[Entry, ...] = (),
    evidence: tuple[Evidence, ...] = (),
) -> TaskChange:
    """Return the change that ends `base` after first recording `entries` and `evidence`.

    Every call that is still open gets its truthful end: a started write is IN_DOUBT, a planned
    write was never begun and is SKIPPED, a planned read is SKIPPED where the loop itself ends the
    task and INTERRUPTED where somebody else does, because it may have begun.
    """
    settled = _settle(extend(base, base.task, entries, evidence), ending)
    output: FinalAnswer | None = None
    reason: ReasonCode | None = None
    match ending:
        case Succeeded():
            state, output = TaskState.SUCCEEDED, ending.output
            last: Entry = TaskSucceeded(output=ending.output)
        case Failed() | Lost():
            state, reason = TaskState.FAILED, ending.reason
            last = TaskFailed(
                reason=ending.reason,
                in_doubt=settled[CallState.IN_DOUBT],
                interrupted=settled[CallState.INTERRUPTED],
                skipped=settled[CallState.SKIPPED],
            )
        case Cancelled():
            state = TaskState.CANCELLED
            last = TaskCancelled(
                by=ending.by,
                in_doubt=settled[CallState.IN_DOUBT],
                interrupted=settled[CallState.INTERRUPTED],
                skipped=settled[CallState.SKIPPED],
            )
        case _:
            assert_never(ending)
    return TaskChange(
        id=change_id,
        base=base,
        state=state,
        usage=usage if usage is not None else base.task.usage,
        entries=(*entries, last),
        evidence=evidence,
        reason=reason,
        output=output,
    )


def _settle(snapshot: TaskSnapshot, ending: Ending) -> dict[CallState, tuple[str, ...]]:
    read_end = CallState.SKIPPED if isinstance(ending, Failed) else CallState.INTERRUPTED
    settled: dict[CallState, list[str]] = {
        CallState.IN_DOUBT: [],
        CallState.INTERRUPTED: [],
        CallState.SKIPPED: [],
    }
    for record in snapshot.open_calls:
        if record.state is CallState.STARTED:
            settled[CallState.IN_DOUBT].append(record.call.id)
        elif record.call.effect is Effect.READ:
            settled[read_end].append(record.call.id)
        else:
            settled[CallState.SKIPPED].append(record.call.id)
    return {state: tuple(ids) for state, ids in settled.items()}
