"""One random list of operations on every store: equal answers, equal rows, after each step.

The stores share clock readings and ids, so whatever differs is a difference of their rules
(06, rule 14).
"""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from aegis.domain.change import TaskChange
from aegis.domain.claim import Claim
from aegis.domain.errors import AegisError
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.server_limits import ServerLimits
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TERMINAL_STATES
from aegis.domain.task import Task
from aegis.domain.tool_call import CallState
from aegis.ports.task_repository import Cancelled
from tests.contracts.stores.stores_under_test import (
    AGENT,
    ALICE,
    ALICE_ELSEWHERE,
    BOB,
    OPENERS,
    READ,
    WRITE,
    World,
)

LIMITS = ServerLimits(
    pending_max=4,
    stored_max=6,
    attempts_max=2,
    handovers_max=1,
    age_micros_max=30 * MICROS_PER_SECOND,
)
PRINCIPALS = (ALICE, BOB, ALICE_ELSEWHERE)
AGENTS = (AGENT, structs.replace(AGENT, name="other"))


class Operation(Struct, frozen=True, kw_only=True):
    """A verb and numbers that choose what it is applied to, modulo what there is."""

    verb: str
    one: int
    two: int


VERBS = st.sampled_from(
    [
        *["add", "add_with_key", "claim", "claim", "commit", "commit", "commit"],
        *["again", "stale", "cancel", "release", "renew", "expire", "advance", "unstorable"],
    ]
)
OPERATIONS = st.lists(
    st.builds(Operation, verb=VERBS, one=st.integers(0, 11), two=st.integers(0, 11)),
    min_size=10,
    max_size=50,
)


class Actor:
    """Plays operations on one store. It remembers only what the store itself answered."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.tasks: list[str] = []
        self.claims: list[Claim] = []
        self.changes: list[tuple[Claim, TaskChange]] = []

    async def play(self, operation: Operation) -> object:
        """Return the answer, or the code of the error that was raised instead."""
        verb: Callable[[int, int], Awaitable[object]] = getattr(self, operation.verb)
        try:
            return await verb(operation.one, operation.two)
        except AegisError as error:
            return type(error).__name__

    async def add(self, one: int, two: int) -> object:
        added = await self.world.added(principal=PRINCIPALS[one % 3], agent=AGENTS[two % 2])
        self.tasks.append(added.task.id)
        return added

    async def add_with_key(self, one: int, two: int) -> object:
        key = self.world.key(f"key-{one % 3}", body=f"body-{two % 2}", seconds=10)
        added = await self.world.added(principal=PRINCIPALS[one % 2], key=key)
        self.tasks.append(added.task.id)
        return added

    async def unstorable(self, one: int, two: int) -> object:
        return await self.world.added(prompt="\x00" if one % 2 else "\ud800")

    async def claim(self, one: int, two: int) -> object:
        hint = self.tasks[one % len(self.tasks)] if self.tasks and one % 3 else None
        names = [agent.name for agent in AGENTS[: 1 + two % 2]]
        claim = await self.world.take(hint, owner=f"worker-{two}", agents=names)
        if claim is not None:
            self.claims.append(claim)
        return claim

    async def commit(self, one: int, two: int) -> object:
        if not self.claims:
            return None
        claim = self.claims[-1 - one % min(3, len(self.claims))]
        change = self._next(claim, await self.world.store.load(claim), two)
        self.changes.append((claim, change))
        return await self.world.store.commit(claim, change)

    def _next(self, claim: Claim, base: TaskSnapshot, choice: int) -> TaskChange:
        if not base.steps:
            return self.world.step(base, READ, WRITE)
        open_calls = {record.call.id: record.state for record in base.open_calls}
        if READ.id in open_calls:
            return self.world.result(base, READ)
        if open_calls.get(WRITE.id) is CallState.PLANNED:
            return self.world.start(claim, base)
        if WRITE.id in open_calls:
            state = CallState.IN_DOUBT if choice % 3 == 0 else CallState.SUCCEEDED
            return self.world.result(base, WRITE, state)
        return self.world.end(base) if choice % 2 else self.world.step(base, text="More.")

    async def again(self, one: int, two: int) -> object:
        """Commit a change a second time, as a writer does that never heard the answer."""
        if not self.changes:
            return None
        claim, change = self.changes[-1 - one % min(3, len(self.changes))]
        return await self.world.store.commit(claim, change)

    async def stale(self, one: int, two: int) -> object:
        """Commit for an old claim the result of a write, on what the task is now."""
        if not self.claims:
            return None
        claim = self.claims[one % len(self.claims)]
        for principal in PRINCIPALS:
            try:
                base = await self.world.store.get(principal, claim.task_id)
            except AegisError:
                continue
            if not base.calls or base.task.state in TERMINAL_STATES:
                return None
            return await self.world.store.commit(claim, self.world.result(base, WRITE))
        return None

    async def cancel(self, one: int, two: int) -> object:
        task_id = self.tasks[one % len(self.tasks)] if self.tasks else "task_none"
        return await self.world.store.cancel(PRINCIPALS[two % 3], task_id)

    async def release(self, one: int, two: int) -> object:
        return (
            await self.world.store.release(self.claims[one % len(self.claims)])
            if (self.claims)
            else None
        )

    async def renew(self, one: int, two: int) -> object:
        return list(await self.world.store.renew(self.claims[-3:], 3 * MICROS_PER_SECOND))

    async def expire(self, one: int, two: int) -> object:
        return sorted(await self.world.store.expire_due())

    async def advance(self, one: int, two: int) -> object:
        self.world.clock.advance((0.5, 2, 3, 11)[one % 4])
        return None


async def play_on_all(operations: Sequence[Operation]) -> dict[str, int]:
    """Play `operations` on every store and compare; return how often each verb was answered."""
    answered: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        actors: list[Actor] = []
        for name in sorted(OPENERS):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            opened = OPENERS[name](Path(folder), limits=LIMITS)
            actors.append(Actor(await stack.enter_async_context(opened)))
        for number, operation in enumerate(operations):
            answers = [comparable(await actor.play(operation)) for actor in actors]
            for answer in answers[1:]:
                assert answer == answers[0], (number, operation)
            if not isinstance(answers[0], str) and answers[0] is not None:
                answered[operation.verb] = answered.get(operation.verb, 0) + 1
            first, *others = [await rows_of(actor.world) for actor in actors]
            for rows in others:
                assert rows == first, (number, operation)
    return answered


def comparable(answer: object) -> object:
    """Return `answer` without the random id of the change behind it: stores draw those apart."""
    if isinstance(answer, TaskSnapshot):
        return structs.replace(answer, task=structs.replace(answer.task, last_change_id=""))
    if isinstance(answer, Cancelled):
        return (answer.outcome, comparable(answer.snapshot))
    if isinstance(answer, Task):
        return structs.replace(answer, last_change_id="")
    return answer


async def rows_of(world: World) -> list[object]:
    """Return all that can be read, late facts included."""
    seen = [comparable(item) for item in await world.everything()]
    return [*seen, sorted((fact[0], fact[1].call_id) for fact in world.late_facts())]


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(OPERATIONS)
def test_every_store_gives_equal_answers_and_equal_rows(operations: list[Operation]) -> None:
    asyncio.run(play_on_all(operations))


def test_the_operations_reach_every_verb() -> None:
    # Lists that are too short or too even would compare refusals with refusals.
    often = ["add", "claim", "commit", "commit", "renew", "commit", "again", "commit", "commit"]
    rare = ["add_with_key", "stale", "release", "advance", "cancel", "expire", "claim", "stale"]
    answered: set[str] = set()
    for offset in range(3):
        verbs = [verb for extra in rare * 2 for verb in [*often[: 6 + offset], extra]]
        operations = [
            Operation(verb=verb, one=(number * 7 + offset) % 12, two=(number * 5 + offset) % 12)
            for number, verb in enumerate(verbs)
        ]
        answered |= asyncio.run(play_on_all(operations)).keys()
    silent = {"advance", "release", "unstorable", "stale"}
    assert answered >= {*often, *rare} - silent
