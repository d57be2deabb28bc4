"""What a chain's state and release hold, counted again by statements of its own.

Nothing that was staged to make them is believed, but who is in the source and under which tag.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.stores import statements
from dbanon.stores.chain_cells import CellState
from dbanon.stores.keyed import CURRENT, PRESENT
from dbanon.stores.names import RelationName, quote, quote_list


def sizes(state: CellState) -> dict[int, int]:
    """How many histories are shared by each number of persons.

    A history is a cell, and the release that it was left with.
    """
    found = state.session.rows(
        "SELECT size, count(*) FROM (SELECT count(*) AS size"
        f" FROM {state.name('chain_member')} WHERE {state.of_chain}"
        " GROUP BY cell, left_at_release) AS histories GROUP BY size"
    )
    return {int(size): int(many) for size, many in found}


def exposed(found: dict[int, int], k: int) -> int:
    """The persons whose history fewer than k share; ``found`` as ``sizes`` gives them."""
    return sum(size * many for size, many in found.items() if size < k)


def on_display(state: CellState) -> tuple[int, int]:
    """The persons whom the release shows, and how many of them are not in the source."""
    [(shown, there)] = state.session.rows(
        f"SELECT count(*), count(p.tag) FROM {state.name('chain_member')} AS m"
        f" LEFT JOIN {quote(PRESENT)} AS p ON p.tag = m.tag"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL"
    )
    return int(shown), int(shown) - int(there)


def misplaced(state: CellState) -> int:
    """Cells that have other rows than persons who are shown, or no values, or are not to be shown.

    Counted on the rows that were written.
    """
    session = state.session
    members = (
        f"SELECT m.cell, count(*) AS size FROM {state.name('chain_member')} AS m"
        f" JOIN {state.name('chain_cell')} AS c ON c.{state.of_chain} AND c.cell = m.cell"
        " AND c.state IN ('live', 'held')"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL GROUP BY m.cell"
    )
    rows = f"SELECT r.cell, count(*) AS size FROM {state.joined} GROUP BY r.cell"
    alone = f"SELECT cell, count(*) AS size FROM {state.rows} GROUP BY cell"
    return sum(
        int(session.rows(f"SELECT count(*) FROM ({one} EXCEPT {other}) AS apart")[0][0])
        for one, other in ((members, rows), (rows, members), (alone, rows))
    )


def rewritten(state: CellState, kept: int) -> int:
    """Rows of held cells that differ from those shown before: as multisets, both ways.

    A cell is held when some of those it shows are not in the source. Asked before the rows that
    were shown are replaced.

    Parameters
    ----------
    kept : how many columns they have.
    """
    columns = ", ".join(["cell", *map(statements.kept_column, range(kept))])
    absent = (
        f"SELECT m.cell FROM {state.name('chain_member')} AS m"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL AND NOT EXISTS"
        f" (SELECT 1 FROM {quote(PRESENT)} AS p WHERE p.tag = m.tag)"
    )
    new, old = (
        f"SELECT {columns}, count(*) AS n FROM {table} WHERE cell IN ({absent}) GROUP BY {columns}"
        for table in (quote(CURRENT), state.rows)
    )
    return sum(
        int(state.session.rows(f"SELECT count(*) FROM ({one} EXCEPT {other}) AS apart")[0][0])
        for one, other in ((new, old), (old, new))
    )


def uneven(state: CellState, release: RelationName, combination: Sequence[tuple[str, str]]) -> int:
    """Combinations of released values that have other rows than the cells that share them.

    Parameters
    ----------
    release : the relation that was written, in the same database.
    combination : its columns that classes share, with the place of each in the cells' values.
    """
    values = ", ".join(f"v.{place}" for _, place in combination)
    names = quote_list(name for name, _ in combination)
    of_cells = (
        f"SELECT {values}, count(*) AS n FROM {state.name('chain_member')} AS m"
        f" JOIN {state.values} AS v ON v.cell = m.cell"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL GROUP BY {values}"
    )
    written = f"SELECT {names}, count(*) AS n FROM {release.quoted} GROUP BY {names}"
    return sum(
        int(state.session.rows(f"SELECT count(*) FROM ({one} EXCEPT {other}) AS apart")[0][0])
        for one, other in ((of_cells, written), (written, of_cells))
    )
