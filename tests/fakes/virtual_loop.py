"""An event loop whose time jumps to the next timer when nothing else is left to do.

Hours of waiting take no wall time, and what happens when is the same in every run. Only for code
without threads: a thread's answer would come after the jump.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from aegis.domain.micros import MICROS_PER_SECOND, Micros

T = TypeVar("T")

START: Micros = 1_700_000_000 * MICROS_PER_SECOND


class _JumpingSelector(selectors.SelectSelector):
    """Never waits: a wait of `timeout` seconds moves the loop's time by that much."""

    def __init__(self) -> None:
        super().__init__()
        self.elapsed = 0.0

    def select(self, timeout=None):
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("the virtual loop has nothing to wait for: a deadlock")
        self.elapsed += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; `time()` is the virtual time in seconds since it was made."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.elapsed

    def skip(self, seconds: float) -> None:
        """Let `seconds` pass at once, as when a machine slept."""
        self._jumping.elapsed += seconds


class LoopClock:
    """`Clock` that shows the virtual loop's time."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now(self) -> Micros:
        return START + self.boottime()

    def boottime(self) -> Micros:
        return round(self._loop.time() * MICROS_PER_SECOND)


def run_virtual(main: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Run `main` to its end in virtual time and close the loop."""
    chosen = loop if loop is not None else VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: chosen) as runner:
        return runner.run(main)
