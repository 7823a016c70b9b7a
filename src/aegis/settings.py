"""Environment and `aegis.toml` to frozen records. Unknown keys are errors that name the key.

It may import `domain`. It opens nothing but its own file and decides nothing.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs

from aegis.domain.agent import AgentSpec, CitationPolicy, OnToolFailure
from aegis.domain.errors import ConfigurationError
from aegis.domain.limits import Limits
from aegis.domain.micros import micros
from aegis.domain.server_limits import ServerLimits


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens and how many tasks one worker runs at once."""

    host: str = "127.0.0.1"
    port: int = 8080
    concurrency: int = 16


class StoreSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`: a URL as in AEGIS_DATABASE_URL, and how SQLite syncs."""

    url: str | None = None
    synchronous: Literal["FULL", "NORMAL"] = "FULL"


class LimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[limits]`: the server's limits, times in seconds."""

    pending_max: int = 32
    stored_max: int = 1000
    attempts_max: int = 3
    handovers_max: int = 20
    age_seconds_max: float = 86_400.0
    lease_seconds: float = 3.0
    renew_seconds: float = 1.0
    sweep_seconds: float = 1.0
    drain_seconds: float = 10.0
    idempotency_ttl_seconds: float = 86_400.0


class PolicyRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[policy.allow]]`: principals with `role` may call `tools` in `environments`."""

    role: str
    tools: tuple[str, ...]
    environments: tuple[str, ...] = ("*",)


class PolicySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[policy]`: what is allowed; everything else is denied."""

    allow: tuple[PolicyRule, ...] = ()


class AgentLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.X.limits]`: the budgets of one agent, times in seconds."""

    steps_max: int = 6
    tool_calls_max: int = 4
    tokens_max: int | None = None
    cost_nano_dollars_max: int | None = None
    result_bytes_max: int = 4 * 1024 * 1024
    running_seconds_max: float = 5.0
    model_call_seconds_max: float = 1.0
    tool_call_seconds_max: float = 1.0
    model_output_tokens_max: int = 4096


class AgentSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.X]`: one agent."""

    model: str
    instructions: str
    tools: tuple[str, ...] = ()
    limits: AgentLimitsSection = AgentLimitsSection()
    citations: CitationPolicy = CitationPolicy.REQUIRED
    on_tool_failure: OnToolFailure = OnToolFailure.FAIL
    repeat_max: int = 1
    description: str = ""
    environment: str = "demo"
    result_bytes_shown_max: int = 16 * 1024


class ModelSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[models.X]`: a scripted model, its script inline or in a file beside `aegis.toml`."""

    kind: Literal["scripted"]
    script: str | None = None
    steps: list[dict[str, Any]] = []
    repeat_last: bool = False


class QuerySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named query: PromQL with `{resource}` where the resource's name goes, quoted."""

    promql: str
    unit: str
    description: str


class BackendSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[backends.X]`: a system to read from. Exactly one of `url` and `url_env`."""

    kind: Literal["prometheus", "records"]
    url: str | None = None
    url_env: str | None = None
    token_env: str | None = None
    resources: tuple[str, ...] = ()
    queries: dict[str, QuerySection] = {}
    window_minutes_max: int = 360
    scrape_interval_seconds: float = 15.0
    raw_promql_allowed: bool = False


class ToolSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[tools.X]`: a tool from a back end, or a Python function `module:name`."""

    kind: Literal["metrics", "logs", "releases", "python"]
    backend: str | None = None
    function: str | None = None


class ConfigurationFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole `aegis.toml`."""

    version: Literal[1]
    default_agent: str | None = None
    server: ServerSettings = ServerSettings()
    store: StoreSection = StoreSection()
    limits: LimitsSection = LimitsSection()
    policy: PolicySection = PolicySection()
    models: dict[str, ModelSection] = {}
    agents: dict[str, AgentSection] = {}
    backends: dict[str, BackendSection] = {}
    tools: dict[str, ToolSection] = {}


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
        raise ConfigurationError("AEGIS_NATS_URL is set, but this release has no NATS: unset it")
    url = environ.get("AEGIS_DATABASE_URL") or configuration.store.url
    return Settings(
        home=home,
        database=_database_path(url, folder, home),
        file=file,
        configuration=configuration,
        demo_token=_demo_token(environ),
        environ=environ,
    )


def read_configuration(file: Path) -> ConfigurationFile:
    """Read one `aegis.toml`. Raises `ConfigurationError`."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"the configuration {file.name!r} cannot be read") from error
    return parse_configuration(text, file.name, file.parent)


def parse_configuration(text: str, name: str, folder: Path) -> ConfigurationFile:
    """Read the text of an `aegis.toml`; scripts are looked up in `folder`."""
    try:
        document = tomllib.loads(text)
        configuration = msgspec.convert(document, ConfigurationFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ConfigurationError(f"{name!r} is not valid: {error}") from error
    limits = configuration.limits
    if not 0 < limits.renew_seconds < limits.lease_seconds:
        raise ConfigurationError(
            f"{name!r}: limits.renew_seconds must be above 0 and below limits.lease_seconds"
        )
    if configuration.server.concurrency < 1:
        raise ConfigurationError(f"{name!r}: server.concurrency must be at least 1")
    models = {key: _with_script(key, model, folder) for key, model in configuration.models.items()}
    return structs.replace(configuration, models=models)


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


def _with_script(name: str, model: ModelSection, folder: Path) -> ModelSection:
    if model.script is None:
        return model
    if model.steps:
        raise ConfigurationError(f"models.{name} has both 'script' and 'steps': keep one")
    try:
        script = tomllib.loads((folder / model.script).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(
            f"models.{name}: the script {model.script!r} cannot be read as TOML"
        ) from error
    return structs.replace(
        model,
        steps=script.get("steps", []),
        repeat_last=bool(script.get("repeat_last", False)),
        script=None,
    )


def _configuration_path(environ: Mapping[str, str], folder: Path) -> Path | None:
    named = environ.get("AEGIS_CONFIG")
    if named:
        return folder / named
    default = folder / "aegis.toml"
    return default if default.is_file() else None


def _database_path(url: str | None, folder: Path, home: Path) -> Path | None:
    if not url:
        return home / "aegis.db"
    if url == "memory://":
        return None
    if url.startswith("sqlite:///") and len(url) > len("sqlite:///"):
        return folder / url.removeprefix("sqlite:///")
    if url.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError(
            "this release has no PostgreSQL store: use sqlite:///PATH or memory://"
        )
    raise ConfigurationError(
        "AEGIS_DATABASE_URL must be sqlite:///PATH (four slashes for an absolute path) or memory://"
    )


def _demo_token(environ: Mapping[str, str]) -> str | None:
    if environ.get("AEGIS_DEMO_AUTH", "").lower() not in {"1", "true", "yes"}:
        return None
    token = environ.get("AEGIS_DEMO_TOKEN", "")
    if not token:
        raise ConfigurationError(
            "AEGIS_DEMO_AUTH is on but AEGIS_DEMO_TOKEN is empty: set a token of 8 characters"
            " or more"
        )
    return token
