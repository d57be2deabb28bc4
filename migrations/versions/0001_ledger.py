"""The ledger: releases and their columns.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create ``release`` and ``release_column``; only their owner may use them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    uuid: sa.types.TypeEngine = postgresql.UUID() if on_postgresql else sa.Text()
    json: sa.types.TypeEngine = postgresql.JSONB() if on_postgresql else sa.Text()
    double: sa.types.TypeEngine = sa.Double() if on_postgresql else sa.REAL()
    moment: sa.types.TypeEngine = sa.TIMESTAMP(timezone=True) if on_postgresql else sa.Text()
    schema = "dbanon" if on_postgresql else None
    prefix = "" if on_postgresql else "dbanon_"

    op.create_table(
        f"{prefix}release",
        sa.Column("release_id", uuid, primary_key=True),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("dbanon_version", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("output_schema", sa.Text()),
        sa.Column("output_name", sa.Text(), nullable=False),
        sa.Column("output_kind", sa.Text(), nullable=False),
        sa.Column("relation_name", sa.Text(), nullable=False),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("arguments", json, nullable=False),
        sa.Column("k_requested", sa.Integer(), nullable=False),
        sa.Column("k_achieved", sa.BigInteger(), nullable=False),
        sa.Column("rows_in", sa.BigInteger(), nullable=False),
        sa.Column("rows_out", sa.BigInteger(), nullable=False),
        sa.Column("suppressed", sa.BigInteger(), nullable=False),
        sa.Column("null_rows", sa.BigInteger(), nullable=False),
        sa.Column("classes", sa.BigInteger(), nullable=False),
        sa.Column("smallest_class", sa.BigInteger(), nullable=False),
        sa.Column("median_class", double, nullable=False),
        sa.Column("largest_class", sa.BigInteger(), nullable=False),
        sa.Column("histogram", json, nullable=False),
        sa.Column("information_loss", double, nullable=False),
        sa.Column("information_loss_before_rounding", double, nullable=False),
        sa.Column("seconds", json, nullable=False),
        sa.Column("guarantee", sa.Text(), nullable=False),
        sa.Column("seed_policy", sa.Text(), nullable=False),
        sa.Column("earlier_releases", sa.Text(), nullable=False),
        sa.Column("published_by", sa.Text()),
        sa.Column("superseded_at", moment),
        sa.Column("class_signature", sa.LargeBinary()),
        sa.Column("entity_hash", sa.LargeBinary()),
        schema=schema,
    )
    op.create_table(
        f"{prefix}release_column",
        sa.Column("release_id", uuid, primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("sql_type", sa.Text(), nullable=False),
        sa.Column("information_loss", double),
        sa.Column("information_loss_before_rounding", double),
        schema=schema,
    )
    if on_postgresql:
        op.execute("REVOKE ALL ON SCHEMA dbanon FROM PUBLIC")
        op.execute("REVOKE ALL ON dbanon.release, dbanon.release_column FROM PUBLIC")


def downgrade() -> None:
    """Drop the ledger."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema = "dbanon" if on_postgresql else None
    prefix = "" if on_postgresql else "dbanon_"
    op.drop_table(f"{prefix}release_column", schema=schema)
    op.drop_table(f"{prefix}release", schema=schema)
