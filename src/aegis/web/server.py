"""Run the application on uvicorn, and end it without waiting for open streams."""

import asyncio
import contextlib
import socket
from collections.abc import Callable, Generator

import uvicorn
from fastapi import FastAPI

from aegis.domain.errors import ConfigurationError

GRACEFUL_SECONDS_MAX = 5
KEEP_ALIVE_SECONDS = 15
CONNECTIONS_MAX = 2_000
HEADER_BYTES_MAX = 16 * 1024


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the process decides when to stop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the caller."""
        yield


async def serve(
    app: FastAPI,
    *,
    host: str,
    port: int,
    stop: asyncio.Event,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until `stop` is set. `on_listening` gets the URL; port 0 takes a free one.

    Raises `ConfigurationError` where the address cannot be listened on.
    """
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except (OSError, OverflowError) as error:
        raise ConfigurationError(
            f"cannot listen on {host!r} port {port}: choose another with --host and --port"
        ) from error
    bound = listening.getsockname()[1]
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=GRACEFUL_SECONDS_MAX,
            limit_concurrency=CONNECTIONS_MAX,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="aegis-http")
    stopped = asyncio.create_task(stop.wait(), name="aegis-http-stop")
    try:
        # The socket listens already: who connects now is served as soon as the server turns.
        shown = f"[{host}]" if ":" in host else host
        on_listening(f"http://{shown}:{bound}")
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        server.should_exit = True
        await serving
    finally:
        stopped.cancel()
        listening.close()
