"""Logs and release records over HTTP, from systems that answer with JSON."""

from typing import Any, Literal, cast

from aegis.domain.canonical import canonical_json
from aegis.domain.evidence import Trust, Window
from aegis.domain.micros import MICROS_PER_SECOND
from aegis.domain.tool import Effect, ToolSpec
from aegis.domain.tool_declaration import ToolCallInfo
from aegis.ports.clock import Clock
from aegis.tools.ops.http_reader import HttpReader, rfc3339
from aegis.tools.tool import Observation, ToolFailed

HTTP_OK = 200
RECORDS_MAX = 50


class RecordsTool:
    """`Tool` that reads log lines (`GET /logs`) or release records (`GET /releases`).

    The text in both is written by others: untrusted data, whatever it says.
    """

    def __init__(
        self,
        name: str,
        what: Literal["logs", "releases"],
        resources: tuple[str, ...],
        reader: HttpReader,
        clock: Clock,
    ) -> None:
        self._what = what
        self._reader = reader
        self._clock = clock
        description = (
            "Read log lines of a service over the last minutes, newest first."
            if what == "logs"
            else "Read the releases of a service, newest first."
        )
        self._spec = ToolSpec(
            name=name,
            description=description,
            input_schema=canonical_json(_schema(what, resources)),
            effect=Effect.READ,
        )

    @property
    def spec(self) -> ToolSpec:
        """See `Tool.spec`."""
        return self._spec

    @property
    def source(self) -> str:
        """See `Tool.source`."""
        return f"records:{self._reader.name}"

    async def run(self, arguments: dict[str, object], _info: ToolCallInfo) -> Observation:
        """See `Tool.run`."""
        if self._what == "releases":
            return await self._releases(str(arguments["service"]))
        return await self._logs(arguments)

    async def _releases(self, service: str) -> Observation:
        records = _listed(await self._get("/releases", {"service": service}), "releases")
        content = {
            "service": service,
            "status": "data" if records else "empty",
            "records_left_out": max(0, len(records) - RECORDS_MAX),
            "records": records[:RECORDS_MAX],
        }
        return Observation(content=content, trust=Trust.UNTRUSTED)

    async def _logs(self, arguments: dict[str, object]) -> Observation:
        end = self._clock.now() // MICROS_PER_SECOND
        start = end - int(str(arguments["window_minutes"])) * 60
        params = {
            "service": str(arguments["service"]),
            "since": rfc3339(start),
            "until": rfc3339(end),
            "limit": str(arguments["limit"]),
            "contains": str(arguments["contains"]),
        }
        body = await self._get("/logs", params)
        lines = _listed(body, "lines")
        limit = int(str(arguments["limit"]))
        total = body.get("total_matched")
        total = total if type(total) is int and total >= len(lines) else None
        says = body.get("truncated")
        cut = len(lines) > limit or (says if isinstance(says, bool) else len(lines) == limit)
        content = {
            "service": arguments["service"],
            "status": "data" if lines else "empty",
            "window": {"start": params["since"], "end": params["until"]},
            # None is "the back end did not say": neither zero nor what was sent.
            "total_matched": total,
            "truncated": cut if total is None else total > min(len(lines), limit),
            "lines": lines[:limit],
        }
        window = Window(start=start * MICROS_PER_SECOND, end=end * MICROS_PER_SECOND)
        return Observation(content=content, trust=Trust.UNTRUSTED, window=window)

    async def _get(self, path: str, params: dict[str, str]) -> dict[str, Any]:
        status, body = await self._reader.get(path, params)
        if status != HTTP_OK:
            raise ToolFailed(f"http_{status}")
        if not isinstance(body, dict):
            raise ToolFailed("backend_sent_no_records")
        return cast("dict[str, Any]", body)


def _listed(body: dict[str, Any], name: str) -> list[Any]:
    listed = body.get(name)
    if not isinstance(listed, list):
        raise ToolFailed("backend_sent_no_records")
    return cast("list[Any]", listed)


def _schema(what: str, resources: tuple[str, ...]) -> dict[str, object]:
    properties: dict[str, object] = {"service": {"type": "string", "enum": list(resources)}}
    if what == "logs":
        properties |= {
            "window_minutes": {"type": "integer", "minimum": 1, "maximum": 360, "default": 30},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
            "contains": {"type": "string", "maxLength": 100, "default": ""},
        }
    return {
        "type": "object",
        "properties": properties,
        "required": ["service"],
        "additionalProperties": False,
    }
