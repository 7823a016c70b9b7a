"""The real clock and the real identifiers."""

import os
import secrets
import threading
import time

from aegis.domain.micros import Micros

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CHARACTERS = 26
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

    Two ids of one process sort in the order in which they were made.
    """

    def __init__(self) -> None:
        self._last = 0
        self._lock = threading.Lock()

    def new(self, prefix: str) -> str:
        """See `Ids.new`."""
        stamp = (time.time_ns() // 1_000) << _RANDOM_BITS
        candidate = stamp | int.from_bytes(os.urandom(9)) << 2
        with self._lock:
            if candidate <= self._last:
                candidate = self._last + 1 + secrets.randbelow(1 << _COUNTER_BITS)
            self._last = candidate
        return f"{prefix}_{_base32(candidate)}"

    def random(self) -> str:
        """See `Ids.random`."""
        return os.urandom(16).hex()


def _base32(value: int) -> str:
    characters: list[str] = []
    for _ in range(_CHARACTERS):
        characters.append(_ALPHABET[value & 31])
        value >>= 5
    return "".join(reversed(characters))
