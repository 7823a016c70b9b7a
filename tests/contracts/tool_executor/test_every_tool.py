"""The contract of the one way to a tool, held against every kind of tool that is shipped.

Whatever stands behind a name: it is described, checked, authorized twice, run with exactly the
bytes that were checked, and its result is evidence whose digest matches its bytes.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec import Struct, structs

from aegis.domain.errors import ConfigurationError
from aegis.domain.evidence import EvidenceStatus, digest_matches
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import AssessedCall, CallState, PlannedCall, RefusedCall
from aegis.domain.tool_declaration import tool
from aegis.tools.faults import FaultyTool
from aegis.tools.ops.http_reader import HttpBackend, HttpReader
from aegis.tools.ops.metrics import MetricsQuery, MetricsSettings, MetricsTool
from aegis.tools.ops.records import RecordsTool
from aegis.tools.ops.simulated import simulated_metrics, simulated_rollback
from aegis.tools.python_functions import PythonFunction
from aegis.tools.tool import Tool
from tests.contracts.tool_executor.executor_under_test import Bench
from tests.fakes.clock import ManualClock
from tests.fakes.http_backend import Answer, Heard, HttpBackendFake, as_json


class Sample(Struct, frozen=True, kw_only=True):
    """A tool with arguments that it takes, and some that break its schema."""

    name: str
    good: dict[str, Any]
    bad: dict[str, Any]


SAMPLES = (
    Sample(name="simulated_metrics", good={"service": "pay"}, bad={"service": "pay", "x": 1}),
    Sample(name="renamed", good={"service": "pay", "window_minutes": 5}, bad={"service": ""}),
    Sample(name="add", good={"left": 1, "right": 2}, bad={"left": "one", "right": 2}),
    Sample(
        name="simulated_rollback",
        good={"service": "pay", "to_version": "1"},
        bad={"service": "pay", "to_version": "1", "info": {"task_id": "other"}},
    ),
    Sample(
        name="metrics",
        good={"resource": "pay", "query": "up"},
        bad={"resource": "pay", "query": "up", "promql": "up"},
    ),
    Sample(name="logs", good={"service": "pay"}, bad={"service": "other"}),
    Sample(name="releases", good={"service": "pay"}, bad={}),
)


@tool()
def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def _respond(heard: Heard) -> Answer:
    if heard.path == "/logs":
        return as_json({"lines": [], "total_matched": 0, "truncated": False})
    if heard.path == "/releases":
        return as_json({"releases": []})
    return as_json({"status": "success", "data": {"resultType": "matrix", "result": []}})


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock = ManualClock()
    async with HttpBackendFake(_respond) as backend:
        reader = HttpReader(HttpBackend(name="shop", base_url=backend.url, headers={}))
        settings = MetricsSettings(
            resources=("pay",),
            queries={"up": MetricsQuery(promql="up", unit="1", description="Up.")},
            window_minutes_max=60,
            scrape_interval_seconds=15.0,
            raw_promql_allowed=False,
        )
        tools: list[Tool] = [
            PythonFunction(simulated_metrics),
            FaultyTool(PythonFunction(simulated_metrics), name="renamed"),
            PythonFunction(add),
            PythonFunction(simulated_rollback),
            MetricsTool("metrics", settings, reader, clock),
            RecordsTool("logs", "logs", ("pay",), reader, clock),
            RecordsTool("releases", "releases", ("pay",), reader, clock),
        ]
        yield Bench(tools)
        await reader.close()


@pytest.fixture(params=SAMPLES, ids=lambda sample: sample.name)
def sample(request: pytest.FixtureRequest) -> Sample:
    return request.param


def test_the_table_holds_every_tool(bench: Bench) -> None:
    assert set(bench.names) == {sample.name for sample in SAMPLES}


def test_is_described_under_its_name(bench: Bench, sample: Sample) -> None:
    (spec,) = bench.executor.describe([sample.name])
    schema = json.loads(spec.input_schema)
    assert (spec.name, schema["type"], schema["additionalProperties"]) == (
        sample.name,
        "object",
        False,
    )


async def test_good_arguments_are_allowed_in_canonical_form(bench: Bench, sample: Sample) -> None:
    spelled = json.dumps(sample.good, indent=3)
    assessed = await bench.assess(sample.name, spelled)
    assert isinstance(assessed, AssessedCall)
    again = await bench.assess(sample.name, assessed.arguments)
    assert again == assessed
    assert json.loads(assessed.arguments).items() >= sample.good.items()


async def test_bad_arguments_are_an_invalid_decision(bench: Bench, sample: Sample) -> None:
    refused = await bench.assess(sample.name, json.dumps(sample.bad))
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.INVALID_DECISION
    assert json.loads(refused.arguments) == sample.bad


@pytest.mark.parametrize(
    "arguments",
    ["", "null", "[]", "{", "{}{}", '{"a":1,"a":1}', '{"a":NaN}', '{"a":9007199254740992}'],
)
async def test_no_strict_json_object_is_an_invalid_decision(
    bench: Bench, sample: Sample, arguments: str
) -> None:
    refused = await bench.assess(sample.name, arguments)
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.INVALID_DECISION


async def test_a_tool_that_the_agent_does_not_list_is_denied(bench: Bench, sample: Sample) -> None:
    others = [name for name in bench.names if name != sample.name]
    refused = await bench.assess(sample.name, json.dumps(sample.good), bench.context(tools=others))
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.TOOL_DENIED
    assert bench.policy.asked == []


async def test_a_call_that_policy_refuses_is_denied(bench: Bench, sample: Sample) -> None:
    bench.policy.allowed = False
    refused = await bench.assess(sample.name, json.dumps(sample.good))
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.TOOL_DENIED


async def test_what_ran_is_evidence_with_a_matching_digest(bench: Bench, sample: Sample) -> None:
    call = await bench.plan(sample.name, json.dumps(sample.good))
    (result,) = await bench.execute(call)
    assert (result.call_id, result.state, result.error) == (call.id, CallState.SUCCEEDED, None)
    evidence = result.evidence
    assert evidence is not None
    assert evidence.status is EvidenceStatus.OK
    assert digest_matches(evidence, evidence.content)
    assert (evidence.task_id, evidence.call_id, evidence.tool, evidence.tool_hash) == (
        "task_1",
        call.id,
        sample.name,
        call.tool_hash,
    )
    assert evidence.observed_at == bench.clock.now()
    assert evidence.source


@pytest.mark.parametrize(
    "change",
    [
        {"tool_hash": "0" * 64},
        {"arguments": '{ "spelled": "differently" }'},
        {"refusal": ReasonCode.REPEATED_TOOL_CALL},
    ],
    ids=["another tool", "other bytes", "refused before"],
)
async def test_a_call_that_is_not_what_was_assessed_is_denied(
    bench: Bench, sample: Sample, change: dict[str, Any]
) -> None:
    call: PlannedCall = structs.replace(
        await bench.plan(sample.name, json.dumps(sample.good)), **change
    )
    (result,) = await bench.execute(call)
    assert (result.state, result.error) == (CallState.DENIED, ReasonCode.TOOL_DENIED)
    assert result.evidence is None


async def test_policy_is_asked_again_at_execution(bench: Bench, sample: Sample) -> None:
    call = await bench.plan(sample.name, json.dumps(sample.good))
    bench.policy.allowed = False
    (result,) = await bench.execute(call)
    assert (result.state, result.error) == (CallState.DENIED, ReasonCode.TOOL_DENIED)
    first, second = bench.policy.asked
    assert first == second
    assert (first.tool, first.agent, first.environment) == (sample.name, "ops", "demo")
    assert first.arguments == call.arguments


async def test_an_unknown_name_is_denied_and_not_described(bench: Bench) -> None:
    refused = await bench.assess("nobody", "{}", bench.context(tools=["nobody"]))
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.TOOL_DENIED
    with pytest.raises(ConfigurationError, match="'nobody'"):
        bench.executor.describe(["nobody"])


async def test_results_come_in_the_order_of_the_calls(bench: Bench) -> None:
    calls = [
        await bench.plan(sample.name, json.dumps(sample.good), f"1.{index}")
        for index, sample in enumerate(SAMPLES)
        if sample.name != "simulated_rollback"
    ]
    results = await bench.execute(*calls)
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert all(result.state is CallState.SUCCEEDED for result in results)


async def test_no_calls_give_no_results(bench: Bench) -> None:
    assert await bench.execute() == []
