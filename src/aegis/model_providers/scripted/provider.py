"""The scripted model: stateless, its position is the step that the request names."""

import asyncio

from aegis.domain.model import ModelDelta, ModelFailed, ModelReply, ModelRequest, OnDelta
from aegis.domain.reason import ReasonCode
from aegis.model_providers.scripted.script import Choice, Script
from aegis.model_providers.scripted.told import NoSuchValue, Told


class ScriptedModel:
    """`ModelProvider` that plays a `Script`. Waits are cancelled like any provider's.

    The time of its waits is the event loop's, so a loop in virtual time plays hours at once.
    """

    def __init__(self, script: Script) -> None:
        self._script = script

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """See `ModelProvider.reply`.

        LLM_ERROR where the script has no such step, no choice holds, or a template leads nowhere.
        """
        told = Told(request)
        choice = self._choose(request.step, told)
        if choice.delay_seconds:
            await asyncio.sleep(choice.delay_seconds)
        if choice.ends == "hang":
            await asyncio.Event().wait()
        if choice.ends == "error":
            raise ModelFailed(ReasonCode.LLM_ERROR, usage=choice.usage)
        try:
            reply = choice.build(told, request.step)
        except NoSuchValue as error:
            raise ModelFailed(ReasonCode.LLM_ERROR, usage=choice.usage) from error
        spoken = reply.text or (reply.final.summary if reply.final else "")
        if spoken:
            await _speak(spoken, choice.delta_delay_seconds, on_delta)
        return reply

    def _choose(self, number: int, told: Told) -> Choice:
        steps = self._script.steps
        if number > len(steps) and self._script.repeat_last:
            number = len(steps)
        if 1 <= number <= len(steps):
            for choice in steps[number - 1]:
                if all(condition.holds(told) for condition in choice.when):
                    return choice
        raise ModelFailed(ReasonCode.LLM_ERROR)


async def _speak(text: str, delay_seconds: float, on_delta: OnDelta) -> None:
    """Hand `text` to the listener word by word; the words together are exactly the text."""
    first, *rest = text.split(" ")
    for index, word in enumerate([first, *(f" {word}" for word in rest)]):
        if delay_seconds:
            await asyncio.sleep(delay_seconds)
        on_delta(ModelDelta(model_try=1, index=index, text=word))
