"""`aegis migrate`: bring the database to the schema of this release."""

import os

import click

from aegis.bootstrap.migrating import migrate_database
from aegis.bootstrap.session import settings_of_process


@click.command("migrate")
def command() -> None:
    """Create the database, or upgrade it to this release's schema. Safe to run twice."""
    click.echo(migrate_database(settings_of_process(dict(os.environ))))
