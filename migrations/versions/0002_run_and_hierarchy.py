"""Runs inside the database, and hierarchies.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = ("run", "hierarchy", "hierarchy_node")


def upgrade() -> None:
    """Create ``run``, ``hierarchy`` and ``hierarchy_node``; only their owner may use them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    uuid: sa.types.TypeEngine = postgresql.UUID() if on_postgresql else sa.Text()
    double: sa.types.TypeEngine = sa.Double() if on_postgresql else sa.REAL()
    moment: sa.types.TypeEngine = sa.TIMESTAMP(timezone=True) if on_postgresql else sa.Text()
    schema = "dbanon" if on_postgresql else None
    prefix = "" if on_postgresql else "dbanon_"

    op.create_table(
        f"{prefix}run",
        sa.Column("run_id", uuid, primary_key=True),
        sa.Column("release_id", uuid),
        sa.Column("door", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("output_schema", sa.Text()),
        sa.Column("output_name", sa.Text(), nullable=False),
        sa.Column("started_at", moment, nullable=False),
        sa.Column("finished_at", moment),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error_code", sa.Text()),
        sa.Column("run_by", sa.Text()),
        sa.Column("application", sa.Text()),
        sa.Column("server_version", sa.Text()),
        schema=schema,
    )
    op.create_table(
        f"{prefix}hierarchy",
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("description", sa.Text()),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("created_by", sa.Text()),
        schema=schema,
    )
    op.create_table(
        f"{prefix}hierarchy_node",
        sa.Column("hierarchy", sa.Text(), primary_key=True),
        sa.Column("node", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("parent", sa.Integer()),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("low", double),
        sa.Column("high", double),
        schema=schema,
    )
    if on_postgresql:
        names = ", ".join(f"dbanon.{table}" for table in TABLES)
        op.execute(f"REVOKE ALL ON {names} FROM PUBLIC")


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for table in reversed(TABLES):
        op.drop_table(
            table if on_postgresql else f"dbanon_{table}",
            schema="dbanon" if on_postgresql else None,
        )
