"""Runs of jobs: the counts of their source, which the next run is compared with.

Revision ID: 0017
Revises: 0016
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column. Where it is NULL, a run is compared with the rows of its last release."""
    table, schema = _run()
    kind = sa.Text() if schema is None else postgresql.JSONB()
    op.add_column(table, sa.Column("source_counts", kind), schema=schema)


def downgrade() -> None:
    """Drop it."""
    table, schema = _run()
    op.drop_column(table, "source_counts", schema=schema)


def _run() -> tuple[str, str | None]:
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    return ("run", "dbanon") if on_postgresql else ("dbanon_run", None)
