"""Alembic's entry: runs the history on the connection that the caller hands over."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
postgresql = connection.dialect.name == "postgresql"

if postgresql:
    # Alembic makes its version table before the first revision runs.
    # Not IF NOT EXISTS: that asks for the right to create schemas even when there is nothing to do.
    existing_schema = connection.exec_driver_sql(
        "SELECT 1 FROM pg_namespace WHERE nspname = 'dbanon'"
    )
    if existing_schema.first() is None:
        connection.exec_driver_sql('CREATE SCHEMA "dbanon"')

context.configure(
    connection=connection,
    version_table="alembic_version" if postgresql else "dbanon_alembic_version",
    version_table_schema="dbanon" if postgresql else None,
)

with context.begin_transaction():
    context.run_migrations()
