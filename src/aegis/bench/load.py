"""One measured run in a process of its own: create tasks, let the worker end them, count.

Prints one JSON object with the raw figures of the run.
"""

import asyncio
import json
import resource
import sys
import tempfile
import time
from importlib import resources
from pathlib import Path

import uvloop
from msgspec import Struct

from aegis.bootstrap.profiles import bench_settings
from aegis.bootstrap.runtime import Runtime, open_runtime
from aegis.bootstrap.session import LocalSession
from aegis.domain.state import TERMINAL_STATES, TaskState
from aegis.domain.task import Task


class Load(Struct, frozen=True, kw_only=True):
    """What to run: `tasks` tasks of `agent`, `concurrency` at once, on `store`."""

    store: str
    agent: str
    concurrency: int
    tasks: int


class Watch:
    """Hears of every commit and tells callers when their task has ended."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[int]] = {}
        self._early: dict[str, int] = {}

    def __call__(self, task: Task) -> None:
        """Take note of a committed row."""
        if task.state not in TERMINAL_STATES:
            return
        if task.state is not TaskState.SUCCEEDED:
            raise RuntimeError(f"a task of the bench ended {task.state} {task.reason}")
        waiting = self._waiting.pop(task.id, None)
        if waiting is None:
            self._early[task.id] = task.version
        else:
            waiting.set_result(task.version)

    async def ended(self, task_id: str) -> int:
        """Return the version of a task once it has ended."""
        if task_id in self._early:
            return self._early.pop(task_id)
        waiting: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[task_id] = waiting
        return await waiting


async def measure(load: Load) -> dict[str, float]:
    """Return raw figures of one run. Warm-up tasks are not counted."""
    declared = resources.files("aegis.bench").joinpath("agents.toml").read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="aegis-bench-") as name:
        settings = bench_settings(
            Path(name), declared, concurrency=load.concurrency, memory=load.store == "memory"
        )
        watch = Watch()
        runtime = await open_runtime(settings, watch)
        stop = asyncio.Event()
        worker = asyncio.create_task(runtime.run_worker(stop))
        try:
            warm = min(load.concurrency, load.tasks)
            await _run_all(runtime, watch, load.agent, warm, load.concurrency)
            written = _bytes_written()
            cpu, clock = time.process_time(), time.perf_counter()
            latencies, versions = await _run_all(
                runtime, watch, load.agent, load.tasks, load.concurrency
            )
            cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
            written = _bytes_written() - written
        finally:
            stop.set()
            await asyncio.wait([worker])
            await runtime.close()
    latencies.sort()
    return {
        "tasks_per_s": load.tasks / clock,
        "cpu_s_per_1000_tasks": cpu / load.tasks * 1000,
        "latency_p50_ms": latencies[len(latencies) // 2] * 1000,
        "latency_p99_ms": latencies[int(len(latencies) * 0.99)] * 1000,
        # Version 1 is the create and 2 the claim: the rest are commits of the loop.
        "commits_per_task": sum(version - 2 for version in versions) / len(versions),
        "bytes_written_per_task": written / load.tasks,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def _run_all(
    runtime: Runtime, watch: Watch, agent: str, tasks: int, concurrency: int
) -> tuple[list[float], list[int]]:
    latencies: list[float] = []
    versions: list[int] = []
    left = iter(range(tasks))

    async def caller() -> None:
        for _ in left:
            begun = time.perf_counter()
            versions.append(await _run_one(runtime, watch, agent))
            latencies.append(time.perf_counter() - begun)

    await asyncio.gather(*(caller() for _ in range(concurrency)))
    return latencies, versions


async def _run_one(runtime: Runtime, watch: Watch, agent: str) -> int:
    """Create a task and wait for its end as a caller would; return its version."""
    task_id = await LocalSession(runtime).start(agent, "Why did the error rate rise?")
    return await watch.ended(task_id)


def _bytes_written() -> int:
    """Return the bytes that this process caused to be written to storage."""
    try:
        text = Path("/proc/self/io").read_text(encoding="ascii")
    except OSError:
        return 0
    written = [line for line in text.splitlines() if line.startswith("write_bytes")]
    return int(written[0].split()[1])


if __name__ == "__main__":
    store, agent, concurrency, tasks = sys.argv[1:5]
    given = Load(store=store, agent=agent, concurrency=int(concurrency), tasks=int(tasks))
    sys.stdout.write(json.dumps(uvloop.run(measure(given))) + "\n")
