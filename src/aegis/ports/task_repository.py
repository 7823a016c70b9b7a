"""The pen: everything that changes a task, each verb one transaction."""

from typing import Literal, Protocol

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.change import TaskChange
from aegis.domain.claim import Claim
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.task import Task


class IdempotencyKey(Struct, frozen=True, kw_only=True):
    """A caller's key for one route: same key and same body is the same request (I15).

    `key` is at most 255 characters; `body_hash` is the digest of the canonical request;
    `expires_at` ends the promise. Scope: tenant and subject of the task's principal, and `route`.
    """

    route: str
    key: str
    body_hash: str
    expires_at: Micros


class NewTask(Struct, frozen=True, kw_only=True):
    """A task to add: PENDING, version 1, last_seq 1, with the agent spec that it will run by."""

    task: Task
    agent: AgentSpec


class Added(Struct, frozen=True, kw_only=True):
    """What `add` did. `task` is the row as it was when created, also on a replay."""

    task: Task
    replayed: bool = False


class Cancelled(Struct, frozen=True, kw_only=True):
    """Which side won, and the task as it is now."""

    outcome: Literal["cancelled", "already_terminal"]
    snapshot: TaskSnapshot


class TaskRepository(Protocol):
    """Who holds this may write tasks. Every verb commits durably before it returns."""

    async def add(self, new: NewTask, key: IdempotencyKey | None) -> Added:
        """Insert the task with its first entry, its agent blob and its key, and count it.

        The key is looked at first, before admission. Raises `IdempotencyKeyReused`, `QueueFull`
        (pending limit), `CapacityExhausted` (stored limit and nothing prunable).
        """
        ...

    async def load(self, claim: Claim) -> TaskSnapshot:
        """Return the claimed task, folded from its journal. Raises `LostClaim`."""
        ...

    async def commit(self, claim: Claim, change: TaskChange) -> TaskSnapshot:
        """Write `change` as the holder of `claim`; return the snapshot that it makes.

        Guards on id, epoch, RUNNING and version, and with `change.needs_lease` on a live lease. A
        mismatch writes nothing of the change, keeps finished write calls as late facts and raises
        `LostClaim`. A change that committed although its answer was lost is recognised by its id.
        """
        ...

    async def cancel(self, principal: Principal, task_id: str) -> Cancelled:
        """Cancel, or tell that the task had already ended. Raises `NotFound`, `Gone`."""
        ...
