"""Make a database with a task in every state that this release can leave behind.

Among them a RUNNING one whose worker is gone and whose first step is recorded.
"""

import asyncio
import shutil
import sqlite3
import sys
import tempfile
from pathlib import Path

from msgspec import structs

from aegis.bootstrap.profiles import experiment_settings
from aegis.bootstrap.runtime import open_runtime
from aegis.bootstrap.session import LocalSession
from aegis.settings import ServerSettings

ENDED = ("fault-normal", "fault-tool-error", "fault-rollback-denied", "fault-bad-evidence")


async def make(target: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        settings = experiment_settings(folder)
        wide = structs.replace(settings.configuration, server=ServerSettings(concurrency=4))
        runtime = await open_runtime(structs.replace(settings, configuration=wide))
        session = LocalSession(runtime)
        stop = asyncio.Event()
        worker = asyncio.create_task(runtime.run_worker(stop))
        for agent in ENDED:
            task_id = await session.start(agent, f"golden {agent}")
            async for _ in session.events(task_id, 0):
                pass
        await session.cancel(await session.start("fault-slow", "golden cancelled"))
        resumable = [
            await session.start("fault-interrupted", f"golden {what}")
            for what in ("handed back", "running")
        ]
        for task_id in resumable:
            async for event in session.events(task_id, 0):
                if event["type"] == "call.finished":
                    break
        stop.set()
        await worker
        # Both are handed back now; one is claimed again by a worker that will not be heard of.
        await runtime.store.claim("worker_gone", 1, ["fault-interrupted"], resumable[1])
        await session.start("fault-normal", "golden pending")
        await runtime.close()
        copy = sqlite3.connect(folder / "aegis.db")
        copy.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copy.execute("PRAGMA journal_mode=DELETE")
        copy.close()
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "aegis.db", target)


if __name__ == "__main__":
    asyncio.run(make(Path(sys.argv[1])))
