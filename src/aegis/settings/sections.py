"""The sections of `aegis.toml`, as frozen records with their defaults and bounds."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from aegis.domain.agent import CitationPolicy, OnToolFailure

Count = Annotated[int, Meta(ge=1, le=2**53 - 1)]
Seconds = Annotated[float, Meta(gt=0, le=10 * 365 * 86_400)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Name = Annotated[str, Meta(min_length=1, max_length=128)]


class ServerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the server listens and how many tasks one worker runs at once."""

    host: str = "127.0.0.1"
    port: Port = 8080
    concurrency: Count = 16


class StoreSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[store]`: a URL as in AEGIS_DATABASE_URL, and how SQLite syncs."""

    url: str | None = None
    synchronous: Literal["FULL", "NORMAL"] = "FULL"


class LimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[limits]`: the server's limits, times in seconds."""

    pending_max: Count = 32
    stored_max: Count = 1000
    attempts_max: Count = 3
    handovers_max: Annotated[int, Meta(ge=0)] = 20
    age_seconds_max: Seconds = 86_400.0
    lease_seconds: Seconds = 3.0
    renew_seconds: Seconds = 1.0
    sweep_seconds: Seconds = 1.0
    drain_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 10.0
    idempotency_ttl_seconds: Seconds = 86_400.0


class PolicyRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[[policy.allow]]`: principals with `role` may call `tools` in `environments`."""

    role: Name
    tools: tuple[Name, ...]
    environments: tuple[Name, ...] = ("*",)


class PolicySection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[policy]`: what is allowed; everything else is denied."""

    allow: tuple[PolicyRule, ...] = ()


class AgentLimitsSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.X.limits]`: the budgets of one agent, times in seconds."""

    steps_max: Count = 6
    tool_calls_max: Annotated[int, Meta(ge=0)] = 4
    tokens_max: Count | None = None
    cost_nano_dollars_max: Count | None = None
    result_bytes_max: Count = 4 * 1024 * 1024
    running_seconds_max: Seconds = 5.0
    model_call_seconds_max: Seconds = 1.0
    tool_call_seconds_max: Seconds = 1.0
    model_output_tokens_max: Count = 4096


class AgentSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[agents.X]`: one agent."""

    model: Name
    instructions: str
    tools: tuple[Name, ...] = ()
    limits: AgentLimitsSection = AgentLimitsSection()
    citations: CitationPolicy = CitationPolicy.REQUIRED
    on_tool_failure: OnToolFailure = OnToolFailure.FAIL
    repeat_max: Count = 1
    description: str = ""
    environment: str = "demo"
    result_bytes_shown_max: Count = 16 * 1024


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
    window_minutes_max: Count = 360
    scrape_interval_seconds: Seconds = 15.0
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
