"""`aegis init`: start a project."""

from pathlib import Path

import click

from aegis.bootstrap.projects import start_project


@click.command("init")
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
def command(folder: Path) -> None:
    """Write aegis.toml and a first tool into FOLDER. Never overwrites a file."""
    for line in start_project(folder):
        click.echo(line)
