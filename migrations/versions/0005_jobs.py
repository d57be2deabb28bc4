"""Which job of a file a run was, the types of its source, and a fingerprint of what it read.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COLUMNS = ("job", "source_types", "fingerprint")


def upgrade() -> None:
    """Add the columns; nothing is known of the runs that are there."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name in _COLUMNS:
        kind = JSONB() if on_postgresql and name == "source_types" else sa.Text()
        op.add_column(_table(on_postgresql), sa.Column(name, kind), schema=_schema(on_postgresql))


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name in _COLUMNS:
        op.drop_column(_table(on_postgresql), name, schema=_schema(on_postgresql))


def _table(on_postgresql: bool) -> str:
    return "run" if on_postgresql else "dbanon_run"


def _schema(on_postgresql: bool) -> str | None:
    return "dbanon" if on_postgresql else None
