"""The innermost wrapper: a total deadline, and no exception but `ModelFailed`."""

import asyncio
import logging

from aegis.domain.micros import seconds
from aegis.domain.model import ModelFailed, ModelReply, ModelRequest, OnDelta
from aegis.domain.reason import ReasonCode
from aegis.ports.model_provider import ModelProvider

log = logging.getLogger("aegis.models")


class Deadline:
    """`ModelProvider` that ends a call at its deadline and translates what a provider raises."""

    def __init__(self, inner: ModelProvider) -> None:
        self._inner = inner

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """See `ModelProvider.reply`."""
        limit = asyncio.timeout(seconds(request.timeout_micros))
        try:
            async with limit:
                return await self._inner.reply(request, on_delta)
        except ModelFailed:
            raise
        except TimeoutError as error:
            reason = ReasonCode.LLM_TIMEOUT if limit.expired() else ReasonCode.LLM_ERROR
            raise ModelFailed(reason) from error
        except asyncio.CancelledError as error:
            current = asyncio.current_task()
            if current is None or current.cancelling():
                raise
            # Nobody cancelled us: the provider let a cancellation of its own escape.
            raise ModelFailed(ReasonCode.LLM_ERROR) from error
        except Exception as error:  # noqa: BLE001 - whatever a provider raises is a failed call
            # The class alone: the text may hold a key or what the provider said.
            log.warning("a model call ended with %s", type(error).__name__)
            raise ModelFailed(ReasonCode.LLM_ERROR) from None
