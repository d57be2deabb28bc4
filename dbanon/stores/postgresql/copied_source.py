"""A source as a backend reads it: a temporary table, as statements have different snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, literal, quote, quote_list
from dbanon.sessions.session import Session

COPY = RelationName("pg_temp", "dbanon_source")

# A copy in the order of the row addresses: one process, by sequential scan, from the first page.
_IN_ORDER = (
    "max_parallel_workers_per_gather = 0",
    "synchronize_seqscans = off",
    "enable_indexscan = off",
    "enable_indexonlyscan = off",
    "enable_bitmapscan = off",
    "enable_seqscan = on",
)


def copy_source(
    session: Session, source: Relation, columns: Sequence[str], run: Callable[[str], int]
) -> tuple[int, int]:
    """Copy these columns of a located source, and those of its key, in record order.

    Returns how many pages and how many rows the copy has; ``run`` executes a statement and tells
    how many rows it made.
    """
    locator = source.located
    if locator.mapped:
        ordered = [session.sort_key(source.attribute(key)) for key in locator.mapped]
    else:
        ordered = list(locator.expressions)
    by_address = locator.expressions == ("s.ctid",)
    order = "" if by_address else f" ORDER BY {', '.join(ordered)}"
    keys = locator.mapped or locator.unchecked
    copied = quote_list(dict.fromkeys([*columns, *keys]), "s.")
    before = _set(session, _IN_ORDER if by_address else _IN_ORDER[:1])
    rows = run(
        f"CREATE TEMPORARY TABLE {quote(COPY.name)} ON COMMIT DROP AS"
        f" SELECT {copied} FROM {source.name.quoted} AS s{order}"
    )
    _set(session, before)
    [(pages,)] = session.rows(
        f"SELECT pg_relation_size({literal(COPY.quoted)}::regclass)"
        " / current_setting('block_size')::integer"
    )
    return int(pages), rows


def _set(session: Session, settings: Iterable[str]) -> list[str]:
    """Change settings ("name = value") for this transaction; what undoes it."""
    pairs = [setting.split(" = ") for setting in settings]
    # As they stand here: each is read before it is changed.
    expression = "current_setting(?), set_config(?, ?, true)"
    values = session.rows(
        f"SELECT {', '.join([expression] * len(pairs))}",
        [part for name, value in pairs for part in (name, name, value)],
    )[0]
    return [f"{name} = {before}" for (name, _), before in zip(pairs, values[::2], strict=True)]
