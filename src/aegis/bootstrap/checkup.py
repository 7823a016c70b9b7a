"""What `aegis doctor` looks at: each finding says what is wrong and what to do."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from aegis.bootstrap.runtime import open_runtime
from aegis.domain.errors import AegisError
from aegis.settings import Settings, load_settings

CHECKPOINT_RACE_FIXED = (3, 51, 3)
"""Below it, two processes that checkpoint at once can corrupt a WAL database (06, rule 13)."""


class Finding(Struct, frozen=True, kw_only=True):
    """One thing looked at. `level` is ok, note or wrong."""

    level: Literal["ok", "note", "wrong"]
    what: str
    what_to_do: str = ""


async def examine(environ: Mapping[str, str]) -> list[Finding]:
    """Look at configuration, identity, store, agents and back ends of this folder."""
    try:
        settings = load_settings(environ, Path.cwd())
    except AegisError as error:
        return [Finding(level="wrong", what=str(error), what_to_do="mend it and run doctor again")]
    findings = [_configuration(settings), _identity(settings), _sqlite(settings)]
    try:
        runtime = await open_runtime(settings)
    except AegisError as error:
        what_to_do = "mend the configuration or the folder and run doctor again"
        return [*findings, Finding(level="wrong", what=str(error), what_to_do=what_to_do)]
    try:
        report = await runtime.health.report()
        store = report.checks["store"]
        findings.append(
            Finding(level="ok", what="the store takes writes")
            if store == "ok"
            else Finding(level="wrong", what=f"the store is {store}", what_to_do="check the disk")
        )
        names = ", ".join(sorted(name for name in runtime.agents if not name.startswith("fault-")))
        findings.append(Finding(level="ok", what=f"agents that can run here: {names}"))
        findings += [
            Finding(level="note", what=f"agent {name!r} cannot run here", what_to_do=reason)
            for name, reason in sorted(runtime.unavailable.items())
        ]
        for reader in runtime.tools.readers:
            findings.append(await _backend(reader))
    finally:
        await runtime.close()
    return findings


def _configuration(settings: Settings) -> Finding:
    if settings.file is None:
        return Finding(
            level="note",
            what="no aegis.toml: the built-in demo profile is used",
            what_to_do="`aegis init` writes one",
        )
    return Finding(level="ok", what=f"{settings.file.name} is valid")


def _identity(settings: Settings) -> Finding:
    if settings.demo_token is None:
        return Finding(
            level="note",
            what="`aegis serve` has no identity source",
            what_to_do="`aegis serve --demo`, or set AEGIS_DEMO_AUTH=true and AEGIS_DEMO_TOKEN",
        )
    return Finding(level="ok", what="demo auth is on, for this machine only")


def _sqlite(settings: Settings) -> Finding:
    if settings.database is None:
        return Finding(
            level="note",
            what="the memory store keeps nothing over a restart",
            what_to_do="set AEGIS_DATABASE_URL=sqlite:///PATH",
        )
    version = sqlite3.sqlite_version_info
    if version < CHECKPOINT_RACE_FIXED:
        return Finding(
            level="note",
            what=f"SQLite {sqlite3.sqlite_version} has a checkpoint race between processes",
            what_to_do="let one process write to the database, or use a newer SQLite",
        )
    return Finding(level="ok", what=f"SQLite {sqlite3.sqlite_version}")


async def _backend(reader: object) -> Finding:
    from aegis.tools.ops.http_reader import HttpReader
    from aegis.tools.tool import ToolFailed

    if not isinstance(reader, HttpReader):
        return Finding(level="ok", what="a back end without an address")
    try:
        await reader.get("/", {})
    except ToolFailed as failed:
        if failed.detail == "backend_unreachable":
            return Finding(
                level="wrong",
                what=f"back end {reader.name!r} does not answer",
                what_to_do="start it, or correct its address",
            )
    return Finding(level="ok", what=f"back end {reader.name!r} answers")
