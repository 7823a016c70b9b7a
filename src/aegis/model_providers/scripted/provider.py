"""The scripted model: stateless, its position is the step that the request names."""

import asyncio
import json

from aegis.domain.model import (
    FinalAnswer,
    ModelDelta,
    ModelFailed,
    ModelReply,
    ModelRequest,
    OnDelta,
)
from aegis.domain.reason import ReasonCode
from aegis.domain.tool_call import ProposedCall
from aegis.model_providers.scripted.script import Choice, Condition, Script
from aegis.model_providers.scripted.template import NoSuchValue, Told, has_template

_NOWHERE = object()


class ScriptedModel:
    """`ModelProvider` that plays a `Script`. Waits are cancelled like any provider's."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._ready: dict[tuple[int, int], ModelReply] = {}

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """See `ModelProvider.reply`."""
        steps = self._script.steps
        number = request.step
        if number > len(steps):
            if not self._script.repeat_last:
                raise ModelFailed(ReasonCode.LLM_ERROR)
            number = len(steps)
        told = Told(request)
        for index, choice in enumerate(steps[number - 1].choices):
            if all(_holds(condition, told) for condition in choice.when):
                return await self._play(choice, (number, index), told, request, on_delta)
        raise ModelFailed(ReasonCode.LLM_ERROR)

    async def _play(
        self,
        choice: Choice,
        place: tuple[int, int],
        told: Told,
        request: ModelRequest,
        on_delta: OnDelta,
    ) -> ModelReply:
        if choice.delay_seconds:
            await asyncio.sleep(choice.delay_seconds)
        if choice.fault == "hang":
            await asyncio.Event().wait()
        if choice.fault == "error":
            raise ModelFailed(ReasonCode.LLM_ERROR, usage=choice.usage)
        reply = self._ready.get(place)
        if reply is None:
            try:
                reply = _build(choice, told, request.step)
            except NoSuchValue as error:
                raise ModelFailed(ReasonCode.LLM_ERROR, usage=choice.usage) from error
            if not _varies(choice):
                self._ready[place] = reply
        await _speak(reply.text or (reply.final.summary if reply.final else ""), choice, on_delta)
        return reply


def _holds(condition: Condition, told: Told) -> bool:
    try:
        value = told.find(condition.path)
    except NoSuchValue:
        value = _NOWHERE
    if condition.exists is not None and condition.exists == (value is _NOWHERE):
        return False
    if value is _NOWHERE:
        return condition.exists is False
    if condition.equals is not None and value != condition.equals:
        return False
    if condition.contains is not None and condition.contains not in str(value):
        return False
    if condition.at_least is None and condition.below is None:
        return True
    if not isinstance(value, int | float):
        return False
    return not (
        (condition.at_least is not None and value < condition.at_least)
        or (condition.below is not None and value >= condition.below)
    )


def _build(choice: Choice, told: Told, step: int) -> ModelReply:
    calls = tuple(
        ProposedCall(
            provider_call_id=f"call_{step}_{index}",
            name=str(told.fill(call.tool)),
            arguments=str(told.fill(call.arguments_text))
            if call.arguments_text is not None
            else json.dumps(told.fill(call.arguments)),
        )
        for index, call in enumerate(choice.calls)
    )
    final = choice.final and FinalAnswer(
        summary=str(told.fill(choice.final.summary)),
        evidence_ids=tuple(str(told.fill(item)) for item in choice.final.evidence_ids),
        conclusion=choice.final.conclusion,
    )
    return ModelReply(
        text=str(told.fill(choice.text)), calls=calls, final=final, usage=choice.usage
    )


def _varies(choice: Choice) -> bool:
    texts: list[object] = [choice.text, choice.final and choice.final.summary]
    texts += choice.final.evidence_ids if choice.final else []
    for call in choice.calls:
        texts += [call.tool, call.arguments, call.arguments_text]
    # The ids of calls hold the step, so only a reply without calls can serve several steps.
    return bool(choice.calls) or has_template(texts)


async def _speak(text: str, choice: Choice, on_delta: OnDelta) -> None:
    for index, word in enumerate(text.split(" ")):
        if choice.delta_delay_seconds:
            await asyncio.sleep(choice.delta_delay_seconds)
        on_delta(ModelDelta(model_try=1, index=index, text=word if index == 0 else f" {word}"))
