"""Runs migrations over the connection, and in the transaction, that `codemojex.store.migrate` has opened."""

from alembic import context

from codemojex.store.tables import Tables

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Tables.metadata,
    render_as_batch=True,  # SQLite changes a table by rebuilding it
)
with context.begin_transaction():
    context.run_migrations()
