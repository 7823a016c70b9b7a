"""The application: routes, the error table, request ids, and the OpenAPI document."""

import re
import secrets
from typing import Any, cast

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import aegis
from aegis.domain.errors import AegisError, ConfigurationError
from aegis.web.api import probes, server_views, tasks
from aegis.web.api.answers import component_schemas
from aegis.web.parts import WebParts
from aegis.web.problems import FieldError, from_error, problem

_SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HTTP_CODES = {404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED"}


class RequestIds:
    """Gives every request an id, a client's own where it is short and plain."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with `aegis.request_id` in the scope and the header set."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope).get("x-request-id", "")
        given = asked if _SAFE_REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"
        scope["aegis.request_id"] = given

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = given
            await send(message)

        await self._app(scope, receive, send_with_id)


def make_app(parts: WebParts) -> FastAPI:
    """Return the ASGI application. Raises `ConfigurationError` for a route without an action."""
    app = FastAPI(
        title="Aegis",
        version=aegis.__version__,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.parts = parts
    app.include_router(tasks.router, prefix="/api/v1")
    app.include_router(server_views.router, prefix="/api/v1")
    app.include_router(probes.router)
    app.add_middleware(RequestIds)
    app.add_exception_handler(AegisError, _on_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(Exception, _on_error)
    require_actions(app)
    app.openapi = lambda: _openapi(app)  # pyright: ignore[reportAttributeAccessIssue] - the documented way to extend it
    return app


def require_actions(app: FastAPI) -> None:
    """Raise `ConfigurationError` unless every route declares its action (I18)."""
    for route in app.routes:
        if isinstance(route, APIRoute) and "x-aegis-action" not in (route.openapi_extra or {}):
            raise ConfigurationError(f"route {route.path!r} declares no action: see web/actions.py")


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
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    listed = cast("list[dict[str, Any]]", found)
    fields = tuple(
        FieldError(
            pointer="/" + "/".join(str(part) for part in item.get("loc", ()))[:256],
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
    headers = error.headers if isinstance(error, HTTPException) else None
    detail = "there is nothing at this address" if status == 404 else "the request was refused"  # noqa: PLR2004 - HTTP's own number
    return problem(request, code, detail, status=status, headers=headers)
