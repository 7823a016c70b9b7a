"""The room contracts hold on this tree, and each kind of them can fail: violations are planted."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PLANTED = {
    "the inside reads a clock": ("domain/limits.py", "import time\n", "The inside does no IO"),
    "the web runs the loop": (
        "web/parts.py",
        "from aegis.agent_loop.run_task import run_task\n",
        "Doors ask",
    ),
    "a room names an edge room": (
        "tools/registry.py",
        "from aegis.stores.memory.store import MemoryStore\n",
        "Rooms depend downwards",
    ),
    "the worker holds the pen": (
        "worker/run.py",
        "from aegis.ports.task_repository import TaskRepository\n",
        "Who may hold the pen",
    ),
    "the stores know each other": (
        "stores/memory/store.py",
        "from aegis.stores.sql.sqlite.store import SqliteStore\n",
        "Stores do not know each other",
    ),
    "the loop takes a seventh port": (
        "agent_loop/context.py",
        "from aegis.ports.blobs import Blobs\n",
        "The loop sees its six ports only",
    ),
    "the command line wires a store": (
        "cli/output.py",
        "from aegis.stores.memory.store import MemoryStore\n",
        "Only bootstrap names an edge room",
    ),
    "the web writes past the use cases": (
        "web/parts.py",
        "from aegis.ports.task_leases import TaskLeases\n",
        "The web reads through views",
    ),
    "an experiment enters by the back door": (
        "experiments/report.py",
        "from aegis.use_cases.cancel_task import CancelTask\n",
        "Experiments and benchmarks enter by the front door",
    ),
    "two modules need each other": (
        "domain/micros.py",
        "from aegis.domain.limits import Limits\n",
        "No cycles anywhere",
    ),
    "a room nobody declared": (
        "sundries.py",
        '"""A room without a row in the layers."""\n',
        "Rooms depend downwards",
    ),
}


def lint(folder: Path):
    return subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_contracts_hold():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


def test_every_contract_has_a_planted_violation():
    declared = re.findall(r"^name = (.+)$", (ROOT / ".importlinter").read_text(), re.MULTILINE)
    unproved = [
        name for name in declared if not any(name.startswith(c) for _, _, c in PLANTED.values())
    ]
    assert declared
    assert unproved == []


@pytest.mark.parametrize("title", PLANTED)
def test_a_planted_violation_is_found(tmp_path, title):
    file, line, contract = PLANTED[title]
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    planted = tmp_path / "src" / "aegis" / file
    planted.write_text(line + (planted.read_text() if planted.exists() else ""))

    done = lint(tmp_path)

    assert done.returncode == 1
    broken = [text for text in done.stdout.splitlines() if " BROKEN" in text]
    assert any(text.startswith(contract) for text in broken), done.stdout
