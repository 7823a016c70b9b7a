"""`aegis doctor`: what is configured, what is wrong, and what to do about it."""

import asyncio
import os
import sys

import click

from aegis.bootstrap.checkup import Finding, examine
from aegis.cli.output import print_json, result_console


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> None:
    """Check the configuration; exit status 1 if something needs mending."""
    findings = asyncio.run(examine(dict(os.environ)))
    for finding in findings:
        _print(finding, as_json=as_json)
    sys.exit(0 if all(finding.level != "wrong" for finding in findings) else 1)


def _print(finding: Finding, *, as_json: bool) -> None:
    if as_json:
        print_json({"level": finding.level, "what": finding.what, "what_to_do": finding.what_to_do})
        return
    style = {"ok": "green", "note": "yellow", "wrong": "bold red"}[finding.level]
    console = result_console()
    console.print(f"{finding.level:<6}", style=style, end="")
    console.print(finding.what, markup=False)
    if finding.what_to_do:
        console.print(f"      {finding.what_to_do}", markup=False, style="dim")
