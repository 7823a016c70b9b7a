"""The simulated tools are always marked so (A11), and faults wrap any tool without changing it."""

import json

import pytest

from aegis.domain.evidence import Trust
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect, tool_hash
from aegis.domain.tool_call import CallState, RefusedCall, idempotency_key
from aegis.tools.faults import FaultyTool
from aegis.tools.ops.simulated import simulated_metrics, simulated_rollback
from aegis.tools.python_functions import PythonFunction
from tests.contracts.tool_executor.executor_under_test import Bench


async def test_simulated_metrics_answer_with_the_fixed_error_rate() -> None:
    result = await Bench([PythonFunction(simulated_metrics)]).run(
        "simulated_metrics", '{"service":"payment-service"}'
    )
    evidence = result.evidence
    assert evidence is not None
    assert json.loads(evidence.content) == {
        "service": "payment-service",
        "window_minutes": 30,
        "error_rate": 0.08,
        "synthetic": True,
    }
    assert (evidence.synthetic, evidence.trust) == (True, Trust.MEASURED)


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"service":""}',
        '{"service":"pay","window_minutes":0}',
        '{"service":"pay","window_minutes":61}',
        '{"service":"pay","window_minutes":1.5}',
        '{"service":"pay","error_rate":0}',
    ],
)
async def test_simulated_metrics_take_a_service_and_at_most_an_hour(arguments: str) -> None:
    refused = await Bench([PythonFunction(simulated_metrics)]).assess(
        "simulated_metrics", arguments
    )
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.INVALID_DECISION


async def test_the_default_window_and_the_same_window_are_one_call() -> None:
    bench = Bench([PythonFunction(simulated_metrics)])
    silent = await bench.plan("simulated_metrics", '{"service":"pay"}')
    spoken = await bench.plan("simulated_metrics", '{"window_minutes":30,"service":"pay"}')
    assert silent.arguments == spoken.arguments == '{"service":"pay","window_minutes":30}'


async def test_the_simulated_rollback_is_a_write_with_a_key() -> None:
    rollback = PythonFunction(simulated_rollback)
    assert rollback.spec.effect is Effect.WRITE
    result = await Bench([rollback]).run(
        "simulated_rollback", '{"service":"pay","to_version":"1.4.1"}'
    )
    assert result.evidence is not None
    assert result.evidence.synthetic
    assert json.loads(result.evidence.content)["idempotency_key"] == idempotency_key(
        "task_1", "1.0"
    )


async def test_a_denied_rollback_never_begins() -> None:
    rollback = FaultyTool(PythonFunction(simulated_rollback), name="simulated_rollback")
    bench = Bench([rollback])
    bench.policy.allowed = False
    refused = await bench.assess("simulated_rollback", '{"service":"pay","to_version":"1"}')
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.TOOL_DENIED
    assert rollback.runs == 0


async def test_a_failing_tool_counts_its_runs_and_leaks_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = FaultyTool(PythonFunction(simulated_metrics), name="failing", fails=True)
    result = await Bench([faulty]).run("failing", '{"service":"pay"}')
    assert (result.state, result.error, faulty.runs) == (
        CallState.FAILED,
        ReasonCode.TOOL_ERROR,
        1,
    )
    for secret in ("hunter2", "/srv/private"):
        assert secret not in repr(result)
        assert secret not in caplog.text


async def test_a_delayed_tool_runs_out_of_time_or_answers_late() -> None:
    inner = PythonFunction(simulated_metrics)
    slow = FaultyTool(inner, name="slow", delay_micros=3_600_000_000)
    bench = Bench([slow])
    result = await bench.run("slow", '{"service":"pay"}', bench.context(timeout_seconds=0.01))
    assert (result.state, result.error, slow.runs) == (
        CallState.FAILED,
        ReasonCode.TOOL_TIMEOUT,
        1,
    )
    late = FaultyTool(inner, name="late", delay_micros=1)
    assert (await Bench([late]).run("late", '{"service":"pay"}')).state is CallState.SUCCEEDED


def test_a_wrapped_tool_is_another_tool_from_the_same_source() -> None:
    inner = PythonFunction(simulated_metrics)
    faulty = FaultyTool(inner, name="other")
    assert faulty.spec.input_schema == inner.spec.input_schema
    assert tool_hash(faulty.spec) != tool_hash(inner.spec)
    assert faulty.source == inner.source
