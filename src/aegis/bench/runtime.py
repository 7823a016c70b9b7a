"""The runtime's figures: each configuration several times, each run in a process of its own."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from aegis.bench.load import Load

UNITS = {
    "tasks_per_s": "1/s",
    "cpu_s_per_1000_tasks": "s",
    "latency_p50_ms": "ms",
    "latency_p99_ms": "ms",
    "commits_per_task": "commits",
    "bytes_written_per_task": "bytes",
    "peak_memory_mb": "MB",
    "import_cli_ms": "ms",
    "cold_run_s": "s",
}
RUN_SECONDS_MAX = 300
IN_FLIGHT = 1000

_IMPORT = "import time; t = time.perf_counter(); import aegis.cli; print(time.perf_counter() - t)"


class Plan(Struct, frozen=True, kw_only=True):
    """What to measure. `scale` multiplies the number of tasks of each run."""

    store: str
    concurrencies: Sequence[int]
    runs: int
    scale: float = 1.0


def measure_runtime(plan: Plan) -> Iterator[dict[str, object]]:
    """Yield one record for each figure, with minimum, median and maximum over the runs."""
    for task, size in (("short", 2000), ("six_steps", 600)):
        for concurrency in plan.concurrencies:
            load = Load(
                store=plan.store,
                agent="bench-short" if task == "short" else "bench-six",
                concurrency=concurrency,
                tasks=max(concurrency, int(size * plan.scale * min(1.0, concurrency / 16))),
            )
            yield from _figures(load, task, plan.runs)
    load = Load(store=plan.store, agent="bench-waiting", concurrency=IN_FLIGHT, tasks=IN_FLIGHT)
    yield from _figures(load, "waiting_2_s", plan.runs)
    for name, one in (("import_cli_ms", _import_once), ("cold_run_s", _cold_run_once)):
        values = [one() for _ in range(max(3, plan.runs))]
        yield _record(name, plan.store, "none", 1, values)


def _figures(load: Load, task: str, runs: int) -> Iterator[dict[str, object]]:
    measured = [_run(load) for _ in range(runs)]
    for name in measured[0]:
        yield _record(name, load.store, task, load.concurrency, [run[name] for run in measured])


def _record(
    name: str, store: str, task: str, concurrency: int, values: Sequence[float]
) -> dict[str, object]:
    return {
        "figure": name,
        "store": store,
        "task": task,
        "concurrency": concurrency,
        "unit": UNITS[name],
        "min": round(min(values), 4),
        "median": round(statistics.median(values), 4),
        "max": round(max(values), 4),
        "runs": len(values),
    }


def _run(load: Load) -> dict[str, float]:
    arguments = [load.store, load.agent, str(load.concurrency), str(load.tasks)]
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-m", "aegis.bench.load", *arguments],
        capture_output=True,
        check=True,
        timeout=RUN_SECONDS_MAX,
    )
    return json.loads(done.stdout)


def _import_once() -> float:
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-c", _IMPORT], capture_output=True, check=True, timeout=RUN_SECONDS_MAX
    )
    return float(done.stdout) * 1000


def _cold_run_once() -> float:
    with tempfile.TemporaryDirectory(prefix="aegis-bench-") as folder:
        begun = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "aegis", "run", "Why?", "--agent", "simulated-diagnosis"],
            cwd=folder,
            capture_output=True,
            check=True,
            timeout=RUN_SECONDS_MAX,
        )
        return time.perf_counter() - begun
