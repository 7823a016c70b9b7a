"""Create a task: check the request, build the row, add it with its key."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.canonical import canonical_json, sha256_hex
from aegis.domain.errors import InvalidRequest, UnknownAgent
from aegis.domain.micros import Micros
from aegis.domain.principal import Principal
from aegis.domain.state import TaskState
from aegis.domain.task import Task
from aegis.domain.text import is_storable
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.ports.task_repository import Added, IdempotencyKey, NewTask, TaskRepository

PROMPT_CODE_POINTS_MAX = 1000
IDEMPOTENCY_KEY_CHARACTERS_MAX = 255
ROUTE = "POST /tasks"


class CreateTask(Struct, frozen=True, kw_only=True):
    """What the caller wants done, by which agent. The principal is the server's knowledge."""

    principal: Principal
    agent: str
    prompt: str
    idempotency_key: str | None = None


class TaskCreation(Struct, frozen=True, kw_only=True):
    """What creating tasks works with."""

    repository: TaskRepository
    agents: Mapping[str, AgentSpec]
    clock: Clock
    ids: Ids
    idempotency_ttl_micros: Micros

    async def create(self, command: CreateTask) -> Added:
        """Add a PENDING task. Success means accepted, never done.

        Raises `InvalidRequest`, `UnknownAgent`, and what `TaskRepository.add` raises.
        """
        _check_prompt(command.prompt)
        agent = self.agents.get(command.agent)
        if agent is None:
            raise UnknownAgent("no agent of this name is declared here")
        now = self.clock.now()
        task = Task(
            id=self.ids.new("task"),
            principal=command.principal,
            agent=agent.name,
            agent_digest=sha256_hex(msgspec.json.encode(agent)),
            prompt=command.prompt,
            state=TaskState.PENDING,
            created_at=now,
            last_seq=1,
        )
        key = _key(command, now + self.idempotency_ttl_micros)
        return await self.repository.add(NewTask(task=task, agent=agent), key)


def _check_prompt(prompt: str) -> None:
    if not is_storable(prompt):
        raise InvalidRequest("must not hold NUL or a lone surrogate", "/prompt")
    if not prompt.strip():
        raise InvalidRequest("must not be blank", "/prompt")
    if len(prompt) > PROMPT_CODE_POINTS_MAX:
        raise InvalidRequest(
            f"must be at most {PROMPT_CODE_POINTS_MAX} Unicode code points", "/prompt"
        )


def _key(command: CreateTask, expires_at: Micros) -> IdempotencyKey | None:
    key = command.idempotency_key
    if key is None:
        return None
    if not 0 < len(key) <= IDEMPOTENCY_KEY_CHARACTERS_MAX or not is_storable(key):
        raise InvalidRequest(
            f"the Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_CHARACTERS_MAX} characters"
        )
    body = canonical_json({"agent": command.agent, "prompt": command.prompt})
    return IdempotencyKey(route=ROUTE, key=key, body_hash=sha256_hex(body), expires_at=expires_at)
