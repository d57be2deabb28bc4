"""Privacy models of a chain: cells whose rows stay as they were shown, newcomers who stay out.

A cell is held where its rows of now would break a model. Only cells are looked at of which all are
in the source, and some rows are not as they were shown: the others keep to the models as before.
What is fetched is how often values occur, and no value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.chain.membership import CellState
from dbanon.data.schema import Attribute
from dbanon.measures import Model
from dbanon.sessions import statements
from dbanon.sessions.base import Relation, random_order
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.pseudonym_session import DIFFERING, PRESENT, UNFIT, VERDICT

_AT_ONCE = 1000


def hold_unfit(state: CellState, kept: Sequence[Attribute], models: Sequence[Model]) -> int:
    """Hold the cells that would break a model with the rows of now; how many cells.

    Parameters
    ----------
    kept : the columns that are staged beside the persons, those of the models among them.
    """
    session = state.session
    places = {attribute.name: place for place, attribute in enumerate(kept)}
    unfit: set[int] = set()
    for model in models:
        place = places[model.attribute]
        value = session.told_apart(kept[place], statements.kept_column(place))
        found = session.rows(
            "SELECT c.cell, count(*) FROM"
            f" (SELECT s.cell, {value} AS value FROM {quote(PRESENT)} AS s"
            f" JOIN {quote(DIFFERING)} AS d ON d.cell = s.cell WHERE s.left_at IS NULL) AS c"
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
    # No model that a chain keeps asks which value it is, so each has a place in its own cell.
    counts = np.zeros((len(cells), int(sizes.max())), np.int64)
    place = np.arange(len(found)) - np.repeat(starts, sizes)
    counts[np.repeat(np.arange(len(cells)), sizes), place] = found[:, 1]
    return set(cells[~model.satisfied(counts, np.empty(0))].tolist())
