"""`aegis serve`: the HTTP API and, unless told otherwise, a worker."""

import logging
import os
import secrets
import sys

import click
import uvloop
from msgspec import structs

from aegis.bootstrap.serving import serve_runtime
from aegis.bootstrap.session import settings_of_process


@click.command("serve")
@click.option("--host", default=None, help="Address to listen on (default 127.0.0.1).")
@click.option("--port", type=click.IntRange(0, 65535), default=None, help="Default 8080; 0: any.")
@click.option("--no-worker", is_flag=True, help="Only the API; another process does the work.")
@click.option("--demo", is_flag=True, help="Demo auth with a fresh token, printed at start.")
def command(host: str | None, port: int | None, no_worker: bool, demo: bool) -> None:
    """Serve the HTTP API until SIGTERM; open work is then handed back and taken up later."""
    logging.basicConfig(
        level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(message)s"
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    settings = settings_of_process(dict(os.environ))
    if demo and settings.demo_token is None:
        settings = structs.replace(settings, demo_token=secrets.token_urlsafe(24))
        click.echo(f"demo token: {settings.demo_token}", err=True)
    server = settings.configuration.server
    uvloop.run(
        serve_runtime(
            settings,
            host=host or server.host,
            port=server.port if port is None else port,
            with_worker=not no_worker,
            on_listening=_print_address,
        )
    )


def _print_address(url: str) -> None:
    click.echo(f"listening on {url}")
    sys.stdout.flush()
