"""Alembic's environment: the connection is handed in by `corpus.catalog.database`."""

from alembic import context

from corpus.catalog.schema import metadata

connection = context.config.attributes["connection"]
context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
