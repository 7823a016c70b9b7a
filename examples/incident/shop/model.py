"""What the shop does at any instant: a pure function of seed, start and releases.

Noise comes from a hash of (seed, service, quantity, minute), so asking in another order, or in
another process, gives the same numbers. A `World` never changes; a new release makes a new one.
"""

from bisect import bisect_right
from collections.abc import Sequence
from hashlib import blake2b

from msgspec import Struct

from .times import MS_PER_MINUTE, MS_PER_SECOND
from .topology import (
    BAD_SERVICE,
    BAD_VERSION,
    FUTURE_MS,
    HISTORY_MS,
    SERVICES,
    Release,
)

RISE_MS = MS_PER_MINUTE
RATE_NOISE = 0.06
ERROR_NOISE = 0.15
LATENCY_NOISE = 0.04
KNOWN_MAX = 100_000


class Stint(Struct, frozen=True, kw_only=True):
    """A version that serves all traffic of a service from `from_ms` until before `until_ms`."""

    version: str
    from_ms: int
    until_ms: int


class World:
    """The shop under one list of releases. Metrics exist from `begins_ms` to `ends_ms`."""

    def __init__(
        self, *, seed: int, started_at_ms: int, releases: Sequence[Release], recovery_ms: int
    ) -> None:
        self.seed = seed
        self.start_minute_ms = started_at_ms // MS_PER_MINUTE * MS_PER_MINUTE
        self.begins_ms = self.start_minute_ms - HISTORY_MS
        self.ends_ms = self.start_minute_ms + FUTURE_MS
        self.releases = tuple(releases)
        self.stints = {name: self._stints(name) for name in SERVICES}
        self._damage = Damage(self.stints[BAD_SERVICE], RISE_MS, recovery_ms)
        # Requests and failures since `begins_ms` at the start of each minute; grown on demand.
        self._sums: dict[str, list[tuple[float, float]]] = {name: [(0.0, 0.0)] for name in SERVICES}
        # Both codes and every window of a range query ask for the same instants.
        self._known: dict[tuple[str, int], tuple[float, float]] = {}

    def has_data(self, at_ms: int) -> bool:
        """Say whether the instant lies inside the simulated time."""
        return self.begins_ms <= at_ms <= self.ends_ms

    def version_at(self, service: str, at_ms: int) -> str:
        """Return the version that serves at an instant (the first one before the history)."""
        stints = self.stints[service]
        index = bisect_right(stints, at_ms, key=lambda stint: stint.from_ms) - 1
        return stints[max(0, index)].version

    def requests_per_second(self, service: str, at_ms: int) -> float:
        """Return the request rate at an instant."""
        at_rest = SERVICES[service].requests_per_second
        return at_rest * (1 + RATE_NOISE * self._noise(service, "rate", at_ms))

    def baseline_error_ratio(self, service: str, at_ms: int) -> float:
        """Return the share of requests that would fail without the bad release."""
        at_rest = SERVICES[service].error_ratio
        return at_rest * (1 + ERROR_NOISE * self._noise(service, "errors", at_ms))

    def excess_error_ratio(self, service: str, at_ms: int) -> float:
        """Return the share of requests that fail because of the bad release."""
        return SERVICES[service].excess_error_ratio * self._damage.at(at_ms)

    def p95_seconds(self, service: str, at_ms: int) -> float:
        """Return the 95th percentile of the latency at an instant, to 0.1 ms."""
        described = SERVICES[service]
        quiet = described.p95_seconds + described.excess_p95_seconds * self._damage.at(at_ms)
        return round(quiet * (1 + LATENCY_NOISE * self._noise(service, "p95", at_ms)), 4)

    def requests(self, service: str, version: str, code: str, at_ms: int) -> float:
        """Return how many requests a version had answered with a code ("200" or "500"): whole."""
        count = 0.0
        for stint in self.stints[service]:
            if stint.version == version and stint.from_ms < at_ms:
                all_after, failed_after = self._served(service, min(at_ms, stint.until_ms))
                all_before, failed_before = self._served(service, stint.from_ms)
                failed = failed_after - failed_before
                count += failed if code == "500" else all_after - all_before - failed
        return float(int(count))

    def versions_between(self, service: str, after_ms: int, until_ms: int) -> list[str]:
        """Return the versions that served at some time in (after, until], in name order."""
        return sorted(
            {
                stint.version
                for stint in self.stints[service]
                if stint.from_ms <= until_ms and stint.until_ms > after_ms
            }
        )

    def _stints(self, service: str) -> tuple[Stint, ...]:
        own = [item for item in self.releases if item.service == service and item.kind != "config"]
        stints: list[Stint] = []
        for index, release in enumerate(own):
            last = index + 1 == len(own)
            from_ms = max(release.released_at_ms, self.begins_ms)
            until_ms = self.ends_ms + 1 if last else own[index + 1].released_at_ms
            if until_ms > from_ms:
                stints.append(Stint(version=release.version, from_ms=from_ms, until_ms=until_ms))
        return tuple(stints)

    def _noise(self, service: str, quantity: str, at_ms: int) -> float:
        """Return a number from -1 to below 1 that is constant through a minute."""
        text = f"{self.seed}|{service}|{quantity}|{at_ms // MS_PER_MINUTE}"
        number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest())
        return number / 2**63 - 1

    def _served(self, service: str, at_ms: int) -> tuple[float, float]:
        """Return all requests and the failed ones since the begin of the history."""
        found = self._known.get((service, at_ms))
        if found is None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            found = self._known[service, at_ms] = self._summed(service, at_ms)
        return found

    def _summed(self, service: str, at_ms: int) -> tuple[float, float]:
        at_ms = min(max(at_ms, self.begins_ms), self.ends_ms)
        minute = (at_ms - self.begins_ms) // MS_PER_MINUTE
        sums = self._sums[service]
        while len(sums) <= minute:
            from_ms = self.begins_ms + (len(sums) - 1) * MS_PER_MINUTE
            sums.append(self._plus(service, sums[-1], from_ms, from_ms + MS_PER_MINUTE))
        from_ms = self.begins_ms + minute * MS_PER_MINUTE
        return (
            self._plus(service, sums[minute], from_ms, at_ms) if at_ms > from_ms else sums[minute]
        )

    def _plus(
        self, service: str, sums: tuple[float, float], from_ms: int, until_ms: int
    ) -> tuple[float, float]:
        """Add what happens between two instants of one minute, in which noise is constant."""
        per_ms = self.requests_per_second(service, from_ms) / MS_PER_SECOND
        failing_ms = self.baseline_error_ratio(service, from_ms) * (until_ms - from_ms)
        failing_ms += SERVICES[service].excess_error_ratio * self._damage.between(from_ms, until_ms)
        return sums[0] + per_ms * (until_ms - from_ms), sums[1] + per_ms * failing_ms


class Damage:
    """How bad it is, 0 to 1: rises linearly under the bad version and falls after it."""

    def __init__(self, stints: Sequence[Stint], rise_ms: int, fall_ms: int) -> None:
        level = 0.0
        knots = [(stints[0].from_ms, level)]
        for stint in stints:
            target, full_ms = (1.0, rise_ms) if stint.version == BAD_VERSION else (0.0, fall_ms)
            reached_ms = stint.from_ms + round(abs(target - level) * full_ms)
            knots.append((stint.from_ms, level))
            if reached_ms < stint.until_ms:
                knots.append((reached_ms, target))
                level = target
            else:
                level += (target - level) * (
                    (stint.until_ms - stint.from_ms) / (reached_ms - stint.from_ms)
                )
        self._times = [at_ms for at_ms, _ in knots]
        self._levels = [level for _, level in knots]
        self._areas = [0.0]
        for index in range(1, len(knots)):
            width = self._times[index] - self._times[index - 1]
            mean = (self._levels[index] + self._levels[index - 1]) / 2
            self._areas.append(self._areas[-1] + width * mean)

    def at(self, at_ms: int) -> float:
        """Return the level at an instant."""
        index = bisect_right(self._times, at_ms) - 1
        if index < 0:
            return 0.0
        if index + 1 == len(self._times):
            return self._levels[index]
        share = (at_ms - self._times[index]) / (self._times[index + 1] - self._times[index])
        return self._levels[index] + share * (self._levels[index + 1] - self._levels[index])

    def between(self, from_ms: int, until_ms: int) -> float:
        """Return the integral of the level over an interval, in milliseconds."""
        return self._area(until_ms) - self._area(from_ms)

    def _area(self, at_ms: int) -> float:
        index = bisect_right(self._times, at_ms) - 1
        if index < 0:
            return 0.0
        width = at_ms - self._times[index]
        return self._areas[index] + width * (self._levels[index] + self.at(at_ms)) / 2
