"""Hints that a task has new rows, for streams. A lost hint only delays."""

from typing import Protocol

from aegis.domain.micros import Micros


class Subscription(Protocol):
    """One reader of one task."""

    async def wait(self, timeout_micros: Micros) -> bool:
        """Return True once something may be new since the last call, False after the timeout."""
        ...

    def close(self) -> None:
        """End the subscription; safe to call twice."""
        ...


class EventFeed(Protocol):
    """Fan-out of hints. Slow readers are never waited for."""

    def publish(self, task_id: str) -> None:
        """Say that `task_id` has new rows. Never blocks."""
        ...

    def subscribe(self, task_id: str) -> Subscription:
        """Subscribe before reading rows, so that nothing falls between (06, rule 30)."""
        ...
