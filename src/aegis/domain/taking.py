"""How a task changes hands: claim, takeover, release and cancel, as pure functions of its row."""

from msgspec import structs

from aegis.domain.change import TaskChange, task_after
from aegis.domain.ending import Cancelled, Lost, end_task
from aegis.domain.entry import TaskClaimed, TaskReleased
from aegis.domain.limits import after_lost_model_call
from aegis.domain.micros import Micros
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot, extend
from aegis.domain.state import TaskState
from aegis.domain.task import Task


def claimed(
    base: TaskSnapshot, now: Micros, renewed_at: Micros
) -> tuple[TaskSnapshot, TaskClaimed]:
    """Return `base` as a worker takes it at `now`, and the entry that records it.

    `renewed_at` is when the lost lease was last renewed. A takeover adds the running time up to
    there and is charged for a model call that nobody recorded, unless calls were still open: then
    the last thing that ran was a tool (06, rules 19 and 20).
    """
    task = base.task
    takeover = task.state is TaskState.RUNNING
    charged = takeover and not base.open_calls
    since = task.running_since if task.running_since is not None else now
    entry = TaskClaimed(
        epoch=task.epoch + 1,
        attempt=task.attempt + (task.state is not TaskState.READY_TO_RESUME),
        takeover=takeover,
        charged=charged,
    )
    after = structs.replace(
        task,
        state=TaskState.RUNNING,
        epoch=entry.epoch,
        attempt=entry.attempt,
        version=task.version + 1,
        last_seq=task.last_seq + 1,
        usage=after_lost_model_call(task.usage, base.agent.limits) if charged else task.usage,
        running_micros=task.running_micros + (max(0, renewed_at - since) if takeover else 0),
        running_since=now,
    )
    return extend(base, after, (entry,), ()), entry


def release_change(base: TaskSnapshot, change_id: str, handovers_max: int) -> TaskChange:
    """Return the change that hands a RUNNING task back, or ends it once handed back too often."""
    if base.task.handovers >= handovers_max:
        return end_task(base, Lost(reason=ReasonCode.WORKER_LOST), change_id=change_id)
    return TaskChange(
        id=change_id,
        base=base,
        state=TaskState.READY_TO_RESUME,
        usage=base.task.usage,
        entries=(TaskReleased(epoch=base.task.epoch),),
    )


def released(change: TaskChange, now: Micros) -> Task:
    """Return the row that `release_change` makes."""
    after = task_after(change, now)
    return structs.replace(after, handovers=after.handovers + 1)


def cancel_change(base: TaskSnapshot, by: str, change_id: str) -> TaskChange:
    """Return the change that cancels `base`; its row also gets the next epoch."""
    return end_task(base, Cancelled(by=by), change_id=change_id)


def cancelled(change: TaskChange, now: Micros) -> Task:
    """Return the row that `cancel_change` makes: the epoch grows, so that no claim writes on."""
    after = task_after(change, now)
    return structs.replace(after, epoch=after.epoch + 1)


def expiry_reason(state: TaskState) -> ReasonCode:
    """Return why a task that nobody may claim any more fails: see `TaskLeases.expire_due`."""
    return ReasonCode.WORKER_LOST if state is TaskState.RUNNING else ReasonCode.TASK_TIMEOUT
