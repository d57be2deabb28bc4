"""Releases go by the oids of their relations and owners, in the database that recorded them.

Revision ID: 0013
Revises: 0012
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dbanon.ledger.postgresql_releases import RECORD_OIDS

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_COLUMNS = ("owner_oid", "publisher_oid", "ledger_oid")


def upgrade() -> None:
    """Add the columns. On PostgreSQL fill them where the relations are those that are recorded."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name in _COLUMNS:
        op.add_column(
            "release" if on_postgresql else "dbanon_release",
            sa.Column(name, sa.BigInteger()),
            schema="dbanon" if on_postgresql else None,
        )
    if on_postgresql:
        op.get_bind().exec_driver_sql(RECORD_OIDS)


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name in reversed(_COLUMNS):
        op.drop_column(
            "release" if on_postgresql else "dbanon_release",
            name,
            schema="dbanon" if on_postgresql else None,
        )
