"""The task states and the transitions between them, as data."""

from enum import StrEnum

from aegis.domain.errors import IllegalTransition


class TaskState(StrEnum):
    """Where a task stands. Names map one to one to A2A and MCP task states."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    WAITING_APPROVAL = "WAITING_APPROVAL"
    READY_TO_RESUME = "READY_TO_RESUME"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


_S = TaskState

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    # READY_TO_RESUME and PENDING can fail without running: the maximum age has its own bound.
    _S.PENDING: frozenset({_S.RUNNING, _S.CANCELLED, _S.FAILED}),
    _S.READY_TO_RESUME: frozenset({_S.RUNNING, _S.CANCELLED, _S.FAILED}),
    # RUNNING to RUNNING is a claim by another worker after the lease ran out, or a recorded step.
    _S.RUNNING: frozenset(
        {
            _S.RUNNING,
            _S.SUCCEEDED,
            _S.FAILED,
            _S.CANCELLED,
            _S.WAITING_APPROVAL,
            _S.READY_TO_RESUME,
        }
    ),
    _S.WAITING_APPROVAL: frozenset({_S.READY_TO_RESUME, _S.FAILED, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}
"""From each state, where a task may go. A state with nowhere to go is terminal."""

TERMINAL_STATES: frozenset[TaskState] = frozenset(
    state for state, targets in TRANSITIONS.items() if not targets
)

CLAIMABLE_STATES: frozenset[TaskState] = frozenset({_S.PENDING, _S.READY_TO_RESUME})
"""States that any worker may claim at once; RUNNING only once its lease has run out."""


def require_transition(source: TaskState, target: TaskState) -> None:
    """Raise `IllegalTransition` unless the table lists `source` to `target`."""
    if target not in TRANSITIONS[source]:
        raise IllegalTransition(source=source.value, target=target.value)
