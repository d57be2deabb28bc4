"""Rules record the owner of their table and who declared them; each owner has rules of its own.

Revision ID: 0012
Revises: 0011
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from dbanon.ledger.postgresql_rules import build_rule_oids_update

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEY = ("source", "name", "owner_oid", "relation_oid")


def upgrade() -> None:
    """Add the columns. On PostgreSQL record the owner where the old rules tell who it is."""
    if op.get_bind().dialect.name != "postgresql":
        _make_anew(_columns(oids_required=True), _KEY)
        return
    for column in _columns(oids_required=False)[6:]:
        op.add_column("rule", column, schema="dbanon")
    op.execute("UPDATE dbanon.rule SET owner_oid = 0, relation_oid = coalesce(relation_oid, 0)")
    _use_key(_KEY, oids_required=True)
    op.get_bind().exec_driver_sql(build_rule_oids_update())


def downgrade() -> None:
    """Drop the columns, and of several rules of a column all but the newest."""
    if op.get_bind().dialect.name != "postgresql":
        _make_anew(_columns(oids_required=False)[:6], _KEY[:2])
        return
    op.execute(
        "DELETE FROM dbanon.rule AS k WHERE EXISTS (SELECT FROM dbanon.rule AS o"
        " WHERE o.source = k.source AND o.name = k.name"
        " AND (o.declared_at, o.owner_oid, o.relation_oid)"
        " > (k.declared_at, k.owner_oid, k.relation_oid))"
    )
    _use_key(_KEY[:2], oids_required=False)
    for column in reversed(_columns(oids_required=False)[6:]):
        op.drop_column("rule", column.name, schema="dbanon")


def _columns(*, oids_required: bool) -> list[sa.Column[Any]]:
    text, big = sa.Text(), sa.BigInteger()
    return [
        *(sa.Column(name, text, nullable=False) for name in ("source", "name", "rule")),
        sa.Column("declared_at", text, nullable=False),
        sa.Column("declared_by", text),
        sa.Column("relation_oid", big, nullable=not oids_required),
        sa.Column("owner_oid", big, nullable=not oids_required),
        sa.Column("owner", text),
        sa.Column("declarer_oid", big),
        sa.Column("ledger_oid", big),
    ]


def _use_key(key: tuple[str, ...], *, oids_required: bool) -> None:
    """Make the columns the primary key on PostgreSQL."""
    op.drop_constraint("rule_pkey", "rule", schema="dbanon")
    for name in ("owner_oid", "relation_oid"):
        op.alter_column("rule", name, nullable=not oids_required, schema="dbanon")
    op.create_primary_key("rule_pkey", "rule", list(key), schema="dbanon")


def _make_anew(columns: list[sa.Column[Any]], key: tuple[str, ...]) -> None:
    """Make the table of SQLite anew, which changes no primary key, with the rules it has."""
    op.create_table("dbanon_rule_anew", *columns, sa.PrimaryKeyConstraint(*key))
    op.execute(
        "INSERT INTO dbanon_rule_anew (source, name, rule, declared_at, declared_by, relation_oid,"
        " owner_oid) SELECT source, name, rule, declared_at, declared_by, 0, 0 FROM dbanon_rule"
        if "owner_oid" in key
        else "INSERT INTO dbanon_rule_anew (source, name, rule, declared_at, declared_by)"
        " SELECT source, name, rule, declared_at, declared_by FROM dbanon_rule"
    )
    op.drop_table("dbanon_rule")
    op.rename_table("dbanon_rule_anew", "dbanon_rule")
