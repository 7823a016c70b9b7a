"""The loop itself: one path for start, resume and crash."""

from aegis.agent_loop.carry_out import carry_out, fail
from aegis.agent_loop.context import LoopContext
from aegis.agent_loop.next_move import next_move
from aegis.domain.change import TaskChange
from aegis.domain.errors import AegisError
from aegis.domain.reason import ReasonCode
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.ports.task_repository import TaskRepository


async def run_task(tasks: TaskRepository, context: LoopContext) -> TaskSnapshot:
    """Run the claimed task until it leaves RUNNING and return how it stands.

    The store is the memory: nothing is remembered between two rounds but the snapshot that the
    last commit made. Raises `LostClaim` once somebody else owns the task.
    """
    snapshot = await tasks.load(context.lease.current())
    while snapshot.task.state is TaskState.RUNNING and not context.stopping():
        change = await _decide(snapshot, context)
        snapshot = await tasks.commit(context.lease.current(), change)
    return snapshot


async def _decide(snapshot: TaskSnapshot, context: LoopContext) -> TaskChange:
    try:
        return await carry_out(next_move(snapshot, context.clock.now()), snapshot, context)
    except AegisError:
        raise
    except Exception as defect:  # noqa: BLE001 - a defect of ours must end the task, not loop for ever
        context.on_fault(defect)
        return fail(snapshot, context, ReasonCode.INTERNAL_ERROR)
    finally:
        context.on_call(None)
