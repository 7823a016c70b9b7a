"""The application: routes, the error table, and the OpenAPI document."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

import aegis
from aegis.domain.errors import AegisError
from aegis.web.actions import require_actions
from aegis.web.api import probes, server_views, tasks
from aegis.web.api.answers import component_schemas
from aegis.web.front_door import FrontDoor
from aegis.web.parts import WebParts
from aegis.web.problems import FieldError, from_error, problem

ROUTERS: tuple[APIRouter, ...] = (tasks.router, server_views.router, probes.router)
_HTTP_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}
_HTTP_DETAILS = {
    404: "there is nothing at this address",
    405: "this address does not take this method: see the Allow header",
}


def make_app(parts: WebParts, routers: Sequence[APIRouter] = ROUTERS) -> FastAPI:
    """Return the ASGI application. Raises `ConfigurationError` for a route without an action."""
    app = FastAPI(
        title="Aegis",
        version=aegis.__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    for router in routers:
        # Routes are taken over one by one: behind an included router no check would see them.
        app.router.routes.extend(router.routes)
    app.add_middleware(FrontDoor)
    app.add_exception_handler(AegisError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    require_actions(app.routes)
    app.openapi = lambda: _openapi(app)  # pyright: ignore[reportAttributeAccessIssue] - the documented way to extend it
    return app


def _openapi(app: FastAPI) -> dict[str, Any]:
    if not app.openapi_schema:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        components = document.setdefault("components", {})
        # The framework's own error shape is never sent; ours stands in its place.
        components["schemas"] = component_schemas()
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
        for path in document["paths"].values():
            for operation in path.values():
                if operation.get("x-aegis-action") != "public":
                    operation["security"] = [{"bearer": []}]
        app.openapi_schema = document
    return app.openapi_schema


async def _on_error(request: Request, error: Exception) -> Response:
    return from_error(request, error)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    listed: Sequence[Any] = error.errors() if isinstance(error, RequestValidationError) else ()
    fields = tuple(
        FieldError(
            pointer="/" + "/".join(str(part) for part in item["loc"])[:256],
            detail="this parameter is missing or breaks its schema",
        )
        for item in listed
    )
    return problem(
        request, "INVALID_REQUEST", "a parameter of the request is not valid", errors=fields
    )


async def _on_http_exception(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = _HTTP_CODES.get(status, "INVALID_REQUEST")
    headers = {"Allow": _allowed_methods(request)} if code == "METHOD_NOT_ALLOWED" else None
    detail = _HTTP_DETAILS.get(status, "the request was refused")
    return problem(request, code, detail, status=status, headers=headers)


def _allowed_methods(request: Request) -> str:
    """Return the methods of all routes at this address, not only of the one that matched first."""
    path = request.scope["path"]
    methods = {
        method
        for route in request.app.routes
        if isinstance(route, APIRoute) and route.path_regex.match(path)
        for method in route.methods or ()
    }
    return ", ".join(sorted(methods))
