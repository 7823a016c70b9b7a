"""The declared agents, models and policy: the built-in ones, and those of `aegis.toml` on top."""

from importlib import resources
from pathlib import Path

from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.errors import ConfigurationError
from aegis.settings import (
    BackendSection,
    ConfigurationFile,
    ModelSection,
    PolicyRule,
    Settings,
    ToolSection,
    agent_spec,
    parse_configuration,
)

PREFERRED_AGENTS = ("ops-diagnosis", "simulated-diagnosis")
"""Where nobody names an agent: the one over back ends if it can run, else the one without."""


class Declared(Struct, frozen=True, kw_only=True):
    """What is declared, from both files."""

    agents: dict[str, AgentSpec]
    models: dict[str, ModelSection]
    backends: dict[str, BackendSection]
    tools: dict[str, ToolSection]
    rules: tuple[PolicyRule, ...]


def declared(settings: Settings) -> Declared:
    """Merge the built-in declarations with those of the operator, who wins by name."""
    built_in = built_in_configuration()
    own = settings.configuration
    sections = {**built_in.agents, **own.agents}
    return Declared(
        agents={name: agent_spec(name, section) for name, section in sections.items()},
        models={**built_in.models, **own.models},
        backends={**built_in.backends, **own.backends},
        tools={**built_in.tools, **own.tools},
        rules=(*built_in.policy.allow, *own.policy.allow),
    )


def built_in_configuration() -> ConfigurationFile:
    """Return the declarations that ship with Aegis."""
    file = resources.files("aegis.bootstrap").joinpath("agents/built_in.toml")
    return parse_configuration(file.read_text(encoding="utf-8"), "built_in.toml", Path())


def default_agent(settings: Settings, available: frozenset[str]) -> str:
    """Return the agent to use where the caller names none. Raises `ConfigurationError`."""
    named = settings.configuration.default_agent
    if named is not None:
        if named not in available:
            raise ConfigurationError(f"default_agent {named!r} is not an available agent")
        return named
    return next((name for name in PREFERRED_AGENTS if name in available), PREFERRED_AGENTS[-1])
