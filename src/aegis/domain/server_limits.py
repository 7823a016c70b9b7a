"""Limits of a server, as opposed to those of an agent: admission, retention, attempts, leases."""

from msgspec import Struct

from aegis.domain.micros import MICROS_PER_SECOND, Micros


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Defaults are those of the demo profile (01, A4; 02). `[limits]` of `aegis.toml` sets them."""

    pending_max: int = 32
    """PENDING tasks; one more is `QueueFull`."""
    stored_max: int = 1000
    """Stored tasks; beyond it the oldest prunable ones go, else `CapacityExhausted`."""
    attempts_max: int = 3
    handovers_max: int = 20
    age_micros_max: Micros = 24 * 3600 * MICROS_PER_SECOND
    """How long a task may wait unclaimed."""
    lease_micros: Micros = 3 * MICROS_PER_SECOND
    renew_micros: Micros = 1 * MICROS_PER_SECOND
    sweep_micros: Micros = 1 * MICROS_PER_SECOND
    drain_micros: Micros = 10 * MICROS_PER_SECOND
    """How long a shutdown waits for writes that were started."""
    idempotency_ttl_micros: Micros = 24 * 3600 * MICROS_PER_SECOND
