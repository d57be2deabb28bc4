"""The rows of cells and the privacy models of a chain: frozen cells, and newcomers kept out.

A cell is frozen if its current rows would break a model. Only cells whose members are all in the
source and whose rows have changed are checked: the others still satisfy the models. Only value
counts are fetched; the values themselves only for models that compare with a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.membership import PARTED, CellState
from dbanon.chain.reference import References, find_failing_cells
from dbanon.chain.returns import hold_returned
from dbanon.chain.rows_per_person import LEADING_COLUMNS, Part
from dbanon.chain.rows_shown import stage_renewed_rows
from dbanon.data.schema import Attribute
from dbanon.job.chain import FREEZE, HOLD
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, random_order
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import CURRENT, DIFFERING, PRESENT, UNFIT, VERDICT

_AT_ONCE = 1000


def hold_unfit(
    state: CellState, retained: Sequence[Attribute], models: Sequence[Model], references: References
) -> int:
    """Freeze the cells whose current rows would break a model, and count them.

    Parameters
    ----------
    retained : the columns staged with the persons, including those of the models.
    """
    session = state.session
    indices = {attribute.name: index for index, attribute in enumerate(retained)}
    unfit: set[int] = set()
    now = (
        f"FROM {quote(PRESENT)} AS s JOIN {quote(DIFFERING)} AS d ON d.cell = s.cell"
        " WHERE s.left_at IS NULL"
    )
    for model in models:
        index = indices[model.attribute]
        name = statements.kept_column(index)
        if model.compares_with_table:
            if not references:
                continue  # Before the first release no rows were shown.
            reference = references[model.attribute]
            unfit |= {
                *find_failing_cells(
                    state, now, replace(retained[index], name=name), model, reference
                )[0]
            }
            continue
        value = session.comparison_value(retained[index], name)
        counts = session.rows(
            f"SELECT c.cell, count(*) FROM (SELECT s.cell, {value} AS value {now}) AS c"
            " GROUP BY c.cell, c.value ORDER BY c.cell"
        )
        unfit |= _cells_failing(np.array(counts, np.int64).reshape(len(counts), 2), model)
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


def exclude_newcomers(state: CellState, relation: Relation, keys: NDArray[np.int64]) -> None:
    """Exclude newcomers permanently: record them as a cell that was never shown and has left.

    Parameters
    ----------
    relation : the rows of newcomers.
    keys : int64 (m, c), the row keys; m is 0 or at least k.
    """
    if not len(keys):
        return
    session, cell, chain = state.session, state.last_cell + 1, int(state.chain.chain_id)
    nobodys, positions = np.zeros(len(keys), np.int32), random_order(len(keys)).astype(np.int32)
    session.load_labels(keys, nobodys, positions, relation.required_locator.types)
    rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
    session.run(
        f"INSERT INTO {state.name('chain_cell')} (chain_id, cell, state, since_release)"
        f" VALUES ({chain}, {cell}, 'refused', {int(state.sequence)})"
    )
    session.run(
        f"INSERT INTO {state.name('chain_member')} (chain_id, tag, cell, left_at_release)"
        f" SELECT {chain}, p.tag, {cell}, {int(state.sequence)} FROM {rows}"
        f" JOIN {state.arrivals} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    # Free the name: the classes of admitted newcomers are staged under it.
    session.run(f"DROP TABLE {quote(statements.LABELS)}")


def _cells_failing(value_counts: NDArray[np.int64], model: Model) -> set[int]:
    """The cells that break a model.

    Parameters
    ----------
    value_counts : int64 (n, 2), a cell and how many of its rows have one value.
    """
    if not len(value_counts):
        return set()
    cells, starts, sizes = np.unique(value_counts[:, 0], return_index=True, return_counts=True)
    # These models ignore which value it is, so values are numbered within their cell.
    counts = np.zeros((len(cells), int(sizes.max())), np.int64)
    offset = np.arange(len(value_counts)) - np.repeat(starts, sizes)
    counts[np.repeat(np.arange(len(cells)), sizes), offset] = value_counts[:, 1]
    return set(cells[~model.satisfied(counts, np.empty(0))].tolist())


def row_columns(state: CellState, n_retained: int) -> list[str]:
    """The columns of a row of the state, with ``n_retained`` retained columns."""
    row_keys = LEADING_COLUMNS if state.several else ()
    return ["cell", *row_keys, *map(statements.kept_column, range(n_retained))]


_ENDED = "v.state IN ('gone', 'withdrawn')"


def make_tables(state: CellState, values: Sequence[str], retained: Sequence[str]) -> None:
    """Create the chain's own tables; ``values`` and ``retained`` are SQL types."""
    leading_columns = [f"{name} integer" for name in row_columns(state, 0)]
    for table, name, first, types in (
        (state.values, statements.value_column, ["cell integer"], values),
        (state.rows, statements.kept_column, leading_columns, retained),
    ):
        columns = [f"{name(i)} {state.session.declared_type(kind)}" for i, kind in enumerate(types)]
        state.session.run(f"CREATE TABLE {table} ({', '.join([*first, *columns])})")


def compare(
    state: CellState, retained: Sequence[Attribute], models: Sequence[Model], references: References
) -> dict[str, int]:
    """Stage the live cells whose rows have changed, and freeze some of them.

    Returns counts: cells that drifted, rows that changed, cells frozen because persons returned,
    and cells frozen by a model.

    Parameters
    ----------
    retained : the columns staged with the persons.
    models : privacy models that the rows of a cell must satisfy to be shown.
    references : the tables that some models compare with.
    """
    if state.chain.rules.changes == FREEZE:
        return {"drifted": 0, "changed": 0, "back": 0, "unfit": 0}
    n_compared = 1 if state.several else len(retained)
    counts = _differing(state, [statements.kept_column(i) for i in range(n_compared)])
    counts["back"] = hold_returned(state, n_compared)
    return counts | {"unfit": hold_unfit(state, retained, models, references)}


def rewrite(
    state: CellState,
    parts: Sequence[Part],
    newcomers: Relation | None,
    first: int,
    large_batch: bool,
) -> None:
    """Update the rows of all cells, after ``compare`` has staged which cells differ.

    New cells and live cells with changed rows take the rows of the source. All other cells keep
    the rows that were shown, unchanged.

    Parameters
    ----------
    parts : the tables of the chain, whose rows are staged.
    newcomers : the rows of admitted newcomers; None if there are none.
    first, large_batch : the first new cell, and the flag that ``admit`` had.
    """
    session, changes = state.session, state.chain.rules.changes
    retained = [attribute for part in parts for attribute in part.retained]
    names = [statements.kept_column(i) for i in range(len(retained))]
    renewed, inserts = "", []  # Pairs of a SELECT and its ORDER BY.
    if changes != FREEZE:
        differing = f"SELECT d.cell FROM {quote(DIFFERING)} AS d"
        if changes == HOLD:
            differing += f" WHERE d.differ >= {int(state.k)}"
        renewed = f"v.state = 'live' AND v.cell IN ({differing}) OR {PARTED}"
    verdict = f"SELECT v.cell FROM {quote(VERDICT)} AS v WHERE"
    columns = ", ".join(row_columns(state, len(retained)))
    if state.several:
        cells = f"{verdict} {renewed}" if renewed else ""
        stage_renewed_rows(state, parts, cells, None if newcomers is None else first)
    elif renewed:
        rows = f"{quote(PRESENT)} AS n WHERE n.left_at IS NULL AND n.cell IN ({verdict} {renewed})"
        inserts.append(
            (f"SELECT {columns} FROM {rows}", f"n.cell, {session.random_order_key('n')}")
        )
    if newcomers is not None and not state.several:
        values = {n: session.kept_value(a) for a, n in zip(retained, names, strict=True)}
        reads = list(dict.fromkeys(a.name for a in retained))
        of_cells = {"cell": f"c.class + {first}"} | values
        if not session.insert_cells(state.chain.table(session, "row"), of_cells, newcomers, reads):
            rows = statements.released_rows(
                newcomers.from_clause, newcomers.required_locator.expressions
            )
            # Positions are random numbers from the operating system.
            listed = [f"l.class + {first} AS cell", *(f"{sql} AS {n}" for n, sql in values.items())]
            inserts.append((f"SELECT {', '.join(listed)} FROM {rows}", "l.class, l.position"))
    if state.several:
        select = f"SELECT {columns} FROM {quote(CURRENT)} AS n"
        inserts.append((select, f"n.cell, {session.random_order_key('n')}"))
    replaced = f"{_ENDED} OR {renewed}" if renewed else _ENDED
    session.run(f"DELETE FROM {state.rows} WHERE cell IN ({verdict} {replaced})")
    # Store the rows of a cell together, because all counting is by cell, but in random order: the
    # source's order would reveal which row belongs to which person.
    for rows, order in inserts:
        with session.prepare_sorting() if large_batch else nullcontext():
            session.run(f"INSERT INTO {state.rows} ({columns}) {rows} ORDER BY {order}")
    if large_batch:
        session.analyze(state.chain.table(session, "row"))


def _differing(state: CellState, names: Sequence[str]) -> dict[str, int]:
    """Stage, for each complete live cell, how many of its rows (or persons) have changed."""
    session = state.session
    columns = ", ".join(["cell", *names])
    old = ", ".join(["r.cell", *(f"r.{name}" for name in names)])
    new = ", ".join(["n.cell", *(f"n.{name}" for name in names)])
    # Skip cells whose row hash is unchanged.
    complete = (
        f"JOIN {quote(VERDICT)} AS v ON v.cell = {{}}.cell AND v.state = 'live'"
        " AND v.present = v.members AND v.same = 0"
    )
    state.make(
        DIFFERING,
        f"SELECT cell, sum(more) AS differ FROM (SELECT {columns}, sum(weight) AS more FROM"
        f" (SELECT {new}, 1 AS weight FROM {quote(PRESENT)} AS n {complete.format('n')}"
        " WHERE n.left_at IS NULL"
        f" UNION ALL SELECT {old}, -1 FROM {state.displayed} AS r {complete.format('r')}) AS u"
        f" GROUP BY {columns} HAVING sum(weight) > 0) AS d GROUP BY cell",
    )
    few, changed = session.rows(
        f"SELECT count(CASE WHEN d.differ < {int(state.k)} THEN 1 END),"
        f" coalesce(sum(d.differ), 0) FROM {quote(DIFFERING)} AS d"
    )[0]
    return {"drifted": int(few), "changed": int(changed)}
