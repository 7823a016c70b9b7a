"""How task ids and cancel signals reach workers: hints that may be lost, late or doubled."""

from collections.abc import Callable
from typing import Protocol

from aegis.domain.micros import Micros


class Dispatch(Protocol):
    """Rows are truth: a worker that never hears anything still finds its work by sweeping."""

    def announce(self, task_id: str) -> None:
        """Say that a task may be claimable. Never blocks; dropped when the queue is full."""
        ...

    async def next(self, timeout_micros: Micros) -> str | None:
        """Return an announced id, or None after `timeout_micros`: time to sweep."""
        ...

    def signal_cancel(self, task_id: str) -> None:
        """Say that a task was cancelled: its holder should look at its claim now."""
        ...

    def on_cancel(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """Call `listener` with each cancelled id; returns what ends the subscription.

        Signals of the last 60 s are remembered: see `was_cancelled`.
        """
        ...

    def was_cancelled(self, task_id: str) -> bool:
        """Whether a cancel of `task_id` was signalled within the last 60 s."""
        ...
