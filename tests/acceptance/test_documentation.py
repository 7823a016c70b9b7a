"""The documentation is true: its lists are those of the code, and its commands do what it shows.

Fenced blocks of the README and the tutorials are played in order, in a fresh folder, by their info
strings:

- ```sh runnable```: run by bash; `exit=N` names another exit status than 0. Folder and exported
  variables carry over to the next block. `background` leaves the block running to the end of the
  page, as in a terminal of its own; the page goes on once it listens.
- ```text shown```: must be in the output of the block before, line by line in this order; `...`
  stands for anything.
- ```toml save=FILE``` and ```python append=FILE```: what the reader is asked to write.

Port 8080 of a page becomes a free one.
"""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, get_args

import click
import msgspec
import pytest
from fastapi.routing import APIRoute

import aegis
from aegis import settings
from aegis.cli.program import program
from aegis.domain.entry import Entry
from aegis.domain.reason import REASON_IN_WORDS, ReasonCode
from aegis.model_providers.scripted import format as script_format
from aegis.model_providers.scripted.script import load_script
from aegis.model_providers.scripted.template import FILTERS
from aegis.web.actions import action_of
from aegis.web.api import probes, server_views, tasks
from aegis.web.problems import STATUS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted((DOCS / "tutorial").glob("*.md"))]
BLOCK_SECONDS_MAX = 60

SECTIONS = {
    "Top level": settings.ConfigurationFile,
    "[server]": settings.ServerSettings,
    "[store]": settings.StoreSection,
    "[limits]": settings.LimitsSection,
    "[[policy.allow]]": settings.PolicyRule,
    "[models.X]": settings.ModelSection,
    "[agents.X]": settings.AgentSection,
    "[agents.X.limits]": settings.AgentLimitsSection,
    "[backends.X]": settings.BackendSection,
    "[backends.X.queries.Y]": settings.QuerySection,
    "[tools.X]": settings.ToolSection,
}


class Block(NamedTuple):
    """One fenced block: the words of its info string, its text, and the line where it begins."""

    words: list[str]
    text: str
    line: int


def section(page: str, heading: str) -> str:
    """Return the text below `## heading` of a reference page."""
    text = (DOCS / "reference" / page).read_text(encoding="utf-8")
    found = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert found, f"{page} has no section {heading!r}"
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row that begins with something in backquotes."""
    lines = re.findall(r"^\| (`.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def quoted(text: str) -> list[str]:
    """Return what stands in backquotes outside of fenced blocks."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", plain)


def written_default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    if default is None:
        return "none"
    if isinstance(default, msgspec.Struct):
        return ""
    return f"`{msgspec.json.encode(default).decode()}`"


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_key_of_the_configuration_stands_there_with_its_default(heading):
    told = {cells[0].strip("`"): cells[2] for cells in rows(section("configuration.md", heading))}
    fields = msgspec.structs.fields(SECTIONS[heading])
    if heading == "Top level":
        assert list(told) == [field.name for field in fields]
        return
    assert told == {field.name: written_default(field) for field in fields}


def test_every_variable_of_the_environment_stands_there_and_no_other():
    told = {row[0].strip("`") for row in rows(section("configuration.md", "Environment variables"))}
    read: set[str] = set()
    for file in Path(aegis.__file__).parent.rglob("*"):
        if file.suffix in {".py", ".toml"}:
            read |= set(re.findall(r"\bAEGIS_[A-Z_]+\b", file.read_text(encoding="utf-8")))
    assert told == read


def test_every_reason_code_stands_there_and_no_other():
    told = [row[0].strip("`") for row in rows(section("error-codes.md", "Why a task stopped"))]
    assert told == [reason.value for reason in ReasonCode]
    assert set(REASON_IN_WORDS) == set(ReasonCode)


def test_every_code_of_a_request_stands_there_with_its_status():
    told = rows(section("error-codes.md", "Why a request was refused"))
    assert {row[0].strip("`"): int(row[1]) for row in told} == STATUS


def test_every_event_stands_there_with_its_members():
    page = (DOCS / "reference" / "events.md").read_text(encoding="utf-8")
    kinds = {kind.__struct_config__.tag: set(kind.__struct_fields__) for kind in get_args(Entry)}
    told = {row[0].strip("`"): set(quoted(row[2])) for row in rows(page) if "." in row[0]}
    told["task.succeeded"] -= {"summary", "evidence_ids", "conclusion"}
    assert told == kinds


def test_every_route_stands_there_with_its_action():
    page = (DOCS / "reference" / "http-api.md").read_text(encoding="utf-8")
    told = set(re.findall(r"^\| (GET|POST) \| `([^`]+)` \| `([^`]+)` \|", page, re.MULTILINE))
    routes = [*tasks.router.routes, *server_views.router.routes, *probes.router.routes]
    assert told == {
        (method, route.path, action_of(route))
        for route in routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }


def commands(group: click.Group, prefix: str) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        if isinstance(command, click.Group):
            found |= commands(command, f"{prefix} {name}")
        elif command is not None:
            found[f"{prefix} {name}"] = command
    return found


def test_every_command_stands_there_with_its_options():
    page = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    told = {}
    for heading in re.findall(r"^## (.*)$", page, re.MULTILINE):
        name = re.sub(r" [\[A-Z].*", "", heading)
        told[name] = {word for row in rows(section("cli.md", heading)) for word in quoted(row[0])}
    assert told == {
        name: {
            option
            for parameter in command.params
            if isinstance(parameter, click.Option)
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
        for name, command in commands(program, "aegis").items()
    }


def test_every_key_fault_and_filter_of_a_script_stands_there():
    words = set(quoted((DOCS / "reference" / "scripted-models.md").read_text(encoding="utf-8")))
    records = [
        script_format.DeclaredChoice,
        script_format.DeclaredCondition,
        script_format.DeclaredCall,
        script_format.DeclaredFinal,
        script_format.DeclaredUsage,
    ]
    names = {name for record in records for name in record.__struct_fields__}
    assert names | set(get_args(script_format.Fault)) | set(FILTERS) <= words


def test_every_test_that_proves_a_guarantee_exists():
    page = (DOCS / "explanation" / "guarantees.md").read_text(encoding="utf-8")
    named = {word for word in quoted(page) if word.startswith("test_")}
    written = {
        name
        for file in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text("utf-8"), re.MULTILINE)
    }
    assert named
    assert named <= written, named - written


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.stem)
def test_every_shown_configuration_is_valid(tmp_path, page):
    for block in blocks(page):
        if block.words[0] == "toml" and not any("append" in word for word in block.words):
            text = block.text if "version = 1" in block.text else f"version = 1\n{block.text}"
            shown = settings.parse_configuration(text, page.name, tmp_path)
            for name, model in shown.models.items():
                load_script(name, {"steps": model.steps, "repeat_last": model.repeat_last})


def test_every_link_between_documents_leads_somewhere():
    for path in [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("examples/**/*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_script_that_the_contributing_page_names_exists():
    for script in re.findall(r"`(scripts/[\w-]+)", (ROOT / "CONTRIBUTING.md").read_text()):
        assert (ROOT / script).is_file(), script


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1].split(), found[2], text.count("\n", 0, found.start()) + 1)
        for found in re.finditer(r"^```([^\n]+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


class Reader:
    """Somebody who does what a page says, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / ".state-of-the-shell"
        self.state.write_text(f"cd {shlex.quote(str(folder))}\n")
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.port = str(found.getsockname()[1])
        self.running: list[subprocess.Popen[str]] = []
        self.output = ""

    def does(self, block: Block) -> None:
        """Follow one block."""
        kind, *words = block.words
        options = {key: value for key, _, value in (word.partition("=") for word in words)}
        text = block.text.replace("8080", self.port)
        if "save" in options:
            self._file(options["save"]).write_text(text)
        elif "append" in options:
            file = self._file(options["append"])
            file.write_text(f"{file.read_text()}\n\n{text}")
        elif kind == "text" and "shown" in options:
            self._sees(text)
        elif "background" in options:
            self._leaves_running(text)
        elif "runnable" in options:
            done = subprocess.run(
                self._shell(f"{text}\n{{ export -p; echo cd '\"$PWD\"'; }} > {self.state}"),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=BLOCK_SECONDS_MAX,
                check=False,
                env=self._environ(),
            )
            self.output = done.stdout
            assert done.returncode == int(options.get("exit", "0")), f"{text}\n{self.output}"

    def leaves(self) -> None:
        """End what still runs, as Ctrl-C would."""
        for process in self.running:
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=BLOCK_SECONDS_MAX)

    def _leaves_running(self, text: str) -> None:
        process = subprocess.Popen(
            self._shell(text),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environ(),
            start_new_session=True,
        )
        self.running.append(process)
        assert process.stdout is not None
        assert "listening on" in process.stdout.readline()

    def _sees(self, text: str) -> None:
        at = 0
        for line in filter(None, text.splitlines()):
            pattern = r"[^\n]*?".join(
                r"\s+".join(map(re.escape, piece.split())) for piece in line.split("...")
            )
            found = re.compile(pattern).search(self.output, at)
            assert found, f"{line!r} is not (or not there) in:\n{self.output}"
            at = found.end()

    def _shell(self, text: str) -> list[str]:
        return ["bash", "-c", f"set -eo pipefail; . {self.state}; set -e\n{text}"]

    def _file(self, name: str) -> Path:
        moved = re.findall(r'^declare -x PWD="(.*)"$', self.state.read_text(), re.MULTILINE)
        return (Path(moved[-1]) if moved else self.folder) / name

    def _environ(self) -> dict[str, str]:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.folder)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_reader_who_does_what_the_page_says_sees_what_it_shows(tmp_path, page):
    told = blocks(page)
    assert any("runnable" in block.words for block in told)
    reader = Reader(tmp_path)
    try:
        for block in told:
            reader.does(block)
    finally:
        reader.leaves()
