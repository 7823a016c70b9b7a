"""Time in and out: integer milliseconds inside, RFC 3339 and Unix seconds outside."""

import math
import re
from datetime import UTC, datetime

MS_PER_SECOND = 1000
MS_PER_MINUTE = 60 * MS_PER_SECOND
MS_PER_HOUR = 60 * MS_PER_MINUTE
MS_PER_DAY = 24 * MS_PER_HOUR
_LATEST_MS = 253_402_300_799_999  # The last millisecond of the year 9999.
_RFC3339 = re.compile(
    r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})", re.ASCII
)
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_DURATION = re.compile(
    r"(?:(\d{1,6})w)?(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6})s)?(?:(\d{1,6})ms)?",
    re.ASCII,
)
_UNITS_MS = (7 * MS_PER_DAY, MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE, MS_PER_SECOND, 1)


def parse_rfc3339(text: str) -> int:
    """Return the milliseconds since 1970 of an RFC 3339 instant. Raises `ValueError`."""
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"{text[:64]!r} is no RFC 3339 instant")
    # Python reads at most six digits of a second; what is finer than a millisecond is dropped.
    shortened = re.sub(r"(\.\d{1,6})\d*", r"\1", text.upper().replace(" ", "T"))
    moment = datetime.fromisoformat(shortened)
    return _in_range(moment.timestamp() * MS_PER_SECOND)


def parse_instant(text: str) -> int:
    """Return the milliseconds of Unix seconds or of an RFC 3339 instant. Raises `ValueError`."""
    if _NUMBER.fullmatch(text):
        return _in_range(float(text) * MS_PER_SECOND)
    return parse_rfc3339(text)


def parse_duration(text: str) -> int:
    """Return the milliseconds of a duration like `1h30m` or `15s`. Raises `ValueError`."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text[:64]!r} is no duration like 15s, 5m or 1h30m")
    return sum(
        int(count) * unit
        for count, unit in zip(match.groups(), _UNITS_MS, strict=True)
        if count is not None
    )


def parse_step(text: str) -> int:
    """Return the milliseconds of a step: seconds as a number, or a duration.

    Raises `ValueError`. The result can be zero or negative; the caller says so in its own words.
    """
    if _NUMBER.fullmatch(text):
        milliseconds = float(text) * MS_PER_SECOND
        if not math.isfinite(milliseconds) or abs(milliseconds) > _LATEST_MS:
            raise ValueError(f"{text[:64]!r} is too large a step")
        return round(milliseconds)
    return parse_duration(text)


def rfc3339(at_ms: int) -> str:
    """Return an instant as RFC 3339 in UTC, with milliseconds only where there are any."""
    seconds, milliseconds = divmod(at_ms, MS_PER_SECOND)
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{milliseconds:03d}Z" if milliseconds else f"{text}Z"


def unix_seconds(at_ms: int) -> int | float:
    """Return an instant as Prometheus prints it: seconds, whole where they are whole."""
    seconds, milliseconds = divmod(at_ms, MS_PER_SECOND)
    return at_ms / MS_PER_SECOND if milliseconds else seconds


def _in_range(milliseconds: float) -> int:
    if not math.isfinite(milliseconds) or not 0 <= milliseconds <= _LATEST_MS:
        raise ValueError("the instant is outside the years 1970 to 9999")
    return round(milliseconds)
