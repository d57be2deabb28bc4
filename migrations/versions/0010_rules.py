"""Rules of tables, and what a release was asked for, by which it can be made again.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, which only its owner may use, and the column."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    json: sa.types.TypeEngine = postgresql.JSONB() if on_postgresql else sa.Text()
    moment: sa.types.TypeEngine = sa.TIMESTAMP(timezone=True) if on_postgresql else sa.Text()
    op.create_table(
        f"{prefix}rule",
        sa.Column("source", sa.Text(), primary_key=True),
        sa.Column("name", sa.Text(), primary_key=True),
        sa.Column("rule", json, nullable=False),
        sa.Column("declared_at", moment, nullable=False),
        sa.Column("declared_by", sa.Text()),
        sa.Column("relation_oid", sa.BigInteger()),
        schema=schema,
    )
    if on_postgresql:
        op.execute("REVOKE ALL ON dbanon.rule FROM PUBLIC")
    op.add_column(f"{prefix}release", sa.Column("request", json), schema=schema)


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    op.drop_column(f"{prefix}release", "request", schema=schema)
    op.drop_table(f"{prefix}rule", schema=schema)
