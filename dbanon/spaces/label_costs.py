"""What the labels of numbers cost: the loss of intervals on grids, in the units of a mixed space.

All borders of a grid cut a column's line into pieces. The label of a class, and so its loss,
follows from the pieces that its smallest and its largest number are in. What the label of a class
of equal numbers loses is not counted: no search can save it. Of months it is that of the longest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.grid import Grid, around, grid_for, held_width, unit_of
from dbanon.data.measures import Measures
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.codes import number_codes

# With more pieces labels are so narrow that own ranges tell their loss.
MOST_PIECES = 256


@dataclass(frozen=True)
class LabelCosts:
    """The costs as kernels take them.

    Parameters
    ----------
    pieces : int32 (d,), of each attribute; 0 where it is measured by its tree or its own range.
    firsts : int32, the first code of each piece, attribute by attribute.
    costs : int32, of each attribute the table (w, w) of a record's cost by the pieces of both ends.
    """

    pieces: NDArray[np.int32]
    firsts: NDArray[np.int32]
    costs: NDArray[np.int32]

    @classmethod
    def none(cls, d: int) -> LabelCosts:
        """Of d attributes that are all measured by their trees or own ranges."""
        return cls(np.zeros(d, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """What kernels take."""
        return self.pieces, self.firsts, self.costs


def label_costs(
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy | None],
    measures: Measures,
    units: NDArray[np.int64],
    steps: Mapping[str, float],
) -> LabelCosts:
    """The costs of labels on the grids that the recoding uses.

    Parameters
    ----------
    units : int64 (d,), the cost of a record's attribute of which nothing is told.
    steps : of the grids that the caller chose; a wrong one, which the recoding refuses, counts not.
    """
    found = []
    for attribute, tree, unit in zip(attributes, trees, units.tolist(), strict=True):
        scale = None if tree is not None else measures.numbers[attribute.name]
        step = steps.get(attribute.name)
        wrong = step is not None and not (np.isfinite(step) and step > 0)
        if scale is None or scale.constant or not unit or wrong:
            found.append((np.empty(0, np.int32), np.empty(0, np.int32)))
        else:
            found.append(_of_number(attribute, scale, grid_for(attribute, scale, step), unit))
    firsts, costs = zip(*found, strict=True)
    return LabelCosts(
        np.array([len(first) for first in firsts], np.int32),
        np.concatenate(firsts),
        np.concatenate(costs),
    )


def _of_number(
    attribute: Attribute, scale: Scale, grid: Grid, unit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The first code of each piece, and the costs; none where there are too many pieces."""
    borders = grid.borders_between(scale.least, scale.most, MOST_PIECES - 1)
    if borders is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    starts = np.concatenate(([scale.least], borders))
    first, last = np.triu_indices(len(starts))
    low, high = around(attribute, grid, starts[first], starts[last])
    width = held_width(low, high, scale, unit_of(attribute))
    told = np.rint(width * unit).astype(np.int64)
    costs = np.zeros((len(starts), len(starts)), np.int32)
    costs[first, last] = np.maximum(told - told[first == last].max(), 0)
    np.fill_diagonal(costs, 0)
    return number_codes(starts, None, scale, unit), costs.reshape(-1)
