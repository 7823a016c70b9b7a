"""The HTTP face of the shop: both APIs on one application. All handlers share one event loop."""

import time
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from .changes import ChangeDesk
from .problems import Problem, json_response, problem_response
from .prometheus_api import PrometheusApi
from .records_api import RecordsApi
from .times import MS_PER_SECOND, rfc3339
from .topology import SERVICES


def make_app(
    *, seed: int, started_at_ms: int, recovery_ms: int, now_ms: Callable[[], int]
) -> Starlette:
    """Return the application of one shop. `now_ms` is the only clock that it has."""
    desk = ChangeDesk(seed=seed, started_at_ms=started_at_ms, recovery_ms=recovery_ms)

    async def about(_request: Request) -> Response:
        return json_response(
            {
                "shop": "incident",
                "seed": seed,
                "started_at": rfc3339(started_at_ms),
                "now": rfc3339(now_ms()),
                "recovery_seconds": recovery_ms / MS_PER_SECOND,
                "services": {name: list(service.calls) for name, service in SERVICES.items()},
            }
        )

    return Starlette(
        routes=[
            Route("/", about),
            *PrometheusApi(desk, now_ms).routes(),
            *RecordsApi(desk, now_ms).routes(),
        ],
        exception_handlers={Problem: _refused, HTTPException: _not_routed},
    )


def running_clock(started_at_ms: int) -> Callable[[], int]:
    """Return a clock that reads `started_at_ms` now and runs on from there, never backwards."""
    offset_ns = time.monotonic_ns()
    return lambda: started_at_ms + (time.monotonic_ns() - offset_ns) // 1_000_000


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)  # noqa: S101 - registered for this class only
    return problem_response(error)


async def _not_routed(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    codes = {404: "unknown_path", 405: "method_not_allowed"}
    code = codes.get(error.status_code, "refused")
    response = problem_response(Problem(error.status_code, code, str(error.detail)))
    response.headers.update(error.headers or {})
    return response
