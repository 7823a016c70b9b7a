"""What each route asks for: an action, and the roles that may do it."""

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

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


def needs(action: str) -> dict[str, str]:
    """Declare the action of a route (I18). Raises `ConfigurationError` for an unknown one."""
    if action not in ACTIONS:
        raise ConfigurationError(f"action {action!r} is not in the table of actions")
    return {"x-aegis-action": action}


async def authorized(request: Request) -> Principal:
    """Authenticate, and check the action that the matched route declares.

    Raises `Unauthenticated`, `Forbidden`.
    """
    parts: WebParts = request.app.state.parts
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    principal = await parts.identity.authenticate(
        token.strip() if scheme.lower() == "bearer" else None
    )
    route = request.scope.get("route")
    extra: dict[str, str] = getattr(route, "openapi_extra", None) or {}
    allowed = ACTIONS.get(extra.get("x-aegis-action", ""), frozenset())
    if not allowed.intersection(principal.roles):
        raise Forbidden("none of your roles may do this")
    return principal


Caller = Annotated[Principal, Depends(authorized)]
"""The authenticated principal of a request whose route declares its action."""
