"""The ledger: one row a release, one row a column of it, kept beside the releases.

The columns are the same on every database; only the names of their types differ. PostgreSQL and
SQLite get them by the Alembic history in ``migrations/``, DuckDB by ``ledger_ddl``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dbanon.errors import ReleaseNotFound
from dbanon.release import Recount, Report
from dbanon.schema import Role
from dbanon.stores import statements
from dbanon.stores.base import MARK, Output
from dbanon.stores.names import RelationName, quote

if TYPE_CHECKING:
    from dbanon.stores.session import Session

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
    ("k_requested", "integer", False),
    ("k_achieved", "bigint", False),
    ("rows_in", "bigint", False),
    ("rows_out", "bigint", False),
    ("suppressed", "bigint", False),
    ("null_rows", "bigint", False),
    ("classes", "bigint", False),
    ("smallest_class", "bigint", False),
    ("median_class", "double", False),
    ("largest_class", "bigint", False),
    ("histogram", "json", False),
    ("information_loss", "double", False),
    ("information_loss_before_rounding", "double", False),
    ("seconds", "json", False),
    ("guarantee", "text", False),
    ("seed_policy", "text", False),
    ("earlier_releases", "text", False),
    ("published_by", "text", True),
    ("superseded_at", "timestamp", True),
    # Room for the check between releases: what classes held, and who was in them, under a key
    # that is kept outside this database.
    ("class_signature", "bytes", True),
    ("entity_hash", "bytes", True),
    # PostgreSQL's numbers of the released table, and of the relation that readers use (the view, or
    # the same table): a copied mark does not copy them.
    ("relation_oid", "bigint", True),
    ("output_oid", "bigint", True),
    # Of the rows as they were written, whatever their order is.
    ("digest", "text", True),
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

# One row a call that was made inside the database, written with its release.
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

# Columns and primary key of each table.
TABLES: dict[str, tuple[tuple[tuple[str, str, bool], ...], tuple[str, ...]]] = {
    "release": (RELEASE_COLUMNS, ("release_id",)),
    "release_column": (RELEASE_COLUMN_COLUMNS, ("release_id", "position")),
    "run": (RUN_COLUMNS, ("run_id",)),
    "hierarchy": (HIERARCHY_COLUMNS, ("name",)),
    "hierarchy_node": (HIERARCHY_NODE_COLUMNS, ("hierarchy", "node")),
}

# The newest revision in migrations/.
HEAD = "0003"

NOT_COPIED = "not_copied"


def ledger_ddl(
    types: Mapping[str, str],
    name_of: Callable[[str], RelationName],
    existing: Mapping[str, Sequence[str]],
) -> list[str]:
    """Statements that bring the ledger to this version, for a dialect without Alembic.

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
            continue
        lines = [
            f"{quote(name)} {types[kind]}{'' if nullable else ' NOT NULL'}"
            for name, kind, nullable in columns
        ]
        lines.append("PRIMARY KEY (" + ", ".join(map(quote, key)) + ")")
        statements.append(f"CREATE TABLE {relation.quoted} (\n  " + ",\n  ".join(lines) + "\n)")
    return statements


def release_row(
    report: Report, output: RelationName, relation: RelationName, histogram: Mapping[int, int]
) -> dict[str, Any]:
    """The ledger row of a report, column by column; JSON as text."""
    plain = report.to_dict()
    row: dict[str, Any] = {name: plain.get(name) for name, _, _ in RELEASE_COLUMNS}
    row |= {
        "output_schema": output.schema,
        "output_name": output.name,
        "relation_name": relation.name,
        "arguments": json.dumps(plain["arguments"], sort_keys=True),
        "histogram": json.dumps({str(size): count for size, count in sorted(histogram.items())}),
        "seconds": json.dumps({name: round(value, 6) for name, value in report.seconds.items()}),
    }
    return row


def column_rows(
    report: Report, sql_types: Mapping[str, str], made: Sequence[tuple[str, str]]
) -> list[dict[str, Any]]:
    """The ledger rows of a report's columns, with those that were not copied.

    ``sql_types`` begins with the released columns, in their order; ``made`` are pairs of a released
    quasi-identifier and the column that it stands for.
    """
    stands_for = dict(made)
    losses = {loss.name: loss for loss in report.column_losses}
    named = (
        *((name, Role.QUASI_IDENTIFIER.value) for name, _ in made),
        *((name, Role.SENSITIVE.value) for name in report.sensitive),
        *((name, Role.INSENSITIVE.value) for name in report.kept),
        *((name, NOT_COPIED) for name in report.not_copied),
    )
    places = {name: place for place, name in enumerate(sql_types)}
    ordered = sorted(named, key=lambda column: (column[1] == NOT_COPIED, places[column[0]]))
    rows = []
    for position, (name, role) in enumerate(ordered):
        loss = losses.get(stands_for.get(name, name))
        rows.append(
            {
                "release_id": report.release_id,
                "position": position,
                "name": name,
                "role": role,
                "sql_type": sql_types[name],
                "information_loss": loss.released if loss else None,
                "information_loss_before_rounding": loss.before_rounding if loss else None,
            }
        )
    return rows


def knows(session: Session, mark: str) -> bool:
    """True when the ledger has the release that a relation's mark names."""
    if not mark.startswith(MARK) or not session.has_ledger():
        return False
    release = session.ledger_name("release").quoted
    known = session.rows(
        f"SELECT count(*) FROM {release} WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (mark.removeprefix(MARK),),
    )
    return bool(known[0][0])


def record(
    session: Session,
    report: Report,
    output: Output,
    recount: Recount,
    sql_types: Mapping[str, str],
    made: Sequence[tuple[str, str]],
) -> None:
    """Write a release into the ledger, and close the entry of the one it replaces."""
    release, column = session.ledger_name("release"), session.ledger_name("release_column")
    where, values = _output_condition(output.name)
    session.run(
        f"UPDATE {release.quoted} SET superseded_at = ? WHERE superseded_at IS NULL AND {where}",
        (session.timestamp(report.created_at), *values),
    )
    row = release_row(report, output.name, output.relation, recount.histogram)
    row["published_by"] = session.current_user()
    row["created_at"] = session.timestamp(report.created_at)
    for column_name, name in (("relation_oid", output.relation), ("output_oid", output.name)):
        found = session.find_existing(name)
        row[column_name] = found.oid if found else None
    session.run(statements.insert_row(release, list(row)), tuple(row.values()))
    for entry in column_rows(report, sql_types, made):
        session.run(statements.insert_row(column, list(entry)), tuple(entry.values()))


def _output_condition(name: RelationName) -> tuple[str, tuple[str, ...]]:
    if name.schema is None:
        return "output_schema IS NULL AND output_name = ?", (name.name,)
    return "output_schema = ? AND output_name = ?", (name.schema, name.name)


def find_release(session: Session, name: RelationName) -> dict[str, Any]:
    """The ledger's entry of the release that has this name now, with its quasi-identifiers.

    Raises
    ------
    ReleaseNotFound : the ledger has none.
    """
    name = session.resolve_output(name)
    missing = ReleaseNotFound(
        f"The ledger of this database has no release {name}.",
        hint="Name the quasi-identifiers and k to recount a relation that is not in it.",
    )
    if not session.has_ledger():
        raise missing
    where, values = _output_condition(name)
    wanted = (
        *("release_id", "relation_name", "output_kind", "k_requested", "rows_out"),
        *("histogram", "guarantee", "null_rows", "arguments"),
    )
    found = session.rows(
        f"SELECT {', '.join(wanted)} FROM {session.ledger_name('release').quoted}"
        f" WHERE superseded_at IS NULL AND {where}",
        values,
    )
    if not found:
        raise missing
    entry = dict(zip(wanted, found[-1], strict=True))
    for text in ("histogram", "arguments"):
        if isinstance(entry[text], str):
            entry[text] = json.loads(entry[text])
    arguments = entry.pop("arguments")
    entry["entity"] = arguments.get("entity")
    entry["by"] = arguments.get("by", [])
    entry["models"] = arguments.get("models", [])
    entry["hierarchies"] = arguments.get("hierarchies", {})
    entry["guarantees"] = arguments.get("guarantee", "rows")
    entry["release_id"] = str(entry["release_id"])
    entry["name"] = name
    entry["quasi_identifiers"] = [
        column
        for (column,) in session.rows(
            f"SELECT name FROM {session.ledger_name('release_column').quoted}"
            " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role = 'quasi_identifier'"
            " ORDER BY position",
            (entry["release_id"],),
        )
    ]
    return entry


def released_columns(session: Session, release_id: str) -> list[tuple[str, str]]:
    """Names and types of a release's columns as recorded, in order where there is a digest."""
    return [
        (name, sql_type)
        for name, sql_type in session.rows(
            f"SELECT name, sql_type FROM {session.ledger_name('release_column').quoted}"
            " WHERE CAST(release_id AS VARCHAR(36)) = ? AND role <> ? ORDER BY position",
            (release_id, NOT_COPIED),
        )
    ]


def recorded_digest(session: Session, release_id: str) -> str | None:
    """The digest of a release's rows; None for releases of version 0.1.0."""
    release = session.ledger_name("release")
    # Nothing brings a ledger up to date where only reading is allowed.
    if "digest" not in dict(session.columns_of(release)):
        return None
    found = session.rows(
        f"SELECT digest FROM {release.quoted} WHERE CAST(release_id AS VARCHAR(36)) = ?",
        (release_id,),
    )
    return None if found[0][0] is None else str(found[0][0])


def superseded_tables(session: Session, keep_last: int) -> list[RelationName]:
    """Released tables that a view no longer shows, but for the newest ``keep_last``."""
    if not session.has_ledger():
        return []
    found = session.rows(
        "SELECT output_schema, output_name, relation_name, release_id"
        f" FROM {session.ledger_name('release').quoted}"
        " WHERE output_kind = 'view' AND superseded_at IS NOT NULL"
        " ORDER BY superseded_at DESC, created_at DESC"
    )
    seen: dict[tuple[str | None, str], int] = {}
    tables = []
    for schema, output, relation, release_id in found:
        seen[schema, output] = seen.get((schema, output), 0) + 1
        name = RelationName(schema, relation)
        existing = session.find_existing(name)
        ours = existing is not None and existing.mark == MARK + str(release_id)
        if seen[schema, output] > keep_last and ours:
            tables.append(name)
    return tables
