"""Logs, release records and changes over HTTP."""

import re
from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .changes import ChangeDesk, ChangeOrder, shown_release
from .logs import LogLine, lines_between
from .problems import Problem, json_response
from .requests import query_parameters, read_object
from .times import MS_PER_MINUTE, parse_instant
from .topology import SERVICES

LINES_DEFAULT = 100
LINES_MAX = 1000
WINDOW_MINUTES_DEFAULT = 30
TEXT_CHARACTERS_MAX = 200
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_TOKEN = re.compile(r"\d{1,18}", re.ASCII)
_ORDER_FIELDS = frozenset({"kind", "service", "to_version"})


class RecordsApi:
    """Everything that is not a metric. Newest first; refusals are problem bodies."""

    def __init__(self, desk: ChangeDesk, now_ms: Callable[[], int]) -> None:
        self._desk = desk
        self._now_ms = now_ms

    def routes(self) -> list[Route]:
        """Return the routes of this API."""
        return [
            Route("/logs", self._logs),
            Route("/releases", self._releases),
            Route("/changes", self._changes, methods=["GET", "POST"]),
            Route("/changes/{change_id}", self._change),
        ]

    async def _logs(self, request: Request) -> Response:
        given = query_parameters(request, ("service", "since", "until", "limit", "contains"))
        service = _service(given.get("service", ""))
        now_ms = self._now_ms()
        # Nobody has logged the future yet, whatever the window says.
        until_ms = min(_instant(given, "until", now_ms), now_ms)
        since_ms = _instant(given, "since", until_ms - WINDOW_MINUTES_DEFAULT * MS_PER_MINUTE)
        limit = _limit(given.get("limit"))
        wanted = given.get("contains", "")
        if len(wanted) > TEXT_CHARACTERS_MAX:
            raise Problem(400, "invalid_contains", f"at most {TEXT_CHARACTERS_MAX} characters")
        lines: list[LogLine] = []
        total = 0
        for line in lines_between(self._desk.world, service, since_ms, until_ms):
            if line.contains(wanted):
                total += 1
                if total <= limit:
                    lines.append(line)
        return json_response({"lines": lines, "total_matched": total, "truncated": total > limit})

    async def _releases(self, request: Request) -> Response:
        given = query_parameters(request, ("service",))
        service = _service(given["service"]) if "service" in given else None
        releases = [
            shown_release(release)
            for release in reversed(self._desk.world.releases)
            if service in {None, release.service}
        ]
        return json_response({"releases": releases})

    async def _changes(self, request: Request) -> Response:
        if request.method == "POST":
            return await self._apply(request)
        given = query_parameters(request, ("idempotency_key",))
        if "idempotency_key" not in given:
            applied = self._desk.applied
            return json_response({"applied_total": len(applied), "changes": applied})
        record = self._desk.find(idempotency_key=given["idempotency_key"])
        if record is None:
            raise Problem(404, "unknown_change", "nothing was applied under this idempotency key")
        return json_response(record)

    async def _change(self, request: Request) -> Response:
        query_parameters(request, ())
        for record in self._desk.applied:
            if record.id == request.path_params["change_id"]:
                return json_response(record)
        raise Problem(404, "unknown_change", "no change has this id")

    async def _apply(self, request: Request) -> Response:
        query_parameters(request, ())
        key = request.headers.get("idempotency-key", "")
        if not _KEY.fullmatch(key):
            raise Problem(
                400,
                "missing_idempotency_key",
                "send an Idempotency-Key header of 1 to 255 visible ASCII characters",
            )
        token = request.headers.get("fencing-token")
        if token is not None and not _TOKEN.fullmatch(token):
            raise Problem(
                400, "invalid_fencing_token", "Fencing-Token must be a whole number from 0"
            )
        record, is_new = self._desk.apply(
            _order(await read_object(request)),
            idempotency_key=key,
            fencing_token=None if token is None else int(token),
            now_ms=self._now_ms(),
        )
        return json_response(record, 201 if is_new else 200)


def _order(body: dict[str, object]) -> ChangeOrder:
    if set(body) != _ORDER_FIELDS:
        raise Problem(
            422,
            "invalid_body",
            f"the body has exactly the fields {', '.join(sorted(_ORDER_FIELDS))}",
        )
    if body["kind"] != "rollback":
        raise Problem(422, "unknown_kind", "kind must be 'rollback'")
    return ChangeOrder(service=_text(body, "service"), to_version=_text(body, "to_version"))


def _text(body: dict[str, object], name: str) -> str:
    value = body[name]
    if not isinstance(value, str) or not 1 <= len(value) <= TEXT_CHARACTERS_MAX:
        raise Problem(
            422, "invalid_body", f"{name} must be text of 1 to {TEXT_CHARACTERS_MAX} characters"
        )
    return value


def _service(name: str) -> str:
    if name not in SERVICES:
        raise Problem(404, "unknown_service", f"services are {', '.join(SERVICES)}")
    return name


def _instant(given: dict[str, str], name: str, default_ms: int) -> int:
    if name not in given:
        return default_ms
    try:
        return parse_instant(given[name])
    except ValueError:
        raise Problem(400, f"invalid_{name}", f"{name} must be RFC 3339 or Unix seconds") from None


def _limit(text: str | None) -> int:
    if text is None:
        return LINES_DEFAULT
    if not _TOKEN.fullmatch(text) or not 1 <= int(text) <= LINES_MAX:
        raise Problem(400, "invalid_limit", f"limit must be a whole number from 1 to {LINES_MAX}")
    return int(text)
