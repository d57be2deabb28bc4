"""What a release lost and still risks, where that was asked for.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; releases that are there were not evaluated."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    op.add_column(
        "release" if on_postgresql else "dbanon_release",
        sa.Column("evaluation", JSONB() if on_postgresql else sa.Text()),
        schema="dbanon" if on_postgresql else None,
    )


def downgrade() -> None:
    """Drop it."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    op.drop_column(
        "release" if on_postgresql else "dbanon_release",
        "evaluation",
        schema="dbanon" if on_postgresql else None,
    )
