"""Which relation a release is: its oids on PostgreSQL, and a digest of its rows.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

COLUMNS = (
    ("relation_oid", sa.BigInteger()),
    ("output_oid", sa.BigInteger()),
    ("digest", sa.Text()),
)

# Entries whose relations have their mark and name, and belong to whoever published them.
_TIE = """
UPDATE dbanon.release AS r
SET relation_oid = t.relation_oid, output_oid = t.output_oid
FROM (
    SELECT e.release_id, c.oid::bigint AS relation_oid, o.oid::bigint AS output_oid
    FROM dbanon.release AS e
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = e.output_schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = e.relation_name
        AND c.relkind = 'r'
    JOIN pg_catalog.pg_roles AS owner ON owner.oid = c.relowner AND owner.rolname = e.published_by
    LEFT JOIN pg_catalog.pg_class AS o ON o.relnamespace = n.oid AND o.relname = e.output_name
        AND o.relkind = CASE e.output_kind WHEN 'view' THEN 'v' ELSE 'r' END
        AND o.relowner = c.relowner
        AND pg_catalog.obj_description(o.oid, 'pg_class') = 'dbanon release ' || e.release_id
    WHERE pg_catalog.obj_description(c.oid, 'pg_class') = 'dbanon release ' || e.release_id
) AS t
WHERE r.release_id = t.release_id
  AND (r.relation_oid, r.output_oid) IS DISTINCT FROM (t.relation_oid, t.output_oid)"""


def upgrade() -> None:
    """Add the columns; tie existing releases to their relations if these can be identified."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, kind in COLUMNS:
        op.add_column(
            "release" if on_postgresql else "dbanon_release",
            sa.Column(name, kind),
            schema="dbanon" if on_postgresql else None,
        )
    if on_postgresql:
        op.get_bind().exec_driver_sql(_TIE)


def downgrade() -> None:
    """Drop them."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    for name, _ in reversed(COLUMNS):
        op.drop_column(
            "release" if on_postgresql else "dbanon_release",
            name,
            schema="dbanon" if on_postgresql else None,
        )
