"""E12: twenty claimants in two processes, one task, one winner."""

import asyncio
import sys
from pathlib import Path

from aegis.bootstrap.profiles import experiment_settings
from aegis.bootstrap.runtime import open_runtime
from aegis.bootstrap.session import LocalSession
from aegis.experiments.scenario import Result

CLAIMANTS_PER_PROCESS = 10
PROCESSES = 2
LEASE_MICROS = 30_000_000


async def one_winner(folder: Path) -> Result:
    """Let two processes of ten claimants race for one pending task."""
    runtime = await open_runtime(experiment_settings(folder))
    try:
        created = await LocalSession(runtime).create("fault-normal", "Who wins?")
        task_id = str(created["id"])
        racers = [await _start(folder, task_id) for _ in range(PROCESSES)]
        for racer in racers:
            await _read(racer)
        for racer in racers:
            _go(racer)
        wins = [int(await _read(racer)) for racer in racers]
        for racer in racers:
            await racer.wait()
        task = await LocalSession(runtime).show(task_id)
    finally:
        await runtime.close()
    ok = sum(wins) == 1 and task["attempts"] == 1
    return Result(
        id="E12",
        title="20 concurrent claimants in two processes",
        expected="1 winner",
        observed=f"{sum(wins)} winner" + ("" if sum(wins) == 1 else "s"),
        ok=ok,
        raw={"wins_by_process": wins, "task": task},
    )


async def race(folder: Path, task_id: str) -> None:
    """Be one of the processes: say ready, wait for the word, claim, print the number of wins."""
    runtime = await open_runtime(experiment_settings(folder))
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.readline)
        claims = await asyncio.gather(
            *(
                runtime.store.claim(f"claimant-{number}", LEASE_MICROS, ["fault-normal"], task_id)
                for number in range(CLAIMANTS_PER_PROCESS)
            )
        )
    finally:
        await runtime.close()
    sys.stdout.write(f"{sum(claim is not None for claim in claims)}\n")
    sys.stdout.flush()


async def _start(folder: Path, task_id: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "aegis.experiments.claiming",
        str(folder),
        task_id,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _read(racer: asyncio.subprocess.Process) -> str:
    assert racer.stdout is not None  # noqa: S101 - asked for at start
    return (await racer.stdout.readline()).decode().strip()


def _go(racer: asyncio.subprocess.Process) -> None:
    assert racer.stdin is not None  # noqa: S101 - asked for at start
    racer.stdin.write(b"go\n")


if __name__ == "__main__":
    asyncio.run(race(Path(sys.argv[1]), sys.argv[2]))
