"""Cancel a task, and tell which side won."""

from collections.abc import Callable

from msgspec import Struct

from aegis.domain.principal import Principal
from aegis.ports.task_repository import Cancelled, TaskRepository


class CancelTask(Struct, frozen=True, kw_only=True):
    """Which task to cancel, for whom."""

    principal: Principal
    task_id: str


class TaskCancellation(Struct, frozen=True, kw_only=True):
    """What cancelling works with. `signal` hints the worker that holds the task."""

    repository: TaskRepository
    signal: Callable[[str], None]

    async def cancel(self, command: CancelTask) -> Cancelled:
        """Cancel in one transaction. Raises `NotFound`, `Gone`."""
        cancelled = await self.repository.cancel(command.principal, command.task_id)
        if cancelled.outcome == "cancelled":
            self.signal(command.task_id)
        return cancelled
