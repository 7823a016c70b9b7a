"""Which model provider stands behind which declared model."""

from aegis.bootstrap.declared import Declared
from aegis.model_providers.deadline import Deadline
from aegis.model_providers.routed import RoutedModels
from aegis.model_providers.scripted.provider import ScriptedModel
from aegis.model_providers.scripted.script import load_script
from aegis.ports.model_provider import ModelProvider


def build_models(declared: Declared) -> ModelProvider:
    """Return all declared models behind one provider, each with its deadline innermost."""
    models = {
        name: Deadline(
            ScriptedModel(
                load_script(name, {"steps": section.steps, "repeat_last": section.repeat_last})
            )
        )
        for name, section in declared.models.items()
    }
    return RoutedModels(models)
