"""A claim: the right of one worker to write to one task, for one epoch."""

from msgspec import Struct

from aegis.domain.micros import Micros


class Claim(Struct, frozen=True, kw_only=True):
    """What a worker shows with every write. A stale epoch changes no row (I3).

    `lease_expires_at` is the store's time; `send_deadline` is the local CLOCK_BOOTTIME until which
    a write may be sent, counted from before the claim or renewal was requested (06, rule 2).
    """

    task_id: str
    epoch: int
    owner: str
    lease_expires_at: Micros
    send_deadline: Micros
