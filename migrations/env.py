"""Alembic's entry: runs the history on the connection that the caller hands over."""

from __future__ import annotations

from alembic import context

connection = context.config.attributes["connection"]
postgresql = connection.dialect.name == "postgresql"

if postgresql and not connection.dialect.has_schema(connection, "dbanon"):
    # Alembic makes its version table before the first revision runs. Even IF NOT EXISTS wants the
    # right to create schemas, which a role that only releases does not need.
    connection.exec_driver_sql('CREATE SCHEMA IF NOT EXISTS "dbanon"')

context.configure(
    connection=connection,
    version_table="alembic_version" if postgresql else "dbanon_alembic_version",
    version_table_schema="dbanon" if postgresql else None,
)

with context.begin_transaction():
    context.run_migrations()
