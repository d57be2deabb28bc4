"""The rows of a chain's cells: taken anew from the source, or as they were shown, word for word."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.schema import Attribute
from dbanon.job.chain import FREEZE, HOLD
from dbanon.stores import statements
from dbanon.stores.base import Relation
from dbanon.stores.chain_cells import CellState
from dbanon.stores.keyed import CURRENT, DIFFERING, PRESENT, VERDICT
from dbanon.stores.names import RelationName, quote


def make_tables(state: CellState, values: Sequence[str], kept: Sequence[str]) -> None:
    """Make the tables of the chain's own; ``values`` and ``kept`` are SQL types."""
    for table, name, types in (
        (state.values, statements.value_column, values),
        (state.rows, statements.kept_column, kept),
    ):
        columns = [f"{name(i)} {state.session.declared(kind)}" for i, kind in enumerate(types)]
        state.session.run(f"CREATE TABLE {table} ({', '.join(['cell integer', *columns])})")


def rewrite(
    state: CellState,
    relation: Relation,
    kept: Sequence[Attribute],
    newcomers: Relation | None,
    first: int,
) -> dict[str, int]:
    """Put the rows of all cells anew, in random order; how many cells drifted, and were held.

    Live and new cells have the rows of the source, all others those that were shown, word for
    word.

    Parameters
    ----------
    newcomers, first : the rows of those who were admitted, as ``admit`` had them; None where
        nobody was.
    """
    session, verdict = state.session, quote(VERDICT)
    names = [statements.kept_column(i) for i in range(len(kept))]
    values = [session.kept_value(attribute) for attribute in kept]
    entity = quote(state.chain.entity)
    fresh, drifted = "v.state = 'live' AND v.fresh = 1", {"drifted": 0, "changed": 0}
    current = [f"{value} AS {name}" for value, name in zip(values, names, strict=True)]
    state.make(
        CURRENT,
        f"SELECT {', '.join(['p.cell', *current])} FROM {relation.relation.quoted} AS s"
        f" JOIN {quote(PRESENT)} AS p ON p.person = s.{entity}"
        f" JOIN {verdict} AS v ON v.cell = p.cell AND {fresh} WHERE p.left_at IS NULL",
    )
    if state.chain.rules.changes != FREEZE:
        drifted = _differing(state, names)
    if state.chain.rules.changes == HOLD:
        held = f"(SELECT d.cell FROM {quote(DIFFERING)} AS d WHERE d.differ < {int(state.k)})"
        session.run(f"DELETE FROM {quote(CURRENT)} WHERE cell IN {held}")
        session.run(f"UPDATE {verdict} SET fresh = 0 WHERE cell IN {held}")
    columns = ", ".join(["cell", *names])
    old = ", ".join(["r.cell", *(f"r.{name}" for name in names)])
    session.run(
        f"INSERT INTO {quote(CURRENT)} ({columns}) SELECT {old} FROM {state.rows} AS r"
        f" JOIN {verdict} AS v ON v.cell = r.cell AND v.state IN ('live', 'held')"
        f" AND NOT ({fresh})"
    )
    if newcomers is not None:
        rows = statements.released_rows(newcomers.from_clause, newcomers.located.expressions)
        session.run(
            f"INSERT INTO {quote(CURRENT)} ({columns})"
            f" SELECT {', '.join([f'l.class + {first}', *values])} FROM {rows}"
        )
    session.analyze(RelationName(None, CURRENT))
    return drifted


def _differing(state: CellState, names: Sequence[str]) -> dict[str, int]:
    """Stage how many rows of each whole live cell are not as they were shown."""
    session = state.session
    columns = ", ".join(["cell", *names])
    old = ", ".join(["r.cell", *(f"r.{name}" for name in names)])
    new = ", ".join(["n.cell", *(f"n.{name}" for name in names)])
    whole = f"JOIN {quote(VERDICT)} AS v ON v.cell = {{}}.cell AND v.state = 'live'" \
            " AND v.present = v.members"  # fmt: skip
    state.make(
        DIFFERING,
        f"SELECT cell, sum(more) AS differ FROM (SELECT {columns},"
        " CASE WHEN sum(weight) > 0 THEN sum(weight) ELSE 0 END AS more FROM"
        f" (SELECT {new}, 1 AS weight FROM {quote(CURRENT)} AS n {whole.format('n')}"
        f" UNION ALL SELECT {old}, -1 FROM {state.rows} AS r {whole.format('r')}) AS u"
        f" GROUP BY {columns}) AS d GROUP BY cell HAVING sum(more) > 0",
    )
    few, changed = session.rows(
        f"SELECT count(CASE WHEN d.differ < {int(state.k)} THEN 1 END),"
        f" coalesce(sum(d.differ), 0) FROM {quote(DIFFERING)} AS d"
    )[0]
    return {"drifted": int(few), "changed": int(changed)}


def settle(state: CellState, kept: Sequence[Attribute]) -> None:
    """Write the staged rows into the chain's table, in random order."""
    columns = ", ".join(["cell", *map(statements.kept_column, range(len(kept)))])
    state.session.empty(state.chain.table(state.session, "row"))
    state.session.run(
        f"INSERT INTO {state.rows} ({columns}) SELECT {columns} FROM {quote(CURRENT)} AS n"
        f" ORDER BY {state.session.shuffled('n')}"
    )
    state.session.analyze(state.chain.table(state.session, "row"))
