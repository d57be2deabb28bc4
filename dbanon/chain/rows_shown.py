"""The displayed rows of a chain with several rows per person: renew, count and inspect them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dbanon.chain.rows_per_person import BEYOND, LEADING_COLUMNS, PART, PERSON, Part, columns_of
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import CURRENT, ENTRIES, NUMBERED, PRESENT, RENEWED
from dbanon.stores.ports import PreparedRelease

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState


def stage_renewed_rows(
    state: CellState, parts: Sequence[Part], renewed: str, first: int | None
) -> None:
    """Stage the rows of renewed cells, and number their persons in random order.

    Parameters
    ----------
    renewed : SQL of the renewed cells of members; empty for none.
    first : the first cell of admitted newcomers; None if there are none.
    """
    session, members = state.session, []
    if renewed:
        members.append(
            f"SELECT p.person, p.cell FROM {quote(PRESENT)} AS p WHERE p.left_at IS NULL"
            f" AND p.cell IN ({renewed})"
        )
    if first is not None:
        members.append(
            f"SELECT p.person, m.cell FROM {quote(PRESENT)} AS p"
            f" JOIN {state.name('chain_member')} AS m ON m.tag = p.tag"
            f" WHERE m.{state.of_chain} AND m.cell >= {int(first)}"
        )
    columns = columns_of(parts)
    listed = ", ".join(["cell", *LEADING_COLUMNS, *columns])
    if not members:
        state.make(CURRENT, f"SELECT {listed} FROM {state.rows} WHERE 1 = 0")
        return
    state.make(RENEWED, " UNION ALL ".join(members))
    state.make(
        NUMBERED,
        "SELECT r.person, r.cell,"
        f" row_number() OVER (ORDER BY {session.random_order_key('r')}) AS {PERSON}"
        f" FROM {quote(RENEWED)} AS r",
    )
    entry_columns = ", ".join(f"e.{name}" for name in (PART, BEYOND, *columns))
    state.make(
        CURRENT,
        f"SELECT n.cell, n.{PERSON}, {entry_columns} FROM {quote(NUMBERED)} AS n"
        f" JOIN {quote(ENTRIES)} AS e ON e.person = n.person",
    )


@dataclass(frozen=True)
class DisplayedRowCounts:
    """The numbers of displayed and withheld rows.

    Parameters
    ----------
    rows : displayed rows, by table.
    beyond : rows withheld beyond the limit per person, by table.
    outlying : persons with withheld rows in any table.
    """

    rows: Mapping[int, int]
    beyond: Mapping[int, int]
    outlying: int


def count_displayed_rows(state: CellState) -> DisplayedRowCounts:
    """Count the displayed rows, and the persons with rows withheld beyond the limit."""
    table_counts = state.session.rows(
        f"SELECT p.{PART}, sum(p.n), sum(p.{BEYOND}) FROM (SELECT cell, {PERSON}, {PART},"
        f" count(*) AS n, max({BEYOND}) AS {BEYOND} FROM {state.rows}"
        f" GROUP BY cell, {PERSON}, {PART}) AS p GROUP BY p.{PART}"
    )
    [(outlying,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell, {PERSON} FROM {state.rows} WHERE {BEYOND} > 0"
        f" GROUP BY cell, {PERSON}) AS p"
    )
    return DisplayedRowCounts(
        {int(part): int(rows) for part, rows, _ in table_counts},
        {int(part): int(beyond) for part, _, beyond in table_counts},
        int(outlying),
    )


@dataclass(frozen=True)
class DisplayedSource:
    """The displayed rows of one table, as a source of value groups.

    Parameters
    ----------
    part : the number of the table.
    places : the state column of each column, by name.
    """

    state: CellState
    part: int
    places: Mapping[str, str]

    def groups(self, draft: PreparedRelease, name: str) -> ValueGroups:
        """Group the displayed rows by their value of a column, without NULL, and count persons.

        Dependence on quasi-identifiers is not examined.
        """
        column = self.places[name]
        attribute = draft.relation.attribute(name)
        rows = f"{self.state.rows} AS s"
        if column.startswith("v"):
            rows = f"(SELECT r.cell, r.{PERSON}, r.{PART}, v.{column} FROM {self.state.rows} AS r"
            rows += f" JOIN {self.state.values} AS v ON v.cell = r.cell) AS s"
        value = self.state.session.compared(replace(attribute, name=column))
        persons = (
            f"SELECT {value} AS value, s.cell, s.{PERSON}, count(*) AS n FROM {rows}"
            f" WHERE s.{PART} = {self.part} AND s.{quote(column)} IS NOT NULL"
            f" GROUP BY {value}, s.cell, s.{PERSON}"
        )
        size_counts = self.state.session.rows(
            "SELECT v.size, count(*), sum(v.rare) FROM (SELECT p.value, sum(p.n) AS size,"
            f" CASE WHEN count(*) < {int(self.state.k)} THEN 1 ELSE 0 END AS rare"
            f" FROM ({persons}) AS p GROUP BY p.value) AS v GROUP BY v.size"
        )
        counts = np.array([[int(value) for value in row] for row in size_counts], np.int64).reshape(
            -1, 3
        )
        no_matches = np.zeros((len(counts), len(draft.microdata.attributes)), np.int64)
        return ValueGroups(counts[:, 0], counts[:, 1], counts[:, 2], no_matches)
