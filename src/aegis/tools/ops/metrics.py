"""Metrics from any Prometheus HTTP API: named, configured queries per resource."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from aegis.domain.canonical import canonical_json
from aegis.domain.evidence import Trust, Window
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.tool import Effect, ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.ports.clock import Clock
from aegis.tools.ops.http_reader import HttpReader, rfc3339
from aegis.tools.tool import Observation, ToolFailed

POINTS_AIMED = 60
SERIES_MAX = 20
PROMQL_CHARACTERS_MAX = 2000
_SAFE_ERRORS = frozenset(
    {"bad_data", "timeout", "canceled", "execution", "internal", "unavailable", "not_found"}
)


class MetricsQuery(Struct, frozen=True, kw_only=True):
    """A named query; `{resource}` in `promql` becomes the quoted name of the resource."""

    promql: str
    unit: str
    description: str


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """What a metrics tool may ask. `raw_promql_allowed` adds the `promql` argument."""

    resources: tuple[str, ...]
    queries: Mapping[str, MetricsQuery]
    window_minutes_max: int
    scrape_interval_seconds: float
    raw_promql_allowed: bool


class MetricsTool:
    """`Tool` that reads instant and range queries. The step is ours, never the model's."""

    def __init__(
        self, name: str, settings: MetricsSettings, reader: HttpReader, clock: Clock
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._clock = clock
        self._spec = ToolSpec(
            name=name,
            description=_description(settings),
            input_schema=canonical_json(_schema(settings)),
            effect=Effect.READ,
        )

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return self._spec

    @property
    def source(self) -> str:
        """See `Tool.source`."""
        return f"prometheus:{self._reader.name}"

    async def run(self, arguments: dict[str, object], _info: ToolCallInfo) -> Observation:
        """See `Tool.run`."""
        promql, unit = self._promql(arguments)
        minutes = int(str(arguments["window_minutes"]))
        end = self._clock.now() // MICROS_PER_SECOND
        start = end - minutes * 60
        if arguments["mode"] == "range":
            step = step_seconds(minutes, self._settings.scrape_interval_seconds)
            path = "/api/v1/query_range"
            params = {"query": promql, "start": str(start), "end": str(end), "step": str(step)}
        else:
            path, params = "/api/v1/query", {"query": promql, "time": str(end)}
        series, warnings = await self._ask(path, params)
        content = {
            "resource": arguments.get("resource"),
            "query": arguments.get("query"),
            "promql": promql,
            "unit": unit,
            "mode": arguments["mode"],
            "window": {"start": rfc3339(start), "end": rfc3339(end)},
            # A query that finds nothing is a fact of its own: neither zero nor a failure.
            "status": "data" if series else "empty",
            "warnings": len(warnings),
            "series_left_out": max(0, len(series) - SERIES_MAX),
            # The long part stands last: a cut for the model takes points, never the facts above.
            "series": [read_series(item) for item in series[:SERIES_MAX]],
        }
        window = Window(start=start * MICROS_PER_SECOND, end=end * MICROS_PER_SECOND)
        return Observation(content=content, trust=Trust.MEASURED, window=window)

    def _promql(self, arguments: dict[str, object]) -> tuple[str, str]:
        raw = arguments.get("promql")
        if raw is not None and self._settings.raw_promql_allowed:
            return str(raw), "unknown"
        query = self._settings.queries[str(arguments["query"])]
        return (
            query.promql.replace("{resource}", quoted(str(arguments["resource"]))),
            query.unit,
        )

    async def _ask(
        self, path: str, params: dict[str, str]
    ) -> tuple[list[dict[str, Any]], list[str]]:
        status, body = await self._reader.get(path, params)
        if not isinstance(body, dict):
            raise ToolFailed("backend_sent_no_prometheus_reply")
        reply = cast("dict[str, Any]", body)
        if reply.get("status") != "success":
            kind = str(reply.get("errorType"))
            raise ToolFailed(kind if kind in _SAFE_ERRORS else f"http_{status}")
        data = _members(reply.get("data"))
        warnings = reply.get("warnings")
        warnings = cast("list[str]", warnings) if isinstance(warnings, list) else []
        kind, result = data.get("resultType"), data.get("result")
        if kind in {"vector", "matrix"} and isinstance(result, list):
            return [_members(item) for item in cast("list[object]", result)], warnings
        if kind in {"scalar", "string"} and isinstance(result, list):
            return [{"metric": {}, "value": result}], warnings
        raise ToolFailed("backend_sent_no_prometheus_reply")


def step_seconds(window_minutes: int, scrape_interval_seconds: float) -> int:
    """Return the step of a range query: about 60 points, never below the scrape interval."""
    return max(1, math.ceil(scrape_interval_seconds), math.ceil(window_minutes * 60 / POINTS_AIMED))


def quoted(text: str) -> str:
    """Return `text` as a PromQL string literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def read_series(item: dict[str, Any]) -> dict[str, object]:
    """Return one series as labels, points [seconds, value] and a summary.

    NaN and infinity have no JSON form: such points are null and counted. Raises `ToolFailed`.
    """
    if "histogram" in item or "histograms" in item:
        raise ToolFailed("native_histogram_not_supported")
    try:
        pairs: Sequence[Any] = item["values"] if "values" in item else [item["value"]]
        points = [(float(pair[0]), _number(str(pair[1]))) for pair in pairs]
        labels = {key: str(value) for key, value in _members(item["metric"]).items()}
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ToolFailed("backend_sent_no_prometheus_reply") from error
    values = [value for _, value in points if value is not None]
    summary: dict[str, object] = {"points": len(points), "not_a_number": len(points) - len(values)}
    if values:
        summary |= {
            "first": values[0],
            "last": values[-1],
            "min": min(values),
            "max": max(values),
            "mean": math.fsum(values) / len(values),
        }
    return {"labels": labels, "summary": summary, "points": [list(point) for point in points]}


def _members(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ToolFailed("backend_sent_no_prometheus_reply")
    return cast("dict[str, Any]", value)


def _number(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _description(settings: MetricsSettings) -> str:
    listed = "; ".join(
        f"{name}: {query.description} ({query.unit})" for name, query in settings.queries.items()
    )
    return f"Read metrics of one resource over the last minutes. Queries: {listed}"


def _schema(settings: MetricsSettings) -> dict[str, object]:
    properties: dict[str, object] = {
        "resource": {"type": "string", "enum": list(settings.resources)},
        "query": {"type": "string", "enum": list(settings.queries)},
        "window_minutes": {
            "type": "integer",
            "minimum": 1,
            "maximum": settings.window_minutes_max,
            "default": min(30, settings.window_minutes_max),
        },
        "mode": {"type": "string", "enum": ["range", "instant"], "default": "range"},
    }
    named = ["resource", "query"]
    schema: dict[str, object] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if settings.raw_promql_allowed:
        properties["promql"] = {
            "type": "string",
            "minLength": 1,
            "maxLength": PROMQL_CHARACTERS_MAX,
        }
        schema["oneOf"] = [
            {"required": named, "not": {"required": ["promql"]}},
            {"required": ["promql"], "properties": {"resource": False, "query": False}},
        ]
    else:
        schema["required"] = named
    return schema
