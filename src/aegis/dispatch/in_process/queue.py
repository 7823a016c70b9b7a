"""A bounded queue of task ids and a memory of recent cancels, for one event loop."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable

from aegis.domain.micros import MICROS_PER_SECOND, Micros, seconds
from aegis.ports.clock import Clock

CANCELS_REMEMBERED_MICROS: Micros = 60 * MICROS_PER_SECOND
CANCELS_REMEMBERED_MAX = 10_000


class InProcessDispatch:
    """`Dispatch` by direct signals. `ids_max` bounds the queue; the sweep finds the rest."""

    def __init__(self, clock: Clock, ids_max: int) -> None:
        self._clock = clock
        self._ids_max = ids_max
        self._ids: deque[str] = deque()
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._listeners: list[Callable[[str], None]] = []
        self._cancels: OrderedDict[str, Micros] = OrderedDict()

    def announce(self, task_id: str) -> None:
        """See `Dispatch.announce`."""
        if len(self._ids) >= self._ids_max:
            return
        self._ids.append(task_id)
        self._wake_one()

    async def next(self, timeout_micros: Micros) -> str | None:
        """See `Dispatch.next`. A cancelled wait loses no id."""
        if self._ids:
            return self._ids.popleft()
        if timeout_micros <= 0:
            return None
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(seconds(timeout_micros)):
                await waiter
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._wake_one()
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)
        return self._ids.popleft() if self._ids else None

    def signal_cancel(self, task_id: str) -> None:
        """See `Dispatch.signal_cancel`."""
        self._forget_old_cancels()
        self._cancels[task_id] = self._clock.boottime()
        self._cancels.move_to_end(task_id)
        for listener in tuple(self._listeners):
            listener(task_id)

    def on_cancel(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """See `Dispatch.on_cancel`."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def was_cancelled(self, task_id: str) -> bool:
        """See `Dispatch.was_cancelled`."""
        self._forget_old_cancels()
        return task_id in self._cancels

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _forget_old_cancels(self) -> None:
        oldest_kept = self._clock.boottime() - CANCELS_REMEMBERED_MICROS
        while self._cancels:
            task_id, at = next(iter(self._cancels.items()))
            if at >= oldest_kept and len(self._cancels) <= CANCELS_REMEMBERED_MAX:
                return
            del self._cancels[task_id]
