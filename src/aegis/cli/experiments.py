"""`aegis experiments`: run the fault experiments."""

import asyncio
import logging
import sys
from pathlib import Path

import click

from aegis.cli.output import print_json, progress_console, result_console
from aegis.experiments.report import write_report
from aegis.experiments.scenario import Result
from aegis.experiments.suite import run_all


@click.command("experiments")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("experiments"),
    show_default=True,
    help="Folder for experiments.md and raw/.",
)
def command(as_json: bool, out: Path) -> None:
    """Run E1 to E13, H1 to H9, X1 and X2; exit status 0 only if all hold.

    Everything that they need is started on free ports of this machine and ended again.
    """
    logging.getLogger("aegis").setLevel(logging.CRITICAL)
    results = asyncio.run(_run(as_json=as_json))
    report = write_report(results, out)
    held = sum(result.ok for result in results)
    progress_console().print(f"{held} of {len(results)} hold; the report is {report}")
    sys.exit(0 if held == len(results) else 1)


async def _run(*, as_json: bool) -> list[Result]:
    results: list[Result] = []
    console = result_console()
    async for result in run_all():
        results.append(result)
        if as_json:
            print_json(
                {
                    "id": result.id,
                    "expected": result.expected,
                    "observed": result.observed,
                    "ok": result.ok,
                }
            )
            continue
        console.print(
            "holds " if result.ok else "FAILS ", end="", style="green" if result.ok else "bold red"
        )
        console.print(f"{result.id:<11}{result.title}: {result.observed}", markup=False)
        if not result.ok:
            console.print(f"      expected: {result.expected}", markup=False)
    return results
