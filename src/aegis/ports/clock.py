"""Time, as an argument: nothing inside reads a clock by itself."""

from typing import Protocol

from aegis.domain.micros import Micros


class Clock(Protocol):
    """Two clocks. Both are safe to read from any thread."""

    def now(self) -> Micros:
        """Return the wall time, microseconds since 1970 UTC; it may jump."""
        ...

    def boottime(self) -> Micros:
        """Return CLOCK_BOOTTIME or its like: never jumps, runs on while the machine sleeps."""
        ...
