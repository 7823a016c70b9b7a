"""`aegis run`: create a task, follow it, print the cited answer."""

import asyncio
import sys

import click

from aegis.bootstrap.session import open_session
from aegis.cli.output import (
    describe_event,
    print_json,
    print_outcome,
    progress_console,
    result_console,
)


@click.command("run")
@click.argument("prompt")
@click.option("--agent", default=None, help="The agent; without it the server's default.")
@click.option("--watch/--no-watch", default=None, help="Show progress (default: on a terminal).")
@click.option("--json", "as_json", is_flag=True, help="Print the task as one JSON document.")
def command(prompt: str, agent: str | None, watch: bool | None, as_json: bool) -> None:
    """Create a task from PROMPT, follow it to its end and print the cited answer.

    Exit status 0 only if the task SUCCEEDED. Progress goes to stderr.
    """
    show = sys.stderr.isatty() if watch is None else watch
    state = asyncio.run(_run(prompt, agent, show=show, as_json=as_json))
    sys.exit(0 if state == "SUCCEEDED" else 1)


async def _run(prompt: str, agent: str | None, *, show: bool, as_json: bool) -> str:
    progress = progress_console()
    async with open_session(with_worker=True) as session:
        created = await session.create(agent, prompt)
        if show:
            progress.print(f"task {created['id']}, agent {created['agent']}", style="dim")
        async for event in session.events(created["id"], 0):
            if show:
                progress.print(describe_event(event))
        task = await session.show(created["id"])
        evidence = await session.evidence(created["id"])
    if as_json:
        print_json({**task, "evidence": evidence})
    else:
        print_outcome(result_console(), task, evidence)
    return str(task["state"])
