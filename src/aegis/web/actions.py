"""What each route asks for: an action, and the roles that may do it."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import Depends
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import BaseRoute

from aegis.domain.errors import ConfigurationError, Forbidden
from aegis.domain.principal import Principal
from aegis.web.parts import WebParts

_READERS = frozenset({"viewer", "operator", "approver", "admin"})
_OPERATORS = frozenset({"operator", "admin"})

PUBLIC = "public"
ACTIONS: dict[str, frozenset[str]] = {
    PUBLIC: frozenset(),
    "tasks:create": _OPERATORS,
    "tasks:read": _READERS,
    "tasks:cancel": _OPERATORS,
    "evidence:read": _READERS,
    "server:read": _READERS,
}
"""The roles that may do each action. `public` needs no identity."""

_KEY = "x-aegis-action"


def needs(action: str) -> dict[str, str]:
    """Declare the action of a route (I18). Raises `ConfigurationError` for an unknown one."""
    if action not in ACTIONS:
        raise ConfigurationError(f"action {action!r} is not in the table of actions")
    return {_KEY: action}


def require_actions(routes: Iterable[BaseRoute]) -> None:
    """Raise `ConfigurationError` unless every route declares its action and checks it (I18)."""
    for route in routes:
        path = getattr(route, "path", repr(type(route).__name__))
        if not isinstance(route, APIRoute) or action_of(route) not in ACTIONS:
            raise ConfigurationError(
                f"route {path!r} declares no action: give it openapi_extra=needs(ACTION)"
            )
        if action_of(route) != PUBLIC and not _asks_for_caller(route.dependant):
            raise ConfigurationError(f"route {path!r} never checks its action: take a `Caller`")


def action_of(route: object) -> str:
    """Return the action that `route` declares, "" for none."""
    extra: dict[str, str] = getattr(route, "openapi_extra", None) or {}
    return extra.get(_KEY, "")


async def authorized(request: Request) -> Principal:
    """Authenticate, and check the action that the matched route declares.

    Raises `Unauthenticated`, `Forbidden`.
    """
    parts: WebParts = request.app.state.parts
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    principal = await parts.identity.authenticate(
        token.strip() if scheme.lower() == "bearer" else None
    )
    # Whatever declares nothing is allowed to nobody.
    allowed = ACTIONS.get(action_of(request.scope.get("route")), frozenset())
    if not allowed.intersection(principal.roles):
        raise Forbidden("none of your roles may do this")
    return principal


Caller = Annotated[Principal, Depends(authorized)]
"""The authenticated principal of a request whose route declares its action."""


def _asks_for_caller(dependant: Dependant) -> bool:
    return any(
        inner.call is authorized or _asks_for_caller(inner) for inner in dependant.dependencies
    )
