"""Readiness of one process: the store takes writes, and the consumer makes progress."""

import asyncio
from collections.abc import Awaitable, Callable

from aegis.domain.errors import StoreUnavailable
from aegis.ports.health import HealthReport

PING_SECONDS_MAX = 2.0


class RuntimeHealth:
    """`Health` measured at the moment of asking."""

    def __init__(
        self, ping: Callable[[], Awaitable[None]], worker_is_alive: Callable[[], bool]
    ) -> None:
        self._ping = ping
        self._worker_is_alive = worker_is_alive
        self.without_worker = False

    async def report(self) -> HealthReport:
        """See `Health.report`."""
        checks = {"store": await self._store(), "consumer": self._consumer()}
        return HealthReport(
            ready=all(word in {"ok", "elsewhere"} for word in checks.values()), checks=checks
        )

    async def _store(self) -> str:
        try:
            async with asyncio.timeout(PING_SECONDS_MAX):
                await self._ping()
        except StoreUnavailable:
            return "unavailable"
        except TimeoutError:
            return "slow"
        return "ok"

    def _consumer(self) -> str:
        if self.without_worker:
            return "elsewhere"
        return "ok" if self._worker_is_alive() else "down"
