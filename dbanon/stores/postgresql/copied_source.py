"""Copy a source inside a backend, where each statement has its own snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, literal, quote, quote_list
from dbanon.sessions.session import Session

COPY = RelationName("pg_temp", "dbanon_source")

# Settings for a copy in address order: a sequential scan in one process from the first page.
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
    """Copy these columns and the key of a located source in record order.

    Returns the numbers of pages and rows of the copy.

    Parameters
    ----------
    run : executes a statement and returns the number of affected rows.
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
    before = _change_settings(session, _IN_ORDER if by_address else _IN_ORDER[:1])
    rows = run(
        f"CREATE TEMPORARY TABLE {quote(COPY.name)} ON COMMIT DROP AS"
        f" SELECT {copied} FROM {source.name.quoted} AS s{order}"
    )
    _change_settings(session, before)
    [(pages,)] = session.rows(
        f"SELECT pg_relation_size({literal(COPY.quoted)}::regclass)"
        " / current_setting('block_size')::integer"
    )
    return int(pages), rows


def _change_settings(session: Session, settings: Iterable[str]) -> list[str]:
    """Change settings ("name = value") for this transaction, and return the former ones."""
    pairs = [setting.split(" = ") for setting in settings]
    # Expressions run from left to right, so each setting is read before it is changed.
    expression = "current_setting(?), set_config(?, ?, true)"
    values = session.rows(
        f"SELECT {', '.join([expression] * len(pairs))}",
        [part for name, value in pairs for part in (name, name, value)],
    )[0]
    return [f"{name} = {before}" for (name, _), before in zip(pairs, values[::2], strict=True)]
