"""Liveness, readiness and metrics: public, at the root, without any detail of a task."""

from fastapi import APIRouter
from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from aegis.domain.state import TaskState
from aegis.web.actions import PUBLIC, needs
from aegis.web.api.answers import answer, documented
from aegis.web.parts import WebParts

router = APIRouter()


@router.get("/healthz", openapi_extra=needs(PUBLIC), responses=documented(None))
async def healthz() -> Response:
    """Tell that the process answers."""
    return answer({"alive": True})


@router.get(
    "/readyz",
    openapi_extra=needs(PUBLIC),
    responses={
        **documented(None),
        503: {"description": "Store or consumer not healthy"},
    },
)
async def readyz(request: Request) -> Response:
    """Tell whether this process can do its work right now."""
    parts: WebParts = request.app.state.parts
    report = await parts.health.report()
    headers = None if report.ready else {"Retry-After": "2"}
    return answer(report, status=200 if report.ready else 503, headers=headers)


@router.get(
    "/metrics",
    openapi_extra=needs(PUBLIC),
    responses={
        **documented(None, 503),
        200: {"description": "Prometheus text", "content": {"text/plain": {}}},
    },
)
async def metrics(request: Request) -> Response:
    """Return task states and process figures for Prometheus; more comes with telemetry."""
    parts: WebParts = request.app.state.parts
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    gauge = Gauge("aegis_tasks", "Stored tasks by state", ["state"], registry=registry)
    counts = await parts.task_views.counts()
    for state in TaskState:
        gauge.labels(state=state.value).set(counts.by_state.get(state, 0))
    return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
