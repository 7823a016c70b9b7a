"""Creating a task: what is checked before anything is stored, and what is stored then."""

import msgspec
import pytest

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import sha256_hex
from aegis.domain.errors import InvalidRequest, UnknownAgent
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.principal import Principal
from aegis.domain.state import TaskState
from aegis.ports.task_repository import Added, IdempotencyKey, NewTask
from aegis.use_cases.create_task import CreateTask, TaskCreation
from tests.fakes.clock import ManualClock
from tests.fakes.ids import SequentialIds

WHO = Principal(tenant="demo", subject="developer", roles=("operator",))
AGENT = AgentSpec(name="ops", model="scripted", instructions="Find the cause.")
TTL = 60 * MICROS_PER_SECOND


class KeptAdds:
    """The one verb of `TaskRepository` that creating needs: it keeps what it was given."""

    def __init__(self) -> None:
        self.added: list[tuple[NewTask, IdempotencyKey | None]] = []

    async def add(self, new: NewTask, key: IdempotencyKey | None) -> Added:
        self.added.append((new, key))
        return Added(task=new.task)


@pytest.fixture
def repository() -> KeptAdds:
    return KeptAdds()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def creation(repository: KeptAdds, clock: ManualClock) -> TaskCreation:
    return TaskCreation(
        repository=repository,  # pyright: ignore[reportArgumentType] - one verb of the port is used
        agents={AGENT.name: AGENT},
        clock=clock,
        ids=SequentialIds(),
        idempotency_ttl_micros=TTL,
    )


def asked(prompt: str = "Why?", agent: str = AGENT.name, key: str | None = None) -> CreateTask:
    return CreateTask(principal=WHO, agent=agent, prompt=prompt, idempotency_key=key)


async def test_the_row_is_pending_with_its_first_entry_and_the_agent_in_force(
    creation: TaskCreation, repository: KeptAdds, clock: ManualClock
):
    added = await creation.create(asked())

    ((new, key),) = repository.added
    assert added.task == new.task
    assert new.agent == AGENT
    assert key is None
    assert (new.task.state, new.task.version, new.task.last_seq) == (TaskState.PENDING, 1, 1)
    assert new.task.principal == WHO
    assert new.task.created_at == clock.now()
    assert new.task.agent_digest == sha256_hex(msgspec.json.encode(AGENT))


@pytest.mark.parametrize("prompt", ["", " \n\t\u3000", "a\x00b", "a\ud800b", "x" * 1001])
async def test_a_prompt_that_breaks_a_rule_is_refused_with_a_pointer(
    creation: TaskCreation, repository: KeptAdds, prompt: str
):
    with pytest.raises(InvalidRequest) as caught:
        await creation.create(asked(prompt))

    assert caught.value.pointer == "/prompt"
    assert repository.added == []


async def test_the_limit_counts_code_points_and_not_bytes(
    creation: TaskCreation, repository: KeptAdds
):
    await creation.create(asked("\U0001f600" * 1000))

    assert len(repository.added) == 1


async def test_an_agent_that_is_not_declared_is_unknown_and_not_quoted(
    creation: TaskCreation, repository: KeptAdds
):
    with pytest.raises(UnknownAgent) as caught:
        await creation.create(asked(agent="no-such-agent"))

    assert "no-such-agent" not in str(caught.value)
    assert repository.added == []


async def test_a_key_carries_the_digest_of_the_request_and_its_end(
    creation: TaskCreation, repository: KeptAdds, clock: ManualClock
):
    for command in (asked(key="k"), asked(key="k"), asked("Other?", key="k")):
        await creation.create(command)

    first, again, other = (key for _, key in repository.added)
    assert first is not None
    assert (first.key, first.expires_at) == ("k", clock.now() + TTL)
    assert first == again
    assert other is not None
    assert other.body_hash != first.body_hash


@pytest.mark.parametrize("key", ["", "k" * 256, "a\x00", "\udfff"])
async def test_a_key_that_cannot_be_stored_is_refused(
    creation: TaskCreation, repository: KeptAdds, key: str
):
    with pytest.raises(InvalidRequest, match="Idempotency-Key"):
        await creation.create(asked(key=key))

    assert repository.added == []
