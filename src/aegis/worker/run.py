"""One claimed task that this worker runs, and what may be done to it right now."""

import asyncio
from enum import Enum

from aegis.agent_loop.context import Calling
from aegis.domain.claim import Claim
from aegis.domain.micros import MICROS_PER_SECOND, Micros
from aegis.ports.clock import Clock

CALL_MARGIN_MICROS: Micros = 2 * MICROS_PER_SECOND
"""How far beyond its own deadline a call may run before its lease is left to lapse."""


class Stop(Enum):
    """Why a run was asked to stop."""

    LOST = "lost"
    """Somebody else owns the task now: a cancel, a takeover."""
    DRAIN = "drain"
    """The worker shuts down: the task is handed back."""


class Run:
    """A running task: its lease, its asyncio task, and the call that it awaits.

    A model call or a read may be cancelled at any moment. A write that was sent may not: its
    outcome is worth more than a quick stop (06, rule 6). Between calls the loop asks `stopping`.
    """

    def __init__(self, claim: Claim, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._calling: Calling | None = None
        self._call_until: Micros | None = None
        self.stop: Stop | None = None
        self.task: asyncio.Task[None] | None = None

    def current(self) -> Claim:
        """Return the claim as last renewed (the loop's `Lease`)."""
        return self._claim

    def renewed(self, claim: Claim) -> None:
        """Take over what a renewal returned."""
        self._claim = claim

    def on_call(self, calling: Calling | None) -> None:
        """Note what the loop awaits now."""
        self._calling = calling
        self._call_until = (
            None
            if calling is None
            else self._clock.boottime() + calling.timeout_micros + CALL_MARGIN_MICROS
        )

    def stopping(self) -> bool:
        """Whether the loop should return at the next commit boundary."""
        return self.stop is not None

    @property
    def is_stuck(self) -> bool:
        """Whether the current call is past its deadline: such a run is not renewed (rule 17)."""
        return self._call_until is not None and self._clock.boottime() > self._call_until

    def ask_to_stop(self, why: Stop) -> None:
        """Stop at the next safe point: at once in a model call or a read, else after the commit."""
        if self.stop is None or why is Stop.LOST:
            self.stop = why
        if self.task is not None and self._calling is not None and not self._calling.writes:
            self.task.cancel()

    def abandon(self) -> None:
        """Stop waiting, even for a write: its ledger entry stays STARTED, which means in doubt."""
        if self.task is not None:
            self.task.cancel()
