"""The real clock and the real identifiers."""

import os
import random
import threading
import time

from aegis.domain.micros import Micros

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 74
_COUNTER_BITS = 6


class SystemClock:
    """`Clock` of this machine."""

    def now(self) -> Micros:
        """See `Clock.now`."""
        return time.time_ns() // 1_000

    def boottime(self) -> Micros:
        """See `Clock.boottime`. Where the system has no CLOCK_BOOTTIME, its monotonic clock."""
        clock_id = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
        return time.clock_gettime_ns(clock_id) // 1_000


class SystemIds:
    """`Ids` of this process: 54 bits of microseconds, then random bits; never going backwards.

    Two ids of one process sort in the order in which they were made. Ids are no secrets: who may
    see a task is decided by its owner, so the generator is seeded once instead of asking the
    system for every id.
    """

    def __init__(self) -> None:
        self._bits = random.Random(os.urandom(32)).getrandbits  # noqa: S311 - see above
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """See `Ids.new`."""
        candidate = (time.time_ns() // 1_000) << _RANDOM_BITS | self._bits(_RANDOM_BITS)
        with self._lock:
            if candidate <= self._last:
                candidate = self._last + 1 + self._bits(_COUNTER_BITS)
            self._last = candidate
        return f"{prefix}_{_base32(candidate)}"

    def random(self) -> str:
        """See `Ids.random`."""
        return f"{self._bits(128):032x}"


_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)


def _base32(value: int) -> str:
    pairs = [_PAIRS[(value >> shift) & 1023] for shift in range(120, -1, -10)]
    return "".join(pairs)
