"""No call runs that policy does not allow for this principal at execution time (I9).

Whatever a policy does besides saying a plain yes in time, the call is denied and not run.
"""

import logging
from collections.abc import Awaitable, Callable

import pytest

from aegis.access.allow_list import AllowList, AllowRule
from aegis.domain.reason import ReasonCode
from aegis.domain.tool import Effect
from aegis.domain.tool_call import AssessedCall, CallState, PlannedCall, RefusedCall
from aegis.ports.authorizer import CallToAuthorize
from tests.contracts.tool_executor.executor_under_test import (
    CANARY,
    Bench,
    ToolFake,
    never_ends,
    returning,
)

Answers = Callable[[CallToAuthorize], Awaitable[bool]]


class PolicyFake:
    """`Authorizer` that answers from a function."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    async def allows(self, call: CallToAuthorize) -> bool:
        return await self._answers(call)


async def fails(_call: CallToAuthorize) -> bool:
    raise RuntimeError(CANARY)


async def hangs(_call: CallToAuthorize) -> bool:
    await never_ends({}, None)  # pyright: ignore[reportArgumentType] - it reads none of them
    return True


async def says_no_in_words(_call: CallToAuthorize) -> bool:
    return "deny"  # pyright: ignore[reportReturnType] - a broken policy is what is tested


async def says_nothing(_call: CallToAuthorize) -> bool:
    return None  # pyright: ignore[reportReturnType] - a broken policy is what is tested


@pytest.mark.parametrize("answers", [fails, hangs, says_no_in_words, says_nothing])
async def test_all_but_a_plain_yes_denies(
    answers: Answers, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a call that was assessed while policy still worked
    tool = ToolFake(returning("x"))
    call = await Bench([tool]).plan("look")
    bench = Bench([tool], PolicyFake(answers))
    context = bench.context(timeout_seconds=0.02)
    # When it is assessed and run under the broken one
    refused = await bench.assess("look", "{}", context)
    (result,) = await bench.execute(call, context=context)
    # Then both say no, the tool never ran, and the log has no text of the policy
    assert isinstance(refused, RefusedCall)
    assert refused.reason is ReasonCode.TOOL_DENIED
    assert (result.state, result.error) == (CallState.DENIED, ReasonCode.TOOL_DENIED)
    assert tool.given == []
    assert CANARY not in caplog.text


@pytest.mark.parametrize("effect", list(Effect))
async def test_a_right_withdrawn_between_assessment_and_execution_withdraws_the_call(
    effect: Effect,
) -> None:
    tool = ToolFake(returning("x"), effect=effect)
    bench = Bench([tool])
    call = await bench.plan("look")
    bench.policy.allowed = False
    (result,) = await bench.execute(call)
    assert (result.state, result.error) == (CallState.DENIED, ReasonCode.TOOL_DENIED)
    assert result.evidence is None
    assert tool.given == []


async def test_a_tool_that_the_agent_lost_does_not_run() -> None:
    tool = ToolFake(returning("x"))
    bench = Bench([tool])
    call = await bench.plan("look")
    (result,) = await bench.execute(call, context=bench.context(tools=["other"]))
    assert result.state is CallState.DENIED
    assert tool.given == []


async def test_a_tool_that_changed_its_identity_does_not_run() -> None:
    before = Bench([ToolFake(returning("x"))])
    call = await before.plan("look")
    changed = ToolFake(returning("x"), schema='{"type":"object","title":"new"}')
    (result,) = await Bench([changed]).execute(call)
    assert result.state is CallState.DENIED
    assert changed.given == []


async def test_a_tool_that_is_gone_is_denied() -> None:
    call = await Bench([ToolFake(returning("x"))]).plan("look")
    (result,) = await Bench([ToolFake(returning("x"), name="other")]).execute(call)
    assert (result.state, result.error) == (CallState.DENIED, ReasonCode.TOOL_DENIED)


async def test_refused_and_allowed_calls_of_one_reply_keep_their_places() -> None:
    allow = AllowList([AllowRule(role="operator", tools=("look",), environments=("demo",))])
    change = ToolFake(returning("x"), name="change", effect=Effect.WRITE)
    bench = Bench([ToolFake(returning("x")), change], allow)
    allowed = await bench.assess("look", "{}")
    denied = await bench.assess("change", "{}")
    assert isinstance(allowed, AssessedCall)
    assert isinstance(denied, RefusedCall)
    assert denied.reason is ReasonCode.TOOL_DENIED
    forged = PlannedCall(
        id="1.0",
        provider_call_id="p",
        name="change",
        arguments="{}",
        effect=Effect.WRITE,
        tool_hash=(await Bench([change]).plan("change")).tool_hash,
    )
    (result,) = await bench.execute(forged)
    assert result.state is CallState.DENIED
    assert change.given == []


async def test_policy_failures_are_logged_by_class_alone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await Bench([ToolFake(returning("x"))], PolicyFake(fails)).assess("look", "{}")
    assert [record.getMessage() for record in caplog.records] == [
        "policy failed with RuntimeError: denied"
    ]
