"""A Hypothesis state machine over the life of tasks, against a small model, on both stores.

Clients create, replay and cancel; two workers claim, commit with fresh and stale claims, release
and vanish; time passes. After every step the invariants are checked on what readers see.
"""

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from aegis.domain.change import TaskChange
from aegis.domain.ending import Failed, Succeeded, end_task
from aegis.domain.entry import ModelReplied
from aegis.domain.errors import IdempotencyKeyReused, LostClaim, QueueFull
from aegis.domain.model import FinalAnswer
from aegis.domain.reason import ReasonCode
from aegis.domain.server_limits import ServerLimits
from aegis.domain.state import TERMINAL_STATES, TRANSITIONS, TaskState
from aegis.ports.task_views import TaskFilter
from tests.fakes.virtual_loop import VirtualLoop
from tests.simulation.world import DEVELOPER, World

LEASE = 3_000_000
AGENT = "fault-normal"


class LifeCycle(RuleBasedStateMachine):
    store_kind = "memory"

    tasks = Bundle("tasks")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.runner = asyncio.Runner(loop_factory=lambda: self.loop)
        self.runner.get_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(
            self.loop,
            Path(self.folder.name),
            self.store_kind,
            ServerLimits(pending_max=5, attempts_max=3, handovers_max=2),
        )
        self.ended = {}
        self.epochs = {}
        self.seen_states = {}
        self.keys = {}
        self.cancels_won = set()

    def teardown(self):
        self.run(self.world.store.close())
        self.runner.close()
        self.folder.cleanup()

    def run(self, work):
        return self.runner.run(work)

    def snapshot(self, task_id):
        return self.run(self.world.show(task_id))

    @rule(target=tasks, key=st.sampled_from([None, "k1", "k2"]), prompt=st.sampled_from("ab"))
    def create(self, key, prompt):
        try:
            task_id = self.run(self.world.create(AGENT, key, prompt))
        except QueueFull:
            pending = [t for t, s in self.states().items() if s is TaskState.PENDING]
            assert len(pending) == 5
            return multiple()
        except IdempotencyKeyReused:
            assert key is not None
            assert self.keys[key][0] != prompt
            return multiple()
        if key is not None and key in self.keys:
            assert self.keys[key] == (prompt, task_id), "I15: same key and body, same task"
            return multiple()
        if key is not None:
            self.keys[key] = (prompt, task_id)
        self.seen_states[task_id] = TaskState.PENDING
        self.epochs[task_id] = 0
        return task_id

    @rule(target=claims, task_id=tasks, worker=st.sampled_from(["w1", "w2"]), hint=st.booleans())
    def claim(self, task_id, worker, hint):
        before = self.states()
        claim = self.run(self.world.store.claim(worker, LEASE, [AGENT], task_id if hint else None))
        if claim is None:
            return multiple()
        assert before[claim.task_id] not in TERMINAL_STATES
        return claim

    @rule(claim=claims, ends=st.sampled_from(["step", "succeed", "fail"]))
    def commit(self, claim, ends):
        current = self.snapshot(claim.task_id)
        base = current
        change_id = self.world.ids.random()
        if ends == "succeed":
            end = Succeeded(output=FinalAnswer(summary="done"))
            change = end_task(base, end, change_id=change_id)
        elif ends == "fail":
            end = Failed(reason=ReasonCode.LLM_ERROR)
            change = end_task(base, end, change_id=change_id)
        else:
            change = TaskChange(
                id=change_id,
                base=base,
                state=TaskState.RUNNING,
                usage=base.task.usage,
                entries=(ModelReplied(step=len(base.steps) + 1),),
            )
        holds = current.task.epoch == claim.epoch and current.task.state is TaskState.RUNNING
        if current.task.state is not TaskState.RUNNING:
            return
        try:
            after = self.run(self.world.store.commit(claim, change))
        except LostClaim:
            assert not holds, "I3: the holder can commit"
            assert self.snapshot(claim.task_id) == current, "a refused commit writes nothing"
        else:
            assert holds, "I3: a stale epoch changes no row"
            assert self.snapshot(claim.task_id).task == after.task

    @rule(claim=consumes(claims))
    def release(self, claim):
        try:
            self.run(self.world.store.release(claim))
        except LostClaim:
            return

    @rule(claim=claims)
    def renew(self, claim):
        self.run(self.world.store.renew([claim], LEASE))

    @rule(task_id=tasks)
    def cancel(self, task_id):
        before = self.snapshot(task_id).task.state
        done = self.run(self.world.cancel(task_id))
        if before in TERMINAL_STATES:
            assert done.outcome == "already_terminal"
            assert done.snapshot.task.state is before
        else:
            assert done.outcome == "cancelled"
            assert done.snapshot.task.state is TaskState.CANCELLED
            self.cancels_won.add(task_id)

    @rule(seconds=st.sampled_from([0.5, 2.9, 3.1, 10.0]))
    def time_passes(self, seconds):
        self.loop.skip(seconds)

    @rule()
    def timer(self):
        self.run(self.world.store.expire_due())

    def states(self):
        return {t: self.snapshot(t).task.state for t in self.seen_states}

    @invariant()
    def journal_tells_the_whole_story(self):
        for task_id in self.seen_states:
            snapshot = self.snapshot(task_id)
            task = snapshot.task
            journal = self.run(self.world.journal(task_id))
            assert [item.seq for item in journal] == list(range(1, task.last_seq + 1))
            assert task.epoch >= self.epochs[task_id], "I4: epochs only grow"
            self.epochs[task_id] = task.epoch
            claims = sum(type(item.entry).__name__ == "TaskClaimed" for item in journal)
            cancelled = task.state is TaskState.CANCELLED
            assert task.epoch == claims + cancelled, "I4: one for each claim, one for a cancel"
            if task_id in self.cancels_won:
                assert cancelled, "I13: a confirmed cancel stays"
            self.terminal_is_final(task_id, snapshot)
            self.transition_is_listed(task_id, task.state)

    def terminal_is_final(self, task_id, snapshot):
        if task_id in self.ended:
            assert snapshot == self.ended[task_id], "I1: nothing of an ended task changes"
        elif snapshot.task.state in TERMINAL_STATES:
            self.ended[task_id] = snapshot

    def transition_is_listed(self, task_id, state):
        last = self.seen_states[task_id]
        if state is not last:
            assert state in TRANSITIONS[last], f"I2: {last} to {state}"
        self.seen_states[task_id] = state

    @invariant()
    def counts_are_right(self):
        counted = self.run(self.world.store.counts()).by_state
        states = list(self.states().values())
        assert counted == {state: states.count(state) for state in set(states)}

    @invariant()
    def readers_see_only_their_own(self):
        stranger = type(DEVELOPER)(tenant="demo", subject="stranger", roles=("operator",))
        assert self.run(self.world.store.list(stranger, TaskFilter())) == []


class SqliteLifeCycle(LifeCycle):
    store_kind = "sqlite"


@pytest.mark.parametrize("machine", [LifeCycle, SqliteLifeCycle])
def test_no_sequence_of_steps_breaks_an_invariant(machine):
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
