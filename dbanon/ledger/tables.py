"""The tables of the ledger, their columns, and what an entry says.

The columns are the same on every database; only the names of their types differ. ``ledger_ddl``
makes them where there are none. An older ledger is brought to this version by the Alembic history
in ``migrations/`` on PostgreSQL and SQLite, and by ``ledger_ddl`` on DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dbanon.job.guarantee import Guarantee
from dbanon.sessions.names import RelationName, quote

if TYPE_CHECKING:
    from dbanon.sessions.interface import SessionInterface

LEDGER_SCHEMA = "dbanon"

# Column, type, nullable. Types are words of our own; each dialect translates them.
RELEASE_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("release_id", "uuid", False),
    ("created_at", "timestamp", False),
    ("dbanon_version", "text", False),
    ("source", "text", False),
    ("output_schema", "text", True),
    ("output_name", "text", False),
    ("output_kind", "text", False),
    ("relation_name", "text", False),
    ("method", "text", False),
    ("arguments", "json", False),
    ("k_requested", "integer", True),
    ("k_achieved", "bigint", True),
    ("rows_in", "bigint", False),
    ("rows_out", "bigint", False),
    ("suppressed", "bigint", False),
    ("null_rows", "bigint", False),
    ("classes", "bigint", True),
    ("smallest_class", "bigint", True),
    ("median_class", "double", True),
    ("largest_class", "bigint", True),
    ("histogram", "json", True),
    ("information_loss", "double", True),
    ("information_loss_before_rounding", "double", True),
    ("seconds", "json", False),
    ("guarantee", "text", False),
    ("seed_policy", "text", False),
    ("earlier_releases", "text", False),
    ("published_by", "text", True),
    ("superseded_at", "timestamp", True),
    # PostgreSQL's numbers of the released table, and of the relation that readers use (the view, or
    # the same table): a copied mark does not copy them.
    ("relation_oid", "bigint", True),
    ("output_oid", "bigint", True),
    # Of the rows as they were written, whatever their order is.
    ("digest", "text", True),
    # What the release lost and still risks, where that was asked for.
    ("evaluation", "json", True),
    # The chain that it belongs to, by its identity, and which of the chain's releases it is.
    ("chain_id", "uuid", True),
    ("chain_sequence", "integer", True),
    # Of a release that is differentially private, which has no classes: what it spent of which
    # budget, and what one of is protected, ``row`` or ``person``.
    ("epsilon", "amount", True),
    ("neighbours", "text", True),
    ("budget", "text", True),
)

RELEASE_COLUMN_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("release_id", "uuid", False),
    ("position", "integer", False),
    ("name", "text", False),
    ("role", "text", False),
    ("sql_type", "text", False),
    ("information_loss", "double", True),
    ("information_loss_before_rounding", "double", True),
)

# One row a run: with its release where it made one, afterwards where a client's run failed.
RUN_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("run_id", "uuid", False),
    ("release_id", "uuid", True),
    ("door", "text", False),
    ("method", "text", False),
    ("source", "text", False),
    ("output_schema", "text", True),
    ("output_name", "text", False),
    ("started_at", "timestamp", False),
    ("finished_at", "timestamp", True),
    ("state", "text", False),
    ("error_code", "text", True),
    ("run_by", "text", True),
    ("application", "text", True),
    ("server_version", "text", True),
    # Of a job of a file: its name, the types of the columns it found, and a digest of what it read
    # and how, by which the next run may find that there is nothing to do.
    ("job", "text", True),
    ("source_types", "json", True),
    ("fingerprint", "text", True),
)

# Generalization trees: a name each, and the nodes, of which the root has no parent.
HIERARCHY_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "text", False),
    ("kind", "text", False),
    ("description", "text", True),
    ("created_at", "timestamp", False),
    ("created_by", "text", True),
)

HIERARCHY_NODE_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("hierarchy", "text", False),
    ("node", "integer", False),
    ("parent", "integer", True),
    ("label", "text", False),
    ("low", "double", True),
    ("high", "double", True),
)

# Chains, in the database that they read: who made each, of what, by which rules. Its key is kept
# elsewhere; ``key_check`` tells whether a key is the one. ``identity`` is what releases name.
CHAIN_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "text", False),
    ("chain_id", "integer", False),
    ("identity", "uuid", False),
    ("created_at", "timestamp", False),
    ("created_by", "text", True),
    ("source", "text", False),
    ("entity", "text", False),
    ("rules", "json", False),
    ("key_check", "bytes", False),
    ("sequence", "integer", False),
    ("closed_at", "timestamp", True),
)

# What the first release was made by, with its measures: all later ones are made by the same.
CHAIN_DEFINITION_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("chain_id", "integer", False),
    ("k", "integer", False),
    ("definition", "json", False),
)

# A cell is a class as it was admitted; its values stand in a table of the chain's own.
CHAIN_CELL_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("chain_id", "integer", False),
    ("cell", "integer", False),
    ("state", "text", False),
    ("since_release", "integer", False),
)

# Persons under keyed tags, with their history: their cell, and the release they left it with.
CHAIN_MEMBER_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("chain_id", "integer", False),
    ("tag", "bytes", False),
    ("cell", "integer", False),
    ("left_at_release", "integer", True),
)

# One row a release. It counts as published whether or not that was confirmed.
CHAIN_RELEASE_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("chain_id", "integer", False),
    ("sequence", "integer", False),
    ("release_id", "uuid", False),
    ("created_at", "timestamp", False),
    ("confirmed_at", "timestamp", True),
    ("counts", "json", False),
)

# What may be spent on a source, and what is. Rows are written by the ledger's owner alone, and
# ``spent`` only grows. A larger total is another row, which closes the one it raises: ``closed`` is
# 0 of the one that is open, else how many there were before.
BUDGET_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("name", "text", False),
    ("source", "text", False),
    ("unit", "text", False),
    ("entity", "text", True),
    ("epsilon_total", "amount", False),
    ("spent", "amount", False),
    ("created_at", "timestamp", False),
    ("created_by", "text", True),
    ("raises", "text", True),
    ("closed", "integer", False),
)

# One row each time, committed before any noise is drawn. ``spent``: nothing came of it (yet);
# ``published``: the release is there.
SPENDING_COLUMNS: tuple[tuple[str, str, bool], ...] = (
    ("spending_id", "uuid", False),
    ("budget", "text", False),
    ("release_id", "uuid", True),
    ("epsilon", "amount", False),
    ("state", "text", False),
    ("spent_at", "timestamp", False),
    ("spent_by", "text", True),
)

# Columns and primary key of each table.
TABLES: dict[str, tuple[tuple[tuple[str, str, bool], ...], tuple[str, ...]]] = {
    "release": (RELEASE_COLUMNS, ("release_id",)),
    "release_column": (RELEASE_COLUMN_COLUMNS, ("release_id", "position")),
    "run": (RUN_COLUMNS, ("run_id",)),
    "hierarchy": (HIERARCHY_COLUMNS, ("name",)),
    "hierarchy_node": (HIERARCHY_NODE_COLUMNS, ("hierarchy", "node")),
    "chain": (CHAIN_COLUMNS, ("name",)),
    "chain_definition": (CHAIN_DEFINITION_COLUMNS, ("chain_id",)),
    "chain_cell": (CHAIN_CELL_COLUMNS, ("chain_id", "cell")),
    "chain_member": (CHAIN_MEMBER_COLUMNS, ("chain_id", "tag")),
    "chain_release": (CHAIN_RELEASE_COLUMNS, ("chain_id", "sequence")),
    "budget": (BUDGET_COLUMNS, ("name",)),
    "spending": (SPENDING_COLUMNS, ("spending_id",)),
}

# What else holds of a table's rows, by name. NaN is above all numbers where there is one.
UNIQUE = {"budget": {"budget_one_open": "source, unit, closed"}}
CHECKS = {
    "budget": {
        "budget_total_of_use": "epsilon_total > 0 AND epsilon_total <= 1000000",
        "budget_not_overspent": "spent >= 0 AND spent <= epsilon_total",
    },
    "spending": {"spending_only_adds": "epsilon > 0 AND epsilon <= 1000000"},
}

# Columns that had to have a value until releases without classes came, and with them this column.
_OF_CLASSES = ("k_requested", "k_achieved", "classes", "smallest_class", "median_class",
               "largest_class", "histogram", "information_loss",
               "information_loss_before_rounding")  # fmt: skip
_CAME_WITHOUT = "epsilon"

# Columns that earlier versions had, and never used.
DROPPED = {"release": ("class_signature", "entity_hash")}

# The newest revision in migrations/, and the table in which Alembic keeps it.
HEAD = "0007"
VERSION_TABLE = "alembic_version"


def ledger_ddl(
    types: Mapping[str, str],
    name_of: Callable[[str], RelationName],
    existing: Mapping[str, Sequence[str]],
) -> list[str]:
    """Statements that make the ledger, or bring it to this version in a dialect without Alembic.

    Parameters
    ----------
    existing : the columns of each table that is there already. What a later version added to a
        table can be NULL.
    """
    statements = []
    for table, (columns, key) in TABLES.items():
        relation = name_of(table)
        if table in existing:
            statements += [
                f"ALTER TABLE {relation.quoted} ADD COLUMN {quote(name)} {types[kind]}"
                for name, kind, _ in columns
                if name not in existing[table]
            ]
            statements += [
                f"ALTER TABLE {relation.quoted} DROP COLUMN {quote(name)}"
                for name in DROPPED.get(table, ())
                if name in existing[table]
            ]
            if table == "release" and _CAME_WITHOUT not in existing[table]:
                statements += [
                    f"ALTER TABLE {relation.quoted} ALTER COLUMN {quote(name)} DROP NOT NULL"
                    for name in _OF_CLASSES
                ]
            continue
        lines = [
            f"{quote(name)} {types[kind]}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in columns
        ]
        lines.append("PRIMARY KEY (" + ", ".join(map(quote, key)) + ")")
        lines += [
            f"CONSTRAINT {name} UNIQUE ({unique})" for name, unique in UNIQUE.get(table, {}).items()
        ]
        lines += [
            f"CONSTRAINT {name} CHECK ({held})" for name, held in CHECKS.get(table, {}).items()
        ]
        statements.append(f"CREATE TABLE {relation.quoted} (\n  " + ",\n  ".join(lines) + "\n)")
    return statements


def ledger_is_current(session: SessionInterface) -> bool:
    """True when the ledger, of a dialect with Alembic, is of this version."""
    version = session.ledger_name(VERSION_TABLE)
    if session.find_existing(version) is None:
        return False
    return session.rows(f"SELECT version_num FROM {version.quoted}") == [(HEAD,)]


@dataclass(frozen=True)
class LedgerEntry:
    """What the ledger has of a release.

    Parameters
    ----------
    name : of its output.
    quasi_identifiers : the released ones, with the strata, in the order of their columns.
    histogram : how many classes there were of each size, as text.
    guarantee : what was counted of it.
    sentence : the guarantee in words, as they were recorded.
    entity : the column whose values k counted; None for rows.
    models, hierarchies : as in the arguments that were recorded.
    epsilon : of a release that is differentially private; it has no classes, and k is 0.
    rows : how many it has.
    between : of such a release, by column: the least and the largest value it may have, as SQL
        spells them; empty for truths and for listed values.
    listed : of such a release, by column of listed values: all that they may be.
    """

    release_id: str
    name: RelationName
    quasi_identifiers: tuple[str, ...]
    k_requested: int
    histogram: Mapping[str, int]
    guarantee: Guarantee
    sentence: str
    entity: str | None
    models: Sequence[Mapping[str, Any]]
    hierarchies: Mapping[str, Mapping[str, Any]]
    epsilon: float | None = None
    rows: int = 0
    between: Mapping[str, Sequence[str]] = field(default_factory=dict)
    listed: Mapping[str, Sequence[str]] = field(default_factory=dict)
