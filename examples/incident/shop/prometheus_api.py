"""The query API of Prometheus, as far as dashboards and metric tools use it."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .changes import ChangeDesk
from .problems import Problem, json_response
from .promql import QueryRefused, Selector, parse, parse_selector
from .requests import read_form
from .series import METRICS, Labels, evaluate, evaluate_range, formatted, series_between
from .times import parse_instant, parse_step, unix_seconds

POINTS_MAX = 11_000
_STATUS = {"bad_data": 400, "execution": 422}


class PrometheusApi:
    """Answers in Prometheus' own envelope, errors included. Unknown parameters are ignored."""

    def __init__(self, desk: ChangeDesk, now_ms: Callable[[], int]) -> None:
        self._desk = desk
        self._now_ms = now_ms

    def routes(self) -> list[Route]:
        """Return the routes of this API."""
        both = ["GET", "POST"]
        return [
            Route("/-/ready", self._ready),
            Route("/-/healthy", self._healthy),
            Route("/api/v1/status/buildinfo", self._build),
            Route("/api/v1/query", _answered(self._query), methods=both),
            Route("/api/v1/query_range", _answered(self._query_range), methods=both),
            Route("/api/v1/labels", _answered(self._labels), methods=both),
            Route("/api/v1/label/{name}/values", _answered(self._label_values)),
            Route("/api/v1/series", _answered(self._series), methods=both),
        ]

    async def _ready(self, _request: Request) -> Response:
        return PlainTextResponse("Prometheus Server is Ready.\n")

    async def _healthy(self, _request: Request) -> Response:
        return PlainTextResponse("Prometheus Server is Healthy.\n")

    async def _build(self, _request: Request) -> Response:
        # Clients read the version to learn what the API can; the rest says what this really is.
        return _success(
            {
                "version": "2.42.0",
                "revision": "simulated-shop",
                "branch": "",
                "buildUser": "",
                "buildDate": "",
                "goVersion": "",
            }
        )

    async def _query(self, request: Request) -> Response:
        given = await _first_of_each(request)
        at_ms = _instant(given, "time", self._now_ms())
        value = evaluate(parse(given.get("query", "")), self._desk.world, at_ms)
        at = unix_seconds(at_ms)
        if not isinstance(value, dict):
            return _success({"resultType": "scalar", "result": [at, formatted(value)]})
        result = [
            {"metric": dict(labels), "value": [at, formatted(number)]}
            for labels, number in sorted(value.items())
        ]
        return _success({"resultType": "vector", "result": result})

    async def _query_range(self, request: Request) -> Response:
        given = await _first_of_each(request)
        start_ms, end_ms = _instant(given, "start"), _instant(given, "end")
        if end_ms < start_ms:
            raise _invalid("end", "end timestamp must not be before start time")
        step_ms = _step(given)
        if (end_ms - start_ms) // step_ms > POINTS_MAX:
            raise QueryRefused(
                "bad_data",
                "exceeded maximum resolution of 11,000 points per timeseries."
                " Try decreasing the query resolution (?step=XX)",
            )
        tree = parse(given.get("query", ""))
        found = evaluate_range(tree, self._desk.world, start_ms, end_ms, step_ms)
        result = [
            {
                "metric": dict(labels),
                "values": [[unix_seconds(at_ms), formatted(value)] for at_ms, value in points],
            }
            for labels, points in sorted(found.items())
        ]
        return _success({"resultType": "matrix", "result": result})

    async def _labels(self, request: Request) -> Response:
        found = await self._matching(request, required=False)
        return _success(sorted({name for labels in found for name, _ in labels}))

    async def _label_values(self, request: Request) -> Response:
        found = await self._matching(request, required=False)
        name = request.path_params["name"]
        return _success(sorted({value for labels in found for key, value in labels if key == name}))

    async def _series(self, request: Request) -> Response:
        found = await self._matching(request, required=True)
        return _success([dict(labels) for labels in sorted(found)])

    async def _matching(self, request: Request, *, required: bool) -> set[Labels]:
        pairs = await read_form(request)
        selectors = [parse_selector(value) for name, value in pairs if name == "match[]"]
        if not selectors:
            if required:
                raise QueryRefused("bad_data", "no match[] parameter provided")
            selectors = [Selector(metric=metric, wanted=()) for metric in METRICS]
        given = dict(reversed(pairs))
        world = self._desk.world
        start_ms = _instant(given, "start", world.begins_ms)
        end_ms = _instant(given, "end", self._now_ms())
        if end_ms < start_ms:
            raise _invalid("end", "end timestamp must not be before start time")
        return {
            labels
            for selector in selectors
            for labels in series_between(selector, world, start_ms - 1, end_ms)
        }


Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def _answered(handler: Handler) -> Handler:
    """Return the handler with every refusal put into Prometheus' envelope."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except QueryRefused as refused:
            return _refusal(refused.kind, refused.message, _STATUS[refused.kind])
        except Problem as problem:
            return _refusal("bad_data", problem.detail, problem.status)

    return answer


def _success(data: object) -> Response:
    return json_response({"status": "success", "data": data})


def _refusal(kind: str, message: str, status: int) -> Response:
    return json_response({"status": "error", "errorType": kind, "error": message}, status)


async def _first_of_each(request: Request) -> dict[str, str]:
    return dict(reversed(await read_form(request)))


def _invalid(name: str, what: str) -> QueryRefused:
    return QueryRefused("bad_data", f'invalid parameter "{name}": {what}')


def _instant(given: dict[str, str], name: str, default_ms: int | None = None) -> int:
    text = given.get(name, "")
    if not text and default_ms is not None:
        return default_ms
    try:
        return parse_instant(text)
    except ValueError:
        raise _invalid(name, f'cannot parse "{text[:64]}" to a valid timestamp') from None


def _step(given: dict[str, str]) -> int:
    text = given.get("step", "")
    try:
        step_ms = parse_step(text)
    except ValueError:
        raise _invalid("step", f'cannot parse "{text[:64]}" to a valid duration') from None
    if step_ms <= 0:
        raise _invalid(
            "step",
            "zero or negative query resolution step widths are not accepted."
            " Try a positive integer",
        )
    return step_ms
