"""Write what was measured: a table for people, raw JSON for whoever doubts it."""

import json
from collections.abc import Sequence
from pathlib import Path

from aegis.experiments.scenario import Result

_NOT_PROVED = """
What this does not prove: the models here are scripts, so nothing is said about the quality of a
diagnosis; timings are bounds that held on this machine in this run; E13 covers the memory and the
SQLite store, the only ones of this release.
"""


def write_report(results: Sequence[Result], folder: Path) -> Path:
    """Write `experiments.md` and `raw/ID.json` into `folder`; return the path of the report."""
    raw = folder / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    lines = [
        "# Experiments",
        "",
        f"{sum(result.ok for result in results)} of {len(results)} hold.",
        "",
        "| id | scenario | expected | observed | holds |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        held = "yes" if result.ok else "**no**"
        lines.append(
            f"| {result.id} | {result.title} | {result.expected} | {result.observed} | {held} |"
        )
        text = json.dumps(result.raw, indent=2, ensure_ascii=False)
        (raw / f"{result.id}.json").write_text(text + "\n", encoding="utf-8")
    report = folder / "experiments.md"
    report.write_text("\n".join(lines) + "\n" + _NOT_PROVED, encoding="utf-8")
    return report
