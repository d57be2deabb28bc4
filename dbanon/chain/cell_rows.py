"""Privacy models of a chain: cells whose rows stay as they were shown, newcomers who stay out.

A cell is held where its rows of now would break a model. Only cells are looked at of which all are
in the source, and some rows are not as they were shown: the others keep to the models as before.
What is fetched is how often values occur; which, only for models that compare with a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.membership import PARTED, CellState
from dbanon.chain.reference import References, breaking
from dbanon.chain.returns import hold_returned
from dbanon.chain.rows_shown import rows_anew
from dbanon.chain.several import OF_ROWS, Part
from dbanon.data.schema import Attribute
from dbanon.job.chain import FREEZE, HOLD
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, random_order
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import CURRENT, DIFFERING, PRESENT, UNFIT, VERDICT

_AT_ONCE = 1000


def hold_unfit(
    state: CellState, kept: Sequence[Attribute], models: Sequence[Model], references: References
) -> int:
    """Hold the cells that would break a model with the rows of now; how many cells.

    Parameters
    ----------
    kept : the columns that are staged beside the persons, those of the models among them.
    """
    session = state.session
    places = {attribute.name: place for place, attribute in enumerate(kept)}
    unfit: set[int] = set()
    now = (
        f"FROM {quote(PRESENT)} AS s JOIN {quote(DIFFERING)} AS d ON d.cell = s.cell"
        " WHERE s.left_at IS NULL"
    )
    for model in models:
        place = places[model.attribute]
        name = statements.kept_column(place)
        if model.compares_with_table:
            if not references:
                continue  # The first release has no rows that were shown before.
            beside = references[model.attribute]
            unfit |= {*breaking(state, now, replace(kept[place], name=name), model, beside)[0]}
            continue
        value = session.told_apart(kept[place], name)
        found = session.rows(
            f"SELECT c.cell, count(*) FROM (SELECT s.cell, {value} AS value {now}) AS c"
            " GROUP BY c.cell, c.value ORDER BY c.cell"
        )
        unfit |= _breaking(np.array(found, np.int64).reshape(len(found), 2), model)
    if not unfit:
        return 0
    columns = [("cell", "integer")]
    session.run(statements.create_staging(UNFIT, columns, session.staging_suffix))
    cells = sorted(unfit)
    for start in range(0, len(cells), _AT_ONCE):
        rows = [(cell,) for cell in cells[start : start + _AT_ONCE]]
        session.insert_rows(RelationName(None, UNFIT), ["cell"], rows)
    session.run(
        f"UPDATE {quote(VERDICT)} SET state = 'held'"
        f" WHERE cell IN (SELECT u.cell FROM {quote(UNFIT)} AS u)"
    )
    return len(cells)


def keep_out(state: CellState, relation: Relation, keys: NDArray[np.int64]) -> None:
    """Keep newcomers out for good: they are a cell that was never on display, and has left.

    Parameters
    ----------
    relation : the rows of newcomers.
    keys : int64 (m, c), those of the rows; none or k.
    """
    if not len(keys):
        return
    session, cell, chain = state.session, state.last_cell + 1, int(state.chain.chain_id)
    nobodys, positions = np.zeros(len(keys), np.int32), random_order(len(keys)).astype(np.int32)
    session.load_labels(keys, nobodys, positions, relation.located.types)
    rows = statements.released_rows(relation.from_clause, relation.located.expressions)
    session.run(
        f"INSERT INTO {state.name('chain_cell')} (chain_id, cell, state, since_release)"
        f" VALUES ({chain}, {cell}, 'refused', {int(state.sequence)})"
    )
    session.run(
        f"INSERT INTO {state.name('chain_member')} (chain_id, tag, cell, left_at_release)"
        f" SELECT {chain}, p.tag, {cell}, {int(state.sequence)} FROM {rows}"
        f" JOIN {state.arrivals} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    # The classes of those who are admitted are staged in its place.
    session.run(f"DROP TABLE {quote(statements.LABELS)}")


def _breaking(found: NDArray[np.int64], model: Model) -> set[int]:
    """The cells that break a model; ``found`` has a cell and a count for each of its values."""
    if not len(found):
        return set()
    cells, starts, sizes = np.unique(found[:, 0], return_index=True, return_counts=True)
    # None of these models asks which value it is, so each has a place in its own cell.
    counts = np.zeros((len(cells), int(sizes.max())), np.int64)
    place = np.arange(len(found)) - np.repeat(starts, sizes)
    counts[np.repeat(np.arange(len(cells)), sizes), place] = found[:, 1]
    return set(cells[~model.satisfied(counts, np.empty(0))].tolist())


def row_columns(state: CellState, kept: int) -> list[str]:
    """The columns of a row of the state, of which so many are kept ones."""
    own = OF_ROWS if state.several else ()
    return ["cell", *own, *map(statements.kept_column, range(kept))]


_ENDED = "v.state IN ('gone', 'withdrawn')"


def make_tables(state: CellState, values: Sequence[str], kept: Sequence[str]) -> None:
    """Make the tables of the chain's own; ``values`` and ``kept`` are SQL types."""
    own = [f"{name} integer" for name in row_columns(state, 0)]
    for table, name, first, types in (
        (state.values, statements.value_column, ["cell integer"], values),
        (state.rows, statements.kept_column, own, kept),
    ):
        columns = [f"{name(i)} {state.session.declared(kind)}" for i, kind in enumerate(types)]
        state.session.run(f"CREATE TABLE {table} ({', '.join([*first, *columns])})")


def compare(
    state: CellState, kept: Sequence[Attribute], models: Sequence[Model], references: References
) -> dict[str, int]:
    """Stage which live cells have rows that are not as they were shown, and hold some of them.

    How many cells drifted, how many rows changed, and how many cells are held for persons who are
    back, and by a model.

    Parameters
    ----------
    kept : as they were staged beside the persons.
    models : what the rows of a cell must keep to, to be shown.
    references : what some of these compare them with.
    """
    if state.chain.rules.changes == FREEZE:
        return {"drifted": 0, "changed": 0, "back": 0, "unfit": 0}
    told_by = 1 if state.several else len(kept)
    told = _differing(state, [statements.kept_column(i) for i in range(told_by)])
    told["back"] = hold_returned(state, told_by)
    return told | {"unfit": hold_unfit(state, kept, models, references)}


def rewrite(
    state: CellState,
    parts: Sequence[Part],
    newcomers: Relation | None,
    first: int,
    many: bool,
) -> None:
    """Bring the rows of all cells up to date, once ``compare`` has said which differ.

    Live cells whose rows are not as they were shown, and new ones, have the rows of the source; all
    others those that were shown, word for word.

    Parameters
    ----------
    parts : the tables that they are of, as their rows were staged.
    newcomers, first, many : the rows of those who were admitted, as ``admit`` had them; None where
        nobody was.
    """
    session, changes = state.session, state.chain.rules.changes
    kept = [attribute for part in parts for attribute in part.kept]
    names = [statements.kept_column(i) for i in range(len(kept))]
    renewed, anew = "", []  # What gives rows, and the order of those of a cell.
    if changes != FREEZE:
        differing = f"SELECT d.cell FROM {quote(DIFFERING)} AS d"
        if changes == HOLD:
            differing += f" WHERE d.differ >= {int(state.k)}"
        renewed = f"v.state = 'live' AND v.cell IN ({differing}) OR {PARTED}"
    verdict = f"SELECT v.cell FROM {quote(VERDICT)} AS v WHERE"
    columns = ", ".join(row_columns(state, len(kept)))
    if state.several:
        cells = f"{verdict} {renewed}" if renewed else ""
        rows_anew(state, parts, cells, None if newcomers is None else first)
    elif renewed:
        rows = f"{quote(PRESENT)} AS n WHERE n.left_at IS NULL AND n.cell IN ({verdict} {renewed})"
        anew.append((f"SELECT {columns} FROM {rows}", f"n.cell, {session.shuffled('n')}"))
    if newcomers is not None and not state.several:
        values = {n: session.kept_value(a) for a, n in zip(kept, names, strict=True)}
        reads = list(dict.fromkeys(a.name for a in kept))
        of_cells = {"cell": f"c.class + {first}"} | values
        if not session.insert_cells(state.chain.table(session, "row"), of_cells, newcomers, reads):
            rows = statements.released_rows(newcomers.from_clause, newcomers.located.expressions)
            # Positions are random, from the operating system's source.
            listed = [f"l.class + {first} AS cell", *(f"{sql} AS {n}" for n, sql in values.items())]
            anew.append((f"SELECT {', '.join(listed)} FROM {rows}", "l.class, l.position"))
    if state.several:
        own = f"SELECT {columns} FROM {quote(CURRENT)} AS n"
        anew.append((own, f"n.cell, {session.shuffled('n')}"))
    replaced = f"{_ENDED} OR {renewed}" if renewed else _ENDED
    session.run(f"DELETE FROM {state.rows} WHERE cell IN ({verdict} {replaced})")
    # Those of a cell beside one another, as all counting is by cell, and in random order: that of
    # the source would tell whose each is.
    for rows, order in anew:
        with session.sorting() if many else nullcontext():
            session.run(f"INSERT INTO {state.rows} ({columns}) {rows} ORDER BY {order}")
    if many:
        session.analyze(state.chain.table(session, "row"))


def _differing(state: CellState, names: Sequence[str]) -> dict[str, int]:
    """Stage how many rows of each whole live cell, or persons', are not as they were shown."""
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
        f" UNION ALL SELECT {old}, -1 FROM {state.displayed} AS r {whole.format('r')}) AS u"
        f" GROUP BY {columns} HAVING sum(weight) > 0) AS d GROUP BY cell",
    )
    few, changed = session.rows(
        f"SELECT count(CASE WHEN d.differ < {int(state.k)} THEN 1 END),"
        f" coalesce(sum(d.differ), 0) FROM {quote(DIFFERING)} AS d"
    )[0]
    return {"drifted": int(few), "changed": int(changed)}
