"""Create, list, read, cancel and follow tasks."""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from aegis.domain.errors import InvalidRequest
from aegis.domain.snapshot import TaskSnapshot
from aegis.domain.state import TERMINAL_STATES, TaskState
from aegis.domain.text import is_storable
from aegis.ports.task_views import TaskFilter
from aegis.use_cases.cancel_task import CancelTask
from aegis.use_cases.create_task import (
    IDEMPOTENCY_KEY_CHARACTERS_MAX,
    PROMPT_CODE_POINTS_MAX,
    CreateTask,
)
from aegis.web.actions import Caller, needs
from aegis.web.api.answers import answer, documented
from aegis.web.parts import WebParts
from aegis.web.problems import Refused
from aegis.web.shapes import (
    CancelShape,
    EvidenceList,
    TaskPage,
    TaskShape,
    show_evidence,
    show_summary,
    show_task,
)
from aegis.web.streaming.task_events import EventStream, task_events
from aegis.web.strict_json import read_object, take_strings

BODY_BYTES_MAX = 8192
PAGE_TASKS_MAX = 100
CURSOR_DIGITS_MAX = 18

router = APIRouter(prefix="/api/v1")

TaskId = Annotated[str, Path(min_length=1, max_length=64)]
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["agent", "prompt"],
                    "additionalProperties": False,
                    "properties": {
                        "agent": {"type": "string", "pattern": r"^[^\u0000]*$"},
                        "prompt": {
                            "type": "string",
                            "minLength": 1,
                            "maxLength": PROMPT_CODE_POINTS_MAX,
                            "pattern": r"^[^\u0000]*[^\s\u0000][^\u0000]*$",
                        },
                    },
                }
            }
        },
    }
}


@router.post(
    "/tasks",
    status_code=202,
    openapi_extra={**needs("tasks:create"), **_BODY},
    responses=documented(TaskShape, 400, 401, 403, 408, 413, 415, 422, 503, status=202),
)
async def create_task(
    request: Request,
    caller: Caller,
    idempotency_key: Annotated[
        str | None, Header(min_length=1, max_length=IDEMPOTENCY_KEY_CHARACTERS_MAX)
    ] = None,
) -> Response:
    """Accept a task. 202 means that it is stored, never that it succeeded."""
    parts: WebParts = request.app.state.parts
    agent, prompt = take_strings(await read_object(request, BODY_BYTES_MAX), ("agent", "prompt"))
    if not is_storable(agent):
        raise InvalidRequest("must not hold NUL or a lone surrogate", "/agent")
    added = await parts.use_cases.create_task(
        CreateTask(principal=caller, agent=agent, prompt=prompt, idempotency_key=idempotency_key)
    )
    # The row as it was created and the agent stored with it: a replay answers the same bytes, also
    # after a restart with another declaration of the agent.
    spec = parts.agents[agent]
    if added.replayed:
        spec = (await parts.task_views.get(caller, added.task.id)).agent
    created = TaskSnapshot(task=added.task, agent=spec)
    location = f"/api/v1/tasks/{added.task.id}"
    return answer(show_task(created), status=202, headers={"Location": location})


@router.get(
    "/tasks",
    openapi_extra=needs("tasks:read"),
    responses=documented(TaskPage, 401, 403, 422, 503),
)
async def list_tasks(  # noqa: PLR0913, PLR0917 - each parameter is one of the query
    request: Request,
    caller: Caller,
    state: TaskState | None = None,
    agent: Annotated[str | None, Query(max_length=128)] = None,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    limit: Annotated[int, Query(ge=1, le=PAGE_TASKS_MAX)] = 50,
) -> Response:
    """List the caller's tasks, newest first."""
    parts: WebParts = request.app.state.parts
    chosen = TaskFilter(
        state=state, agent=_printable(agent), before=_printable(cursor), count_max=limit
    )
    tasks = await parts.task_views.list(caller, chosen)
    following = tasks[-1].id if len(tasks) == limit else None
    return answer(
        TaskPage(tasks=tuple(show_summary(task) for task in tasks), next_cursor=following)
    )


@router.get(
    "/tasks/{task_id}",
    openapi_extra=needs("tasks:read"),
    responses=documented(TaskShape, 401, 403, 404, 410, 422, 503),
)
async def get_task(request: Request, caller: Caller, task_id: TaskId) -> Response:
    """Return one task with its steps, calls, usage and answer."""
    return answer(show_task(await _find(request, caller, task_id)))


@router.post(
    "/tasks/{task_id}/cancel",
    openapi_extra=needs("tasks:cancel"),
    responses=documented(CancelShape, 401, 403, 404, 410, 422, 503),
)
async def cancel_task(request: Request, caller: Caller, task_id: TaskId) -> Response:
    """Cancel a task, or tell that it had already ended. Idempotent."""
    parts: WebParts = request.app.state.parts
    done = await parts.use_cases.cancel_task(CancelTask(principal=caller, task_id=_known(task_id)))
    in_doubt = tuple(
        record.call.id for record in done.snapshot.calls if record.state.value == "IN_DOUBT"
    )
    return answer(
        CancelShape(cancel=done.outcome, calls_in_doubt=in_doubt, task=show_task(done.snapshot))
    )


@router.get(
    "/tasks/{task_id}/evidence",
    openapi_extra=needs("evidence:read"),
    responses=documented(EvidenceList, 401, 403, 404, 410, 422, 503),
)
async def list_evidence(request: Request, caller: Caller, task_id: TaskId) -> Response:
    """Return all evidence of one task."""
    snapshot = await _find(request, caller, task_id)
    return answer(EvidenceList(evidence=tuple(show_evidence(item) for item in snapshot.evidence)))


@router.get(
    "/tasks/{task_id}/events",
    status_code=200,
    openapi_extra=needs("tasks:read"),
    response_class=EventStream,
    responses={
        **documented(None, 400, 401, 403, 404, 410, 422, 503),
        204: {"description": "The task has ended and `Last-Event-ID` is its last event"},
        200: {
            "description": "Server-sent events; `id:` is the durable sequence",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
    },
)
async def follow_task(
    request: Request,
    caller: Caller,
    task_id: TaskId,
    last_event_id: Annotated[
        str, Header(json_schema_extra={"pattern": f"^[0-9]{{0,{CURSOR_DIGITS_MAX}}}$"})
    ] = "",
) -> Response:
    """Replay the task's events after `Last-Event-ID`, then follow them to the last.

    A reader that has seen the last one gets 204, which ends the reconnects of an EventSource.
    """
    parts: WebParts = request.app.state.parts
    after = _cursor(last_event_id)
    snapshot = await _find(request, caller, task_id)
    task = snapshot.task
    if task.state in TERMINAL_STATES and after == task.last_seq:
        return Response(status_code=204)
    return EventStream(task_events(parts, caller, task_id, after, task.last_seq))


async def _find(request: Request, caller: Caller, task_id: str) -> TaskSnapshot:
    parts: WebParts = request.app.state.parts
    return await parts.task_views.get(caller, _known(task_id))


def _known(identifier: str) -> str:
    """Return an id that a store can look for; one that cannot exist is simply not found."""
    if not is_storable(identifier):
        raise Refused("NOT_FOUND", "there is no such task")
    return identifier


def _printable(text: str | None) -> str | None:
    if text is not None and not is_storable(text):
        raise Refused("INVALID_REQUEST", "the query holds NUL or a lone surrogate")
    return text


def _cursor(header: str) -> int:
    text = header.strip()
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= CURSOR_DIGITS_MAX):
        raise Refused("INVALID_REQUEST", "Last-Event-ID must be a sequence number", status=400)
    return int(text)
