"""The program: its commands by name, and what every error becomes."""

import importlib
import sys
from typing import Any

import click

import aegis
from aegis.domain.errors import AegisError

_COMMANDS = {
    "bench": ("aegis.cli.bench", "Measure this installation; one JSON object a line."),
    "doctor": ("aegis.cli.doctor", "Check the configuration and say what to do."),
    "experiments": ("aegis.cli.experiments", "Run the fault experiments and write a report."),
    "init": ("aegis.cli.init", "Start a project in this folder."),
    "migrate": ("aegis.cli.migrate", "Bring the database to this release's schema."),
    "run": ("aegis.cli.run", "Create a task, follow it and print the cited answer."),
    "serve": ("aegis.cli.serve", "Serve the HTTP API and work on tasks."),
    "task": ("aegis.cli.task", "List, show, cancel or follow tasks."),
}

EXIT_USAGE = 2


class _Lazy(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Return one command, imported now."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_COMMANDS[cmd_name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in sorted(_COMMANDS)])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(aegis.__version__, prog_name="aegis")
def program() -> None:
    """Aegis: a self-hosted runtime for production AI agents."""


def main(*arguments: str) -> Any:
    """Run the program; our own errors become one line on stderr and status 2."""
    try:
        return program(args=list(arguments) or None, prog_name="aegis")
    except AegisError as error:
        click.echo(f"aegis: {error.code}: {error}", err=True)
        sys.exit(EXIT_USAGE)
