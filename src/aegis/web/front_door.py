"""The outermost layer of every request: its id, its safe headers, and the last net for errors."""

import re
import secrets

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aegis.web.problems import from_error

_SAFE_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class FrontDoor:
    """Gives every request an id (a client's own where it is short and plain) and lets no error out.

    An error that nobody expected is answered and logged by its class. It is never raised to the
    server, which would log its text: that may hold a secret (I16).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the application with `aegis.request_id` in the scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        asked = Headers(scope=scope).get("x-request-id", "")
        given = asked if _SAFE_REQUEST_ID.fullmatch(asked) else f"req_{secrets.token_hex(12)}"
        scope["aegis.request_id"] = given
        started = False

        async def send_marked(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = given
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        try:
            await self._app(scope, receive, send_marked)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the last net: what it catches must not travel on
            response = from_error(Request(scope), error)
            # A response that had begun is cut short instead: the server closes the connection.
            if not started:
                await response(scope, receive, send_marked)
