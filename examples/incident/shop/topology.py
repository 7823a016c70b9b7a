"""The shop as data: its services, what they cost and suffer, and the releases of the story."""

from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from .times import MS_PER_DAY, MS_PER_HOUR, MS_PER_MINUTE

BAD_SERVICE = "payment-service"
BAD_VERSION = "2.14.0"
GOOD_VERSION = "2.13.4"
BAD_RELEASE_MINUTES_AGO = 22
DECOY_RELEASE_MINUTES_AGO = 40
CONFIG_CHANGE_MINUTES_AGO = 180
HISTORY_MS = 6 * MS_PER_HOUR
FUTURE_MS = 7 * MS_PER_DAY

ReleaseKind = Literal["release", "rollback", "config"]


class Service(Struct, frozen=True, kw_only=True):
    """One service at rest, and what the bad release adds to it at its worst (`excess_*`).

    Ratios are shares of requests, 0 to 1; latencies are seconds at the 95th percentile.
    """

    name: str
    calls: tuple[str, ...]
    requests_per_second: float
    error_ratio: float
    p95_seconds: float
    excess_error_ratio: float = 0.0
    excess_p95_seconds: float = 0.0


class Release(Struct, frozen=True, kw_only=True):
    """A version or a configuration that went out. `version` stays the same for `config`."""

    id: str
    service: str
    version: str
    previous_version: str
    released_at_ms: int
    author: str
    change_summary: str
    kind: ReleaseKind


_LISTED = (
    Service(
        name="api-gateway",
        calls=("checkout-service", "catalog-service"),
        requests_per_second=180.0,
        error_ratio=0.001,
        p95_seconds=0.30,
        excess_error_ratio=0.019,
        excess_p95_seconds=0.22,
    ),
    Service(
        name="checkout-service",
        calls=("payment-service",),
        requests_per_second=60.0,
        error_ratio=0.0015,
        p95_seconds=0.24,
        excess_error_ratio=0.0485,
        excess_p95_seconds=0.36,
    ),
    Service(
        name="payment-service",
        calls=("fraud-check", "payments-db"),
        requests_per_second=40.0,
        error_ratio=0.002,
        p95_seconds=0.18,
        excess_error_ratio=0.078,
        excess_p95_seconds=0.45,
    ),
    Service(
        name="fraud-check",
        calls=(),
        requests_per_second=40.0,
        error_ratio=0.001,
        p95_seconds=0.06,
    ),
    Service(
        name="payments-db",
        calls=(),
        requests_per_second=110.0,
        error_ratio=0.0004,
        p95_seconds=0.012,
    ),
    Service(
        name="catalog-service",
        calls=(),
        requests_per_second=95.0,
        error_ratio=0.0012,
        p95_seconds=0.09,
    ),
)
SERVICES = {service.name: service for service in _LISTED}

# Version before the first release of the metric history, and the release that brought it.
_BEFORE = (
    ("api-gateway", "5.2.1", "5.2.0", 6, "m.okafor", "Raise the idle timeout of keep-alives"),
    ("checkout-service", "3.8.0", "3.7.9", 4, "l.berg", "Show delivery dates in the basket"),
    ("payment-service", GOOD_VERSION, "2.13.3", 9, "r.silva", "Round refunds half to even"),
    ("fraud-check", "1.9.2", "1.9.1", 12, "t.ito", "Retrain the velocity rules"),
    ("payments-db", "15.6", "15.5", 31, "dba-oncall", "Minor version of the database"),
    ("catalog-service", "4.4.0", "4.3.2", 7, "n.haddad", "Index products by season"),
)


def planned_releases(seed: int, start_minute_ms: int) -> tuple[Release, ...]:
    """Return every release up to the start of the process, oldest first."""
    planned = [
        _release(seed, service, version, previous, start_minute_ms - days * MS_PER_DAY, who, what)
        for service, version, previous, days, who, what in _BEFORE
    ]
    planned += [
        _release(
            seed,
            "fraud-check",
            "1.9.2",
            "1.9.2",
            start_minute_ms - CONFIG_CHANGE_MINUTES_AGO * MS_PER_MINUTE,
            "t.ito",
            "Config: score_threshold 0.80 to 0.82",
            kind="config",
        ),
        _release(
            seed,
            "catalog-service",
            "4.5.0",
            "4.4.0",
            start_minute_ms - DECOY_RELEASE_MINUTES_AGO * MS_PER_MINUTE,
            "n.haddad",
            "Show related products on the product page",
        ),
        _release(
            seed,
            BAD_SERVICE,
            BAD_VERSION,
            GOOD_VERSION,
            start_minute_ms - BAD_RELEASE_MINUTES_AGO * MS_PER_MINUTE,
            "r.silva",
            "card-vault client: read the pool size from configuration (default pool_size=2),"
            " connect timeout 250ms",
        ),
    ]
    return tuple(sorted(planned, key=lambda release: release.released_at_ms))


def record_id(prefix: str, *parts: object) -> str:
    """Return a short id that is the same for the same parts."""
    text = "|".join(map(str, parts))
    return f"{prefix}-{blake2b(text.encode(), digest_size=6).hexdigest()}"


def _release(  # noqa: PLR0913, PLR0917 - one row of the table above
    seed: int,
    service: str,
    version: str,
    previous_version: str,
    released_at_ms: int,
    author: str,
    change_summary: str,
    kind: ReleaseKind = "release",
) -> Release:
    return Release(
        id=record_id("rel", seed, service, version, kind, released_at_ms),
        service=service,
        version=version,
        previous_version=previous_version,
        released_at_ms=released_at_ms,
        author=author,
        change_summary=change_summary,
        kind=kind,
    )
