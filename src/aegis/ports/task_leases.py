"""Ownership in time: claim, renew, release, and what a timer does to tasks nobody holds."""

from collections.abc import Collection, Sequence
from typing import Protocol

from aegis.domain.claim import Claim
from aegis.domain.micros import Micros


class TaskLeases(Protocol):
    """Leases and epochs. Times are the store's own; `lease_micros` is how long a lease lasts."""

    async def claim(
        self, owner: str, lease_micros: Micros, agents: Collection[str], task_id: str | None
    ) -> Claim | None:
        """Take `task_id`, or with None the task that is due longest. None: nothing to take.

        Takes PENDING, READY_TO_RESUME, and RUNNING whose lease has run out and whose attempts are
        not exhausted; only agents in `agents` and format versions up to ours. The epoch grows by
        one; a takeover adds an attempt and is charged for a lost model call unless a planned batch
        was pending. The same statement serves hint and sweep (06, rule 22).
        """
        ...

    async def renew(self, claims: Sequence[Claim], lease_micros: Micros) -> Sequence[Claim | None]:
        """Extend the leases of `claims`, in one statement; None where the claim was lost.

        A lease that has already run out is never revived.
        """
        ...

    async def release(self, claim: Claim) -> None:
        """Hand a RUNNING task back: READY_TO_RESUME, no attempt added. Raises `LostClaim`.

        A task released more than `handovers_max` times fails with WORKER_LOST instead.
        """
        ...

    async def expire_due(self) -> Sequence[str]:
        """End what needs no worker to end, and return the ids of the tasks that ended.

        RUNNING with its lease run out and its attempts exhausted: WORKER_LOST. PENDING or
        READY_TO_RESUME beyond the maximum age: TASK_TIMEOUT.
        """
        ...
