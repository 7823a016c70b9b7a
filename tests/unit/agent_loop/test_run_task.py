"""The loop end to end on the memory store. I7: a write's intent is committed before it is sent."""

import pytest
from msgspec import structs

from aegis.agent_loop.context import Calling
from aegis.domain.agent import CitationPolicy, OnToolFailure
from aegis.domain.entry import CallFinished, TaskFailed, WriteStarted
from aegis.domain.errors import LostClaim, StoreUnavailable
from aegis.domain.limits import ModelUsage
from aegis.domain.model import FinalAnswer, ModelFailed, ModelReply
from aegis.domain.reason import ReasonCode
from aegis.domain.state import TaskState
from aegis.domain.tool_call import CallState
from tests.fakes.loop import WHO, Loop, PythonModel, PythonTools, asks
from tests.fakes.tasks import agent

FREE = agent(citations=CitationPolicy.OFF)
TOLD = structs.replace(FREE, on_tool_failure=OnToolFailure.TELL_MODEL)
DONE = ModelReply(final=FinalAnswer(summary="Done."))


async def journal(loop):
    entries = await loop.store.entries(WHO, "task_1", 0, 100)
    return [item.entry for item in entries]


def states(snapshot):
    return {record.call.id: record.state for record in snapshot.calls}


async def test_a_short_task_costs_a_claim_and_three_commits():
    loop = Loop(agent(), PythonModel(asks("read"), answer_with_evidence))
    snapshot = await loop.run()
    assert snapshot.task.state is TaskState.SUCCEEDED
    assert snapshot.task.version == 1 + 1 + 3
    assert loop.told == [
        Calling(writes=False, timeout_micros=1_000_000),
        None,
        Calling(writes=False, timeout_micros=1_000_000),
        None,
        Calling(writes=False, timeout_micros=1_000_000),
        None,
    ]


def answer_with_evidence(request):
    return ModelReply(
        final=FinalAnswer(summary="So.", evidence_ids=(request.messages[-1].evidence_id,))
    )


async def test_a_write_is_sent_only_after_its_intent_is_committed():
    loop = Loop(FREE, PythonModel(asks("write"), DONE))
    seen = []

    def look():
        kinds = [type(item.entry) for item in loop.store._rows["task_1"].journal]
        seen.append(WriteStarted in kinds)

    loop.tools.before_run = look
    snapshot = await loop.run()
    assert seen == [True]
    assert snapshot.task.state is TaskState.SUCCEEDED
    assert states(snapshot) == {"1.0": CallState.SUCCEEDED}
    assert Calling(writes=True, timeout_micros=1_000_000) in loop.told


async def test_a_write_whose_intent_was_not_committed_is_never_sent():
    loop = Loop(FREE, PythonModel(asks("write"), DONE))
    claim = await loop.claim()
    loop.clock.advance(2)

    class LateStart:
        def __getattr__(self, name):
            return getattr(loop.store, name)

        async def commit(self, held, change):
            if isinstance(change.entries[0], WriteStarted):
                loop.clock.advance(2)
            return await loop.store.commit(held, change)

    with pytest.raises(LostClaim):
        await loop.run(claim, LateStart())
    assert loop.tools.ran == []


async def test_a_write_that_may_have_been_sent_ends_the_task_outcome_unknown():
    loop = Loop(FREE, PythonModel(asks("write"), DONE))

    class LostResult:
        def __getattr__(self, name):
            return getattr(loop.store, name)

        async def commit(self, held, change):
            if isinstance(change.entries[0], CallFinished):
                raise StoreUnavailable("gone")
            return await loop.store.commit(held, change)

    with pytest.raises(StoreUnavailable):
        await loop.run(None, LostResult())
    loop.clock.advance(10)
    snapshot = await loop.run(await loop.claim(add=False))

    assert loop.tools.ran == ["1.0"], "it ran once and is never retried by itself"
    assert snapshot.task.reason is ReasonCode.OUTCOME_UNKNOWN
    assert states(snapshot) == {"1.0": CallState.IN_DOUBT}


@pytest.mark.parametrize("spec", [FREE, TOLD])
async def test_a_write_in_doubt_ends_the_task_whatever_the_agent_says(spec):
    tools = PythonTools({"write": CallState.IN_DOUBT})
    snapshot = await Loop(spec, PythonModel(asks("write"), DONE), tools).run()
    assert (snapshot.task.state, snapshot.task.reason) == (
        TaskState.FAILED,
        ReasonCode.OUTCOME_UNKNOWN,
    )


async def test_a_failed_tool_ends_the_task_and_the_rest_is_skipped():
    tools = PythonTools({"read_bad": CallState.FAILED})
    loop = Loop(FREE, PythonModel(asks("read", "read_bad", "write", "read2"), DONE), tools)
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.TOOL_ERROR
    assert loop.tools.ran == ["1.0", "1.1"]
    assert states(snapshot) == {
        "1.0": CallState.SUCCEEDED,
        "1.1": CallState.FAILED,
        "1.2": CallState.SKIPPED,
        "1.3": CallState.SKIPPED,
    }
    assert isinstance((await journal(loop))[-1], TaskFailed)


async def test_a_failed_tool_is_told_to_the_model_where_the_agent_says_so():
    tools = PythonTools({"write": CallState.FAILED})
    model = PythonModel(asks("read", "write", "write2", "read2"), DONE)
    snapshot = await Loop(TOLD, model, tools).run()
    assert snapshot.task.state is TaskState.SUCCEEDED
    assert states(snapshot) == {
        "1.0": CallState.SUCCEEDED,
        "1.1": CallState.FAILED,
        "1.2": CallState.SKIPPED,
        "1.3": CallState.SKIPPED,
    }
    told = [message.state for message in model.requests[1].messages[2:]]
    assert told == [
        CallState.SUCCEEDED,
        CallState.FAILED,
        CallState.SKIPPED,
        CallState.SKIPPED,
    ]


async def test_a_write_that_was_not_sent_any_more_ends_a_task_that_fails_on_failure():
    tools = PythonTools({"write": CallState.SKIPPED})
    snapshot = await Loop(FREE, PythonModel(asks("write"), DONE), tools).run()
    assert snapshot.task.reason is ReasonCode.TOOL_ERROR


async def test_a_refusal_is_told_and_the_rest_of_the_reply_runs():
    model = PythonModel(asks("read", "read", "read2"), DONE)
    snapshot = await Loop(TOLD, model).run()
    assert snapshot.task.state is TaskState.SUCCEEDED
    assert states(snapshot) == {
        "1.0": CallState.SUCCEEDED,
        "1.1": CallState.DENIED,
        "1.2": CallState.SUCCEEDED,
    }


async def test_the_first_refusal_ends_a_task_that_fails_on_failure_and_nothing_runs():
    loop = Loop(FREE, PythonModel(asks("read", "read"), DONE))
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.REPEATED_TOOL_CALL
    assert loop.tools.ran == []
    assert states(snapshot) == {"1.0": CallState.SKIPPED, "1.1": CallState.DENIED}


async def test_no_call_of_the_last_step_runs_because_nobody_could_read_its_result():
    spec = agent(citations=CitationPolicy.OFF, limits={"steps_max": 1})
    loop = Loop(spec, PythonModel(asks("read")))
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.MAX_STEPS_EXHAUSTED
    assert loop.tools.ran == []
    assert len(loop.model.requests) == 1


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (ModelFailed(ReasonCode.LLM_ERROR), ReasonCode.LLM_ERROR),
        (ModelFailed(ReasonCode.LLM_TIMEOUT), ReasonCode.LLM_TIMEOUT),
        (ModelFailed(ReasonCode.AGENT_UNAVAILABLE), ReasonCode.AGENT_UNAVAILABLE),
    ],
)
async def test_a_failed_model_call_ends_the_task_and_its_usage_is_charged(failure, expected):
    failure.usage = ModelUsage(input_tokens=7, output_tokens=1)
    snapshot = await Loop(FREE, PythonModel(failure)).run()
    assert snapshot.task.reason is expected
    assert (snapshot.task.usage.steps, snapshot.task.usage.tokens) == (1, 8)


async def test_a_model_timeout_at_the_task_deadline_is_the_tasks():
    spec = agent(citations=CitationPolicy.OFF, limits={"running_micros_max": 500_000})
    failed = ModelFailed(ReasonCode.LLM_TIMEOUT)
    snapshot = await Loop(spec, PythonModel(failed)).run()
    assert snapshot.task.reason is ReasonCode.TASK_TIMEOUT


async def test_a_tool_timeout_at_the_task_deadline_is_the_tasks():
    spec = agent(citations=CitationPolicy.OFF, limits={"running_micros_max": 500_000})
    loop = Loop(spec, PythonModel(asks("read"), DONE))

    async def execute(calls, context):
        result = (await PythonTools({"read": CallState.FAILED}).execute(calls, context))[0]
        return [structs.replace(result, error=ReasonCode.TOOL_TIMEOUT)]

    loop.tools.execute = execute
    assert (await loop.run()).task.reason is ReasonCode.TASK_TIMEOUT


async def test_an_invalid_reply_is_journalled_without_what_cannot_be_stored():
    loop = Loop(FREE, PythonModel(ModelReply(text="a\x00b")))
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.INVALID_DECISION
    assert snapshot.steps[0].text == ""


async def test_an_unpriced_reply_under_a_cost_budget_ends_the_task():
    spec = agent(citations=CitationPolicy.OFF, limits={"cost_nano_dollars_max": 10})
    snapshot = await Loop(spec, PythonModel(DONE)).run()
    assert snapshot.task.reason is ReasonCode.COST_BUDGET_EXHAUSTED


async def test_a_tool_that_is_gone_is_a_typed_failure():
    snapshot = await Loop(FREE, PythonModel(DONE), PythonTools(lacking=True)).run()
    assert snapshot.task.reason is ReasonCode.AGENT_UNAVAILABLE


async def test_a_defect_of_ours_ends_the_task_instead_of_looping_for_ever():
    loop = Loop(FREE, PythonModel(ValueError("secret")))
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.INTERNAL_ERROR
    assert [type(fault) for fault in loop.faults] == [ValueError]


async def test_no_model_is_asked_once_the_lease_has_run_out():
    loop = Loop(FREE, PythonModel(DONE))
    claim = await loop.claim()
    loop.clock.advance(3)
    with pytest.raises(LostClaim):
        await loop.run(claim)
    assert loop.model.requests == []


async def test_the_loop_stops_between_commits_when_it_is_asked_to():
    loop = Loop(FREE, PythonModel(asks("read"), DONE))
    loop.stop_after = 1
    snapshot = await loop.run()
    assert snapshot.task.state is TaskState.RUNNING
    assert states(snapshot) == {"1.0": CallState.PLANNED}


async def test_the_deadline_in_the_middle_of_a_batch_skips_what_was_not_begun():
    spec = agent(citations=CitationPolicy.OFF, limits={"running_micros_max": 2_000_000})
    loop = Loop(spec, PythonModel(asks("read", "write"), DONE))
    loop.tools.before_run = lambda: loop.clock.advance(2.5)
    snapshot = await loop.run()
    assert snapshot.task.reason is ReasonCode.TASK_TIMEOUT
    assert states(snapshot) == {"1.0": CallState.SUCCEEDED, "1.1": CallState.SKIPPED}
