"""Alembic's entry: `jobdb.migrate` hands it the connection."""

from alembic import context

from jobdb.models import Base

connection = context.config.attributes["connection"]
# SQLite cannot alter most of a table in place: batch mode copies it.
context.configure(connection=connection, target_metadata=Base.metadata, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
