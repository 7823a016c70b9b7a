"""Evidence by id, declared agents, the queue, the settings, and the OpenAPI document."""

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from aegis.domain.text import is_storable
from aegis.web.actions import PUBLIC, Caller, needs
from aegis.web.api.answers import answer, documented
from aegis.web.parts import WebParts
from aegis.web.problems import Refused
from aegis.web.shapes import (
    AgentList,
    EvidenceShape,
    QueueShape,
    show_agent,
    show_evidence,
    show_time,
)

router = APIRouter(prefix="/api/v1")


@router.get(
    "/evidence/{evidence_id}",
    openapi_extra=needs("evidence:read"),
    responses=documented(EvidenceShape, 401, 403, 404, 422, 503),
)
async def get_evidence(
    request: Request,
    caller: Caller,
    evidence_id: Annotated[str, Path(min_length=1, max_length=64)],
) -> Response:
    """Return one observation with its source, window, digest and trust label."""
    parts: WebParts = request.app.state.parts
    if not is_storable(evidence_id):
        raise Refused("NOT_FOUND", "there is no such evidence")
    return answer(show_evidence(await parts.task_views.evidence(caller, evidence_id)))


@router.get(
    "/agents",
    openapi_extra=needs("server:read"),
    responses=documented(AgentList, 401, 403),
)
async def list_agents(request: Request, _caller: Caller) -> Response:
    """Return the agents that can run here."""
    parts: WebParts = request.app.state.parts
    return answer(AgentList(agents=tuple(show_agent(agent) for agent in parts.agents.values())))


@router.get(
    "/queue",
    openapi_extra=needs("server:read"),
    responses=documented(QueueShape, 401, 403, 503),
)
async def get_queue(request: Request, _caller: Caller) -> Response:
    """Return how many tasks stand in each state, and since when the oldest waits."""
    parts: WebParts = request.app.state.parts
    counts = await parts.task_views.counts()
    pending, lapsed = counts.oldest_pending_at, counts.oldest_expired_lease_at
    return answer(
        QueueShape(
            by_state={state.value: count for state, count in counts.by_state.items()},
            oldest_pending_at=None if pending is None else show_time(pending),
            oldest_expired_lease_at=None if lapsed is None else show_time(lapsed),
        )
    )


@router.get(
    "/settings",
    openapi_extra=needs("server:read"),
    responses=documented(None, 401, 403),
)
async def get_settings(request: Request, _caller: Caller) -> Response:
    """Return the effective configuration without secrets and addresses."""
    parts: WebParts = request.app.state.parts
    return answer(parts.settings)


@router.get("/openapi.json", openapi_extra=needs(PUBLIC), include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Return the description of this API. It names no task, agent or setting."""
    return answer(request.app.openapi())
