"""Newcomers of chains who wait to be admitted: since which release.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table: who waits already waits anew."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    op.create_table(
        f"{prefix}chain_waiting",
        sa.Column("chain_id", sa.Integer(), nullable=False),
        sa.Column("tag", sa.LargeBinary(), nullable=False),
        sa.Column("since_release", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("chain_id", "tag"),
        schema=schema,
    )
    if on_postgresql:
        op.execute("REVOKE ALL ON dbanon.chain_waiting FROM PUBLIC")


def downgrade() -> None:
    """Drop it."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    op.drop_table(f"{prefix}chain_waiting", schema=schema)
