"""Tables for the pieces of a release that Spark workers write.

Each worker writes a piece, which is a table. Pieces are committed before the recount has shown that
the release keeps its guarantee. So only their owner may read them, whatever the schema's default
privileges. A comment on each piece, the mark, records its release and time of creation. The Spark
driver creates the tables and workers only fill them, so a worker that starts after the cleanup
finds no table.

Workers also share the reading of the source: each runs one query, and together these queries return
every row once. A relation's *locator* has the SQL of the key or the address that identifies rows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.schema import Attribute, Kind
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, literal, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import catalog
from dbanon.stores.postgresql import dialect as postgresql_dialect

# The comment on a piece begins with this, followed by release id and time of creation in seconds.
MARK = "dbanon piece "
# Pieces of this age in seconds may be dropped if their driver no longer runs.
ABANDONED_SECONDS = 86_400

_NAME_PATTERN = re.compile(r".*_p[0-9a-f]{12}_[0-9]+", re.S)
_MARK_PATTERN = re.compile(re.escape(MARK) + r"([0-9a-f-]{36}) ([0-9]{1,15})")
# Returns schema, name, oid and comment of each piece, and the current time in seconds. Pieces are
# unlogged tables (relpersistence u).
_PIECES = """
SELECT n.nspname, c.relname, c.oid, obj_description(c.oid, 'pg_class'),
       extract(epoch FROM clock_timestamp())::bigint
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND c.relpersistence = 'u'
    AND obj_description(c.oid, 'pg_class') LIKE 'dbanon piece %'
ORDER BY n.nspname, c.relname"""
# Parameters: schema and name of a table. Returns the roles other than its owner with rights on it.
_READERS = """
SELECT DISTINCT CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE quote_ident(r.rolname) END
FROM pg_class c CROSS JOIN aclexplode(c.relacl) AS a LEFT JOIN pg_roles r ON r.oid = a.grantee
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = ? AND c.relname = ? AND a.grantee <> c.relowner"""


def lock_name(release_id: str) -> str:
    """Return the name of the job lock that a driver holds while its pieces are in use."""
    return f"release {release_id}"


def names(output: RelationName, release_id: str, count: int, max_bytes: int) -> list[RelationName]:
    """Return the names of a release's pieces: the output's name and a suffix.

    Parameters
    ----------
    count : number of pieces.
    max_bytes : maximum bytes of a name on the server; the output's name is truncated to fit.
    """
    release_digits = release_id.replace("-", "")[:12]
    piece_names = []
    for number in range(count):
        suffix = f"_p{release_digits}_{number}"
        prefix = output.name.encode()[: max_bytes - len(suffix)].decode(errors="ignore")
        piece_names.append(output.sibling(prefix + suffix))
    return piece_names


def make(
    connection: Connection,
    pieces: Sequence[RelationName],
    columns: Sequence[tuple[str, str]],
    release_id: str,
) -> None:
    """Create empty pieces that only their owner may read; columns are names and types."""
    body = ", ".join(f"{quote(name)} {sql_type}" for name, sql_type in columns)
    [(now,)] = connection.rows("SELECT extract(epoch FROM clock_timestamp())::bigint")
    for piece in pieces:
        connection.run(f"CREATE UNLOGGED TABLE {piece.quoted} ({body})")
        mark = literal(f"{MARK}{release_id} {int(now)}")
        connection.run(f"COMMENT ON TABLE {piece.quoted} IS {mark}")
        for (reader,) in connection.rows(_READERS, (piece.schema, piece.name)):
            connection.run(f"REVOKE ALL ON TABLE {piece.quoted} FROM {reader}")


def lock(connection: Connection, pieces: Sequence[RelationName]) -> None:
    """Lock the pieces against workers that still write.

    Call this before the first query of the transaction, so that its snapshot has all rows that
    workers have committed.
    """
    for piece in pieces:
        connection.run(f"LOCK TABLE {piece.quoted} IN ACCESS EXCLUSIVE MODE")


def gather(
    connection: Connection,
    output: Output,
    pieces: Sequence[RelationName],
    columns: Sequence[str],
) -> None:
    """Fill the output table with the rows of all pieces in a new random order."""
    column_list = quote_list(columns)
    rows = " UNION ALL ".join(f"SELECT {column_list} FROM {piece.quoted}" for piece in pieces)
    connection.run(
        f"INSERT INTO {output.staging_name.quoted} ({column_list})"
        f" SELECT {column_list} FROM ({rows}) AS r ORDER BY gen_random_uuid()"
    )


def drop(connection: Connection, pieces: Sequence[RelationName]) -> None:
    """Drop the pieces that exist."""
    for piece in pieces:
        connection.run(f"DROP TABLE IF EXISTS {piece.quoted}")


def find_abandoned(connection: Connection) -> list[RelationName]:
    """List the pieces of drivers that no longer run, and that this role may drop."""
    abandoned_pieces = []
    # By release: whether its driver no longer runs.
    is_abandoned: dict[str, bool] = {}
    for schema, name, oid, comment, now in connection.rows(_PIECES):
        mark = _MARK_PATTERN.fullmatch(comment)
        if mark is None or not _NAME_PATTERN.fullmatch(name):
            continue
        release_id, created_seconds = mark.groups()
        if int(now) - int(created_seconds) < ABANDONED_SECONDS:
            continue
        if not connection.rows(catalog.MAY_DROP, (oid,))[0][0]:
            continue
        if release_id not in is_abandoned:
            # A running driver holds this lock, the advisory lock of ``locks.hold_job``. If it
            # is free, it is held here until this transaction ends.
            try_lock = "SELECT pg_try_advisory_xact_lock(hashtextextended('dbanon job ' || ?, 0))"
            [(is_abandoned[release_id],)] = connection.rows(try_lock, (lock_name(release_id),))
        if is_abandoned[release_id]:
            abandoned_pieces.append(RelationName(schema, name))
    return abandoned_pieces


# Minimum number of pages per query: to read fewer is not worth a connection.
MIN_PAGES = 64


def row_key_columns(relation: Relation) -> tuple[str, ...]:
    """Return the columns that identify rows; empty if rows are identified by ctid.

    They are the columns of the primary key, or of the key that the job names.
    """
    locator = relation.required_locator
    # SQL of a key column is a quoted name, which is unquoted below; that of a system column has no
    # quotes.
    expressions = [expression.removeprefix("s.") for expression in locator.expressions]
    key_columns = [
        expression[1:-1].replace('""', '"')
        for expression in expressions
        if expression.startswith('"')
    ]
    return locator.key_map_columns or tuple(key_columns)


def range_queries(
    session: Session, relation: Relation, attributes: Sequence[Attribute], n_tasks: int
) -> list[str]:
    """Return queries for ranges of pages; together they return every row of the snapshot once.

    If rows have no address, or this role may not read it, there is only one query.

    Parameters
    ----------
    n_tasks : number of tasks; each runs one query at most.
    """
    columns = ", ".join(map(_column_for_arrow, attributes)) or "1"
    oid = _find_oid(session, relation.name)
    [(_, _, _, relkind, _, has_children, _)] = session.rows(catalog.RELATION, (oid,))
    is_address_unreadable = session.rows(catalog.UNREADABLE_COLUMNS, (["ctid"], oid, oid))
    if relkind not in catalog.KINDS_WITH_CTID or has_children or is_address_unreadable:
        return [f"SELECT {columns} FROM {relation.relation_to_read.quoted} AS s"]
    if relation.selected_rows is not None:
        # The job's condition selects rows by a subquery. Let it return ctid, too, for the ranges.
        system_columns = tuple(dict.fromkeys([*relation.selected_rows.system_columns, "ctid"]))
        rows = replace(relation.selected_rows, system_columns=system_columns).quoted
    else:
        rows = f"ONLY {relation.name.quoted}"
    [(n_pages,)] = session.rows(
        "SELECT pg_relation_size(?::oid) / current_setting('block_size')::integer",
        (oid,),
    )
    pages_per_query = max(-(-int(n_pages) // max(n_tasks, 1)), MIN_PAGES)
    first_pages = list(range(0, int(n_pages), pages_per_query)) or [0]
    # The last range has no end: rows added after the snapshot was taken are invisible anyway.
    end_conditions = [
        *(f" AND s.ctid < '({page + pages_per_query},0)'::tid" for page in first_pages[:-1]),
        "",
    ]
    return [
        f"SELECT {columns} FROM {rows} AS s WHERE s.ctid >= '({page},0)'::tid{end_condition}"
        for page, end_condition in zip(first_pages, end_conditions, strict=True)
    ]


def _find_oid(session: Session, name: RelationName) -> int:
    [(oid,)] = session.rows(
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relname = ?",
        (name.schema, name.name),
    )
    return int(oid)


def _column_for_arrow(attribute: Attribute) -> str:
    """SQL of a column in a form that Arrow's parser accepts."""
    if attribute.kind is Kind.TIMESTAMP and attribute.has_time_zone:
        return f"s.{quote(attribute.name)} AT TIME ZONE 'UTC'"
    return postgresql_dialect.as_portable(attribute)
