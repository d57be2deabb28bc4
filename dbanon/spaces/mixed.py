"""Generalization costs of mixed attributes in fixed-point integers.

Releasing one attribute of one record as the root of its hierarchy costs ``UNIT``, or less if the
attribute has a smaller weight. Costs are integers, so that sums do not depend on the order of
addition. ``UNIT`` is divisible by every depth up to 16, so the same share of a depth costs the same
in every branch of a hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.grid import Grid, ends_around, grid_for, unit_of, width_share
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import Hierarchies, encode_leaves, resolve_hierarchies
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import MixedTable

# Integer columns of at most this range are scaled exactly, so equal distances stay equal.
_MAX_EXACT_RANGE = 1 << 17


def encode_numbers(
    values: NDArray[np.float64], valid: NDArray[np.bool_] | None, scale: Scale, unit: int
) -> NDArray[np.int32]:
    """Encode numbers as integers, int32 (n,): the minimum as 0, the maximum as ``unit``.

    NULL becomes 0. Numbers outside the range are clipped to it.

    Parameters
    ----------
    values : float64 (n,), the numbers; arbitrary where NULL.
    valid : bool (n,), False for NULL; None if no value is NULL.
    scale : minimum and maximum of the attribute in the table.
    unit : the largest code.
    """
    if scale.is_constant:
        return np.zeros(len(values), np.int32)
    low, high = scale.least, scale.most
    with np.errstate(invalid="ignore", over="ignore"):
        if scale.is_integral and high - low <= _MAX_EXACT_RANGE:
            codes = (values - low) * (unit // int(high - low))
        else:
            # Scale by a power of two first, lest the range of huge numbers overflow.
            start, end = np.ldexp([low, high], -scale.exponent)
            codes = np.rint((np.ldexp(values, -scale.exponent) - start) / (end - start) * unit)
    if valid is not None:
        codes = np.where(valid, codes, 0.0)
    # Later records may lie outside the range of the original table.
    return np.clip(codes, 0, unit).astype(np.int32)


# Number labels are intervals between borders of a grid; two neighbouring borders enclose a piece.
# With more pieces than this, labels are so narrow that the range of a class's values is a good
# estimate of its label's loss.
MAX_PIECES = 256


@dataclass(frozen=True)
class LabelCosts:
    """Costs of number labels, as kernels need them.

    Parameters
    ----------
    pieces : int32 (d,), the number of pieces of each attribute; 0 if the cost comes from its
        hierarchy or from the range of its values.
    firsts : int32, the first code of each piece, concatenated over attributes.
    costs : int32, for each attribute with w pieces a table (w, w), concatenated: the cost per
        record of a label, by its first and last piece.
    """

    pieces: NDArray[np.int32]
    firsts: NDArray[np.int32]
    costs: NDArray[np.int32]

    @classmethod
    def none(cls, d: int) -> LabelCosts:
        """Create costs for d attributes without number labels."""
        return cls(np.zeros(d, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return the costs as arguments of kernels."""
        return self.pieces, self.firsts, self.costs


def label_costs(
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy | None],
    column_statistics: ColumnStatistics,
    units: NDArray[np.int64],
    steps: Mapping[str, float],
) -> LabelCosts:
    """Compute the costs of labels on the grids that the recoding uses.

    Parameters
    ----------
    trees : the hierarchy of each attribute; None for a number.
    units : int64 (d,), the cost of suppressing each attribute of one record.
    steps : grid widths by column, as chosen by the caller. Invalid ones are ignored here, since the
        recoding refuses them.
    """
    tables = []
    for attribute, tree, unit in zip(attributes, trees, units.tolist(), strict=True):
        scale = None if tree is not None else column_statistics.numbers[attribute.name]
        step = steps.get(attribute.name)
        is_invalid = step is not None and not (np.isfinite(step) and step > 0)
        if scale is None or scale.is_constant or not unit or is_invalid:
            tables.append((np.empty(0, np.int32), np.empty(0, np.int32)))
        else:
            tables.append(
                _compute_number_costs(attribute, scale, grid_for(attribute, scale, step), unit)
            )
    firsts, costs = zip(*tables, strict=True)
    return LabelCosts(
        np.array([len(first) for first in firsts], np.int32),
        np.concatenate(firsts),
        np.concatenate(costs),
    )


def _compute_number_costs(
    attribute: Attribute, scale: Scale, grid: Grid, unit: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first code of each piece, int32 (w,), and the costs, int32 (w * w,), of a number.

    Both are empty if there are too many pieces. The cost of the widest piece is subtracted from all
    costs, so that a label of a single piece costs 0.
    """
    borders = grid.borders_between(scale.least, scale.most, MAX_PIECES - 1)
    if borders is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    starts = np.concatenate(([scale.least], borders))
    first_pieces, last_pieces = np.triu_indices(len(starts))
    low, high = ends_around(attribute, grid, starts[first_pieces], starts[last_pieces])
    width = width_share(low, high, scale, unit_of(attribute, scale))
    interval_costs = np.rint(width * unit).astype(np.int64)
    costs = np.zeros((len(starts), len(starts)), np.int32)
    piece_cost = interval_costs[first_pieces == last_pieces].max()
    costs[first_pieces, last_pieces] = np.maximum(interval_costs - piece_cost, 0)
    np.fill_diagonal(costs, 0)
    return encode_numbers(starts, None, scale, unit), costs.reshape(-1)


# lcm(1, ..., 16) = 720720 times 2**10: below 2**30, so that a cost fits into 32 bits.
_UNIT_STEP = 720720
UNIT = _UNIT_STEP * 1024


def compute_code_ranges(
    units: NDArray[np.int64], trees: Sequence[Hierarchy | None]
) -> NDArray[np.float64]:
    """Compute the largest difference between two codes of each attribute, float64 (d,).

    It is at least 1, so that it can be a divisor.

    Parameters
    ----------
    units : int64 (d,), the largest code of each number.
    """
    widths = [
        max(int(unit) if tree is None else tree.n_leaves - 1, 1)
        for unit, tree in zip(units, trees, strict=True)
    ]
    return np.array(widths, np.float64)


@dataclass(frozen=True)
class Axis:
    """The meaning of a column of coordinates.

    Parameters
    ----------
    tree : the hierarchy whose leaves are spaced evenly along the axis, from 0; None for a number.
    width : the largest distance between two values; for leaves also the coordinate of the last one.
    """

    tree: Hierarchy | None
    width: float


@dataclass(frozen=True)
class MixedSpace:
    """Records in the form that generalization methods work on.

    Parameters
    ----------
    codes : int32 (n, d), C order, read-only. For a number, 0 is the table's minimum and the
        attribute's unit is the maximum. For an attribute with a hierarchy, the leaf's position.
    units : int64 (d,), the cost of releasing each attribute of a record as the root of its
        hierarchy; it is proportional to the attribute's weight.
    trees : the hierarchy of each attribute; None for a number.
    names : the names of the d attributes.
    labels : the costs of number labels, if refinements minimize these costs; None if they minimize
        the ranges of values.
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
        """Coordinates of the records, float64 (n, d), for splitting them into blocks.

        Leaves are numbered in the order of their hierarchy, so branches are contiguous.
        """
        return self.codes / compute_code_ranges(self.units, self.trees) * self._widths

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The meaning of the d columns of ``coordinates``."""
        return tuple(map(Axis, self.trees, self._widths.tolist()))

    @property
    def _widths(self) -> NDArray[np.float64]:
        """The unit of each attribute, float64 (d,), as a share of the largest unit."""
        return self.units / max(int(self.units.max(initial=0)), 1)

    def take(self, records: NDArray[np.int64]) -> MixedSpace:
        """Return the space of some of the records, int64 (m,)."""
        codes = np.ascontiguousarray(self.codes[records])
        return replace(self, codes=codes)

    @property
    def label_costs(self) -> LabelCosts:
        """The costs of number labels; empty if refinements minimize the ranges of values."""
        return self.labels or LabelCosts.none(len(self.names))

    def table(self, extra: NDArray[np.int32] | None = None) -> MixedTable:
        """Combine the codes of the records and the hierarchies for kernels.

        Parameters
        ----------
        extra : int32 (n, m), further values of the records: two records are equal only if these
            are, too. They do not affect costs.
        """
        trees = [tree for tree in self.trees if tree is not None]
        leaf_counts = [0 if tree is None else tree.n_leaves for tree in self.trees]
        zero, empty = np.zeros(1, np.int32), np.empty(0, np.int32)
        depths = [tree.leaf_depths for tree in trees]
        gaps = [array for tree in trees for array in (tree.gaps, zero)]
        return MixedTable(
            self.codes,
            self.units,
            np.array(leaf_counts, np.int32),
            np.concatenate([empty, *depths]),
            np.concatenate([empty, *gaps]),
            extra,
        )


def mixed_space(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
    label_steps: Mapping[str, float] | None = None,
) -> Callable[[NDArray[np.int64]], MixedSpace]:
    """Return a function that builds the space of given records, int64 (m,).

    The cost of generalizing numbers is their range as a share of the range in
    ``column_statistics``. That of text without a hierarchy is 1 if values differ, and 0 otherwise.
    NULLs have code 0, since methods run separately on the records of each NULL pattern.

    Parameters
    ----------
    standardize : not used, since all functions that create builders have the same parameters.
    weights : the weight of each attribute, by name; 1 for attributes without one.
    label_steps : the grid widths chosen by the caller, if refinements minimize the loss of number
        labels; None if they minimize the ranges of values.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or a column is not a quasi-identifier.
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    del standardize  # generalization costs always use ranges
    names = tuple(attribute.name for attribute in microdata.attributes)
    units = _to_units(names, weights)
    trees = resolve_hierarchies(microdata.attributes, hierarchies, column_statistics)
    codes = np.empty((microdata.n_records, len(names)), np.int32)
    for position, (attribute, tree) in enumerate(zip(microdata.attributes, trees, strict=True)):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            scale = column_statistics.numbers[attribute.name]
            codes[:, position] = encode_numbers(values, valid, scale, int(units[position]))
        else:
            codes[:, position] = encode_leaves(microdata, attribute, tree)
            if valid is not None:
                codes[~valid, position] = 0
    labels = None
    if label_steps is not None:
        labels = label_costs(microdata.attributes, trees, column_statistics, units, label_steps)
    return lambda records: MixedSpace(take_codes(codes, records), units, trees, names, labels)


def take_codes(codes: NDArray[np.int32], records: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the codes of some records, int32 (m, d), C order; no copy if these are all records.

    Parameters
    ----------
    codes : int32 (n, d), C order, not changed later.
    records : int64 (m,), the indices of the records, distinct.
    """
    if len(records) == len(codes) and bool((records[1:] > records[:-1]).all()):
        return codes
    return np.ascontiguousarray(codes[records])


def _to_units(names: tuple[str, ...], weights: Mapping[str, float]) -> NDArray[np.int64]:
    """Convert weights to units, int64 (d,): multiples of UNIT / 1024, in proportion to the weights.

    The largest weight becomes UNIT; no other positive weight becomes 0.
    """
    for name, weight in weights.items():
        if name not in names:
            raise InvalidParameter(
                f'The weight of "{name}" does not name a quasi-identifier.',
                hint="Give weights to quasi-identifiers only.",
            )
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(f'The weight of "{name}" must be 0 or more and finite.')
    factors = np.array([weights.get(name, 1.0) for name in names])
    if not factors.any():
        return np.zeros(len(names), np.int64)
    shares = np.maximum(np.rint(factors / factors.max() * (UNIT // _UNIT_STEP)), factors > 0)
    units: NDArray[np.int64] = shares.astype(np.int64) * _UNIT_STEP
    return units
