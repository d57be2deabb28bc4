"""Persons of chains who were out and are back: how many rows of their cell cannot be theirs.

Revision ID: 0014
Revises: 0013
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Where it is NULL, the releases count as earlier builds recorded them."""
    table, schema = _member()
    op.add_column(table, sa.Column("excluded_rows", sa.Integer()), schema=schema)


def downgrade() -> None:
    """Drop it."""
    table, schema = _member()
    op.drop_column(table, "excluded_rows", schema=schema)


def _member() -> tuple[str, str | None]:
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    return ("chain_member", "dbanon") if on_postgresql else ("dbanon_chain_member", None)
