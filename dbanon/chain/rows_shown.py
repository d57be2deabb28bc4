"""The rows that a chain shows where persons have several: written anew, counted, looked through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dbanon.chain.several import BEYOND, OF_ROWS, PART, WHOSE, Part, columns_of
from dbanon.release.attribute_disclosure import ValueGroups
from dbanon.sessions.names import quote
from dbanon.sessions.pseudonym_session import CURRENT, ENTRIES, NUMBERED, PRESENT, RENEWED
from dbanon.stores.ports import Draft

if TYPE_CHECKING:
    from dbanon.chain.membership import CellState


def rows_anew(state: CellState, parts: Sequence[Part], renewed: str, first: int | None) -> None:
    """Stage the rows of cells that are shown anew, each person of them under a random number.

    Parameters
    ----------
    renewed : SQL of such cells of members; empty for none.
    first : the first cell of those who were admitted; None where nobody was.
    """
    session, whose = state.session, []
    if renewed:
        whose.append(
            f"SELECT p.person, p.cell FROM {quote(PRESENT)} AS p WHERE p.left_at IS NULL"
            f" AND p.cell IN ({renewed})"
        )
    if first is not None:
        whose.append(
            f"SELECT p.person, m.cell FROM {quote(PRESENT)} AS p"
            f" JOIN {state.name('chain_member')} AS m ON m.tag = p.tag"
            f" WHERE m.{state.of_chain} AND m.cell >= {int(first)}"
        )
    columns = columns_of(parts)
    listed = ", ".join(["cell", *OF_ROWS, *columns])
    if not whose:
        state.make(CURRENT, f"SELECT {listed} FROM {state.rows} WHERE 1 = 0")
        return
    state.make(RENEWED, " UNION ALL ".join(whose))
    state.make(
        NUMBERED,
        f"SELECT r.person, r.cell, row_number() OVER (ORDER BY {session.shuffled('r')}) AS {WHOSE}"
        f" FROM {quote(RENEWED)} AS r",
    )
    own = ", ".join(f"e.{name}" for name in (PART, BEYOND, *columns))
    state.make(
        CURRENT,
        f"SELECT n.cell, n.{WHOSE}, {own} FROM {quote(NUMBERED)} AS n"
        f" JOIN {quote(ENTRIES)} AS e ON e.person = n.person",
    )


@dataclass(frozen=True)
class RowsShown:
    """What the state shows of each table, counted.

    Parameters
    ----------
    rows : by table, the rows.
    beyond : by table, the rows that were withheld of persons who have many.
    outlying : persons of whom some were, in any table.
    """

    rows: Mapping[int, int]
    beyond: Mapping[int, int]
    outlying: int


def rows_shown(state: CellState) -> RowsShown:
    """The rows on display; a person whose rows beyond the limit are withheld is counted, too."""
    found = state.session.rows(
        f"SELECT p.{PART}, sum(p.n), sum(p.{BEYOND}) FROM (SELECT cell, {WHOSE}, {PART},"
        f" count(*) AS n, max({BEYOND}) AS {BEYOND} FROM {state.rows}"
        f" GROUP BY cell, {WHOSE}, {PART}) AS p GROUP BY p.{PART}"
    )
    [(outlying,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell, {WHOSE} FROM {state.rows} WHERE {BEYOND} > 0"
        f" GROUP BY cell, {WHOSE}) AS p"
    )
    return RowsShown(
        {int(part): int(rows) for part, rows, _ in found},
        {int(part): int(beyond) for part, _, beyond in found},
        int(outlying),
    )


@dataclass(frozen=True)
class ShownSource:
    """The rows of one table that a chain shows, as what columns are looked through that tell rows.

    Parameters
    ----------
    part : the number of the table.
    places : of its columns, by name, in the state.
    """

    state: CellState
    part: int
    places: Mapping[str, str]

    def groups(self, draft: Draft, name: str) -> ValueGroups:
        """The rows on display by their value of a column, NULL left out, with the persons of each.

        Which quasi-identifiers a column determines is not looked at.
        """
        place = self.places[name]
        attribute = draft.relation.attribute(name)
        rows = f"{self.state.rows} AS s"
        if place.startswith("v"):
            rows = f"(SELECT r.cell, r.{WHOSE}, r.{PART}, v.{place} FROM {self.state.rows} AS r"
            rows += f" JOIN {self.state.values} AS v ON v.cell = r.cell) AS s"
        value = self.state.session.compared(replace(attribute, name=place))
        persons = (
            f"SELECT {value} AS value, s.cell, s.{WHOSE}, count(*) AS n FROM {rows}"
            f" WHERE s.{PART} = {self.part} AND s.{quote(place)} IS NOT NULL"
            f" GROUP BY {value}, s.cell, s.{WHOSE}"
        )
        found = self.state.session.rows(
            "SELECT v.size, count(*), sum(v.rare) FROM (SELECT p.value, sum(p.n) AS size,"
            f" CASE WHEN count(*) < {int(self.state.k)} THEN 1 ELSE 0 END AS rare"
            f" FROM ({persons}) AS p GROUP BY p.value) AS v GROUP BY v.size"
        )
        counts = np.array([[int(one) for one in row] for row in found], np.int64).reshape(-1, 3)
        alike = np.zeros((len(counts), len(draft.microdata.attributes)), np.int64)
        return ValueGroups(counts[:, 0], counts[:, 1], counts[:, 2], alike)
