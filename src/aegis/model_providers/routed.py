"""Several declared models behind one provider, by the name that the agent gives."""

from collections.abc import Mapping

from aegis.domain.model import ModelFailed, ModelReply, ModelRequest, OnDelta
from aegis.domain.reason import ReasonCode
from aegis.ports.model_provider import ModelProvider


class RoutedModels:
    """`ModelProvider` that asks the model named in the request."""

    def __init__(self, models: Mapping[str, ModelProvider]) -> None:
        self._models = dict(models)

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """See `ModelProvider.reply`. A model that is not configured here: AGENT_UNAVAILABLE."""
        provider = self._models.get(request.model)
        if provider is None:
            raise ModelFailed(ReasonCode.AGENT_UNAVAILABLE)
        return await provider.reply(request, on_delta)
