"""Time inside Aegis: integer microseconds, UTC where absolute."""

Micros = int
"""Microseconds. Absolute values count from 1970-01-01T00:00:00Z; differences are plain."""

MICROS_PER_SECOND = 1_000_000


def micros(seconds: float) -> Micros:
    """Convert `seconds` (may be fractional) to whole microseconds, rounded."""
    return round(seconds * MICROS_PER_SECOND)


def seconds(value: Micros) -> float:
    """Convert microseconds to seconds, for timers and for people."""
    return value / MICROS_PER_SECOND
