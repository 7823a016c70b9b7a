"""How the loop asks a model."""

from typing import Protocol

from aegis.domain.model import ModelReply, ModelRequest, OnDelta


class ModelProvider(Protocol):
    """Any model behind one verb; streaming is the `on_delta` side channel of it."""

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Return what the model said.

        Raises `ModelFailed` with LLM_TIMEOUT once `request.timeout_micros` is over and LLM_ERROR
        for every other failure; no other exception but cancellation leaves. Cancelling closes the
        connection.
        """
        ...
