"""The environment and the configuration file together: everything that `bootstrap` builds from."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from aegis.domain.agent import AgentSpec
from aegis.domain.errors import ConfigurationError
from aegis.domain.limits import Limits
from aegis.domain.micros import micros
from aegis.domain.server_limits import ServerLimits
from aegis.settings.file import read_configuration
from aegis.settings.sections import AgentSection, ConfigurationFile

_ON = frozenset({"true", "1", "yes", "on"})
_OFF = frozenset({"", "false", "0", "no", "off"})


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that `bootstrap` builds from. `environ` is where secrets and addresses come from.

    `database` is a path, or None for the memory store. `file` is where `aegis.toml` was read.
    """

    home: Path
    database: Path | None
    file: Path | None
    configuration: ConfigurationFile
    demo_token: str | None
    environ: Mapping[str, str]

    @property
    def limits(self) -> ServerLimits:
        """The server's limits in microseconds."""
        section = self.configuration.limits
        return ServerLimits(
            pending_max=section.pending_max,
            stored_max=section.stored_max,
            attempts_max=section.attempts_max,
            handovers_max=section.handovers_max,
            age_micros_max=micros(section.age_seconds_max),
            lease_micros=micros(section.lease_seconds),
            renew_micros=micros(section.renew_seconds),
            sweep_micros=micros(section.sweep_seconds),
            drain_micros=micros(section.drain_seconds),
            idempotency_ttl_micros=micros(section.idempotency_ttl_seconds),
        )


def load_settings(environ: Mapping[str, str], folder: Path) -> Settings:
    """Read the environment, and `aegis.toml` of `folder` or of AEGIS_CONFIG.

    Raises `ConfigurationError` that names the key, what was expected and what to do.
    """
    file = _configuration_path(environ, folder)
    configuration = read_configuration(file) if file else ConfigurationFile(version=1)
    home = folder / environ.get("AEGIS_HOME", ".aegis")
    if environ.get("AEGIS_NATS_URL"):
        raise ConfigurationError(
            "'AEGIS_NATS_URL' is set, but NATS is not in this release: unset it"
        )
    source = "AEGIS_DATABASE_URL" if environ.get("AEGIS_DATABASE_URL") else "store.url"
    url = environ.get("AEGIS_DATABASE_URL") or configuration.store.url
    return Settings(
        home=home,
        database=_database_path(source, url, folder, home),
        file=file,
        configuration=configuration,
        demo_token=_demo_token(environ),
        environ=environ,
    )


def agent_spec(name: str, section: AgentSection) -> AgentSpec:
    """Return the agent that a section declares."""
    limits = section.limits
    return AgentSpec(
        name=name,
        model=section.model,
        instructions=section.instructions,
        tools=section.tools,
        citations=section.citations,
        on_tool_failure=section.on_tool_failure,
        repeat_max=section.repeat_max,
        description=section.description,
        environment=section.environment,
        result_bytes_shown_max=section.result_bytes_shown_max,
        limits=Limits(
            steps_max=limits.steps_max,
            tool_calls_max=limits.tool_calls_max,
            tokens_max=limits.tokens_max,
            cost_nano_dollars_max=limits.cost_nano_dollars_max,
            result_bytes_max=limits.result_bytes_max,
            running_micros_max=micros(limits.running_seconds_max),
            model_call_micros_max=micros(limits.model_call_seconds_max),
            tool_call_micros_max=micros(limits.tool_call_seconds_max),
            model_output_tokens_max=limits.model_output_tokens_max,
        ),
    )


def describe(settings: Settings) -> dict[str, object]:
    """Return the effective configuration for people: no secret, no address, no script."""
    configuration = settings.configuration
    return {
        "store": {
            "kind": "memory" if settings.database is None else "sqlite",
            "synchronous": configuration.store.synchronous,
        },
        "server": msgspec.to_builtins(configuration.server),
        "limits": msgspec.to_builtins(configuration.limits),
        "policy": msgspec.to_builtins(configuration.policy),
        "agents": sorted(configuration.agents),
        "models": {name: model.kind for name, model in sorted(configuration.models.items())},
        "backends": {name: item.kind for name, item in sorted(configuration.backends.items())},
        "tools": {name: item.kind for name, item in sorted(configuration.tools.items())},
        "demo_auth": settings.demo_token is not None,
    }


def _configuration_path(environ: Mapping[str, str], folder: Path) -> Path | None:
    named = environ.get("AEGIS_CONFIG")
    if named:
        return folder / named
    default = folder / "aegis.toml"
    return default if default.is_file() else None


def _database_path(source: str, url: str | None, folder: Path, home: Path) -> Path | None:
    if not url:
        return home / "aegis.db"
    if url == "memory://":
        return None
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return folder / url.removeprefix("sqlite:///")
    # The URL may hold a password, so no error repeats it.
    if url.startswith(("postgresql://", "postgres://", "postgresql+")):
        raise ConfigurationError(
            f"{source!r} names PostgreSQL, which is not in this release: use sqlite:///PATH or"
            " memory://"
        )
    raise ConfigurationError(
        f"{source!r} must be sqlite:///PATH (four slashes for an absolute path) or memory://"
    )


def _demo_token(environ: Mapping[str, str]) -> str | None:
    switch = environ.get("AEGIS_DEMO_AUTH", "").strip().lower()
    if switch not in _ON | _OFF:
        raise ConfigurationError("AEGIS_DEMO_AUTH must be true or false")
    if switch in _OFF:
        return None
    token = environ.get("AEGIS_DEMO_TOKEN", "")
    if not token:
        raise ConfigurationError(
            "AEGIS_DEMO_AUTH is on but AEGIS_DEMO_TOKEN is empty: set a token of 8 characters"
            " or more"
        )
    return token
