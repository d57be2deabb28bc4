"""Generalization costs of mixed attributes in fixed-point integers.

Releasing one attribute of one record as the root of its hierarchy costs ``ROOT_COST``, or less if
the attribute has a smaller weight. Costs are integers, so that sums do not depend on the order of
addition. ``ROOT_COST`` is divisible by every depth up to 16, so the same share of a depth costs the
same in every branch of a hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.grid import Grid, ends_around, grid_for, value_spacing, width_share
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.pieces import split_records
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.leaves import Hierarchies, encode_leaves, resolve_hierarchies
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import MixedTable

# Integer columns of at most this range get a whole number of codes per step of 1, so equal
# distances stay equal. At the largest weight there are over 5000 codes per step, so rounding their
# number down hardly changes costs.
_MAX_EXACT_RANGE = 1 << 17


def encode_numbers(
    values: NDArray[np.float64], valid: NDArray[np.bool_] | None, scale: Scale, largest_code: int
) -> NDArray[np.int32]:
    """Encode numbers as integers, int32 (n,): the minimum as 0, the maximum as ``largest_code``.

    If integers have a whole number of codes per step of 1, the code of the maximum may be smaller:
    the largest multiple of the range up to ``largest_code``. NULL becomes 0. Numbers outside the
    range are clipped to it.

    Parameters
    ----------
    values : float64 (n,), the numbers; arbitrary where NULL.
    valid : bool (n,), False for NULL; None if no value is NULL.
    scale : minimum and maximum of the attribute in the table.
    largest_code : the code of the maximum. Larger codes make smaller rounding errors.
    """
    if scale.is_constant:
        return np.zeros(len(values), np.int32)
    low, high = scale.least, scale.most
    with np.errstate(invalid="ignore", over="ignore"):
        if scale.is_integral and high - low <= _MAX_EXACT_RANGE:
            codes = (values - low) * (largest_code // int(high - low))
        else:
            # Scale by a power of two first, lest the range of huge numbers overflow.
            low, high = np.ldexp([low, high], -scale.exponent)
            shares = (np.ldexp(values, -scale.exponent) - low) / (high - low)
            codes = np.rint(shares * largest_code)
    if valid is not None:
        codes = np.where(valid, codes, 0.0)
    # A chain keeps the range of its first release, and records of later ones may lie outside.
    return np.clip(codes, 0, largest_code).astype(np.int32)


# Number labels are intervals between borders of a grid; two neighboring borders enclose a piece.
# With more pieces than this, labels are so narrow that the range of a class's values is a good
# estimate of its label's loss.
MAX_PIECES = 256


@dataclass(frozen=True)
class LabelCosts:
    """Costs of number labels, as kernels need them.

    Parameters
    ----------
    n_pieces : int32 (d,), the number of pieces of each attribute; 0 if the cost comes from its
        hierarchy or from the range of its values.
    first_codes : int32, the first code of each piece, concatenated over attributes.
    costs : int32, for each attribute with w pieces a table (w, w), concatenated: the cost per
        record of a label, by its first and last piece.
    """

    n_pieces: NDArray[np.int32]
    first_codes: NDArray[np.int32]
    costs: NDArray[np.int32]

    @classmethod
    def none(cls, d: int) -> LabelCosts:
        """Create costs for d attributes without number labels."""
        return cls(np.zeros(d, np.int32), np.empty(0, np.int32), np.empty(0, np.int32))

    def arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Return the costs as arguments of kernels."""
        return self.n_pieces, self.first_codes, self.costs


def label_costs(
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy | None],
    column_statistics: ColumnStatistics,
    root_costs: NDArray[np.int64],
    grid_steps: Mapping[str, float],
) -> LabelCosts:
    """Compute the costs of labels on the grids that the recoding uses.

    Parameters
    ----------
    trees : the hierarchy of each attribute; None for a number.
    root_costs : int64 (d,), the cost of suppressing each attribute of one record.
    grid_steps : grid widths by column, as chosen by the caller. Invalid ones are ignored here,
        since the recoding refuses them.
    """
    tables = []
    for attribute, tree, root_cost in zip(attributes, trees, root_costs.tolist(), strict=True):
        scale = None if tree is not None else column_statistics.scales[attribute.name]
        step = grid_steps.get(attribute.name)
        is_invalid = step is not None and not (np.isfinite(step) and step > 0)
        if scale is None or scale.is_constant or not root_cost or is_invalid:
            tables.append((np.empty(0, np.int32), np.empty(0, np.int32)))
        else:
            tables.append(
                _compute_number_costs(attribute, scale, grid_for(attribute, scale, step), root_cost)
            )
    first_codes, costs = zip(*tables, strict=True)
    return LabelCosts(
        np.array([len(codes) for codes in first_codes], np.int32),
        np.concatenate(first_codes),
        np.concatenate(costs),
    )


def _compute_number_costs(
    attribute: Attribute, scale: Scale, grid: Grid, root_cost: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first code of each piece, int32 (w,), and the costs, int32 (w * w,), of a number.

    Both are empty if there are too many pieces. The cost of the widest piece is subtracted from all
    costs, so that a label of a single piece costs 0.

    Parameters
    ----------
    root_cost : the cost of suppressing the attribute of one record.
    """
    borders = grid.borders_between(scale.least, scale.most, MAX_PIECES - 1)
    if borders is None:
        return np.empty(0, np.int32), np.empty(0, np.int32)
    lower_borders = np.concatenate(([scale.least], borders))
    n_pieces = len(lower_borders)
    first_pieces, last_pieces = np.triu_indices(n_pieces)
    low, high = ends_around(
        attribute, grid, lower_borders[first_pieces], lower_borders[last_pieces]
    )
    width = width_share(low, high, scale, value_spacing(attribute, scale))
    interval_costs = np.rint(width * root_cost).astype(np.int64)
    costs = np.zeros((n_pieces, n_pieces), np.int32)
    widest_piece_cost = interval_costs[first_pieces == last_pieces].max()
    costs[first_pieces, last_pieces] = np.maximum(interval_costs - widest_piece_cost, 0)
    np.fill_diagonal(costs, 0)
    return encode_numbers(lower_borders, None, scale, root_cost), costs.reshape(-1)


# Root costs are multiples of lcm(1, ..., 16). The largest is 2**10 times that: below 2**30, so that
# it fits into 32 bits.
_COST_STEP = 720720
ROOT_COST = _COST_STEP * 1024


def compute_code_ranges(
    largest_codes: NDArray[np.int64], trees: Sequence[Hierarchy | None]
) -> NDArray[np.float64]:
    """Compute the largest difference between two codes of each attribute, float64 (d,).

    It is at least 1, so that it can be a divisor.

    Parameters
    ----------
    largest_codes : int64 (d,), the largest code of each number; not used for attributes with a
        hierarchy, whose codes are leaf positions.
    trees : the hierarchy of each attribute; None for a number.
    """
    widths = [
        max(int(largest_code) if tree is None else tree.n_leaves - 1, 1)
        for largest_code, tree in zip(largest_codes, trees, strict=True)
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
    codes : int32 (n, d), C order, read-only. For a number, 0 is the table's minimum, and the
        attribute's root cost is the maximum, so that differences of codes are costs. For an
        attribute with a hierarchy, the leaf's position.
    root_costs : int64 (d,), the cost of releasing each attribute of a record as the root of its
        hierarchy, or as an interval of all numbers; it is proportional to the attribute's weight.
    trees : the hierarchy of each attribute; None for a number.
    names : the names of the d attributes.
    minimized_label_costs : the costs of number labels, if refinements minimize these costs; None if
        they minimize the ranges of values.
    """

    codes: NDArray[np.int32]
    root_costs: NDArray[np.int64]
    trees: tuple[Hierarchy | None, ...]
    names: tuple[str, ...]
    minimized_label_costs: LabelCosts | None = None

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
        return self.codes / compute_code_ranges(self.root_costs, self.trees) * self._widths

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The meaning of the d columns of ``coordinates``."""
        return tuple(map(Axis, self.trees, self._widths.tolist()))

    @property
    def _widths(self) -> NDArray[np.float64]:
        """The root cost of each attribute, float64 (d,), as a share of the largest one."""
        return self.root_costs / max(int(self.root_costs.max(initial=0)), 1)

    def take(self, records: NDArray[np.int64]) -> MixedSpace:
        """Return the space of some of the records, int64 (m,)."""
        codes = np.ascontiguousarray(self.codes[records])
        return replace(self, codes=codes)

    @property
    def label_costs(self) -> LabelCosts:
        """The costs of number labels; empty if refinements minimize the ranges of values."""
        return self.minimized_label_costs or LabelCosts.none(len(self.names))

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
        # One entry per leaf. The last leaf of a tree has no next leaf: its entry is not used.
        ancestor_depths = [
            array for tree in trees for array in (tree.neighbor_ancestor_depths, zero)
        ]
        return MixedTable(
            self.codes,
            self.root_costs,  # the largest cost within each attribute
            np.array(leaf_counts, np.int32),  # 0 for numbers
            np.concatenate([empty, *depths]),  # of the leaves of all trees
            np.concatenate([empty, *ancestor_depths]),  # of each leaf and the next one
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
    standardize : not used; it is here because the builders of all spaces have the same parameters.
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
    root_costs = _compute_root_costs(names, weights)
    trees = resolve_hierarchies(microdata.attributes, hierarchies, column_statistics)
    codes = np.empty((microdata.n_records, len(names)), np.int32)
    for position, (attribute, tree) in enumerate(zip(microdata.attributes, trees, strict=True)):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            scale = column_statistics.scales[attribute.name]
            # Work piece by piece to save memory.
            for piece in split_records(len(values)):
                piece_valid = None if valid is None else valid[piece]
                codes[piece, position] = encode_numbers(
                    values[piece], piece_valid, scale, int(root_costs[position])
                )
        else:
            codes[:, position] = encode_leaves(microdata, attribute, tree)
            if valid is not None:
                codes[~valid, position] = 0
    costs = None
    if label_steps is not None:
        costs = label_costs(microdata.attributes, trees, column_statistics, root_costs, label_steps)
    return lambda records: MixedSpace(take_codes(codes, records), root_costs, trees, names, costs)


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


def _compute_root_costs(names: tuple[str, ...], weights: Mapping[str, float]) -> NDArray[np.int64]:
    """Convert weights to root costs, int64 (d,), which are proportional up to rounding.

    They are multiples of ``ROOT_COST`` / 1024. The largest weight becomes ``ROOT_COST``, and no
    positive weight becomes 0.
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
    multiples = np.maximum(
        np.rint(factors / factors.max() * (ROOT_COST // _COST_STEP)), factors > 0
    )
    root_costs: NDArray[np.int64] = multiples.astype(np.int64) * _COST_STEP
    return root_costs
