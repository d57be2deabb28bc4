"""Exact figures of releases, for those who ran them: in a table that no one else may read.

Revision ID: 0016
Revises: 0015
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from dbanon.ledger.postgresql import REVOKE_INTERNAL

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table. Releases that were recorded before have no row in it."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    op.create_table(
        f"{prefix}release_internal",
        sa.Column("release_id", sa.Uuid() if on_postgresql else sa.Text(), nullable=False),
        sa.Column("internal", postgresql.JSONB() if on_postgresql else sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("release_id"),
        schema=schema,
    )
    if on_postgresql:
        op.get_bind().exec_driver_sql(REVOKE_INTERNAL)


def downgrade() -> None:
    """Drop it."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    op.drop_table(f"{prefix}release_internal", schema=schema)
