"""Budgets of rho: with which delta epsilon is meant, and what a release charged.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_COLUMNS: tuple[tuple[str, str, type[sa.types.TypeEngine]], ...] = (
    ("release", "delta", sa.Double),
    ("release", "rho", sa.Numeric),
    ("budget", "delta", sa.Double),
)


def upgrade() -> None:
    """Add the columns."""
    schema, prefix = _schema_and_prefix()
    for table, name, kind in _COLUMNS:
        # As the tables of a new ledger have them.
        of_kind = sa.REAL() if kind is sa.Double and schema is None else kind()
        op.add_column(f"{prefix}{table}", sa.Column(name, of_kind), schema=schema)


def downgrade() -> None:
    """Drop them."""
    schema, prefix = _schema_and_prefix()
    for table, name, _ in _COLUMNS:
        op.drop_column(f"{prefix}{table}", name, schema=schema)


def _schema_and_prefix() -> tuple[str | None, str]:
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    return ("dbanon", "") if on_postgresql else (None, "dbanon_")
