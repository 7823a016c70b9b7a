"""Run all experiments on what they start themselves, one result at a time."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from aegis.bootstrap.profiles import experiment_settings
from aegis.bootstrap.runtime import open_runtime
from aegis.bootstrap.session import LocalSession
from aegis.experiments.catalogue import IN_PROCESS, OVER_HTTP
from aegis.experiments.claiming import one_winner
from aegis.experiments.playing import play
from aegis.experiments.refusing import key_with_another_body, tenant_in_body
from aegis.experiments.restarting import finishes_on_sqlite, forgets_in_memory
from aegis.experiments.scenario import Result
from aegis.experiments.server_process import client_of, running_server, session_with


async def run_all() -> AsyncIterator[Result]:
    """Yield the result of every experiment, in the order of the table."""
    with tempfile.TemporaryDirectory(prefix="aegis-experiments-") as name:
        folder = Path(name)
        async for result in _in_process(_made(folder / "in-process")):
            yield result
        yield await one_winner(_made(folder / "claiming"))
        yield await forgets_in_memory(_made(folder / "memory"))
        yield await finishes_on_sqlite(_made(folder / "restart"))
        async for result in _over_http(_made(folder / "http")):
            yield result


async def _in_process(folder: Path) -> AsyncIterator[Result]:
    runtime = await open_runtime(experiment_settings(folder))
    stop = asyncio.Event()
    worker = asyncio.create_task(runtime.run_worker(stop))
    try:
        for scenario in IN_PROCESS:
            yield await play(scenario, LocalSession(runtime))
    finally:
        stop.set()
        await asyncio.wait([worker])
        await runtime.close()


async def _over_http(folder: Path) -> AsyncIterator[Result]:
    database = f"sqlite:///{folder / 'http.db'}"
    async with running_server(folder, database) as server:
        async with session_with(server) as session:
            for scenario in OVER_HTTP:
                yield await play(scenario, session)
        async with client_of(server) as client:
            yield await tenant_in_body(client)
            yield await key_with_another_body(client)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
