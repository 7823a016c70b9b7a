"""Run the application on uvicorn, bounded in every direction, and end it with its open streams."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from aegis.domain.errors import ConfigurationError

GRACEFUL_SECONDS_MAX = 5
KEEP_ALIVE_SECONDS = 15
HEAD_SECONDS_MAX = 10.0
"""How long a client may take for the request line and headers."""
HEAD_BYTES_MAX = 16 * 1024
PORT_MAX = 65_535
CONNECTIONS_MAX = 800
"""Below the usual limit of 1,024 open files, so that the store always gets one."""


class _Connection(H11Protocol):
    """One connection, with limits on the count of its kind and on the time of a request's head.

    h11 stands here on purpose: the faster parser of uvicorn has no limit on the size of headers.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(  # pyright: ignore[reportIncompatibleMethodOverride] - narrowed as uvicorn does
        self, transport: asyncio.Transport
    ) -> None:
        """Refuse one connection too many by closing it; else wait for the first head."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.close()
            return
        self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, transport.close)

    def data_received(self, data: bytes) -> None:
        """Parse `data`; a head that is not whole yet has a deadline, counted from its start."""
        super().data_received(data)
        if self._running_cycle() is not None:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS_MAX, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the timer."""
        self._stop_head_timer()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP; where an answer has already begun, only close."""
        cycle = self._running_cycle()
        if cycle is not None:
            # The body of a running request broke off: for its handler the client is gone.
            cycle.disconnected = True
            cycle.message_event.set()
        if self.conn.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _running_cycle(self) -> RequestResponseCycle | None:
        """Return the request that is being answered. None between requests."""
        cycle: RequestResponseCycle | None = getattr(self, "cycle", None)
        return None if cycle is None or cycle.response_complete else cycle

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process decides when to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the caller."""
        yield


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until `stop` is set. `on_listening` gets the URL; port 0 takes a free one.

    Raises `ConfigurationError` where the address cannot be listened on.
    """
    listening = _listen(host, port)
    bound = listening.getsockname()[1]
    server = _Server(
        uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACEFUL_SECONDS_MAX,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="aegis-http")
    stopped = asyncio.create_task(stop.wait(), name="aegis-http-stop")
    started = asyncio.create_task(server.listening.wait(), name="aegis-http-start")
    try:
        await asyncio.wait([serving, started], return_when=asyncio.FIRST_COMPLETED)
        if server.started:
            shown = f"[{host}]" if ":" in host else host
            on_listening(f"http://{shown}:{bound}")
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Also on the way out of a cancelled `serve`: no connection outlives it.
        server.should_exit = True
        started.cancel()
        stopped.cancel()
        await asyncio.wait([serving])
        listening.close()
    serving.result()


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port <= PORT_MAX:
        raise ConfigurationError(f"port {port} does not exist: choose 0 to {PORT_MAX} with --port")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host!r} port {port}: choose another with --host and --port"
        ) from error
