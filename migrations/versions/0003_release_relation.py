"""Which relation a release is: its oids on PostgreSQL, and a digest of its rows.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dbanon.version import share_path

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = (
    ("relation_oid", sa.BigInteger()),
    ("output_oid", sa.BigInteger()),
    ("digest", sa.Text()),
)


def upgrade() -> None:
    """Add the columns; releases that are there are tied to their relations where it can be told."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, kind in COLUMNS:
        op.add_column(
            "release" if on_postgresql else "dbanon_release",
            sa.Column(name, kind),
            schema="dbanon" if on_postgresql else None,
        )
    if on_postgresql:
        op.get_bind().exec_driver_sql((share_path("sql") / "tie.sql").read_text())


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, _ in reversed(COLUMNS):
        op.drop_column(
            "release" if on_postgresql else "dbanon_release",
            name,
            schema="dbanon" if on_postgresql else None,
        )
