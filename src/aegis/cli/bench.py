"""`aegis bench`: measure this installation."""

import click

from aegis.bench.runtime import Plan, measure_runtime
from aegis.cli.output import print_json


@click.group("bench")
def command() -> None:
    """Measure this installation; one JSON object a line."""


@command.command("runtime")
@click.option("--store", type=click.Choice(["sqlite", "memory"]), default="sqlite")
@click.option("--concurrency", type=click.IntRange(1, 1000), multiple=True, help="Repeatable.")
@click.option("--runs", type=click.IntRange(1, 50), default=3, show_default=True)
@click.option("--scale", type=click.FloatRange(0.01, 100), default=1.0, help="More or fewer tasks.")
def runtime(store: str, concurrency: tuple[int, ...], runs: int, scale: float) -> None:
    """Tasks per second, CPU, latency, commits, bytes, memory, import and cold start.

    A short task is two model steps and one tool call with an instant script; SQLite syncs FULL.
    """
    plan = Plan(store=store, concurrencies=concurrency or (1, 32, 256), runs=runs, scale=scale)
    for record in measure_runtime(plan):
        print_json(record)
