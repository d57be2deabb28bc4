"""What a chain's state and release hold, counted again by statements of its own.

Nothing that was staged to make them is believed, but who is in the source and under which tag.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dbanon.chain.membership import CellState
from dbanon.data.counts import Recount
from dbanon.data.schema import Attribute
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.pseudonym_session import ABSENT, HISTORIES, MISSING, SHOWN
from dbanon.sessions.session import Session

_SLACK = 1e-9


def sizes(state: CellState, staged: bool = False) -> dict[int, int]:
    """How many histories are shared by each number of persons.

    A history is a cell, and the release that it was left with.

    Parameters
    ----------
    staged : True where ``stage_histories`` has counted them.
    """
    found = state.session.rows(
        f"SELECT size, count(*) FROM {_counted(state, staged)} AS histories GROUP BY size"
    )
    return {int(size): int(many) for size, many in found}


def stage_histories(state: CellState) -> None:
    """Stage how many persons share each history."""
    state.make(HISTORIES, _histories(state))


def _counted(state: CellState, staged: bool) -> str:
    return quote(HISTORIES) if staged else f"({_histories(state)})"


def _histories(state: CellState) -> str:
    return (
        "SELECT cell, left_at_release AS left_at, CAST(count(*) AS integer) AS size"
        f" FROM {state.name('chain_member')} WHERE {state.of_chain} GROUP BY cell, left_at_release"
    )


def exposed(found: dict[int, int], k: int) -> int:
    """The persons whose history fewer than k share; ``found`` as ``sizes`` gives them."""
    return sum(size * many for size, many in found.items() if size < k)


def on_display(state: CellState) -> tuple[int, int]:
    """The persons whom the release shows, and how many of them are not in the source.

    Asked once ``stage_histories`` and ``remember`` have staged both.
    """
    [(shown,)] = state.session.rows(
        f"SELECT coalesce(sum(size), 0) FROM {quote(HISTORIES)} WHERE left_at IS NULL"
    )
    [(absent,)] = state.session.rows(f"SELECT coalesce(sum(size), 0) FROM {quote(ABSENT)}")
    return int(shown), int(absent)


def misplaced(state: CellState) -> int:
    """Cells that have other rows than persons who are shown, or no values, or are not to be shown.

    Counted on the rows that were written, once ``stage_histories`` has staged the persons.
    """
    members = (
        "SELECT h.cell, h.size AS persons, 0 AS written, 0 AS valued"
        f" FROM {quote(HISTORIES)} AS h JOIN {state.name('chain_cell')} AS c"
        f" ON c.{state.of_chain} AND c.cell = h.cell AND c.state IN ('live', 'held')"
        " WHERE h.left_at IS NULL"
    )
    rows = (
        "SELECT r.cell, 0, r.size, CASE WHEN v.cell IS NULL THEN 0 ELSE r.size END FROM"
        f" (SELECT cell, CAST(count(*) AS integer) AS size FROM {state.rows} GROUP BY cell) AS r"
        f" LEFT JOIN {state.values} AS v ON v.cell = r.cell"
    )
    [(apart,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT cell FROM ({members} UNION ALL {rows}) AS both_ways"
        " GROUP BY cell HAVING sum(persons) <> sum(written) OR sum(valued) <> sum(written))"
        " AS apart"
    )
    return int(apart)


def remember(state: CellState, kept: int) -> None:
    """Stage the cells of which some are shown and not in the source, with the rows that they have.

    Asked before the rows that were shown are replaced.

    Parameters
    ----------
    kept : how many columns they have.
    """
    state.make(
        ABSENT,
        f"SELECT m.cell, count(*) AS size FROM {state.name('chain_member')} AS m"
        f" WHERE m.{state.of_chain} AND m.left_at_release IS NULL"
        f" AND m.tag IN (SELECT p.tag FROM {quote(MISSING)} AS p) GROUP BY m.cell",
    )
    state.make(SHOWN, _of_absent(state, kept))


def rewritten(state: CellState, kept: int) -> int:
    """Rows of held cells that differ from those that ``remember`` staged: as multisets.

    A cell is held when some of those it shows are not in the source.
    """
    columns = _columns(kept)
    [(apart,)] = state.session.rows(
        f"SELECT count(*) FROM (SELECT {columns} FROM"
        f" (SELECT {columns}, 1 AS weight FROM {quote(SHOWN)}"
        f" UNION ALL SELECT {columns}, -1 FROM ({_of_absent(state, kept)}) AS now) AS both_ways"
        f" GROUP BY {columns} HAVING sum(weight) <> 0) AS apart"
    )
    return int(apart)


def _of_absent(state: CellState, kept: int) -> str:
    absent = f"SELECT a.cell FROM {quote(ABSENT)} AS a"
    return f"SELECT {_columns(kept)} FROM {state.rows} WHERE cell IN ({absent})"


def _columns(kept: int) -> str:
    return ", ".join(["cell", *map(statements.kept_column, range(kept))])


def combinations(
    state: CellState,
    release: RelationName,
    combination: Sequence[tuple[str, str]],
    staged: bool = False,
) -> tuple[Recount, int]:
    """The rows that share each combination of released values, and how many are uneven.

    Those have other rows than the cells that share them.

    Parameters
    ----------
    release : the relation that was written, in the same database.
    combination : its columns that classes share, with the place of each in the cells' values.
    staged : as of ``sizes``.
    """
    values = ", ".join(f"v.{place} AS {place}" for _, place in combination)
    places = ", ".join(place for _, place in combination)
    names = quote_list(name for name, _ in combination)
    of_cells = (
        f"SELECT {values}, 0 AS written, h.size AS n FROM {_counted(state, staged)} AS h"
        f" JOIN {state.values} AS v ON v.cell = h.cell WHERE h.left_at IS NULL"
    )
    null = statements.any_null(place for _, place in combination)
    found = state.session.rows(
        "SELECT size, null_in_class, count(*), sum(apart) FROM (SELECT sum(written) AS size,"
        f" ({null}) AS null_in_class, CASE WHEN sum(n) <> 0 THEN 1 ELSE 0 END AS apart FROM"
        f" ({of_cells} UNION ALL SELECT {names}, 1, -1 FROM {release.quoted}) AS both_ways"
        f" GROUP BY {places}) AS classes GROUP BY size, null_in_class"
    )
    counted = Recount.of_sizes(row[:3] for row in found if row[0])
    return counted, sum(int(apart) for *_, apart in found)


def failing(state: CellState, kept: Sequence[Attribute], models: Sequence[Model]) -> int:
    """Cells on display whose rows, as they were written, do not keep to a privacy model.

    A cell counts once for each model that it breaks.

    Parameters
    ----------
    kept : the columns that they have.
    """
    names, found = [attribute.name for attribute in kept], 0
    for model in models:
        place = names.index(model.attribute)
        value = state.session.told_apart(kept[place], statements.kept_column(place))
        counts = (
            "SELECT c.cell, c.size, row_number() OVER (PARTITION BY c.cell ORDER BY c.size DESC)"
            " AS place FROM (SELECT t.cell, CAST(count(*) AS double precision) AS size FROM"
            f" (SELECT s.cell, {value} AS value FROM {state.rows} AS s) AS t"
            " GROUP BY t.cell, t.value) AS c"
        )
        [(broken,)] = state.session.rows(
            f"SELECT count(*) FROM (SELECT v.cell FROM ({counts}) AS v GROUP BY v.cell"
            f" HAVING NOT ({_keeps(state.session, model)})) AS broken"
        )
        found += int(broken)
    return found


def _keeps(session: Session, model: Model) -> str:
    """SQL of whether a cell keeps to a model, of its values by how many rows have each.

    ``size`` is that number, and ``place`` 1 of the most frequent. Rounding fails no level that is
    reached exactly.
    """
    if model.kind == "distinct_l":
        return f"count(*) >= {model.level - _SLACK!r}"
    if model.kind == "alpha_k":
        return f"max(v.size) / sum(v.size) <= {model.level + _SLACK!r}"
    if model.kind == "recursive_cl":
        rest = f"sum(CASE WHEN v.place >= {int(model.l)} THEN v.size END)"
        return f"coalesce(max(v.size) / {rest} < {float(model.level)!r}, 1 = 0)"
    assert model.kind == "entropy_l"
    ln, least = session.logarithm, max(model.level - _SLACK, _SLACK)
    entropy = f"{ln('sum(v.size)')} - sum(v.size * {ln('v.size')}) / sum(v.size)"
    return f"{entropy} >= {math.log(least)!r}"
