"""Alembic's entry: it takes the connection that the caller opened and locked."""

from alembic import context

from aegis.stores.sql.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    # The caller's transaction holds the lock from before the first look to after the last step.
    transactional_ddl=False,
)
context.run_migrations()
