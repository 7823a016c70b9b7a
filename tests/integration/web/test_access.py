"""Who may ask what: every route declares its action (I18), and no id of another one opens (I17)."""

from pathlib import Path
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route

from aegis.domain.errors import ConfigurationError
from aegis.domain.principal import Principal
from aegis.web.actions import PUBLIC, Caller, action_of, needs
from aegis.web.app import ROUTERS, make_app
from tests.integration.web.web_under_test import (
    ALICE,
    BOB,
    BODY,
    MALLORY,
    NOBODY,
    VIEWER,
    OpenStream,
    Web,
    without_request_id,
)

ROUTES: list[APIRoute] = [
    route for route in make_app(Web().parts).routes if isinstance(route, APIRoute)
]
WITH_IDS = [
    (route.path, method) for route in ROUTES if "{" in route.path for method in route.methods or ()
]
GUARDED = [
    (route.path, method)
    for route in ROUTES
    if action_of(route) != PUBLIC
    for method in route.methods or ()
]
PUBLIC_PATHS = {"/healthz", "/readyz", "/metrics", "/api/v1/openapi.json"}
CHANGES = {"tasks:create", "tasks:cancel"}


@pytest.fixture(params=["memory", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "aegis.db"


def test_the_matrix_covers_every_route_that_takes_an_id():
    assert sorted(WITH_IDS) == [
        ("/api/v1/evidence/{evidence_id}", "GET"),
        ("/api/v1/tasks/{task_id}", "GET"),
        ("/api/v1/tasks/{task_id}/cancel", "POST"),
        ("/api/v1/tasks/{task_id}/events", "GET"),
        ("/api/v1/tasks/{task_id}/evidence", "GET"),
    ]


@pytest.mark.parametrize("stranger", [BOB, MALLORY], ids=["same tenant", "other tenant"])
@pytest.mark.parametrize(("path", "method"), WITH_IDS)
async def test_i17_what_belongs_to_another_looks_like_what_is_missing(
    web: Web, path: str, method: str, stranger: Principal
):
    # Given a task with evidence of alice's
    task_id, evidence_id = await web.observed()
    before = await web.world.everything(ALICE)
    mine = path.format(task_id=task_id, evidence_id=evidence_id)
    missing = path.format(task_id="task_" + "9" * 26, evidence_id="ev_" + "9" * 26)

    # When she, a stranger, and a stranger with an id that never was ask for it
    async with web.client(ALICE) as client:
        own = await client.request(method, mine)
    async with web.client(stranger) as client:
        foreign, absent = await client.request(method, mine), await client.request(method, missing)

    # Then only she sees it, and the two others are told the very same
    assert own.status_code == 200
    assert (foreign.status_code, absent.status_code) == (404, 404)
    assert without_request_id(foreign) == without_request_id(absent)
    assert await web.world.everything(ALICE) == before


@pytest.mark.parametrize("stranger", [BOB, MALLORY], ids=["same tenant", "other tenant"])
async def test_i17_a_list_holds_ones_own_tasks_only(web: Web, stranger: Principal):
    mine, theirs = await web.created(ALICE), await web.created(stranger)

    async with web.client(stranger) as client:
        listed = (await client.get("/api/v1/tasks")).json()["tasks"]
        behind = (await client.get(f"/api/v1/tasks?cursor={mine}")).json()["tasks"]

    assert [task["id"] for task in listed] == [theirs]
    assert behind == []


async def test_i17_a_running_task_is_not_cancelled_by_a_stranger(web: Web):
    task_id = await web.created(ALICE)

    async with web.client(BOB) as client:
        refused = await client.post(f"/api/v1/tasks/{task_id}/cancel")

    assert refused.status_code == 404
    assert web.signalled == []
    async with web.client(ALICE) as client:
        assert (await client.get(f"/api/v1/tasks/{task_id}")).json()["state"] == "PENDING"


def test_i18_only_the_probes_and_the_description_are_public():
    assert {route.path for route in ROUTES if action_of(route) == PUBLIC} == PUBLIC_PATHS


async def _endpoint() -> dict[str, str]:
    return {}


async def _guarded(_caller: Caller) -> dict[str, str]:
    return {}


def _router(endpoint: Any = _guarded, **options: Any) -> APIRouter:
    router = APIRouter()
    router.add_api_route("/planted", endpoint, **options)
    return router


def _outer() -> APIRouter:
    outer = APIRouter()
    outer.include_router(_router(openapi_extra=needs(PUBLIC)))
    return outer


def _bare(route: BaseRoute) -> APIRouter:
    router = APIRouter()
    router.routes.append(route)
    return router


@pytest.mark.parametrize(
    "planted",
    [
        _router(),
        _router(openapi_extra={"x-aegis-action": "nonsense"}),
        _router(_endpoint, openapi_extra=needs("tasks:read")),
        _outer(),
        _bare(Route("/planted", _endpoint)),
        _bare(Mount("/planted", FastAPI())),
    ],
    ids=[
        "no action",
        "an action that does not exist",
        "an action that nothing checks",
        "a router behind a router",
        "a plain route",
        "a mount",
    ],
)
def test_i18_a_route_that_declares_nothing_stops_the_start(web: Web, planted: APIRouter):
    with pytest.raises(ConfigurationError, match="action"):
        make_app(web.parts, [*ROUTERS, planted])


def test_i18_a_route_that_declares_and_checks_its_action_starts(web: Web):
    async def through(caller: Caller) -> Principal:
        return caller

    async def behind(_who: Annotated[Principal, Depends(through)]) -> dict[str, str]:
        return {}

    make_app(web.parts, [*ROUTERS, _router(behind, openapi_extra=needs("tasks:read"))])


def test_i18_an_action_outside_the_table_cannot_be_declared():
    with pytest.raises(ConfigurationError, match="nonsense"):
        needs("nonsense")


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong-token",
        "Basic dG9rZW4=",
        "token-of-alice",
        "Bearer token-of-alice extra",
    ],
)
@pytest.mark.parametrize(("path", "method"), GUARDED)
async def test_without_a_known_token_every_guarded_route_is_401(
    web: Web, path: str, method: str, authorization: str | None
):
    address = path.format(task_id="task_1", evidence_id="ev_1")
    headers = {} if authorization is None else {"Authorization": authorization}

    async with web.client(None) as client:
        response = await client.request(method, address, headers=headers)

    assert response.status_code == 401
    assert response.json()["code"] == "UNAUTHENTICATED"
    assert response.headers["www-authenticate"] == 'Bearer realm="aegis"'


async def test_the_scheme_is_spelled_in_any_case(web: Web):
    async with web.client(None) as client:
        response = await client.get(
            "/api/v1/tasks", headers={"Authorization": "bEARER  token-of-alice"}
        )

    assert response.status_code == 200


@pytest.mark.parametrize(
    "route", [route for route in ROUTES if action_of(route) != PUBLIC], ids=lambda route: route.path
)
async def test_roles_decide_which_actions_are_allowed(web: Web, route: APIRoute):
    task_id, evidence_id = await web.observed()
    address = route.path.format(task_id=task_id, evidence_id=evidence_id)
    method = min(route.methods or ())
    changes = action_of(route) in CHANGES

    async with web.client(NOBODY) as client:
        none = await client.request(method, address, json=BODY)
    async with web.client(VIEWER) as client:
        viewer = await client.request(method, address, json=BODY)

    assert (none.status_code, none.json()["code"]) == (403, "FORBIDDEN")
    assert viewer.status_code == (403 if changes else 200)


async def test_a_stream_of_another_ones_task_never_opens(web: Web):
    task_id = await web.created(ALICE)
    headers = {"Authorization": "Bearer token-of-bob"}

    async with OpenStream(web.app, f"/api/v1/tasks/{task_id}/events", headers) as stream:
        assert stream.status == 404
    assert web.feed.readers == 0


async def test_no_origin_is_allowed_to_read(web: Web):
    origin = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}

    async with web.client() as client:
        asked = await client.get("/api/v1/tasks", headers=origin)
        preflight = await client.options("/api/v1/tasks", headers=origin)

    assert preflight.status_code == 405
    for response in (asked, preflight):
        assert not [name for name in response.headers if name.startswith("access-control")]
