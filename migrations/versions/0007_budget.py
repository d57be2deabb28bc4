"""Privacy budgets, their spendings, and releases without classes.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_ADDED = ("epsilon", "neighbours", "budget")


def upgrade() -> None:
    """Create the tables, which only their owner may use; figures of classes may be NULL."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    uuid: sa.types.TypeEngine = postgresql.UUID() if on_postgresql else sa.Text()
    moment: sa.types.TypeEngine = sa.TIMESTAMP(timezone=True) if on_postgresql else sa.Text()
    # SQLAlchemy's own type warns on SQLite, where a number is no decimal.
    amount, text = sa.Numeric(), sa.Text()
    op.create_table(
        f"{prefix}budget",
        sa.Column("name", text, primary_key=True),
        sa.Column("source", text, nullable=False),
        sa.Column("unit", text, nullable=False),
        sa.Column("entity", text),
        sa.Column("epsilon_total", amount, nullable=False),
        sa.Column("spent", amount, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("created_by", text),
        sa.Column("raises", text),
        sa.Column("closed", sa.Integer(), nullable=False),
        sa.UniqueConstraint("source", "unit", "closed", name="budget_one_open"),
        sa.CheckConstraint(
            "epsilon_total > 0 AND epsilon_total <= 1000000", name="budget_total_of_use"
        ),
        sa.CheckConstraint("spent >= 0 AND spent <= epsilon_total", name="budget_not_overspent"),
        schema=schema,
    )
    op.create_table(
        f"{prefix}spending",
        sa.Column("spending_id", uuid, primary_key=True),
        sa.Column("budget", text, nullable=False),
        sa.Column("release_id", uuid),
        sa.Column("epsilon", amount, nullable=False),
        sa.Column("state", text, nullable=False),
        sa.Column("spent_at", moment, nullable=False),
        sa.Column("spent_by", text),
        sa.CheckConstraint("epsilon > 0 AND epsilon <= 1000000", name="spending_only_adds"),
        schema=schema,
    )
    if on_postgresql:
        op.execute("REVOKE ALL ON dbanon.budget, dbanon.spending FROM PUBLIC")
    release = f"{prefix}release"
    for name, kind in zip(_ADDED, (amount, text, text), strict=True):
        op.add_column(release, sa.Column(name, kind), schema=schema)
    _of_classes(nullable=True)


def downgrade() -> None:
    """Drop them; a ledger with releases that have no classes keeps its columns as they are."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    schema, prefix = ("dbanon", "") if on_postgresql else (None, "dbanon_")
    for name in reversed(_ADDED):
        op.drop_column(f"{prefix}release", name, schema=schema)
    _of_classes(nullable=False)
    for name in ("spending", "budget"):
        op.drop_table(f"{prefix}{name}", schema=schema)


def _of_classes(*, nullable: bool) -> None:
    """Set whether figures of classes and losses may be NULL."""
    on_postgresql = op.get_bind().dialect.name == "postgresql"
    big, json = sa.BigInteger(), postgresql.JSONB() if on_postgresql else sa.Text()
    double: sa.types.TypeEngine = sa.Double() if on_postgresql else sa.REAL()
    kinds: dict[str, sa.types.TypeEngine] = {
        "k_requested": sa.Integer(),
        "k_achieved": big,
        "classes": big,
        "smallest_class": big,
        "median_class": double,
        "largest_class": big,
        "histogram": json,
        "information_loss": double,
        "information_loss_before_rounding": double,
    }
    if on_postgresql:
        for name, kind in kinds.items():
            op.alter_column("release", name, existing_type=kind, nullable=nullable, schema="dbanon")
        return
    # SQLite makes the table anew for that.
    with op.batch_alter_table("dbanon_release") as table:
        for name, kind in kinds.items():
            table.alter_column(name, existing_type=kind, nullable=nullable)
