"""The shop as formulae: services, releases, and how errors spread upstream. No clock in here.

All times are seconds since 1970. `onset` is the moment of the bad release, 22 minutes before the
shop was started. The noise of a minute comes from a hash of seed, service and minute.
"""

import hashlib
import math
from dataclasses import dataclass, field
from functools import lru_cache

ONSET_SECONDS_BEFORE_START = 22 * 60
RAMP_SECONDS = 60.0
BASE_ERROR_RATIO = 0.002
BAD_ERROR_RATIO = 0.08
BUCKET_SECONDS = 15

SERVICES: dict[str, tuple[float, float, float]] = {
    # name: (requests per second, p95 seconds, share of payment-service's failures that it feels)
    "api-gateway": (120.0, 0.180, 0.25),
    "checkout-service": (40.0, 0.220, 0.60),
    "payment-service": (36.0, 0.140, 1.00),
    "fraud-check": (36.0, 0.060, 0.0),
    "payments-db": (150.0, 0.008, 0.0),
    "catalog-service": (80.0, 0.090, 0.0),
}
VERSIONS = {
    "api-gateway": "5.2.0",
    "checkout-service": "4.7.1",
    "payment-service": "2.13.4",
    "fraud-check": "1.9.3",
    "payments-db": "15.6",
    "catalog-service": "3.1.0",
}
BAD_SERVICE, BAD_VERSION, GOOD_VERSION = "payment-service", "2.14.0", "2.13.4"


@dataclass(frozen=True, kw_only=True)
class Release:
    """A change of a service's version or configuration."""

    id: str
    service: str
    kind: str
    version: str
    previous_version: str
    at: int
    author: str
    summary: str


@dataclass(kw_only=True)
class Shop:
    """The state of the shop: constants, and the changes that were applied to it."""

    seed: int
    started_at: int
    recovery_seconds: float
    applied: list[Release] = field(default_factory=list)

    @property
    def onset(self) -> int:
        """When the bad release went out."""
        return self.started_at - ONSET_SECONDS_BEFORE_START

    def releases(self) -> list[Release]:
        """All releases, oldest first."""
        start = self.started_at
        fixed = [
            Release(
                id="rel-0417",
                service="fraud-check",
                kind="config",
                version="1.9.3",
                previous_version="1.9.3",
                at=start - 3 * 3600,
                author="mira",
                summary="Raise the score threshold for small baskets",
            ),
            Release(
                id="rel-0418",
                service="catalog-service",
                kind="release",
                version="3.2.0",
                previous_version="3.1.0",
                at=start - 40 * 60,
                author="jon",
                summary="New thumbnails for product pages",
            ),
            Release(
                id="rel-0419",
                service=BAD_SERVICE,
                kind="release",
                version=BAD_VERSION,
                previous_version=GOOD_VERSION,
                at=self.onset,
                author="ada",
                summary="Move card storage to card-vault; new connection pool",
            ),
        ]
        return [*fixed, *self.applied]

    def version(self, service: str, at: float) -> str:
        """Return the version of `service` at a time."""
        current = VERSIONS[service]
        for release in self.releases():
            if release.service == service and release.at <= at:
                current = release.version
        return current

    def badness(self, at: float) -> float:
        """Return how far the bad release shows at a time, 0 to 1: a ramp up, a decay after."""
        level = 0.0
        changed_at, bad = float("-inf"), False
        for release in self.releases():
            if release.service == BAD_SERVICE and release.at <= at:
                level = self._level(level, bad, release.at - changed_at)
                changed_at, bad = release.at, release.version == BAD_VERSION
        return self._level(level, bad, at - changed_at)

    def error_ratio(self, service: str, at: float) -> float:
        """Return the share of requests that fail, 0 to 1."""
        felt = SERVICES[service][2]
        noise = 1.0 + 0.25 * self._noise(service, at)
        spread = 1.0 + 0.05 * self._noise(service + "/spread", at)
        return BASE_ERROR_RATIO * noise + BAD_ERROR_RATIO * felt * self.badness(at) * spread

    def request_rate(self, service: str, at: float) -> float:
        """Return requests per second, with a slow daily wave."""
        wave = 1.0 + 0.1 * math.sin(2 * math.pi * at / 86_400)
        return SERVICES[service][0] * wave * (1.0 + 0.04 * self._noise(service + "/rate", at))

    def latency_p95(self, service: str, at: float) -> float:
        """Return the 95th percentile of request duration in seconds."""
        slower = 1.0 + 2.5 * SERVICES[service][2] * self.badness(at)
        return SERVICES[service][1] * slower * (1.0 + 0.06 * self._noise(service + "/p95", at))

    def counted(self, service: str, code: str, at: float) -> float:
        """Return the request counter of a code at a time: a sum over buckets of 15 s since day 0.

        It only grows, so that `rate` and `increase` mean what they mean anywhere.
        """
        first = (self.started_at - 86_400) // BUCKET_SECONDS
        last = int(at // BUCKET_SECONDS)
        total = 0.0
        for bucket in range(max(first, last - 1440), last):
            total += self._requests(service, code, bucket)
        part = (at - last * BUCKET_SECONDS) / BUCKET_SECONDS
        # A day's average stands for everything before the six hours that are summed exactly.
        older = max(0, last - 1440 - first)
        total += older * BUCKET_SECONDS * SERVICES[service][0] * self._share(code, BASE_ERROR_RATIO)
        return total + part * self._requests(service, code, last)

    def increase(self, service: str, code: str, start: float, end: float) -> float:
        """Return how much the counter of a code grows between two times."""
        first, last = int(start // BUCKET_SECONDS), int(end // BUCKET_SECONDS)
        if first == last:
            return self._requests(service, code, first) * (end - start) / BUCKET_SECONDS
        head = ((first + 1) * BUCKET_SECONDS - start) / BUCKET_SECONDS
        tail = (end - last * BUCKET_SECONDS) / BUCKET_SECONDS
        middle = sum(self._requests(service, code, bucket) for bucket in range(first + 1, last))
        return (
            head * self._requests(service, code, first)
            + middle
            + tail * self._requests(service, code, last)
        )

    def _requests(self, service: str, code: str, bucket: int) -> float:
        at = (bucket + 0.5) * BUCKET_SECONDS
        ratio = self.error_ratio(service, at)
        return BUCKET_SECONDS * self.request_rate(service, at) * self._share(code, ratio)

    @staticmethod
    def _share(code: str, ratio: float) -> float:
        return ratio if code == "500" else 1.0 - ratio

    def _level(self, level: float, bad: bool, elapsed: float) -> float:
        if bad:
            return min(1.0, level + elapsed / RAMP_SECONDS)
        if elapsed == float("inf"):
            return 0.0
        return level * max(0.0, 1.0 - elapsed / self.recovery_seconds)

    def _noise(self, name: str, at: float) -> float:
        """Return a number from -1 to 1 that only depends on seed, name and minute."""
        return _hashed(f"{self.seed}/{name}/{int(at // 60)}")


@lru_cache(maxsize=65_536)
def _hashed(text: str) -> float:
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    return int.from_bytes(digest) / 0x7FFFFFFF - 1.0
