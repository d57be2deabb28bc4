"""Where methods of generalization measure cost: mixed attributes in fixed-point whole numbers.

Costs are counted in units of which ``UNIT`` make one attribute of one record released as its root.
Whole numbers make every sum independent of its order; ``UNIT`` can be divided by every depth up to
16, so that climbing a hierarchy costs the same on every way to the same share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.grid import Grid, around, grid_for, held_width, unit_of
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import Hierarchies, leaf_codes, trees_of
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import MixedTable

# Up to this many steps between minimum and maximum whole numbers keep equal distances equal.
_GRID_STEPS = 1 << 17


def number_codes(
    values: NDArray[np.float64], valid: NDArray[np.bool_] | None, scale: Scale, unit: int
) -> NDArray[np.int32]:
    """Numbers as whole steps from 0 at the minimum to ``unit`` at the maximum; 0 where NULL.

    A number beyond them is at the end that it is nearest to.
    """
    if scale.constant:
        return np.zeros(len(values), np.int32)
    low, high = scale.least, scale.most
    with np.errstate(invalid="ignore", over="ignore"):
        if scale.whole and high - low <= _GRID_STEPS:
            codes = (values - low) * (unit // int(high - low))
        else:
            # A power of two first, so that the width of huge numbers does not overflow.
            start, end = np.ldexp([low, high], -scale.exponent)
            codes = np.rint((np.ldexp(values, -scale.exponent) - start) / (end - start) * unit)
    if valid is not None:
        codes = np.where(valid, codes, 0.0)
    # Records that came later may be beyond the range that the table had.
    return np.clip(codes, 0, unit).astype(np.int32)


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
    width = held_width(low, high, scale, unit_of(attribute, scale))
    told = np.rint(width * unit).astype(np.int64)
    costs = np.zeros((len(starts), len(starts)), np.int32)
    costs[first, last] = np.maximum(told - told[first == last].max(), 0)
    np.fill_diagonal(costs, 0)
    return number_codes(starts, None, scale, unit), costs.reshape(-1)


# lcm(1, ..., 16) = 720720 times 2**10: below 2**30, so that a cost fits into 32 bits.
_STEP = 720720
UNIT = _STEP * 1024


def spans(units: NDArray[np.int64], trees: Sequence[Hierarchy | None]) -> NDArray[np.float64]:
    """The largest difference of two codes of each attribute, float64 (d,), 1 at least."""
    found = [
        max(int(unit) if tree is None else tree.n_leaves - 1, 1)
        for unit, tree in zip(units, trees, strict=True)
    ]
    return np.array(found, np.float64)


@dataclass(frozen=True)
class Axis:
    """What a column of coordinates stands for.

    Parameters
    ----------
    tree : the hierarchy whose leaves are spread evenly over the axis, from 0; None for a number.
    width : the largest distance of two values; of leaves, how long the axis is as well.
    """

    tree: Hierarchy | None
    width: float


@dataclass(frozen=True)
class MixedSpace:
    """The records as a method of generalization sees them.

    Parameters
    ----------
    codes : int32 (n, d), C order, read-only. Numeric attributes: 0 at the table's minimum to the
        attribute's unit at its maximum. Others: positions of leaves.
    units : int64 (d,), the cost of a record's attribute released as its root: the weight.
    trees : the hierarchy of each attribute; None where it is numeric.
    names : the d attributes' names.
    labels : what the labels of numbers cost, where refinements count that; None for own ranges.
    """

    codes: NDArray[np.int32]
    units: NDArray[np.int64]
    trees: tuple[Hierarchy | None, ...]
    names: tuple[str, ...]
    labels: LabelCosts | None = None

    def __post_init__(self) -> None:
        self.codes.setflags(write=False)

    @property
    def n_records(self) -> int:
        """The number of records, n."""
        return len(self.codes)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Where the records lie, float64 (n, d), for cutting them into blocks.

        Leaves in the order of their hierarchy stand for places: those of one branch are together.
        """
        return self.codes / spans(self.units, self.trees) * self._widths

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the d columns of ``coordinates`` stand for."""
        return tuple(map(Axis, self.trees, self._widths.tolist()))

    @property
    def _widths(self) -> NDArray[np.float64]:
        return self.units / max(int(self.units.max(initial=0)), 1)

    def take(self, records: NDArray[np.int64]) -> MixedSpace:
        """The space of some of the records, int64 (m,)."""
        codes = np.ascontiguousarray(self.codes[records])
        return replace(self, codes=codes)

    @property
    def label_costs(self) -> LabelCosts:
        """What the labels of numbers cost; of none where own ranges count."""
        return self.labels or LabelCosts.none(len(self.names))

    def table(self, beside: NDArray[np.int32] | None = None) -> MixedTable:
        """What kernels take.

        Parameters
        ----------
        beside : int32 (n, m), values that tell records apart as well, and cost nothing.
        """
        trees = [tree for tree in self.trees if tree is not None]
        counts = [0 if tree is None else tree.n_leaves for tree in self.trees]
        zero, none = np.zeros(1, np.int32), np.empty(0, np.int32)
        depths = [tree.leaf_depths for tree in trees]
        gaps = [part for tree in trees for part in (tree.gaps, zero)]
        return MixedTable(
            self.codes,
            self.units,
            np.array(counts, np.int32),
            np.concatenate([none, *depths]),
            np.concatenate([none, *gaps]),
            beside,
        )


def mixed_space(
    microdata: Microdata,
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
    label_steps: Mapping[str, float] | None = None,
) -> Callable[[NDArray[np.int64]], MixedSpace]:
    """A function from sets of records, int64 (m,), to their space, on the ranges of ``measures``.

    An attribute with a hierarchy is measured by it; without one, numbers by their range and other
    values as different or not. NULLs have the code 0: a method sees one pattern of NULLs at a time.

    Parameters
    ----------
    label_steps : where refinements count what the labels of numbers lose: the widths of their grids
        that the caller chose. None where they count own ranges.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or a name is no quasi-identifier.
    HierarchyBroken : a value is no leaf of its hierarchy.
    """
    del standardize  # ranges are the measure here
    names = tuple(attribute.name for attribute in microdata.attributes)
    units = _units(names, weights)
    trees = trees_of(microdata.attributes, hierarchies, measures)
    codes = np.empty((microdata.n_records, len(names)), np.int32)
    for position, (attribute, tree) in enumerate(zip(microdata.attributes, trees, strict=True)):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            scale = measures.numbers[attribute.name]
            codes[:, position] = number_codes(values, valid, scale, int(units[position]))
        else:
            codes[:, position] = leaf_codes(microdata, attribute, tree)
            if valid is not None:
                codes[~valid, position] = 0
    labels = None
    if label_steps is not None:
        labels = label_costs(microdata.attributes, trees, measures, units, label_steps)
    return lambda records: MixedSpace(codes_of(codes, records), units, trees, names, labels)


def codes_of(codes: NDArray[np.int32], records: NDArray[np.int64]) -> NDArray[np.int32]:
    """The rows of some records, int64 (m,), int32 (m, d), C order; no copy where they are all.

    Parameters
    ----------
    codes : int32 (n, d), C order, which nobody writes to any more.
    records : different ones.
    """
    if len(records) == len(codes) and bool((records[1:] > records[:-1]).all()):
        return codes
    return np.ascontiguousarray(codes[records])


def _units(names: tuple[str, ...], weights: Mapping[str, float]) -> NDArray[np.int64]:
    """The unit of each attribute: the largest weight has UNIT, one step of UNIT / 1024 is kept."""
    for name, weight in weights.items():
        if name not in names:
            raise InvalidParameter(
                f'The weight of "{name}" names no quasi-identifier.',
                hint="Give weights to quasi-identifiers only.",
            )
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(f'The weight of "{name}" must be 0 or more and finite.')
    given = np.array([weights.get(name, 1.0) for name in names])
    if not given.any():
        return np.zeros(len(names), np.int64)
    shares = np.maximum(np.rint(given / given.max() * (UNIT // _STEP)), given > 0)
    units: NDArray[np.int64] = shares.astype(np.int64) * _STEP
    return units
