"""A server process: the runtime, its worker, and the HTTP door in front of it."""

import asyncio
import logging
import signal
from collections.abc import Callable

from aegis.bootstrap.runtime import Runtime, open_runtime
from aegis.bootstrap.session import LOCAL_PRINCIPAL
from aegis.domain.errors import ConfigurationError
from aegis.domain.principal import Principal
from aegis.settings import Settings, describe

SECOND_PRINCIPAL = Principal(tenant="demo", subject="second", roles=("operator",))
SECOND_TOKEN_VARIABLE = "AEGIS_DEMO_TOKEN_SECOND"  # noqa: S105 - the name of a variable
LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})

log = logging.getLogger("aegis")


async def serve_runtime(
    settings: Settings,
    *,
    host: str,
    port: int,
    with_worker: bool,
    on_listening: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT, then drain.

    Raises `ConfigurationError`, `StoreUnavailable`.
    """
    from aegis.access.demo_token import DemoTokens
    from aegis.web.app import make_app
    from aegis.web.parts import WebParts
    from aegis.web.server import serve

    if settings.demo_token is None:
        raise ConfigurationError(
            "no identity source is configured: use --demo, or set AEGIS_DEMO_AUTH=true and"
            " AEGIS_DEMO_TOKEN"
        )
    if host not in LOOPBACK_HOSTS:
        raise ConfigurationError(
            f"demo auth listens on this machine only: {host!r} must be 127.0.0.1, ::1 or localhost"
        )
    principals = {settings.demo_token: LOCAL_PRINCIPAL}
    second = settings.environ.get(SECOND_TOKEN_VARIABLE)
    if second:
        principals[second] = SECOND_PRINCIPAL
    identity = DemoTokens(principals)
    runtime = await open_runtime(settings)
    runtime.health.without_worker = not with_worker
    stop, stop_worker = asyncio.Event(), asyncio.Event()
    _on_signal(stop)
    parts = WebParts(
        use_cases=runtime.use_cases,
        task_views=runtime.store,
        event_feed=runtime.feed,
        identity=identity,
        health=runtime.health,
        agents=runtime.agents,
        settings=describe(settings),
        stopping=stop,
    )
    worker = asyncio.create_task(_work(runtime, stop_worker, stop)) if with_worker else None
    try:
        await serve(make_app(parts), host=host, port=port, stop=stop, on_listening=on_listening)
    finally:
        stop_worker.set()
        if worker is not None:
            await asyncio.wait([worker])
        await runtime.close()
    if worker is not None:
        worker.result()


async def _work(runtime: Runtime, stop_worker: asyncio.Event, stop: asyncio.Event) -> None:
    """Run the worker; a worker that dies takes the server with it, so that a supervisor sees it."""
    try:
        await runtime.run_worker(stop_worker)
    finally:
        stop.set()


def _on_signal(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
