"""A table read by many connections at once: one query each, which together give every row once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.schema import Attribute, Kind
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import catalog
from dbanon.stores.postgresql import dialect as types
from dbanon.stores.postgresql.session import ADDRESSED

# Pages that are worth a connection.
SMALLEST = 64


def own_key(relation: Relation) -> tuple[str, ...]:
    """The columns of a relation's primary key; none where its rows go by their address."""
    located = relation.located
    columns = [e.removeprefix("s.") for e in located.expressions]
    own = [e[1:-1].replace('""', '"') for e in columns if e.startswith('"')]
    return located.mapped or tuple(own)


def queries(
    session: Session, relation: Relation, attributes: Sequence[Attribute], tasks: int
) -> list[str]:
    """One query a task: together they give every row of the snapshot once."""
    columns = ", ".join(map(_portable, attributes)) or "1"
    known = session.rows(catalog.RELATION, (_oid(session, relation.name),))[0]
    kind, has_children = known[3], known[5]
    no_address = session.rows(catalog.UNREADABLE, (["ctid"], known[0], known[0]))
    if kind not in ADDRESSED or has_children or no_address:
        return [f"SELECT {columns} FROM {relation.relation.quoted} AS s"]
    if relation.filtered is not None:
        hidden = tuple(dict.fromkeys([*relation.filtered.hidden, "ctid"]))
        rows = replace(relation.filtered, hidden=hidden).quoted
    else:
        rows = f"ONLY {relation.name.quoted}"
    [(pages,)] = session.rows(
        "SELECT pg_relation_size(?::oid) / current_setting('block_size')::integer", (known[0],)
    )
    step = max(-(-int(pages) // max(tasks, 1)), SMALLEST)
    starts = list(range(0, int(pages), step)) or [0]
    # The last has no end: what was there when the snapshot was taken, whatever came since.
    ends = [f" AND s.ctid < '({start + step},0)'::tid" for start in starts[:-1]] + [""]
    return [
        f"SELECT {columns} FROM {rows} AS s WHERE s.ctid >= '({start},0)'::tid{end}"
        for start, end in zip(starts, ends, strict=True)
    ]


def _oid(session: Session, name: RelationName) -> int:
    [(oid,)] = session.rows(
        "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ? AND c.relname = ?",
        (name.schema, name.name),
    )
    return int(oid)


def _portable(attribute: Attribute) -> str:
    """SQL of a column, as Arrow's parser takes its text."""
    if attribute.kind is Kind.TIMESTAMP and attribute.zoned:
        return f"s.{quote(attribute.name)} AT TIME ZONE 'UTC'"
    return types.portable(attribute)
