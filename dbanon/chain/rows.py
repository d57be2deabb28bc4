"""The rows of a chain's cells: as they were shown, word for word, or put anew from the source.

Rows that are still as they were shown are left alone: a cell has those of its persons, in no order.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.chain.membership import PARTED, CellState
from dbanon.chain.models import hold_unfit
from dbanon.data.schema import Attribute
from dbanon.job.chain import FREEZE, HOLD
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import CURRENT, DIFFERING, PRESENT, VERDICT

_ENDED = "v.state IN ('gone', 'withdrawn')"


def make_tables(state: CellState, values: Sequence[str], kept: Sequence[str]) -> None:
    """Make the tables of the chain's own; ``values`` and ``kept`` are SQL types."""
    for table, name, types in (
        (state.values, statements.value_column, values),
        (state.rows, statements.kept_column, kept),
    ):
        columns = [f"{name(i)} {state.session.declared(kind)}" for i, kind in enumerate(types)]
        state.session.run(f"CREATE TABLE {table} ({', '.join(['cell integer', *columns])})")


def compare(state: CellState, kept: Sequence[Attribute], models: Sequence[Model]) -> dict[str, int]:
    """Stage which live cells have rows that are not as they were shown, and hold some of them.

    How many cells drifted, how many rows changed, and how many cells a model holds.

    Parameters
    ----------
    kept : as they were staged beside the persons.
    models : what the rows of a cell must keep to, to be shown.
    """
    if state.chain.rules.changes == FREEZE:
        return {"drifted": 0, "changed": 0, "unfit": 0}
    told = _differing(state, [statements.kept_column(i) for i in range(len(kept))])
    return told | {"unfit": hold_unfit(state, kept, models)}


def rewrite(
    state: CellState,
    kept: Sequence[Attribute],
    newcomers: Relation | None,
    first: int,
    many: bool,
) -> None:
    """Bring the rows of all cells up to date, once ``compare`` has said which differ.

    Live cells whose rows are not as they were shown, and new ones, have the rows of the source; all
    others those that were shown, word for word.

    Parameters
    ----------
    kept : as they were staged beside the persons.
    newcomers, first, many : the rows of those who were admitted, as ``admit`` had them; None where
        nobody was.
    """
    session, changes = state.session, state.chain.rules.changes
    names = [statements.kept_column(i) for i in range(len(kept))]
    renewed, anew = "", []
    if changes != FREEZE:
        differing = f"SELECT d.cell FROM {quote(DIFFERING)} AS d"
        if changes == HOLD:
            differing += f" WHERE d.differ >= {int(state.k)}"
        renewed = f"v.state = 'live' AND v.cell IN ({differing}) OR {PARTED}"
    verdict = f"SELECT v.cell FROM {quote(VERDICT)} AS v WHERE"
    columns = ", ".join(["cell", *names])
    if renewed:
        anew.append(
            f"SELECT {columns} FROM {quote(PRESENT)} WHERE left_at IS NULL"
            f" AND cell IN ({verdict} {renewed})"
        )
    if newcomers is not None:
        rows = statements.released_rows(newcomers.from_clause, newcomers.located.expressions)
        values = [f"{session.kept_value(a)} AS {n}" for a, n in zip(kept, names, strict=True)]
        anew.append(f"SELECT {', '.join([f'l.class + {first} AS cell', *values])} FROM {rows}")
    # At once: where a table is made empty and then filled, DuckDB 2.0 finds no rows by their place.
    nothing = f"SELECT {columns} FROM {state.rows} WHERE 1 = 0"
    state.make(CURRENT, " UNION ALL ".join(anew) or nothing)
    replaced = f"{_ENDED} OR {renewed}" if renewed else _ENDED
    session.run(f"DELETE FROM {state.rows} WHERE cell IN ({verdict} {replaced})")
    # Those of a cell beside one another, as all counting is by cell, and in random order: that of
    # the source would tell whose each is.
    session.run(
        f"INSERT INTO {state.rows} ({columns}) SELECT {columns} FROM {quote(CURRENT)} AS n"
        f" ORDER BY n.cell, {session.shuffled('n')}"
    )
    if many:
        session.analyze(state.chain.table(session, "row"))


def _differing(state: CellState, names: Sequence[str]) -> dict[str, int]:
    """Stage how many rows of each whole live cell are not as they were shown."""
    session = state.session
    columns = ", ".join(["cell", *names])
    old = ", ".join(["r.cell", *(f"r.{name}" for name in names)])
    new = ", ".join(["n.cell", *(f"n.{name}" for name in names)])
    # Where a hash of the rows of a cell says that they are the same, they are not looked at again.
    whole = f"JOIN {quote(VERDICT)} AS v ON v.cell = {{}}.cell AND v.state = 'live'" \
            " AND v.present = v.members AND v.same = 0"  # fmt: skip
    state.make(
        DIFFERING,
        f"SELECT cell, sum(more) AS differ FROM (SELECT {columns}, sum(weight) AS more FROM"
        f" (SELECT {new}, 1 AS weight FROM {quote(PRESENT)} AS n {whole.format('n')}"
        " WHERE n.left_at IS NULL"
        f" UNION ALL SELECT {old}, -1 FROM {state.rows} AS r {whole.format('r')}) AS u"
        f" GROUP BY {columns} HAVING sum(weight) > 0) AS d GROUP BY cell",
    )
    few, changed = session.rows(
        f"SELECT count(CASE WHEN d.differ < {int(state.k)} THEN 1 END),"
        f" coalesce(sum(d.differ), 0) FROM {quote(DIFFERING)} AS d"
    )[0]
    return {"drifted": int(few), "changed": int(changed)}
