"""The tables and columns of the ledger, and the entry of a release.

Columns are the same on every database; only the type names differ. ``ledger_ddl`` creates a new
ledger. Older ledgers are migrated by Alembic (``migrations/``) on PostgreSQL and SQLite, and by
``ledger_ddl`` on DuckDB and MariaDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, TypeAlias

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.job.guarantee import Guarantee
from dbanon.sessions.names import RelationName, quote

if TYPE_CHECKING:
    from dbanon.sessions.connection import Connection
    from dbanon.sessions.ledger import Ledger

LEDGER_SCHEMA = "dbanon"

# A row of a table of the ledger: the values by column, whose types are those of the database.
LedgerRow: TypeAlias = dict[str, Any]

# For each column: its name, its abstract type (such as ``uuid``), and True if it is nullable. Each
# dialect translates the types.
Columns = tuple[tuple[str, str, bool], ...]


def _columns(*lines: str) -> Columns:
    """Parse columns written as ``name type, name type``; nullable ones end with ``?``."""
    words = (column.split() for line in lines for column in line.split(","))
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
    # PostgreSQL oids of the released table and of the relation that readers use (the view or the
    # same table). They identify a release, since its mark, a comment on the relation with the
    # release id, can be copied.
    "relation_oid bigint?, output_oid bigint?",
    # A digest of the written rows, independent of their order.
    "digest text?",
    # Information loss and remaining risk, if an evaluation was requested.
    "evaluation json?",
    # Identity of the release's chain, and the position of the release in it.
    "chain_id uuid?, chain_sequence integer?",
    # For differentially private releases, which have no classes: the amount spent, the protected
    # unit (``row`` or ``person``) and the budget.
    "epsilon amount?, neighbours text?, budget text?",
    # Options and source as plain values, from which the release can be repeated.
    "request json?",
    # For private releases: the delta of the guarantee, and the amount charged to a budget of rho.
    "delta double?, rho amount?",
    # PostgreSQL oids of the relations' owner and of the publishing role. All oids are valid only in
    # the database where ``ledger_oid`` is the oid of this table.
    "owner_oid bigint?, publisher_oid bigint?, ledger_oid bigint?",
    # PostgreSQL oids of the source and its owner, if the publisher could read a relation of this
    # name; NULL otherwise, and 0 in entries of earlier versions. ``person_salt`` is the salt of the
    # release's rows in ``release_person``, if any.
    "source_oid bigint?, source_owner_oid bigint?, person_salt text?",
)

# The table of exact figures, which are internal to the publisher of a release.
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
    # Salted hashes of the persons in a release with their class numbers, to count joint histories.
    # The bytes of a row are the records of many persons, each of ``person_record.PERSON_DTYPE``. On
    # PostgreSQL with dbanon's SQL functions, only the ledger's owner and superusers can read them.
    "release_person": (
        _columns("release_id uuid, part integer, persons bytes"),
        ("release_id", "part"),
    ),
    # Exact figures of releases whose source is in this database, for their publishers. They include
    # the extremes of the originals, so they are in a separate table with separate grants.
    INTERNAL_TABLE: (_columns("release_id uuid, internal json"), ("release_id",)),
    # One row per run. A successful run is written with its release, a failed one after its failure.
    "run": (
        _columns(
            "run_id uuid, release_id uuid?, door text, method text",
            "source text, output_schema text?, output_name text",
            "started_at timestamp, finished_at timestamp?, state text, error_code text?",
            "run_by text?, application text?, server_version text?",
            # For jobs of a job file: name, column types and counts of the source, with which the
            # next run compares its own, and a digest of input and options, from which the next run
            # can tell whether anything changed.
            "job text?, source_types json?, fingerprint text?, source_counts json?",
        ),
        ("run_id",),
    ),
    # Generalization hierarchies and their nodes; the root has no parent.
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
    # Chains, in the database of their source. The key is stored elsewhere; ``key_check`` verifies a
    # key. The tables of chains refer to a chain by its number ``chain_id``, and the table of
    # releases, whose column has the same name, by its ``identity``. ``rules`` are the settings of
    # the chain itself, not rules about columns.
    "chain": (
        _columns(
            "name text, chain_id integer, identity uuid, created_at timestamp, created_by text?",
            "source text, entity text, rules json, key_check bytes",
            "sequence integer, closed_at timestamp?",
        ),
        ("name",),
    ),
    # The definition of the first release, with its measures, which all later ones reuse.
    "chain_definition": (
        _columns("chain_id integer, k integer, definition json"),
        ("chain_id",),
    ),
    # A cell is a lasting class of a chain: persons who were admitted together. Its released values
    # are in a separate table. ``loose``, which only earlier builds wrote: how many of its rows may
    # have changed while some of its persons were absent.
    "chain_cell": (
        _columns(
            "chain_id integer, cell integer, state text, since_release integer", "loose integer?"
        ),
        ("chain_id", "cell"),
    ),
    # Persons under keyed tags: their cell, and the release at which they left it. ``missed``: the
    # last release at which the person was absent. ``excluded_rows``: how many rows of the cell
    # cannot be the person's, since they changed while the person was absent. It is an upper bound,
    # which later releases only raise.
    "chain_member": (
        _columns(
            "chain_id integer, tag bytes, cell integer, left_at_release integer?",
            "missed integer?, excluded_rows integer?",
        ),
        ("chain_id", "tag"),
    ),
    # Newcomers without a cell, with the release at which they first appeared in the source.
    "chain_waiting": (
        _columns("chain_id integer, tag bytes, since_release integer"),
        ("chain_id", "tag"),
    ),
    # One row per release, which counts as published even if that was never confirmed.
    "chain_release": (
        _columns(
            "chain_id integer, sequence integer, release_id uuid",
            "created_at timestamp, confirmed_at timestamp?, counts json",
        ),
        ("chain_id", "sequence"),
    ),
    # Rules about columns, declared by the owners of tables. On PostgreSQL the oids of the table, of
    # its owner and of the declaring role decide whether a rule applies. They are valid in the
    # database where ``ledger_oid`` is the oid of this table; it is NULL in rules of earlier
    # versions. Other databases store 0.
    "rule": (
        _columns(
            "source text, name text, rule json, declared_at timestamp, declared_by text?",
            "relation_oid bigint, owner_oid bigint, owner text?, declarer_oid bigint?",
            "ledger_oid bigint?",
        ),
        ("source", "name", "owner_oid", "relation_oid"),
    ),
    # Total and spent amount per source. Only the ledger's owner writes rows, and ``spent`` only
    # grows. To raise the total, a new row is written, which closes the one that it replaces.
    # ``closed`` is 0 for the open budget, and otherwise the number of budgets that the source had
    # when this one was closed.
    "budget": (
        _columns(
            "name text, source text, unit text, entity text?, epsilon_total amount, spent amount",
            "created_at timestamp, created_by text?, raises text?, closed integer",
            # If set, the amounts are values of rho, which imply an epsilon at this delta.
            "delta double?",
        ),
        ("name",),
    ),
    # One row per spending, committed before any noise is drawn. ``spent``: no release (yet);
    # ``published``: the release exists.
    "spending": (
        _columns(
            "spending_id uuid, budget text, release_id uuid?, epsilon amount, state text",
            "spent_at timestamp, spent_by text?",
        ),
        ("spending_id",),
    ),
}

# Casts to text. MariaDB needs a length; types in ``TEXT_CASTS`` are not supported by every client.
LONG_TEXT = "VARCHAR(10000000)"
TEXT_CASTS = {"uuid": "VARCHAR(36)", "timestamp": "VARCHAR(40)", "amount": "VARCHAR(40)"}

# Further constraints, by table and then by name. Keep the names: existing ledgers have them. The
# upper limits of amounts exclude NaN, which exceeds all numbers in PostgreSQL.
UNIQUE = {"budget": {"budget_one_open": "source, unit, closed"}}
CHECKS = {
    "budget": {
        "budget_total_of_use": "epsilon_total > 0 AND epsilon_total <= 1000000",
        "budget_not_overspent": "spent >= 0 AND spent <= epsilon_total",
    },
    "spending": {"spending_only_adds": "epsilon > 0 AND epsilon <= 1000000"},
}

# Columns that became nullable when releases without classes were introduced. The same version added
# the column ``_ADDED_WITH_NULLABLE_CLASSES``: a ledger without this column still has them NOT NULL.
_CLASS_COLUMNS = (
    "k_requested",
    "k_achieved",
    "classes",
    "smallest_class",
    "median_class",
    "largest_class",
    "histogram",
    "information_loss",
    "information_loss_before_rounding",
)
_ADDED_WITH_NULLABLE_CLASSES = "epsilon"

# Unused columns of earlier versions.
DROPPED_COLUMNS = {"release": ("class_signature", "entity_hash")}

# The newest revision in migrations/, and the table in which Alembic records a ledger's revision.
LEDGER_REVISION = "0017"
VERSION_TABLE = "alembic_version"


def ledger_ddl(
    types: Mapping[str, str],
    name_of: Callable[[str], RelationName],
    existing: Mapping[str, Sequence[str]],
) -> list[str]:
    """Return statements that create the ledger, or migrate it without Alembic.

    Parameters
    ----------
    types : SQL type by abstract type.
    name_of : a function that returns the name of a ledger table in the database.
    existing : the columns of each existing table, by table. Columns that are added to existing
        tables are nullable.
    """
    statements = []
    for table, (columns, primary_key) in TABLES.items():
        relation = name_of(table)
        if table in existing:
            statements += [
                f"ALTER TABLE {relation.quoted} ADD COLUMN {quote(name)} {types[kind]}"
                for name, kind, _ in columns
                if name not in existing[table]
            ]
            statements += [
                f"ALTER TABLE {relation.quoted} DROP COLUMN {quote(name)}"
                for name in DROPPED_COLUMNS.get(table, ())
                if name in existing[table]
            ]
            if table == "release" and _ADDED_WITH_NULLABLE_CLASSES not in existing[table]:
                statements += [
                    f"ALTER TABLE {relation.quoted} ALTER COLUMN {quote(name)} DROP NOT NULL"
                    for name in _CLASS_COLUMNS
                ]
            continue
        # MariaDB needs a length for columns of keys and unique constraints.
        key_columns = {*primary_key, *", ".join(UNIQUE.get(table, {}).values()).split(", ")}
        definitions = [
            f"{quote(name)} {_type_of(types, kind, name in key_columns)}"
            f"{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in columns
        ]
        definitions.append("PRIMARY KEY (" + ", ".join(map(quote, primary_key)) + ")")
        definitions += [
            f"CONSTRAINT {name} UNIQUE ({unique})" for name, unique in UNIQUE.get(table, {}).items()
        ]
        definitions += [
            f"CONSTRAINT {name} CHECK ({condition})"
            for name, condition in CHECKS.get(table, {}).items()
        ]
        statements.append(
            f"CREATE TABLE {relation.quoted} (\n  " + ",\n  ".join(definitions) + "\n)"
        )
    return statements


def create_version_table(name: RelationName) -> str:
    """Return the statement that creates Alembic's table of the ledger's revision."""
    return (
        f"CREATE TABLE {name.quoted} (version_num VARCHAR(32) NOT NULL,"
        f" CONSTRAINT {name.name}_pkc PRIMARY KEY (version_num))"
    )


def _type_of(types: Mapping[str, str], kind: str, is_key: bool) -> str:
    """Return the SQL type of a column; key columns may need another one, with a length."""
    return types.get(f"{kind} key", types[kind]) if is_key else types[kind]


def ledger_is_current(connection: Connection, ledger: Ledger) -> bool:
    """Return True if a ledger that Alembic migrates has the newest revision."""
    if not ledger.has_table(VERSION_TABLE):
        return False
    version = ledger.table(VERSION_TABLE)
    return connection.rows(f"SELECT version_num FROM {version.quoted}") == [(LEDGER_REVISION,)]


def as_text(table: str, names: Iterable[str] | None = None) -> str:
    """Return an SQL list of columns of a ledger table, with the casts of ``TEXT_CASTS``.

    Parameters
    ----------
    names : the columns; None for all columns of the table.
    """
    columns, _primary_key = TABLES[table]
    types_by_column = {name: kind for name, kind, _ in columns}
    return ", ".join(
        f"CAST({name} AS {TEXT_CASTS[types_by_column[name]]})"
        if types_by_column[name] in TEXT_CASTS
        else name
        for name in names or types_by_column
    )


@dataclass(frozen=True)
class LedgerEntry:
    """The ledger entry of a release.

    Parameters
    ----------
    name : the name of its output.
    quasi_identifiers : released quasi-identifiers and strata, in column order.
    k_requested : the k of the job; 0 for differentially private releases.
    histogram : number of classes by class size; the sizes are texts, as in JSON.
    guarantee : the guarantee that was verified.
    sentence : the guarantee in words, as recorded.
    entity : the person identifier, whose values k counts; None if k counts rows.
    models, hierarchies : the privacy models and hierarchies, as recorded.
    design_weight : the record of the design weight; empty for releases without one.
    epsilon : set for differentially private releases, which have no classes and k = 0.
    rows : number of released rows.
    between : for private releases, smallest and largest value by column, as SQL literals; empty
        for booleans and listed values.
    listed : for private releases, all possible values by column of listed values.
    """

    release_id: str
    name: RelationName
    quasi_identifiers: tuple[str, ...]
    k_requested: int
    histogram: Mapping[str, int]
    guarantee: Guarantee
    sentence: str
    entity: str | None
    models: Sequence[JsonMapping]
    hierarchies: Mapping[str, JsonMapping]
    design_weight: JsonMapping = field(default_factory=dict)
    epsilon: float | None = None
    rows: int = 0
    between: Mapping[str, Sequence[str]] = field(default_factory=dict)
    listed: Mapping[str, Sequence[str]] = field(default_factory=dict)
