"""Persons of chains who were out and are back: who was out, and how many rows may have changed.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ADDED = (("chain_cell", "loose"), ("chain_member", "missed"))


def upgrade() -> None:
    """Add the columns: of those who are out already nothing is known."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    for table, name in _ADDED:
        op.add_column(f"{prefix}{table}", sa.Column(name, sa.Integer()), schema=schema)


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    for table, name in reversed(_ADDED):
        op.drop_column(f"{prefix}{table}", name, schema=schema)
