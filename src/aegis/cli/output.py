"""Printing: results on stdout, progress on stderr, no colour where nobody looks."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

Json = dict[str, Any]

STYLES = {
    "SUCCEEDED": "bold green",
    "FAILED": "bold red",
    "CANCELLED": "bold yellow",
    "RUNNING": "cyan",
    "PENDING": "dim",
}
CONTENT_CHARACTERS_MAX = 160
PIPED_COLUMNS = 4096
"""Lines stay whole where no terminal wraps them."""


def result_console() -> Console:
    """Return the console for results."""
    return Console(
        file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else PIPED_COLUMNS
    )


def progress_console() -> Console:
    """Return the console for progress."""
    return Console(
        file=sys.stderr, highlight=False, width=None if sys.stderr.isatty() else PIPED_COLUMNS
    )


def print_json(value: object) -> None:
    """Print one JSON document on one line."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def describe_event(event: Json) -> Text:  # noqa: C901 - one case for each kind of event
    """Return one event as a line of a timeline."""
    clock = str(event["at"])[11:23]
    line = Text.assemble((f"{clock}  ", "dim"), (f"{event['type']:<15}", "bold"), " ")
    match event["type"]:
        case "task.claimed":
            line.append(f"attempt {event['attempt']}, epoch {event['epoch']}")
            if event.get("takeover"):
                line.append(", taken over from a lost worker", "yellow")
        case "model.replied":
            line.append(f"step {event['step']}")
            if event.get("text"):
                line.append(f": {event['text']}")
            for call in event.get("calls", []):
                refusal = f" refused: {call['refusal']}" if call.get("refusal") else ""
                line.append(f"\n{' ' * 32}{call['id']} {call['name']} {call['arguments']}", "cyan")
                line.append(refusal, "red")
        case "call.finished":
            line.append(f"{event['call_id']} {event['state']}")
            if event.get("evidence_id"):
                line.append(f"  {event['evidence_id']}", "green")
            if event.get("error"):
                line.append(f"  {event['error']}", "red")
        case "call.started":
            line.append(f"{event['call_id']} (write)")
        case "task.failed":
            line.append(str(event["reason"]), "bold red")
        case "task.cancelled":
            line.append(f"by {event['by']}", "yellow")
        case _:
            pass
    return line


def print_outcome(console: Console, task: Json, evidence: list[Json]) -> None:
    """Print how a task ended: the answer with its evidence, or the reason in words."""
    state = str(task["state"])
    console.print(Text.assemble(("\n" + state, STYLES.get(state, "bold")), f"  {task['id']}"))
    if task["output"] is None:
        if task["reason_code"]:
            console.print(f"{task['reason_code']}: {task['reason_text']}", markup=False)
        return
    console.print(str(task["output"]["summary"]), markup=False)
    if task["output"]["conclusion"] == "inconclusive":
        console.print("The agent calls this inconclusive.", style="yellow")
    cited = {item["id"]: item for item in evidence}
    console.print("\nEvidence", style="bold")
    for evidence_id in task["output"]["evidence_ids"]:
        console.print(describe_evidence(cited[evidence_id]))


def describe_evidence(item: Json) -> Text:
    """Return one piece of evidence: its id, where it came from, and the values in it."""
    line = Text.assemble(
        (f"  {item['id']}", "green"),
        f"  {item['tool']} from {item['source']}, {item['trust']}",
        (", synthetic" if item["synthetic"] else "", "yellow"),
    )
    line.append(f"\n      {brief(str(item['content']))}", "dim")
    return line


def brief(content: str) -> str:
    """Return the values of a content that a person looks for first, in one line."""
    try:
        found = json.loads(content)
    except ValueError:
        return content[:CONTENT_CHARACTERS_MAX]
    if not isinstance(found, dict):
        return content[:CONTENT_CHARACTERS_MAX]
    parts: list[str] = []
    values: Json = dict(found)  # pyright: ignore[reportUnknownArgumentType] - parsed JSON
    if values.get("series"):
        summary = values["series"][0]["summary"]
        told = ", ".join(
            f"{name} {summary[name]:.4g}"
            for name in ("first", "last", "max")
            if summary.get(name) is not None
        )
        parts.append(f"{values.get('resource')} {values.get('query')}: {told} {values.get('unit')}")
    elif values.get("records"):
        newest = values["records"][0]
        parts.append(f"{values.get('service')} {newest.get('kind')} {newest.get('version')}")
        parts.append(f"at {newest.get('released_at')}, {len(values['records'])} records")
    elif "total_matched" in values:
        parts.append(f"{values.get('service')}: {values['total_matched']} log lines matched")
    else:
        parts.append(json.dumps(values, ensure_ascii=False))
    return "; ".join(parts)[:CONTENT_CHARACTERS_MAX]
