"""Cancelling: the store decides who won; only a cancel that won is signalled to the worker."""

from typing import Literal

import pytest

from aegis.domain.agent import AgentSpec
from aegis.domain.principal import Principal
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.ports.task_repository import Cancelled
from aegis.use_cases.cancel_task import CancelTask, TaskCancellation

WHO = Principal(tenant="demo", subject="developer", roles=("operator",))


class Decided:
    """The one verb of `TaskRepository` that cancelling needs, with an outcome set before."""

    def __init__(self, outcome: Literal["cancelled", "already_terminal"]) -> None:
        self.outcome: Literal["cancelled", "already_terminal"] = outcome

    async def cancel(self, principal: Principal, task_id: str) -> Cancelled:
        task = Task(
            id=task_id,
            principal=principal,
            agent="ops",
            agent_digest="",
            prompt="Why?",
            state=TaskState.CANCELLED,
            created_at=0,
        )
        agent = AgentSpec(name="ops", model="scripted", instructions="")
        return Cancelled(outcome=self.outcome, snapshot=TaskSnapshot(task=task, agent=agent))


@pytest.mark.parametrize(
    ("outcome", "signals"), [("cancelled", ["task_1"]), ("already_terminal", [])]
)
async def test_the_outcome_is_the_stores_and_only_a_won_cancel_is_signalled(
    outcome: Literal["cancelled", "already_terminal"], signals: list[str]
):
    signalled: list[str] = []
    cancellation = TaskCancellation(
        repository=Decided(outcome),  # pyright: ignore[reportArgumentType] - one verb of the port is used
        signal=signalled.append,
    )

    done = await cancellation.cancel(CancelTask(principal=WHO, task_id="task_1"))

    assert done.outcome == outcome
    assert (done.snapshot.task.id, done.snapshot.task.principal) == ("task_1", WHO)
    assert signalled == signals
