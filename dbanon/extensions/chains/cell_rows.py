"""Update the released rows of a chain's cells, freeze cells, and exclude newcomers.

A *cell* is a class of a chain: persons who were admitted together and share released values (see
``membership``). Rows and cells are *displayed* if the current release contains them. A cell is
*frozen*, which means that its displayed rows stay as they are, if its rows in the source would
violate a privacy model, or would reveal rows of persons who returned (see ``returns``). The state
of a frozen cell is ``held``, that of other displayed cells ``live``. A cell has *drifted* if some
of its rows have changed, but fewer than k. Models are checked only for cells whose members are all
in the source and whose rows have changed; the others still satisfy them. The database sends only
counts of values; it sends the values themselves only for models that compare classes with a table.

Constants such as ``PRESENT_PERSONS`` name staging tables, which are temporary:
``sessions.chain_staging`` describes their rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute
from dbanon.extensions.chains.displayed_rows import stage_renewed_rows
from dbanon.extensions.chains.membership import PARTLY_LEFT, ChainState, comparison_value
from dbanon.extensions.chains.reference import References, find_failing_cells
from dbanon.extensions.chains.returns import freeze_returned_cells
from dbanon.extensions.chains.rows_per_person import PERSON_COLUMNS, ChainTable
from dbanon.job.chain import FREEZE, HOLD
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, random_order
from dbanon.sessions.chain_staging import (
    CHANGED_CELLS,
    FAILING_CELLS,
    NEW_ROWS,
    NEXT_CELL_STATES,
    PRESENT_PERSONS,
)
from dbanon.sessions.names import RelationName, quote

_CELLS_PER_INSERT = 1000


def freeze_failing_cells(
    state: ChainState,
    retained: Sequence[Attribute],
    models: Sequence[Model],
    references: References,
) -> int:
    """Freeze the cells whose rows in the source would violate a model; return their number.

    Parameters
    ----------
    retained : the columns staged with the persons, including those of the models.
    models : the privacy models that the rows of a cell must satisfy.
    references : by column, the frequencies in the first release that models compare classes with.
    """
    session = state.session
    indices = {attribute.name: index for index, attribute in enumerate(retained)}
    failing_cells: set[int] = set()
    # ``left_at`` is NULL for persons who have not left their cell.
    from_changed_rows = (
        f"FROM {quote(PRESENT_PERSONS)} AS s JOIN {quote(CHANGED_CELLS)} AS d ON d.cell = s.cell"
        " WHERE s.left_at IS NULL"
    )
    for model in models:
        index = indices[model.attribute]
        name = statements.retained_column_name(index)
        if model.compares_with_table:
            if not references:
                continue  # At the first release there are no cells to check yet.
            reference = references[model.attribute]
            # The second result is the level of the model that all cells reach. Only recounts, which
            # read the written rows, report it.
            failing_of_model, _ = find_failing_cells(
                state, from_changed_rows, replace(retained[index], name=name), model, reference
            )
            failing_cells.update(failing_of_model)
            continue
        value = comparison_value(session, retained[index], name)
        counts = session.rows(
            "SELECT c.cell, count(*)"
            f" FROM (SELECT s.cell, {value} AS value {from_changed_rows}) AS c"
            " GROUP BY c.cell, c.value ORDER BY c.cell"
        )
        failing_cells |= _find_violating_cells(
            np.array(counts, np.int64).reshape(len(counts), 2), model
        )
    if not failing_cells:
        return 0
    columns = [("cell", "integer")]
    session.run(statements.create_staging(FAILING_CELLS, columns, session.dialect.staging_suffix))
    cells = sorted(failing_cells)
    for start in range(0, len(cells), _CELLS_PER_INSERT):
        rows = [(cell,) for cell in cells[start : start + _CELLS_PER_INSERT]]
        session.connection.insert_rows(RelationName(None, FAILING_CELLS), ["cell"], rows)
    session.run(
        f"UPDATE {quote(NEXT_CELL_STATES)} SET state = 'held'"
        f" WHERE cell IN (SELECT u.cell FROM {quote(FAILING_CELLS)} AS u)"
    )
    return len(cells)


def exclude_newcomers(state: ChainState, relation: Relation, keys: NDArray[np.int64]) -> None:
    """Exclude newcomers permanently: record them as the members of a cell that is never displayed.

    The state of this cell is ``refused``, and its members count as persons who have left it.

    Parameters
    ----------
    relation : the rows of newcomers in the source.
    keys : int64 (m, n_key_columns), the row keys of the newcomers to exclude; m is 0 or at least k.
    """
    if not len(keys):
        return
    session, cell, chain_id = state.session, state.last_cell + 1, int(state.chain.chain_id)
    # Stage the newcomers as one class, so that SQL can select their rows. Labels have positions in
    # the release, which nothing uses here.
    labels, positions = np.zeros(len(keys), np.int32), random_order(len(keys)).astype(np.int32)
    session.load_labels(keys, labels, positions, relation.required_locator.types)
    rows = statements.released_rows(relation.from_clause, relation.required_locator.expressions)
    session.run(
        f"INSERT INTO {state.ledger_table('chain_cell')} (chain_id, cell, state, since_release)"
        f" VALUES ({chain_id}, {cell}, 'refused', {int(state.release_number)})"
    )
    session.run(
        f"INSERT INTO {state.ledger_table('chain_member')} (chain_id, tag, cell, left_at_release)"
        f" SELECT {chain_id}, p.tag, {cell}, {int(state.release_number)} FROM {rows}"
        f" JOIN {state.newcomers_table} AS p ON p.person = s.{quote(state.chain.entity)}"
    )
    # Free the name of this table, since the labels of admitted newcomers are staged next.
    session.run(f"DROP TABLE {quote(statements.LABELS)}")


def _find_violating_cells(value_counts: NDArray[np.int64], model: Model) -> set[int]:
    """Return the cells that violate a model that only uses the frequencies of values.

    Parameters
    ----------
    value_counts : int64 (n, 2), for each distinct value in a cell: the cell, and the number of its
        rows with that value. Sorted by cell.
    """
    if not len(value_counts):
        return set()
    cells, starts, n_values = np.unique(value_counts[:, 0], return_index=True, return_counts=True)
    # These models use neither the values nor their shares in a table. So values are numbered within
    # their cell, and the shares are empty.
    counts = np.zeros((len(cells), int(n_values.max())), np.int64)
    value_numbers = np.arange(len(value_counts)) - np.repeat(starts, n_values)
    counts[np.repeat(np.arange(len(cells)), n_values), value_numbers] = value_counts[:, 1]
    return set(cells[~model.is_satisfied(counts, table_shares=np.empty(0))].tolist())


def list_row_columns(state: ChainState, n_retained: int) -> list[str]:
    """Return the names of all columns of the chain's row table.

    Parameters
    ----------
    n_retained : the number of retained columns: columns released unchanged.
    """
    person_columns = PERSON_COLUMNS if state.has_several_rows_per_person else ()
    return ["cell", *person_columns, *map(statements.retained_column_name, range(n_retained))]


# SQL condition on NEXT_CELL_STATES, with the alias v: cells that are no longer displayed, because
# all members have left (gone), or because the cell is withdrawn.
_NO_LONGER_DISPLAYED = "v.state IN ('gone', 'withdrawn')"


def create_state_tables(
    state: ChainState, value_types: Sequence[str], retained_types: Sequence[str]
) -> None:
    """Create the two tables of the chain: released values by cell, and displayed rows.

    Parameters
    ----------
    value_types : the SQL types of the released columns whose values the rows of a cell share.
    retained_types : the SQL types of the retained columns.
    """
    leading_columns = [f"{name} integer" for name in list_row_columns(state, n_retained=0)]
    for table, column_name, first_columns, types in (
        (state.value_table, statements.value_column, ["cell integer"], value_types),
        (state.row_table, statements.retained_column_name, leading_columns, retained_types),
    ):
        columns = [
            f"{column_name(i)} {state.session.dialect.declared_type(sql_type)}"
            for i, sql_type in enumerate(types)
        ]
        state.session.run(f"CREATE TABLE {table} ({', '.join([*first_columns, *columns])})")


def freeze_changed_cells(
    state: ChainState,
    retained: Sequence[Attribute],
    models: Sequence[Model],
    references: References,
) -> dict[str, int]:
    """Stage the live cells whose rows have changed, and freeze those that may not be updated.

    Returns these counts:

    - ``drifted``: cells with changed rows, but fewer than k;
    - ``changed``: changed rows;
    - ``back``: cells frozen because persons returned;
    - ``unfit``: cells frozen because their new rows would violate a model.

    Parameters
    ----------
    retained : the columns staged with the persons.
    models : the privacy models that the rows of a cell must satisfy to be displayed.
    references : by column, the frequencies in the first release that models compare classes with.
    """
    if state.chain.rules.changes == FREEZE:
        # With this rule, the rows of existing cells are never updated.
        return {"drifted": 0, "changed": 0, "back": 0, "unfit": 0}
    # With several rows per person, the only compared column is a digest of a person's rows.
    n_compared = 1 if state.has_several_rows_per_person else len(retained)
    counts = _stage_changed_cells(
        state, [statements.retained_column_name(i) for i in range(n_compared)]
    )
    counts["back"] = freeze_returned_cells(state, n_compared)
    return counts | {"unfit": freeze_failing_cells(state, retained, models, references)}


def update_displayed_rows(
    state: ChainState,
    chain_tables: Sequence[ChainTable],
    newcomers: Relation | None,
    first_new_cell: int,
    is_large_batch: bool,
) -> None:
    """Update the displayed rows of all cells; call ``freeze_changed_cells`` first.

    New cells, and live cells with changed rows, take their rows from the source. All other cells
    keep their displayed rows.

    Parameters
    ----------
    newcomers : the rows of admitted newcomers in the source; None if there are none.
    first_new_cell : the number of the first cell of these newcomers.
    is_large_batch : True if the state grows so much that it needs new planner statistics.
    """
    session, changes = state.session, state.chain.rules.changes
    retained = [attribute for chain_table in chain_tables for attribute in chain_table.retained]
    names = [statements.retained_column_name(i) for i in range(len(retained))]
    # SQL condition for existing cells that take new rows from the source.
    renewed_condition = ""
    # The rows to insert, as pairs: SQL of a SELECT, and the SQL expressions to order it by.
    inserts = []
    if changes != FREEZE:
        changed_cells = f"SELECT d.cell FROM {quote(CHANGED_CELLS)} AS d"
        if changes == HOLD:
            # Cells that have drifted keep their displayed rows.
            changed_cells += f" WHERE d.n_changed >= {int(state.k)}"
        # If a group leaves a cell, the cell is renewed, too: the group's rows must disappear.
        renewed_condition = f"v.state = 'live' AND v.cell IN ({changed_cells}) OR {PARTLY_LEFT}"
    select_cells = f"SELECT v.cell FROM {quote(NEXT_CELL_STATES)} AS v WHERE"
    columns = ", ".join(list_row_columns(state, len(retained)))
    if state.has_several_rows_per_person:
        renewed_cells_query = f"{select_cells} {renewed_condition}" if renewed_condition else ""
        stage_renewed_rows(
            state, chain_tables, renewed_cells_query, None if newcomers is None else first_new_cell
        )
    elif renewed_condition:
        rows = (
            f"{quote(PRESENT_PERSONS)} AS n WHERE n.left_at IS NULL"
            f" AND n.cell IN ({select_cells} {renewed_condition})"
        )
        inserts.append(
            (
                f"SELECT {columns} FROM {rows}",
                f"n.cell, {session.chain_dialect.random_order_key('n')}",
            )
        )
    if newcomers is not None and not state.has_several_rows_per_person:
        values = {
            n: session.dialect.retained_value(a) for a, n in zip(retained, names, strict=True)
        }
        source_columns = list(dict.fromkeys(a.name for a in retained))
        # ``insert_cells`` writes the rows itself if ``ChainState.admit_classes`` has loaded classes
        # as arrays. Otherwise their labels are staged, and the SQL below joins them.
        row_values = {"cell": f"c.class + {first_new_cell}"} | values
        arrays = session.chain_arrays
        if arrays is None or not arrays.insert_cells(
            state.chain.table_name(session, "row"), row_values, newcomers, source_columns
        ):
            rows = statements.released_rows(
                newcomers.from_clause, newcomers.required_locator.expressions
            )
            # The positions of the labels are in random order, so they can order the rows of a cell.
            select_list = [
                f"l.class + {first_new_cell} AS cell",
                *(f"{sql} AS {n}" for n, sql in values.items()),
            ]
            inserts.append((f"SELECT {', '.join(select_list)} FROM {rows}", "l.class, l.position"))
    if state.has_several_rows_per_person:
        new_rows = f"SELECT {columns} FROM {quote(NEW_ROWS)} AS n"
        inserts.append((new_rows, f"n.cell, {session.chain_dialect.random_order_key('n')}"))
    deleted_condition = _NO_LONGER_DISPLAYED
    if renewed_condition:
        deleted_condition += f" OR {renewed_condition}"
    session.run(f"DELETE FROM {state.row_table} WHERE cell IN ({select_cells} {deleted_condition})")
    # Store the rows of a cell together, because rows are counted by cell. Within the cell, the
    # order is random: the source's order would reveal which row belongs to which person.
    for select, order in inserts:
        with session.chain_dialect.tune_for_sorting() if is_large_batch else nullcontext():
            session.run(f"INSERT INTO {state.row_table} ({columns}) {select} ORDER BY {order}")
    if is_large_batch:
        session.analyze(state.chain.table_name(session, "row"))


def _stage_changed_cells(state: ChainState, names: Sequence[str]) -> dict[str, int]:
    """Stage how many rows have changed in each live cell whose members are all in the source.

    If persons may have several rows, the persons whose rows have changed are counted instead.
    Returns the counts ``drifted`` and ``changed`` of ``freeze_changed_cells``.

    Parameters
    ----------
    names : the columns to compare.
    """
    session = state.session
    columns = ", ".join(["cell", *names])
    old_columns = ", ".join(["r.cell", *(f"r.{name}" for name in names)])
    new_columns = ", ".join(["n.cell", *(f"n.{name}" for name in names)])
    # Joins the rows with an alias, which replaces {}, to the live cells whose members are all in
    # the source. Cells with is_unchanged = 1 are left out.
    join_complete_cells = (
        f"JOIN {quote(NEXT_CELL_STATES)} AS v ON v.cell = {{}}.cell AND v.state = 'live'"
        " AND v.present = v.members AND v.is_unchanged = 0"
    )
    # Compare rows as multisets: a row in the source weighs 1, a displayed row -1. If the source has
    # more rows with certain values than are displayed, the difference is their surplus.
    state.stage(
        CHANGED_CELLS,
        f"SELECT cell, sum(surplus) AS n_changed FROM (SELECT {columns}, sum(weight)"
        f" AS surplus FROM (SELECT {new_columns}, 1 AS weight FROM {quote(PRESENT_PERSONS)} AS n"
        f" {join_complete_cells.format('n')} WHERE n.left_at IS NULL"
        f" UNION ALL SELECT {old_columns}, -1 FROM {state.displayed_table} AS r"
        f" {join_complete_cells.format('r')}) AS u"
        f" GROUP BY {columns} HAVING sum(weight) > 0) AS d GROUP BY cell",
    )
    n_drifted, n_changed = session.rows(
        f"SELECT count(CASE WHEN d.n_changed < {int(state.k)} THEN 1 END),"
        f" coalesce(sum(d.n_changed), 0) FROM {quote(CHANGED_CELLS)} AS d"
    )[0]
    return {"drifted": int(n_drifted), "changed": int(n_changed)}
