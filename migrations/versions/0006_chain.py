"""Chains: releases of the same persons that stay private together.

Columns of releases that were kept for them, and never used, go.

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KEYS = {
    "chain": ("name",),
    "chain_definition": ("chain_id",),
    "chain_cell": ("chain_id", "cell"),
    "chain_member": ("chain_id", "tag"),
    "chain_release": ("chain_id", "sequence"),
}
_NEVER_USED = ("class_signature", "entity_hash")


def upgrade() -> None:
    """Create the tables, which only their owner may use, and tie releases to chains."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    uuid: sa.types.TypeEngine = postgresql.UUID() if on_postgresql else sa.Text()
    json: sa.types.TypeEngine = postgresql.JSONB() if on_postgresql else sa.Text()
    moment: sa.types.TypeEngine = sa.TIMESTAMP(timezone=True) if on_postgresql else sa.Text()
    number, text, data = sa.Integer(), sa.Text(), sa.LargeBinary()
    tables: dict[str, list[tuple[str, sa.types.TypeEngine, bool]]] = {
        "chain": [
            ("name", text, False),
            ("chain_id", number, False),
            ("identity", uuid, False),
            ("created_at", moment, False),
            ("created_by", text, True),
            ("source", text, False),
            ("entity", text, False),
            ("rules", json, False),
            ("key_check", data, False),
            ("sequence", number, False),
            ("closed_at", moment, True),
        ],
        "chain_definition": [
            ("chain_id", number, False),
            ("k", number, False),
            ("definition", json, False),
        ],
        "chain_cell": [
            ("chain_id", number, False),
            ("cell", number, False),
            ("state", text, False),
            ("since_release", number, False),
        ],
        "chain_member": [
            ("chain_id", number, False),
            ("tag", data, False),
            ("cell", number, False),
            ("left_at_release", number, True),
        ],
        "chain_release": [
            ("chain_id", number, False),
            ("sequence", number, False),
            ("release_id", uuid, False),
            ("created_at", moment, False),
            ("confirmed_at", moment, True),
            ("counts", json, False),
        ],
    }
    for name, columns in tables.items():
        op.create_table(
            f"{prefix}{name}",
            *(
                sa.Column(
                    column,
                    kind,
                    nullable=nullable,
                    primary_key=column in _KEYS[name],
                    autoincrement=False,
                )
                for column, kind, nullable in columns
            ),
            schema=schema,
        )
        if on_postgresql:
            op.execute(f"REVOKE ALL ON dbanon.{name} FROM PUBLIC")
    release = f"{prefix}release"
    op.add_column(release, sa.Column("chain_id", uuid), schema=schema)
    op.add_column(release, sa.Column("chain_sequence", number), schema=schema)
    for name in _NEVER_USED:
        op.drop_column(release, name, schema=schema)


def downgrade() -> None:
    """Drop them; columns that were never used return empty."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    release = f"{prefix}release"
    for name in _NEVER_USED:
        op.add_column(release, sa.Column(name, sa.LargeBinary()), schema=schema)
    for name in ("chain_sequence", "chain_id"):
        op.drop_column(release, name, schema=schema)
    for name in reversed(_KEYS):
        op.drop_table(f"{prefix}{name}", schema=schema)
