"""What the loop decides next, for every kind of snapshot. I12: every budget stops it."""

import pytest

from aegis.agent_loop.move import AskModel, Fail, RunTools, StartWrite
from aegis.agent_loop.next_move import next_move
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect
from aegis.domain.tool_call import CallState
from tests.fakes.tasks import NOW, SECOND, agent, record, snapshot

LIMITS = {"running_micros_max": 10 * SECOND, "model_call_micros_max": 3 * SECOND}


def test_a_fresh_task_asks_the_model_for_its_first_step():
    move = next_move(snapshot(spec=agent(limits=LIMITS)), NOW)
    assert move == AskModel(step=1, timeout_micros=3 * SECOND, on_timeout=ReasonCode.LLM_TIMEOUT)


def test_the_task_deadline_comes_first_and_is_never_reported_as_a_call_timeout():
    spec = agent(limits=LIMITS)
    assert next_move(snapshot(spec=spec), NOW + 10 * SECOND) == Fail(reason=ReasonCode.TASK_TIMEOUT)
    late = next_move(snapshot(spec=spec), NOW + 8 * SECOND)
    assert late == AskModel(step=1, timeout_micros=2 * SECOND, on_timeout=ReasonCode.TASK_TIMEOUT)
    open_call = next_move(snapshot(record(), spec=spec), NOW + 10 * SECOND)
    assert open_call == Fail(reason=ReasonCode.TASK_TIMEOUT)


def test_running_time_of_earlier_stretches_counts():
    used = snapshot(spec=agent(limits=LIMITS), running_micros=9 * SECOND)
    assert next_move(used, NOW + SECOND) == Fail(reason=ReasonCode.TASK_TIMEOUT)


@pytest.mark.parametrize(
    ("limits", "usage", "reason"),
    [
        ({"steps_max": 2}, {"steps": 2}, ReasonCode.MAX_STEPS_EXHAUSTED),
        (
            {"tokens_max": 100, "model_output_tokens_max": 20},
            {"input_tokens": 50, "output_tokens": 31},
            ReasonCode.TOKEN_BUDGET_EXHAUSTED,
        ),
        (
            {"cost_nano_dollars_max": 7},
            {"cost_nano_dollars": 7},
            ReasonCode.COST_BUDGET_EXHAUSTED,
        ),
    ],
)
def test_an_exhausted_budget_ends_the_task_before_another_model_call(limits, usage, reason):
    at_limit = snapshot(spec=agent(limits=limits), usage=usage)
    assert next_move(at_limit, NOW) == Fail(reason=reason)


def test_a_budget_that_still_covers_a_call_lets_it_happen():
    limits = {"tokens_max": 100, "model_output_tokens_max": 20, "cost_nano_dollars_max": 7}
    usage = {"input_tokens": 50, "output_tokens": 30, "cost_nano_dollars": 6}
    assert isinstance(next_move(snapshot(spec=agent(limits=limits), usage=usage), NOW), AskModel)


def test_neighbouring_reads_run_together_and_a_write_is_a_barrier():
    reads = snapshot(
        record("1.0", CallState.SUCCEEDED),
        record("1.1"),
        record("1.2"),
        record("1.3", effect=Effect.WRITE),
        record("1.4"),
    )
    move = next_move(reads, NOW)
    assert isinstance(move, RunTools)
    assert [item.call.id for item in move.records] == ["1.1", "1.2"]


def test_a_planned_write_is_started_first_and_alone():
    first = record("1.0", effect=Effect.WRITE)
    assert next_move(snapshot(first, record("1.1")), NOW) == StartWrite(record=first)


def test_a_started_write_runs_only_with_the_permit_of_this_process():
    started = record("1.0", CallState.STARTED, Effect.WRITE)
    permitted = next_move(snapshot(started, permits=["1.0"]), NOW)
    assert isinstance(permitted, RunTools)
    assert permitted.records == (started,)


def test_a_loaded_started_write_is_in_doubt_and_never_runs_again():
    started = record("1.0", CallState.STARTED, Effect.WRITE)
    assert next_move(snapshot(started), NOW) == Fail(reason=ReasonCode.OUTCOME_UNKNOWN)


def test_the_step_counts_recorded_replies_not_charged_ones():
    charged = snapshot(record("1.0", CallState.SUCCEEDED), usage={"steps": 3})
    move = next_move(charged, NOW)
    assert isinstance(move, AskModel)
    assert move.step == 2
