"""The tables of the ledger, their columns, and what an entry says.

The columns are the same on every database; only the names of their types differ. ``ledger_ddl``
makes them where there are none. An older ledger is brought to this version by the Alembic history
in ``migrations/`` on PostgreSQL and SQLite, and by ``ledger_ddl`` on DuckDB and MariaDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dbanon.data.frozen import dataclass
from dbanon.job.guarantee import Guarantee
from dbanon.sessions.names import RelationName, quote

if TYPE_CHECKING:
    from dbanon.sessions.interface import SessionInterface

LEDGER_SCHEMA = "dbanon"

# Name, type, nullable. Types are words of our own; each dialect translates them.
Columns = tuple[tuple[str, str, bool], ...]


def _columns(*described: str) -> Columns:
    """Columns as ``name type`` each; the type of one that may be NULL ends with ``?``."""
    words = (one.split() for line in described for one in line.split(","))
    return tuple((name, kind.rstrip("?"), kind.endswith("?")) for name, kind in words)


RELEASE_COLUMNS = _columns(
    "release_id uuid, created_at timestamp, dbanon_version text",
    "source text, output_schema text?, output_name text, output_kind text, relation_name text",
    "method text, arguments json, k_requested integer?, k_achieved bigint?",
    "rows_in bigint, rows_out bigint, suppressed bigint, null_rows bigint",
    "classes bigint?, smallest_class bigint?, median_class double?, largest_class bigint?",
    "histogram json?, information_loss double?, information_loss_before_rounding double?",
    "seconds json, guarantee text, seed_policy text, earlier_releases text",
    "published_by text?, superseded_at timestamp?",
    # PostgreSQL's numbers of the released table, and of the relation that readers use (the view, or
    # the same table): a copied mark does not copy them.
    "relation_oid bigint?, output_oid bigint?",
    # Of the rows as they were written, whatever their order is.
    "digest text?",
    # What the release lost and still risks, where that was asked for.
    "evaluation json?",
    # The chain that it belongs to, by its identity, and which of the chain's releases it is.
    "chain_id uuid?, chain_sequence integer?",
    # Of a release that is differentially private, which has no classes: what it spent of which
    # budget, and what one of is protected, ``row`` or ``person``.
    "epsilon amount?, neighbours text?, budget text?",
    # What was asked for and of which source, as plain values, by which it can be made again.
    "request json?",
    # Of a private release: with which delta epsilon holds, and what was charged to a budget of rho.
    "delta double?, rho amount?",
    # PostgreSQL's numbers of the owner of these relations, and of the role that published. They and
    # the numbers of relations count in the database where ``ledger_oid`` is that of this table.
    "owner_oid bigint?, publisher_oid bigint?, ledger_oid bigint?",
    # PostgreSQL's numbers of the source and of its owner, if the role that published could read a
    # relation of this name: NULL otherwise, and 0 in entries of earlier versions. ``person_salt``:
    # what the persons in ``release_person`` are hashed with, where the release has rows there.
    "source_oid bigint?, source_owner_oid bigint?, person_salt text?",
)

INTERNAL_TABLE, INTERNAL_COLUMNS = "release_internal", ("release_id", "internal")

# Columns and primary key of each table.
TABLES: dict[str, tuple[Columns, tuple[str, ...]]] = {
    "release": (RELEASE_COLUMNS, ("release_id",)),
    "release_column": (
        _columns(
            "release_id uuid, position integer, name text, role text, sql_type text",
            "information_loss double?, information_loss_before_rounding double?",
        ),
        ("release_id", "position"),
    ),
    # The persons of a release that counts them, under salted hashes, each beside a number of its
    # class: by these records joint histories are counted. A row packs many of both
    # (``person_record``). On PostgreSQL nobody reads them where dbanon is installed.
    "release_person": (
        _columns("release_id uuid, part integer, persons bytes"),
        ("release_id", "part"),
    ),
    # The exact figures of releases whose source is in this database, for those who ran them. They
    # contain the extremes of the originals: no grant on other tables lets anybody read them.
    INTERNAL_TABLE: (_columns("release_id uuid, internal json"), ("release_id",)),
    # One row a run: with its release where it made one, afterwards where a client's run failed.
    "run": (
        _columns(
            "run_id uuid, release_id uuid?, door text, method text",
            "source text, output_schema text?, output_name text",
            "started_at timestamp, finished_at timestamp?, state text, error_code text?",
            "run_by text?, application text?, server_version text?",
            # Of a job of a file: its name, the types of the columns it found, and a digest of what
            # it read and how, by which the next run may find that there is nothing to do. The
            # counts of the source are those that the next run is compared with.
            "job text?, source_types json?, fingerprint text?, source_counts json?",
        ),
        ("run_id",),
    ),
    # Generalization trees: a name each, and the nodes, of which the root has no parent.
    "hierarchy": (
        _columns("name text, kind text, description text?, created_at timestamp, created_by text?"),
        ("name",),
    ),
    "hierarchy_node": (
        _columns(
            "hierarchy text, node integer, parent integer?, label text, low double?, high double?"
        ),
        ("hierarchy", "node"),
    ),
    # Chains, in the database that they read: who made each, of what, by which rules. Its key is
    # kept elsewhere; ``key_check`` tells whether a key is the one. ``identity`` is what releases
    # name.
    "chain": (
        _columns(
            "name text, chain_id integer, identity uuid, created_at timestamp, created_by text?",
            "source text, entity text, rules json, key_check bytes",
            "sequence integer, closed_at timestamp?",
        ),
        ("name",),
    ),
    # What the first release was made by, with its measures: all later ones are made by the same.
    "chain_definition": (
        _columns("chain_id integer, k integer, definition json"),
        ("chain_id",),
    ),
    # A cell is a class as it was admitted; its values stand in a table of the own. ``loose``, of
    # earlier builds: how many of its rows may have changed while some of its persons were out.
    "chain_cell": (
        _columns(
            "chain_id integer, cell integer, state text, since_release integer", "loose integer?"
        ),
        ("chain_id", "cell"),
    ),
    # Persons under keyed tags, with their history: their cell, and the release they left it with.
    # ``missed``: the last release at which they were out; ``excluded_rows``: how many rows of the
    # cell cannot be theirs, at most, because they changed while they were out. It never falls.
    "chain_member": (
        _columns(
            "chain_id integer, tag bytes, cell integer, left_at_release integer?",
            "missed integer?, excluded_rows integer?",
        ),
        ("chain_id", "tag"),
    ),
    # Newcomers who are in no cell yet, with the release at which they were in the source first.
    "chain_waiting": (
        _columns("chain_id integer, tag bytes, since_release integer"),
        ("chain_id", "tag"),
    ),
    # One row a release. It counts as published whether or not that was confirmed.
    "chain_release": (
        _columns(
            "chain_id integer, sequence integer, release_id uuid",
            "created_at timestamp, confirmed_at timestamp?, counts json",
        ),
        ("chain_id", "sequence"),
    ),
    # What the columns of tables are, as their owners declared it. On PostgreSQL each owner has
    # rules of its own: the oids of the table, of its owner and of the role that declared tell
    # whether they count. The oids hold in the database where ``ledger_oid`` is the oid of this
    # table; it is NULL in rules of earlier versions. Elsewhere there are no oids: they are 0.
    "rule": (
        _columns(
            "source text, name text, rule json, declared_at timestamp, declared_by text?",
            "relation_oid bigint, owner_oid bigint, owner text?, declarer_oid bigint?",
            "ledger_oid bigint?",
        ),
        ("source", "name", "owner_oid", "relation_oid"),
    ),
    # What may be spent on a source, and what is. Rows are written by the ledger's owner alone, and
    # ``spent`` only grows. A larger total is another row, which closes the one it raises:
    # ``closed`` is 0 of the one that is open, else how many there were before.
    "budget": (
        _columns(
            "name text, source text, unit text, entity text?, epsilon_total amount, spent amount",
            "created_at timestamp, created_by text?, raises text?, closed integer",
            # Where there is one, amounts are of rho, and mean an epsilon with this delta.
            "delta double?",
        ),
        ("name",),
    ),
    # One row each time, committed before any noise is drawn. ``spent``: nothing came of it (yet);
    # ``published``: the release is there.
    "spending": (
        _columns(
            "spending_id uuid, budget text, release_id uuid?, epsilon amount, state text",
            "spent_at timestamp, spent_by text?",
        ),
        ("spending_id",),
    ),
}

# As what types are read that not every client has.
# Of texts of any length: MariaDB casts to none without one.
LONG_TEXT = "VARCHAR(10000000)"
TEXTS = {"uuid": "VARCHAR(36)", "timestamp": "VARCHAR(40)", "amount": "VARCHAR(40)"}

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
HEAD = "0017"
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
        keyed = {*key, *", ".join(UNIQUE.get(table, {}).values()).split(", ")}
        lines = [
            f"{quote(name)} {_type_of(types, kind, name in keyed)}{'' if nullable else ' NOT NULL'}"
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


def _type_of(types: Mapping[str, str], kind: str, keyed: bool) -> str:
    """The type of a column; a dialect may have another one for keys, which need a length there."""
    return types.get(f"{kind} key", types[kind]) if keyed else types[kind]


def ledger_is_current(session: SessionInterface) -> bool:
    """True when the ledger, of a dialect with Alembic, is of this version."""
    version = session.ledger_name(VERSION_TABLE)
    if session.find_existing(version) is None:
        return False
    return session.rows(f"SELECT version_num FROM {version.quoted}") == [(HEAD,)]


def as_text(table: str, names: Iterable[str] | None = None) -> str:
    """SQL of columns of a table, or of all; as text what not every client has a type for."""
    kinds = {name: kind for name, kind, _ in TABLES[table][0]}
    return ", ".join(
        f"CAST({name} AS {TEXTS[kinds[name]]})" if kinds[name] in TEXTS else name
        for name in names or kinds
    )


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
