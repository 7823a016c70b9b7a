"""Bring a database to the schema of this release."""

from aegis.settings import Settings


def migrate_database(settings: Settings) -> str:
    """Upgrade the configured database and return one sentence about it."""
    if settings.database is None:
        return "the memory store has no schema: nothing to do"
    from aegis.stores.sql.migrate import upgrade

    before, after = upgrade(settings.database)
    if before == after:
        return f"the database is at schema {after} already"
    return f"the database went from schema {before or 'none'} to {after}"
