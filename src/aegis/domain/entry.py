"""The journal: what happened to a task, append-only, one tagged record for each fact.

A snapshot is folded from these and public events are a projection of them, so an entry says
everything that a later reader needs and nothing that only this process knows.
"""

from msgspec import Struct

from aegis.domain.limits import ModelUsage
from aegis.domain.micros import Micros
from aegis.domain.model import FinalAnswer
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import CallState, PlannedCall


class TaskCreated(Struct, frozen=True, kw_only=True, tag="task.created"):
    """The task was accepted; it is PENDING."""


class TaskClaimed(Struct, frozen=True, kw_only=True, tag="task.claimed"):
    """A worker took the task; it is RUNNING. `charged` tells that a lost model call was charged."""

    epoch: int
    attempt: int
    takeover: bool = False
    charged: bool = False


class ModelReplied(Struct, frozen=True, kw_only=True, tag="model.replied"):
    """A model call ended with a reply: one step. `calls` holds planned and refused calls."""

    step: int
    text: str = ""
    calls: tuple[PlannedCall, ...] = ()
    usage: ModelUsage = ModelUsage()
    attempts: int = 1


class WriteStarted(Struct, frozen=True, kw_only=True, tag="call.started"):
    """The intent of a write: committed before anything is sent (I7)."""

    call_id: str
    epoch: int
    idempotency_key: str
    send_by: Micros


class CallFinished(Struct, frozen=True, kw_only=True, tag="call.finished"):
    """A call reached its end; what it returned is the evidence."""

    call_id: str
    state: CallState
    evidence_id: str | None = None
    error: ReasonCode | None = None


class TaskReleased(Struct, frozen=True, kw_only=True, tag="task.released"):
    """A worker that shuts down handed the task back; it is READY_TO_RESUME."""

    epoch: int


class TaskSucceeded(Struct, frozen=True, kw_only=True, tag="task.succeeded"):
    """The task ended with an answer. Nothing follows."""

    output: FinalAnswer


class TaskFailed(Struct, frozen=True, kw_only=True, tag="task.failed"):
    """The task ended without an answer. Nothing follows.

    The ids name the calls that the end itself settled, each with its truthful state.
    """

    reason: ReasonCode
    in_doubt: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


class TaskCancelled(Struct, frozen=True, kw_only=True, tag="task.cancelled"):
    """A caller cancelled the task. Nothing follows."""

    by: str
    in_doubt: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


Entry = (
    TaskCreated
    | TaskClaimed
    | ModelReplied
    | WriteStarted
    | CallFinished
    | TaskReleased
    | TaskSucceeded
    | TaskFailed
    | TaskCancelled
)

TERMINAL_ENTRIES = (TaskSucceeded, TaskFailed, TaskCancelled)


class JournalEntry(Struct, frozen=True, kw_only=True):
    """An entry in its place: `seq` counts from 1 without gaps within the task."""

    task_id: str
    seq: int
    at: Micros
    entry: Entry
