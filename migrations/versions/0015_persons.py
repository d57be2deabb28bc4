"""Releases name their source by oid, and keep who was in which class, under salted hashes.

Revision ID: 0015
Revises: 0014
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from dbanon.ledger.postgresql import REVOKE_PERSONS

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and the table. Earlier entries do not say which relation they read."""
    release, person, schema = _tables()
    for name, kind in _columns():
        op.add_column(release, sa.Column(name, kind), schema=schema)
    if schema is None:
        uuid: sa.types.TypeEngine[object] = sa.Text()
    else:
        uuid = sa.Uuid()
        op.execute("UPDATE dbanon.release SET source_oid = 0")
    op.create_table(
        person,
        sa.Column("release_id", uuid, nullable=False),
        sa.Column("part", sa.Integer(), nullable=False),
        sa.Column("persons", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("release_id", "part"),
        schema=schema,
    )
    if schema is not None:
        op.execute("REVOKE ALL ON dbanon.release_person FROM PUBLIC")
        op.execute(REVOKE_PERSONS)


def downgrade() -> None:
    """Drop them."""
    release, person, schema = _tables()
    op.drop_table(person, schema=schema)
    for name, _ in reversed(_columns()):
        op.drop_column(release, name, schema=schema)


def _columns() -> list[tuple[str, sa.types.TypeEngine[object]]]:
    big = sa.BigInteger()
    return [("source_oid", big), ("source_owner_oid", big), ("person_salt", sa.Text())]


def _tables() -> tuple[str, str, str | None]:
    if op.get_bind().dialect.name == "postgresql":
        return "release", "release_person", "dbanon"
    return "dbanon_release", "dbanon_release_person", None
