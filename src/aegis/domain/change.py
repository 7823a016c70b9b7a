"""A change: the next columns of a task and what to append, written as one transaction."""

from msgspec import Struct, structs

from aegis.domain.entry import Entry
from aegis.domain.evidence import Evidence
from aegis.domain.limits import Usage
from aegis.domain.micros import Micros
from aegis.domain.model import FinalAnswer
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot, extend
from aegis.domain.state import TERMINAL_STATES, TaskState, require_transition
from aegis.domain.task import Task


class TaskChange(Struct, frozen=True, kw_only=True):
    """What one commit does to one task.

    Epoch, owner and lease are not here: claim, renew and cancel own those columns (06, rule 7).
    `base` is what the change was decided on; its version is the guard. `id` is random, so that a
    writer that never heard the answer can find out whether it committed (06, rule 8).
    `needs_lease` asks for an unexpired lease besides the epoch (06, rule 17).
    """

    id: str
    base: TaskSnapshot
    state: TaskState
    usage: Usage
    entries: tuple[Entry, ...]
    evidence: tuple[Evidence, ...] = ()
    reason: ReasonCode | None = None
    output: FinalAnswer | None = None
    needs_lease: bool = False


def task_after(change: TaskChange, now: Micros) -> Task:
    """Return the row that `change` makes at `now`. Raises `IllegalTransition`.

    The running time of the stretch that ends here is added when the task leaves RUNNING.
    """
    task = change.base.task
    require_transition(task.state, change.state)
    leaves = change.state is not TaskState.RUNNING
    since = task.running_since
    ran = max(0, now - since) if leaves and since is not None else 0
    return structs.replace(
        task,
        state=change.state,
        reason=change.reason,
        output=change.output,
        usage=change.usage,
        version=task.version + 1,
        last_seq=task.last_seq + len(change.entries),
        running_micros=task.running_micros + ran,
        running_since=None if leaves else since,
        finished_at=now if change.state in TERMINAL_STATES else None,
        last_change_id=change.id,
    )


def snapshot_after(change: TaskChange, task: Task) -> TaskSnapshot:
    """Return the snapshot that `change` makes, given the row that was written."""
    return extend(change.base, task, change.entries, change.evidence)
