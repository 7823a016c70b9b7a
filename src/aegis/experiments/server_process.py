"""A real `aegis serve` process on a free port of this machine."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
from msgspec import Struct

from aegis.bootstrap.remote_session import RemoteSession, open_remote

TOKEN = "experiments-token"  # noqa: S105 - a fixed token for a server that lives for seconds
START_SECONDS_MAX = 30.0
STOP_SECONDS_MAX = 20.0


class ServerProcess(Struct, frozen=True, kw_only=True):
    """A running server: its address, and its process for signals."""

    url: str
    process: asyncio.subprocess.Process

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        async with asyncio.timeout(STOP_SECONDS_MAX):
            return await self.process.wait()


async def start_server(folder: Path, database_url: str) -> ServerProcess:
    """Start a server in `folder` and wait until it listens."""
    environ = {
        "PATH": os.environ.get("PATH", ""),
        "AEGIS_HOME": str(folder),
        "AEGIS_DATABASE_URL": database_url,
        "AEGIS_DEMO_AUTH": "true",
        "AEGIS_DEMO_TOKEN": TOKEN,
    }
    errors = (folder / "server.log").open("ab")
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "aegis",
            "serve",
            "--port",
            "0",
            cwd=folder,
            env=environ,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
        )
    finally:
        errors.close()
    assert process.stdout is not None  # noqa: S101 - asked for above
    try:
        async with asyncio.timeout(START_SECONDS_MAX):
            line = (await process.stdout.readline()).decode()
    except TimeoutError:
        process.kill()
        raise
    if "listening on " not in line:
        await process.wait()
        raise RuntimeError(f"the server did not start; see {folder / 'server.log'}")
    return ServerProcess(url=line.rpartition(" ")[2].strip(), process=process)


@contextlib.asynccontextmanager
async def running_server(folder: Path, database_url: str) -> AsyncGenerator[ServerProcess]:
    """Run a server for as long as the block lasts; it is ended by its own process id."""
    server = await start_server(folder, database_url)
    try:
        yield server
    finally:
        await server.end()


@contextlib.asynccontextmanager
async def session_with(server: ServerProcess) -> AsyncGenerator[RemoteSession]:
    """Open a session with `server`."""
    async with open_remote(server.url, TOKEN) as session:
        yield session


def client_of(server: ServerProcess, token: str = TOKEN) -> httpx2.AsyncClient:
    """Return a plain HTTP client of `server`."""
    headers = {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=20.0)
