"""Whether this process can do its work."""

from typing import Protocol

from msgspec import Struct


class HealthReport(Struct, frozen=True, kw_only=True):
    """`ready` is true if every check holds; `checks` names each with ok or a stable word."""

    ready: bool
    checks: dict[str, str]


class Health(Protocol):
    """Readiness of the store and of the consumer."""

    async def report(self) -> HealthReport:
        """Return how this process stands, measured now."""
        ...
