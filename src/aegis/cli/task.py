"""`aegis task`: list, show, cancel and follow tasks."""

import asyncio
import sys

import click
from rich.table import Table
from rich.text import Text

from aegis.bootstrap.session import open_session
from aegis.cli.output import STYLES, describe_event, print_json, print_outcome, result_console
from aegis.domain.state import TaskState


@click.group("task")
def command() -> None:
    """List, show, cancel or follow tasks."""


@command.command("list")
@click.option("--state", type=click.Choice([state.value for state in TaskState]), default=None)
@click.option("--limit", type=click.IntRange(1, 100), default=20, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_command(state: str | None, limit: int, as_json: bool) -> None:
    """List tasks, newest first."""
    asyncio.run(_list(state, limit, as_json=as_json))


@command.command("show")
@click.argument("task_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show_command(task_id: str, as_json: bool) -> None:
    """Show one task with its answer and evidence."""
    asyncio.run(_show(task_id, as_json=as_json))


@command.command("cancel")
@click.argument("task_id")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def cancel_command(task_id: str, as_json: bool) -> None:
    """Cancel a task; exit status 1 tells that it had already ended."""
    outcome = asyncio.run(_cancel(task_id, as_json=as_json))
    sys.exit(0 if outcome == "cancelled" else 1)


@command.command("events")
@click.argument("task_id")
@click.option("--after", type=click.IntRange(0), default=0, help="Start after this sequence.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def events_command(task_id: str, after: int, as_json: bool) -> None:
    """Follow a task's events to its end."""
    asyncio.run(_events(task_id, after, as_json=as_json))


async def _list(state: str | None, limit: int, *, as_json: bool) -> None:
    async with open_session(with_worker=False) as session:
        tasks = await session.list(state, limit)
    if as_json:
        for task in tasks:
            print_json(task)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("task", "agent", "state", "reason", "created"):
        table.add_column(heading, no_wrap=heading == "task")
    for task in tasks:
        state_text = Text(task["state"], STYLES.get(task["state"], ""))
        created = task["created_at"][:19].replace("T", " ")
        table.add_row(task["id"], task["agent"], state_text, task["reason_code"] or "", created)
    result_console().print(table if tasks else "no tasks")


async def _show(task_id: str, *, as_json: bool) -> None:
    async with open_session(with_worker=False) as session:
        task = await session.show(task_id)
        evidence = await session.evidence(task_id)
    if as_json:
        print_json({**task, "evidence": evidence})
        return
    console = result_console()
    console.print(f"{task['agent']}: {task['prompt']}", markup=False)
    for step in task["steps"]:
        console.print(f"step {step['number']}  {step['text']}", markup=False)
        for call in step["calls"]:
            console.print(
                f"  {call['id']} {call['name']} {call['arguments']} {call['state']}", markup=False
            )
    print_outcome(console, task, evidence)


async def _cancel(task_id: str, *, as_json: bool) -> str:
    async with open_session(with_worker=False) as session:
        done = await session.cancel(task_id)
    if as_json:
        print_json(done)
    else:
        state = done["task"]["state"]
        words = "cancelled" if done["cancel"] == "cancelled" else f"had already ended: {state}"
        result_console().print(f"{task_id} {words}")
    return str(done["cancel"])


async def _events(task_id: str, after: int, *, as_json: bool) -> None:
    console = result_console()
    async with open_session(with_worker=False) as session:
        async for event in session.events(task_id, after):
            if as_json:
                print_json(event)
            else:
                console.print(describe_event(event))
