"""The task: the one row that says where a piece of work stands."""

from msgspec import Struct

from aegis.domain.limits import Limits, Usage
from aegis.domain.micros import Micros
from aegis.domain.model import FinalAnswer
from aegis.domain.principal import Principal
from aegis.domain.reason import ReasonCode
from aegis.domain.state import TaskState

FORMAT_VERSION = 1
"""Version of what the journal and the columns mean. A worker claims only versions up to its own."""


class Task(Struct, frozen=True, kw_only=True):
    """One task, as its row says. Immutable: a change makes a new one.

    Who holds it until when is not part of it: those columns belong to the leases (06, rule 7).
    `version` counts every write of a change, `epoch` every claim (and a cancel), `last_seq` every
    journal entry. `running_since` is set while RUNNING; `running_micros` is the running time of
    earlier stretches.
    """

    id: str
    principal: Principal
    agent: str
    agent_digest: str
    prompt: str
    state: TaskState
    created_at: Micros
    reason: ReasonCode | None = None
    output: FinalAnswer | None = None
    usage: Usage = Usage()
    version: int = 1
    epoch: int = 0
    attempt: int = 0
    """Claims that followed a lost lease, plus the first: bounded by `attempts_max`."""
    handovers: int = 0
    """Graceful releases: bounded by `handovers_max`."""
    last_seq: int = 0
    running_since: Micros | None = None
    running_micros: Micros = 0
    finished_at: Micros | None = None
    last_change_id: str = ""
    format_version: int = FORMAT_VERSION


def running_deadline(task: Task, limits: Limits) -> Micros:
    """Return when a RUNNING `task` has used up its running time (06, rule 19)."""
    since = task.running_since if task.running_since is not None else task.created_at
    return since + limits.running_micros_max - task.running_micros
