"""A clock that only moves when a test says so."""

from aegis.domain.micros import MICROS_PER_SECOND, Micros


class ManualClock:
    """Both clocks start apart and move together; wall time can also jump alone."""

    def __init__(self, now: Micros = 1_700_000_000 * MICROS_PER_SECOND) -> None:
        self._now = now
        self._boot: Micros = 1_000 * MICROS_PER_SECOND

    def now(self) -> Micros:
        return self._now

    def boottime(self) -> Micros:
        return self._boot

    def advance(self, seconds: float) -> None:
        self._now += round(seconds * MICROS_PER_SECOND)
        self._boot += round(seconds * MICROS_PER_SECOND)

    def jump(self, seconds: float) -> None:
        self._now += round(seconds * MICROS_PER_SECOND)
