"""The wrappers: only `ModelFailed` leaves, no text of a provider is told, and names route."""

import asyncio
import logging

import pytest

from aegis.domain.model import ModelFailed, ModelReply, ModelRequest
from aegis.domain.reason import ReasonCode
from aegis.model_providers.deadline import Deadline
from aegis.model_providers.routed import RoutedModels
from tests.fakes.virtual_loop import run_virtual

SECRET = "key-hunter2"


class Raising:
    def __init__(self, error) -> None:
        self.error = error

    async def reply(self, request, on_delta):
        raise self.error


class Saying:
    def __init__(self, text) -> None:
        self.text = text

    async def reply(self, request, on_delta):
        return ModelReply(text=self.text)


def request(model="m"):
    return ModelRequest(
        model=model,
        step=1,
        instructions="",
        messages=(),
        tools=(),
        output_tokens_max=1,
        timeout_micros=1_000_000,
    )


def failure_of(provider, **changes):
    with pytest.raises(ModelFailed) as failed:
        run_virtual(provider.reply(request(**changes), lambda _delta: None))
    return failed.value


@pytest.mark.parametrize(
    "error", [RuntimeError(SECRET), ValueError(SECRET), KeyError(SECRET), TimeoutError(SECRET)]
)
def test_whatever_a_provider_raises_is_llm_error_without_its_text(error, caplog):
    with caplog.at_level(logging.DEBUG):
        failed = failure_of(Deadline(Raising(error)))
    assert failed.reason is ReasonCode.LLM_ERROR
    assert SECRET not in str(failed)
    assert SECRET not in caplog.text


def test_a_failure_that_is_already_translated_stays_as_it_is():
    mine = ModelFailed(ReasonCode.LLM_TIMEOUT, attempts=3)
    assert failure_of(Deadline(Raising(mine))) is mine


def test_a_cancellation_of_the_providers_own_does_not_cancel_the_task():
    failed = failure_of(Deadline(Raising(asyncio.CancelledError())))
    assert failed.reason is ReasonCode.LLM_ERROR


def test_a_model_is_asked_by_the_name_in_the_request():
    models = RoutedModels({"a": Saying("I am a"), "b": Saying("I am b")})
    reply = run_virtual(models.reply(request("b"), lambda _delta: None))
    assert reply.text == "I am b"


def test_a_model_that_is_not_configured_is_agent_unavailable():
    assert failure_of(RoutedModels({}), model="gone").reason is ReasonCode.AGENT_UNAVAILABLE
