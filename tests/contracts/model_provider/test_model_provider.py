"""What every `ModelProvider` keeps, asked of the scripted model behind its deadline.

Proved: replies and parallel calls come through; the only failures are LLM_ERROR and LLM_TIMEOUT,
the latter exactly at the request's bound; a cancel is honoured and leaves no task behind; the
deltas together are the text. All waits are in virtual time.
"""

import asyncio

import pytest

from aegis.domain.micros import micros
from aegis.domain.model import ModelFailed, ModelRequest, UserMessage
from aegis.domain.reason import ReasonCode
from aegis.model_providers.deadline import Deadline
from aegis.model_providers.scripted.provider import ScriptedModel
from aegis.model_providers.scripted.script import load_script
from tests.fakes.virtual_loop import VirtualLoop, run_virtual

TWO_READS = [{"tool": "read", "arguments": {"of": name}} for name in ("a", "b")]


def provider(*steps, **declared):
    return Deadline(ScriptedModel(load_script("s", {"steps": list(steps), **declared})))


def request(step=1, timeout_seconds=60.0):
    return ModelRequest(
        model="s",
        step=step,
        instructions="Do it.",
        messages=(UserMessage(text="Why?"),),
        tools=(),
        output_tokens_max=100,
        timeout_micros=micros(timeout_seconds),
    )


async def ask(model, heard=None, **changes):
    heard = heard if heard is not None else []
    return await model.reply(request(**changes), heard.append)


def test_a_final_answer_comes_through_and_its_deltas_are_its_text():
    heard = []
    final = {"summary": "It is  the\nrelease, surely. "}
    reply = run_virtual(ask(provider({"final": final}), heard))
    assert reply.final.summary == final["summary"]
    assert not reply.calls
    assert "".join(delta.text for delta in heard) == final["summary"]
    assert [delta.index for delta in heard] == list(range(len(heard)))
    assert len(heard) > 3


def test_parallel_calls_come_in_order_with_distinct_ids():
    reply = run_virtual(ask(provider({"text": "Look.", "calls": TWO_READS})))
    assert reply.final is None
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("read", '{"of": "a"}'),
        ("read", '{"of": "b"}'),
    ]
    assert len({call.provider_call_id for call in reply.calls}) == 2


def test_the_same_request_gets_the_same_reply():
    model = provider({"calls": TWO_READS}, {"final": {"summary": "Done."}})
    assert run_virtual(ask(model, step=2)) == run_virtual(ask(model, step=2))
    assert run_virtual(ask(model, step=1)) == run_virtual(ask(model, step=1))


def test_an_error_is_llm_error_with_what_was_used():
    model = provider({"fault": "error", "usage": {"input_tokens": 7}})
    with pytest.raises(ModelFailed) as failed:
        run_virtual(ask(model))
    assert failed.value.reason is ReasonCode.LLM_ERROR
    assert failed.value.usage.input_tokens == 7


@pytest.mark.parametrize("step", [{"fault": "hang"}, {"text": "late", "delay_seconds": 300.0}])
def test_a_call_ends_with_llm_timeout_exactly_at_its_bound(step):
    loop = VirtualLoop()
    seen = []

    async def main():
        with pytest.raises(ModelFailed) as failed:
            await ask(provider(step), timeout_seconds=1.5)
        seen.append((failed.value.reason, asyncio.get_running_loop().time()))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main(), loop)
    assert seen[0][0] is ReasonCode.LLM_TIMEOUT
    assert seen[0][1] == pytest.approx(1.5)


def test_a_reply_just_before_the_bound_counts():
    reply = run_virtual(ask(provider({"text": "x", "delay_seconds": 1.4}), timeout_seconds=1.5))
    assert reply.text == "x"


@pytest.mark.parametrize(
    "step", [{"fault": "hang"}, {"text": "a b c", "delta_delay_seconds": 10.0}]
)
def test_a_cancel_is_honoured_and_leaves_nothing_behind(step):
    heard = []

    async def main():
        running = asyncio.create_task(ask(provider(step), heard))
        await asyncio.sleep(15)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()
        told = len(heard)
        await asyncio.sleep(1000)
        assert len(heard) == told, "nothing is said after a cancel"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main())


def test_hours_of_waiting_are_virtual():
    loop = VirtualLoop()
    spent = []

    async def main():
        await ask(provider({"text": "x", "delay_seconds": 7200.0}), timeout_seconds=9000)
        spent.append(loop.time())

    run_virtual(main(), loop)
    assert spent[0] == pytest.approx(7200)


def test_an_instant_reply_needs_no_turn_of_the_loop():
    reply = ask(provider({"text": "now"}))

    async def main():
        ran = []
        asyncio.get_running_loop().call_soon(ran.append, "another turn")
        await reply
        assert not ran, "an instant reply neither makes a task nor yields"

    run_virtual(main())
