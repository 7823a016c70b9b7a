"""Everything that a caller may ask, as one record of bound callables."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from aegis.ports.task_repository import Added, Cancelled
from aegis.use_cases.cancel_task import CancelTask
from aegis.use_cases.create_task import CreateTask


class UseCases(Struct, frozen=True, kw_only=True):
    """What `bootstrap` binds and the doors receive."""

    create_task: Callable[[CreateTask], Awaitable[Added]]
    cancel_task: Callable[[CancelTask], Awaitable[Cancelled]]
