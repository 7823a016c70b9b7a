"""Which tool stands behind which declared name."""

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from aegis.access.allow_list import AllowList, AllowRule
from aegis.bootstrap.declared import Declared
from aegis.domain.errors import ConfigurationError
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.ports.authorizer import Authorizer
from aegis.ports.blobs import Blobs
from aegis.ports.clock import Clock
from aegis.ports.ids import Ids
from aegis.settings import BackendSection, ToolSection
from aegis.tools.executor import Executor
from aegis.tools.faults import FaultyTool
from aegis.tools.observing import Recorder
from aegis.tools.ops.simulated import simulated_metrics, simulated_rollback
from aegis.tools.python_functions import PythonFunction
from aegis.tools.registry import Registry
from aegis.tools.tool import Tool

SLOW_TOOL_MICROS = 30 * MICROS_PER_SECOND


class BuiltTools(Struct, frozen=True, kw_only=True):
    """The executor, the names it knows, why others are missing, and what to close."""

    executor: Executor
    names: frozenset[str]
    missing: dict[str, str]
    readers: tuple[Any, ...]


def build_tools(  # noqa: PLR0913 - the ports that tools stand on, by keyword
    declared: Declared,
    *,
    environ: Mapping[str, str],
    folder: Path,
    blobs: Blobs,
    clock: Clock,
    ids: Ids,
) -> BuiltTools:
    """Build every tool whose back end is configured; the rest is named with its reason."""
    tools: list[Tool] = [*_simulated()]
    missing: dict[str, str] = {}
    readers: dict[str, Any] = {}
    for name, section in declared.tools.items():
        if section.kind == "python":
            tools.append(PythonFunction(_function(name, section, folder)))
            continue
        backend = declared.backends.get(section.backend or "")
        if backend is None:
            raise ConfigurationError(
                f"tools.{name}: backend {section.backend!r} is not declared under [backends]"
            )
        url = backend.url or environ.get(backend.url_env or "", "")
        if not url:
            missing[name] = f"set {backend.url_env} to the address of backend {section.backend!r}"
            continue
        tools.append(
            _from_backend(
                name, section, (str(section.backend), backend, url), environ, readers, clock
            )
        )
    registry = Registry(tools)
    executor = Executor(registry, build_authorizer(declared), Recorder(blobs, clock, ids), clock)
    return BuiltTools(
        executor=executor,
        names=frozenset(registry.tools),
        missing=missing,
        readers=tuple(readers.values()),
    )


def build_authorizer(declared: Declared) -> Authorizer:
    """Return the policy: the declared allow rules, and nothing beside them."""
    return AllowList(
        [
            AllowRule(role=rule.role, tools=rule.tools, environments=rule.environments)
            for rule in declared.rules
        ]
    )


def _simulated() -> tuple[Tool, ...]:
    metrics = PythonFunction(simulated_metrics)
    return (
        metrics,
        FaultyTool(metrics, name="simulated_metrics_failing", fails=True),
        FaultyTool(metrics, name="simulated_metrics_slow", delay_micros=SLOW_TOOL_MICROS),
        PythonFunction(simulated_rollback),
    )


def _from_backend(  # noqa: PLR0913, PLR0917 - one private step of build_tools
    name: str,
    section: ToolSection,
    found: tuple[str, BackendSection, str],
    environ: Mapping[str, str],
    readers: dict[str, Any],
    clock: Clock,
) -> Tool:
    from aegis.tools.ops.http_reader import HttpBackend, HttpReader
    from aegis.tools.ops.metrics import MetricsQuery, MetricsSettings, MetricsTool
    from aegis.tools.ops.records import RecordsTool

    backend_name, backend, url = found
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"backends.{backend_name}: the address must start with http(s)://")
    if backend_name not in readers:
        token = environ.get(backend.token_env or "", "")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        readers[backend_name] = HttpReader(
            HttpBackend(name=backend_name, base_url=url, headers=headers)
        )
    reader = readers[backend_name]
    if section.kind == "metrics" and backend.kind == "prometheus":
        queries = {
            key: MetricsQuery(promql=item.promql, unit=item.unit, description=item.description)
            for key, item in backend.queries.items()
        }
        settings = MetricsSettings(
            resources=backend.resources,
            queries=queries,
            window_minutes_max=backend.window_minutes_max,
            scrape_interval_seconds=backend.scrape_interval_seconds,
            raw_promql_allowed=backend.raw_promql_allowed,
        )
        return MetricsTool(name, settings, reader, clock)
    if section.kind in {"logs", "releases"} and backend.kind == "records":
        what = "logs" if section.kind == "logs" else "releases"
        return RecordsTool(name, what, backend.resources, reader, clock)
    raise ConfigurationError(
        f"tools.{name}: kind {section.kind!r} does not fit backend {backend_name!r} of kind"
        f" {backend.kind!r}"
    )


def _function(name: str, section: ToolSection, folder: Path) -> Any:
    module_name, _, attribute = (section.function or "").partition(":")
    if not module_name or not attribute:
        raise ConfigurationError(f"tools.{name}: function must be 'module:name'")
    if str(folder) not in sys.path:
        # The operator's module stands beside aegis.toml.
        sys.path.insert(0, str(folder))
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"tools.{name}: {section.function!r} cannot be imported from the folder of aegis.toml"
        ) from error
