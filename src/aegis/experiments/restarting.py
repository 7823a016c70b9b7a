"""E13: stop a server, start it again: what is still known, and what finishes."""

import signal
from pathlib import Path

import httpx2

from aegis.experiments.scenario import Json, Result
from aegis.experiments.server_process import (
    client_of,
    running_server,
    session_with,
    start_server,
)

HTTP_NOT_FOUND = 404


async def forgets_in_memory(folder: Path) -> Result:
    """On the memory store a task is gone after a restart: 404."""
    async with running_server(folder, "memory://") as server, session_with(server) as session:
        created = await session.create("fault-normal", "Who remembers?")
    async with running_server(folder, "memory://") as server, client_of(server) as client:
        response = await client.get(f"/api/v1/tasks/{created['id']}")
    return Result(
        id="E13-memory",
        title="restart on the memory store",
        expected="404 NOT_FOUND",
        observed=f"{response.status_code} {response.json().get('code')}",
        ok=response.status_code == HTTP_NOT_FOUND,
        raw=response.json(),
    )


async def finishes_on_sqlite(folder: Path) -> Result:
    """On SQLite a task that `kill -9` interrupted finishes, and no recorded step is repeated."""
    database = f"sqlite:///{folder / 'restart.db'}"
    server = await start_server(folder, database)
    before: list[Json] = []
    created: Json = {}
    try:
        async with session_with(server) as session:
            created = await session.create("fault-interrupted", "Will this finish?")
            async for event in session.events(str(created["id"]), 0):
                before.append(event)
                if event["type"] == "call.finished":
                    await server.end(signal.SIGKILL)
                    break
    except httpx2.HTTPError:
        pass
    finally:
        await server.end(signal.SIGKILL)
    async with running_server(folder, database) as again, session_with(again) as session:
        after = [event async for event in session.events(str(created["id"]), 0)]
        task = await session.show(str(created["id"]))
    kept = [event["type"] for event in after[: len(before)]] == [e["type"] for e in before]
    finished = [event for event in after if event["type"] == "call.finished"]
    took_over = any(event.get("takeover") for event in after)
    ok = task["state"] == "SUCCEEDED" and kept and len(finished) == 1 and took_over
    return Result(
        id="E13-sqlite",
        title="kill -9 in the middle, restart on SQLite",
        expected="SUCCEEDED, taken over, 1 call run",
        observed=f"{task['state']}, {'taken over' if took_over else 'not taken over'},"
        f" {len(finished)} call run",
        ok=ok,
        raw={"before": before, "after": after, "task": task},
    )
