"""The checks of a whole reply before any call of it starts: repeat, budget, authorization."""

from typing import Any

from aegis.agent_loop.plan import plan_calls
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect
from aegis.domain.tool_call import AssessedCall, CallState, ProposedCall, RefusedCall
from tests.fakes.tasks import agent, record, snapshot


def allowed(arguments="{}", name="read", effect=Effect.READ):
    return AssessedCall(name=name, arguments=arguments, effect=effect, tool_hash="hash")


def denied(arguments="{}", reason: Any = ReasonCode.TOOL_DENIED):
    return RefusedCall(name="read", arguments=arguments, reason=reason)


def plan(given, *assessments, step=2):
    proposed = [
        ProposedCall(provider_call_id=f"p{n}", name=item.name, arguments="raw")
        for n, item in enumerate(assessments)
    ]
    return plan_calls(given, step, proposed, assessments)


def refusals(made):
    return [call.refusal for call in made.calls]


def test_calls_get_ids_of_their_step_and_the_canonical_arguments():
    made = plan(snapshot(), allowed('{"a":1}'), allowed('{"a":2}'))
    assert [(call.id, call.arguments) for call in made.calls] == [
        ("2.0", '{"a":1}'),
        ("2.1", '{"a":2}'),
    ]
    assert (made.admitted, made.first_refusal) == (2, None)


def test_the_same_call_a_second_time_is_a_repeat_also_within_one_reply():
    ran = snapshot(record("1.0", CallState.SUCCEEDED, arguments='{"a":1}'))
    assert refusals(plan(ran, allowed('{"a":1}'))) == [ReasonCode.REPEATED_TOOL_CALL]
    assert refusals(plan(snapshot(), allowed(), allowed())) == [
        None,
        ReasonCode.REPEATED_TOOL_CALL,
    ]


def test_a_failed_call_counts_as_run_and_a_refused_or_skipped_one_does_not():
    failed = snapshot(record("1.0", CallState.FAILED))
    assert refusals(plan(failed, allowed())) == [ReasonCode.REPEATED_TOOL_CALL]
    for state in (CallState.DENIED, CallState.SKIPPED):
        assert refusals(plan(snapshot(record("1.0", state)), allowed())) == [None]


def test_a_repeat_counts_since_the_last_successful_write():
    since = snapshot(
        record("1.0", CallState.SUCCEEDED),
        record("1.1", CallState.SUCCEEDED, Effect.WRITE),
    )
    assert refusals(plan(since, allowed())) == [None]
    unfinished = snapshot(
        record("1.0", CallState.SUCCEEDED), record("1.1", CallState.FAILED, Effect.WRITE)
    )
    assert refusals(plan(unfinished, allowed())) == [ReasonCode.REPEATED_TOOL_CALL]


def test_repeat_max_is_a_field_of_the_agent():
    twice = snapshot(record("1.0", CallState.SUCCEEDED), spec=agent(repeat_max=2))
    assert refusals(plan(twice, allowed())) == [None]


def test_a_parallel_batch_cannot_overshoot_the_budget():
    spec = agent(limits={"tool_calls_max": 4})
    made = plan(
        snapshot(spec=spec, usage={"tool_calls": 2}),
        allowed('{"a":1}'),
        allowed('{"a":2}'),
        allowed('{"a":3}'),
    )
    assert refusals(made) == [None, None, ReasonCode.TOOL_BUDGET_EXHAUSTED]
    assert made.admitted == 2


def test_the_byte_budget_stops_further_calls():
    spec = agent(limits={"result_bytes_max": 100})
    full = snapshot(spec=spec, usage={"result_bytes": 100})
    assert refusals(plan(full, allowed())) == [ReasonCode.TOOL_BUDGET_EXHAUSTED]


def test_the_order_of_checks_is_repeat_budget_authorization():
    spec = agent(limits={"tool_calls_max": 1})
    ran = snapshot(record("1.0", CallState.SUCCEEDED), spec=spec, usage={"tool_calls": 1})
    assert refusals(plan(ran, denied())) == [ReasonCode.REPEATED_TOOL_CALL]
    assert refusals(plan(ran, denied('{"b":1}'))) == [ReasonCode.TOOL_BUDGET_EXHAUSTED]
    fresh = plan(snapshot(), denied(), allowed('{"b":1}'), denied('{"c":1}'))
    assert refusals(fresh) == [ReasonCode.TOOL_DENIED, None, ReasonCode.TOOL_DENIED]
    assert fresh.first_refusal is ReasonCode.TOOL_DENIED


def test_refused_arguments_are_kept_within_a_bound():
    made = plan(snapshot(), denied("x" * 100_000, ReasonCode.INVALID_DECISION))
    assert len(made.calls[0].arguments) == 2048
    assert made.calls[0].tool_hash == ""
