"""The lists in the documentation are those of the code."""

import re
from pathlib import Path

import click
import msgspec
import pytest

from aegis import settings
from aegis.cli.program import program
from aegis.domain.reason import REASON_IN_WORDS, ReasonCode
from aegis.domain.state import TaskState
from aegis.domain.tool_call import CallState
from aegis.web.problems import STATUS

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"

SECTIONS = [
    settings.ConfigurationFile,
    settings.ServerSettings,
    settings.StoreSection,
    settings.LimitsSection,
    settings.PolicyRule,
    settings.ModelSection,
    settings.AgentSection,
    settings.AgentLimitsSection,
    settings.BackendSection,
    settings.ToolSection,
]


def words(name: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", (REFERENCE / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.__name__)
def test_every_key_of_the_configuration_is_described(section):
    text = (REFERENCE / "configuration.md").read_text(encoding="utf-8")
    for field in msgspec.structs.fields(section):
        assert re.search(rf"\b{field.name}\b", text), field.name


def test_every_code_is_described_and_no_unknown_one():
    described = {word for word in words("error-codes.md") if re.fullmatch(r"[A-Z_]{3,}", word)}
    codes = {reason.value for reason in ReasonCode} | set(STATUS)
    assert codes <= described
    # Whatever else stands there in capitals is another kind of name, never an unknown code.
    others = {state.value for state in (*TaskState, *CallState)} | {"CONFIGURATION_ERROR"}
    assert {word for word in described - codes if not word.startswith("AEGIS_")} <= others
    assert set(REASON_IN_WORDS) == set(ReasonCode)


def test_every_command_is_described():
    text = (REFERENCE / "cli.md").read_text(encoding="utf-8")
    for name in program.list_commands(click.Context(program)):
        assert re.search(rf"\baegis {name}\b", text), name


def test_every_link_between_documents_leads_somewhere():
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("examples/**/*.md"),
    ]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_script_that_the_contributing_page_names_exists():
    for script in re.findall(r"`(scripts/[\w-]+)", (ROOT / "CONTRIBUTING.md").read_text()):
        assert (ROOT / script).is_file(), script
