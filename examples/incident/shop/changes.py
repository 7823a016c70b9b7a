"""The change desk: applies a rollback at most once per idempotency key, and remembers it."""

from collections.abc import Sequence

from msgspec import Struct, structs

from .model import World
from .problems import Problem
from .times import MS_PER_MINUTE, rfc3339
from .topology import SERVICES, Release, planned_releases, record_id

CHANGES_MAX = 1000


class ChangeOrder(Struct, frozen=True, kw_only=True):
    """What a caller asks for."""

    service: str
    to_version: str


class ChangeRecord(Struct, frozen=True, kw_only=True):
    """What was done. It never changes after it was written."""

    id: str
    state: str
    kind: str
    service: str
    from_version: str
    to_version: str
    applied_at: str
    idempotency_key: str


class ChangeDesk:
    """Holds the only state of the shop: its releases, and the changes behind the newest ones."""

    def __init__(self, *, seed: int, started_at_ms: int, recovery_ms: int) -> None:
        self._seed = seed
        self._started_at_ms = started_at_ms
        self._recovery_ms = recovery_ms
        start_minute_ms = started_at_ms // MS_PER_MINUTE * MS_PER_MINUTE
        self.world = self._world(planned_releases(seed, start_minute_ms))
        self._by_key: dict[str, tuple[ChangeOrder, ChangeRecord]] = {}
        self._tokens: dict[str, int] = {}

    @property
    def applied(self) -> list[ChangeRecord]:
        """The ledger of effects, oldest first: one record per change that really happened."""
        return [record for _, record in self._by_key.values()]

    def find(self, *, idempotency_key: str) -> ChangeRecord | None:
        """Return the change behind a key, or None: then nothing was applied under it."""
        found = self._by_key.get(idempotency_key)
        return found[1] if found else None

    def apply(
        self, order: ChangeOrder, *, idempotency_key: str, fencing_token: int | None, now_ms: int
    ) -> tuple[ChangeRecord, bool]:
        """Roll back, or return the record of the same order; the flag says whether it is new.

        A known key is answered first: a repeat has no effect, so a stale holder may learn what
        happened. Raises `Problem`; a refused order leaves no trace and its key stays free.
        """
        known = self._by_key.get(idempotency_key)
        if known is not None:
            if known[0] != order:
                raise Problem(
                    422, "idempotency_key_reused", "this key belongs to another order: take a new"
                )
            self._raise_token(order.service, fencing_token)
            return known[1], False
        self._check(order, fencing_token, now_ms)
        self._raise_token(order.service, fencing_token)
        from_version = self.world.version_at(order.service, now_ms)
        record = ChangeRecord(
            id=record_id("chg", self._seed, idempotency_key),
            state="applied",
            kind="rollback",
            service=order.service,
            from_version=from_version,
            to_version=order.to_version,
            applied_at=rfc3339(now_ms),
            idempotency_key=idempotency_key,
        )
        self._by_key[idempotency_key] = (order, record)
        self.world = self._world([*self.world.releases, self._release(record, now_ms)])
        return record, True

    def _check(self, order: ChangeOrder, fencing_token: int | None, now_ms: int) -> None:
        if order.service not in SERVICES:
            raise Problem(404, "unknown_service", f"services are {', '.join(SERVICES)}")
        if fencing_token is not None and fencing_token < self._tokens.get(order.service, 0):
            raise Problem(
                409, "stale_fencing_token", "a newer holder has acted on this service: stop"
            )
        known = {
            version
            for release in self.world.releases
            if release.service == order.service and release.kind != "config"
            for version in (release.version, release.previous_version)
        }
        if order.to_version not in known:
            raise Problem(
                422,
                "unknown_version",
                f"this service never ran that version; it knows {', '.join(sorted(known))}",
            )
        if order.to_version == self.world.version_at(order.service, now_ms):
            raise Problem(409, "already_at_version", "the service runs this version already")
        if len(self._by_key) >= CHANGES_MAX:
            raise Problem(503, "ledger_full", f"the shop keeps {CHANGES_MAX} changes: restart it")

    def _raise_token(self, service: str, fencing_token: int | None) -> None:
        if fencing_token is not None:
            self._tokens[service] = max(fencing_token, self._tokens.get(service, 0))

    def _release(self, record: ChangeRecord, now_ms: int) -> Release:
        return Release(
            id=record_id("rel", self._seed, record.id),
            service=record.service,
            version=record.to_version,
            previous_version=record.from_version,
            released_at_ms=now_ms,
            author="change-api",
            change_summary=f"Rollback from {record.from_version}, change {record.id}",
            kind="rollback",
        )

    def _world(self, releases: Sequence[Release]) -> World:
        return World(
            seed=self._seed,
            started_at_ms=self._started_at_ms,
            releases=releases,
            recovery_ms=self._recovery_ms,
        )


def shown_release(release: Release) -> dict[str, object]:
    """Return a release as the API shows it: the time as RFC 3339."""
    record = structs.asdict(release)
    record["released_at"] = rfc3339(record.pop("released_at_ms"))
    return record
