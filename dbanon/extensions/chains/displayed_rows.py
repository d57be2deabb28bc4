"""Renew, count and inspect the displayed rows of a chain with several rows per person.

Rows are *displayed* if the current release contains them. A *cell* is a class of a chain (see
``membership``). A cell is *renewed* if the release takes its rows from the source again.

The constants ``PERSON_NUMBER``, ``TABLE_NUMBER`` and ``N_WITHHELD`` are names of columns. In
staging tables, ``left_at`` is the number of the release at which a member left the cell; NULL for
members who have not left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dbanon.extensions.chains.rows_per_person import (
    N_WITHHELD,
    PERSON_COLUMNS,
    PERSON_NUMBER,
    TABLE_NUMBER,
    ChainTable,
    list_state_columns,
)
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.sessions.chain_staging import (
    NEW_ROWS,
    NUMBERED_PERSONS,
    PRESENT_PERSONS,
    RENEWED_PERSONS,
    SOURCE_ROWS,
)
from dbanon.sessions.names import quote
from dbanon.stores.ports import PreparedRelease

if TYPE_CHECKING:
    from dbanon.extensions.chains.membership import ChainState


def stage_renewed_rows(
    state: ChainState,
    chain_tables: Sequence[ChainTable],
    renewed_cells_query: str,
    first_new_cell: int | None,
) -> None:
    """Stage the rows that new and renewed cells take from the source.

    Persons get new numbers, in random order, so that their numbers reveal nothing.

    Parameters
    ----------
    renewed_cells_query : SQL query of the existing cells to renew; empty for none.
    first_new_cell : the number of the first cell of admitted newcomers; None if there are none.
    """
    session, member_queries = state.session, []
    if renewed_cells_query:
        member_queries.append(
            f"SELECT p.person, p.cell FROM {quote(PRESENT_PERSONS)} AS p WHERE p.left_at IS NULL"
            f" AND p.cell IN ({renewed_cells_query})"
        )
    if first_new_cell is not None:
        member_queries.append(
            f"SELECT p.person, m.cell FROM {quote(PRESENT_PERSONS)} AS p"
            f" JOIN {state.ledger_table('chain_member')} AS m ON m.tag = p.tag"
            f" WHERE m.{state.chain_condition} AND m.cell >= {int(first_new_cell)}"
        )
    columns = list_state_columns(chain_tables)
    column_list = ", ".join(["cell", *PERSON_COLUMNS, *columns])
    if not member_queries:
        # Later statements read this table even if no cell is new or renewed.
        state.stage(NEW_ROWS, f"SELECT {column_list} FROM {state.row_table} WHERE 1 = 0")
        return
    state.stage(RENEWED_PERSONS, " UNION ALL ".join(member_queries))
    random_order = session.chain_dialect.random_order_key("r")
    state.stage(
        NUMBERED_PERSONS,
        f"SELECT r.person, r.cell, row_number() OVER (ORDER BY {random_order})"
        f" AS {PERSON_NUMBER} FROM {quote(RENEWED_PERSONS)} AS r",
    )
    source_columns = ", ".join(f"e.{name}" for name in (TABLE_NUMBER, N_WITHHELD, *columns))
    state.stage(
        NEW_ROWS,
        f"SELECT n.cell, n.{PERSON_NUMBER}, {source_columns} FROM {quote(NUMBERED_PERSONS)} AS n"
        f" JOIN {quote(SOURCE_ROWS)} AS e ON e.person = n.person",
    )


@dataclass(frozen=True)
class DisplayedRowCounts:
    """The numbers of displayed and withheld rows.

    Parameters
    ----------
    rows_by_table : number of displayed rows, by table number.
    withheld_by_table : number of rows withheld beyond the limit per person, by table number.
    n_persons_over_limit : number of persons with withheld rows in any table.
    """

    rows_by_table: Mapping[int, int]
    withheld_by_table: Mapping[int, int]
    n_persons_over_limit: int


def count_displayed_rows(state: ChainState) -> DisplayedRowCounts:
    """Count the displayed rows, and the persons with rows withheld beyond the limit."""
    # All displayed rows of a person in a table repeat the person's number of withheld rows.
    table_counts = state.session.rows(
        f"SELECT p.{TABLE_NUMBER}, sum(p.n), sum(p.{N_WITHHELD})"
        f" FROM (SELECT cell, {PERSON_NUMBER}, {TABLE_NUMBER},"
        f" count(*) AS n, max({N_WITHHELD}) AS {N_WITHHELD} FROM {state.row_table}"
        f" GROUP BY cell, {PERSON_NUMBER}, {TABLE_NUMBER}) AS p GROUP BY p.{TABLE_NUMBER}"
    )
    [(n_persons_over_limit,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell, {PERSON_NUMBER} FROM {state.row_table}"
        f" WHERE {N_WITHHELD} > 0 GROUP BY cell, {PERSON_NUMBER}) AS p"
    )
    return DisplayedRowCounts(
        rows_by_table={int(table): int(n_rows) for table, n_rows, _ in table_counts},
        withheld_by_table={int(table): int(n_withheld) for table, _, n_withheld in table_counts},
        n_persons_over_limit=int(n_persons_over_limit),
    )


@dataclass(frozen=True)
class DisplayedSource:
    """The displayed rows of one table, which checks of retained columns read grouped by value.

    Parameters
    ----------
    state : the state of the chain after this release.
    table_number : the index of the table among those of the chain.
    state_columns : by name of a released column, its column in the chain's tables.
    """

    state: ChainState
    table_number: int
    state_columns: Mapping[str, str]

    def group_by_value(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the displayed rows by their value in a column, without NULL, and count persons.

        The counts ``identical`` of the result, which tell how many values determine a
        quasi-identifier, are all 0: a chain checks only whether values are nearly unique.

        Parameters
        ----------
        name : the name of the released column.
        """
        column = self.state_columns[name]
        attribute = draft.relation.attribute(name)
        rows = f"{self.state.row_table} AS s"
        # Columns v0, v1, … are in the value table, which has one row per cell.
        if column.startswith("v"):
            rows = (
                f"(SELECT r.cell, r.{PERSON_NUMBER}, r.{TABLE_NUMBER}, v.{column}"
                f" FROM {self.state.row_table} AS r"
            )
            rows += f" JOIN {self.state.value_table} AS v ON v.cell = r.cell) AS s"
        value = self.state.session.dialect.grouping_sql(replace(attribute, name=column))
        persons = (
            f"SELECT {value} AS value, s.cell, s.{PERSON_NUMBER}, count(*) AS n FROM {rows}"
            f" WHERE s.{TABLE_NUMBER} = {self.table_number} AND s.{quote(column)} IS NOT NULL"
            f" GROUP BY {value}, s.cell, s.{PERSON_NUMBER}"
        )
        size_counts = self.state.session.rows(
            "SELECT v.size, count(*), sum(v.rare) FROM (SELECT p.value, sum(p.n) AS size,"
            f" CASE WHEN count(*) < {int(self.state.k)} THEN 1 ELSE 0 END AS rare"
            f" FROM ({persons}) AS p GROUP BY p.value) AS v GROUP BY v.size"
        )
        counts = np.array([[int(value) for value in row] for row in size_counts], np.int64).reshape(
            -1, 3
        )
        identical_counts = np.zeros((len(counts), len(draft.microdata.attributes)), np.int64)
        sizes, n_values, n_rare_values = counts.T
        return ValueGroups(sizes, counts=n_values, rare=n_rare_values, identical=identical_counts)
