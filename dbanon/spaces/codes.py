"""Integer distances between records with text or hierarchies, without an embedding.

An embedding needs about one coordinate per value (``numeric.embed_leaves``). Squared distances can
be computed without one: a hierarchy contributes (h / H)**2, where h is the height of the lowest
common ancestor of two values and H is the height of the tree.

Here distances are integers, so equal distances stay equal in any order of addition. Numbers are
rounded to steps of 2**-28 of the largest range (to larger steps with more than 32 attributes, or
with very small weights). The shares h / H are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.scales import Scale, Standardization
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import MixedTable
from dbanon.spaces.mixed import Axis, compute_code_ranges, encode_numbers

if TYPE_CHECKING:
    from typing import Protocol

    class PointSpace(Protocol):
        """The space of points as ``CodeSpace`` needs it: ``numeric.Space``, which is above."""

        @property
        def points(self) -> NDArray[np.float64]:
            """The records as points, float64 (n, p)."""

        @property
        def names(self) -> tuple[str, ...]:
            """The attribute of each of the p columns."""


KernelT = TypeVar("KernelT")

# Integers are encoded in equal steps only if the codes of neighboring integers then differ by at
# least this much. Otherwise rounding the step would distort the column's range, so they are encoded
# like decimals.
_MIN_CODES_PER_STEP = 1 << 8

# Bits of the largest difference of two codes, and of the largest squared distance, with room for
# rounding.
_SPREAD_BITS, _SQUARE_BITS = 30.0, 61.0
_MAX_CODE = 1 << 30

# Limits of binary scaling and of distances, far from overflow of float64.
_MAX_SCALE_BITS, _MAX_SPREAD = 1000, 1e300

# lcm(1, ..., 16)**2. The square of a tree's width is rounded down to a multiple of it, so that the
# shares of trees with a height of up to 16 are exact. Squares below ``_MIN_EXACT_SQUARE`` are not
# rounded, since the multiple is too large for them.
_SHARE_MULTIPLE = 720720**2
_MIN_EXACT_SQUARE = 1 << 51


@dataclass(frozen=True)
class AttributeMetric:
    """An attribute and the spread of its values, by which ``Metric.of`` scales its distances.

    Parameters
    ----------
    tree, scale : the hierarchy of the attribute, or the scale of its numbers; the other is None.
    spread : the largest distance between two values of the table.
    """

    tree: Hierarchy | None
    scale: Scale | None
    spread: float

    @classmethod
    def of(
        cls, tree: Hierarchy | None, scale: Scale | None, standardize: str, factor: float
    ) -> AttributeMetric:
        """Create an attribute whose distances are standardized, then multiplied by ``factor``.

        Parameters
        ----------
        tree, scale : the hierarchy of the attribute, or the scale of its numbers.
        standardize : the name of the standardization of numbers, such as ``range``.
        factor : the multiplier of the attribute's distances: the root of its weight.
        """
        if scale is None:
            # Distances in a tree are shares of its height, at most 1.
            return cls(tree, None, factor)
        with np.errstate(over="ignore", invalid="ignore"):
            [[least], [most]] = Standardization.of([scale], standardize).apply(
                np.array([[scale.least], [scale.most]])
            )
            spread = float(np.minimum(most - least, _MAX_SPREAD)) * factor
        return cls(None, scale, min(spread, _MAX_SPREAD))


@dataclass(frozen=True, eq=False)
class Metric:
    """Integer distances of a table, the same in all strata and blocks.

    Parameters
    ----------
    attributes : the d attributes.
    max_distances : int64 (d,), the largest distance within each attribute. For numbers it is also
        the largest code; for hierarchies it is approximate.
    step_squares : int64 (d,), the squared distance of two values whose lowest common ancestor has
        height 1; 0 for numbers.
    """

    attributes: tuple[AttributeMetric, ...]
    max_distances: NDArray[np.int64]
    step_squares: NDArray[np.int64]

    @classmethod
    def of(cls, attributes: Sequence[AttributeMetric]) -> Metric:
        """Create the metric with the largest number of bits that fits all attributes."""
        spreads = np.array([attribute.spread for attribute in attributes])
        # Distances are multiplied by 2**bits before they are rounded to integers.
        bits = 0
        if (largest := float(spreads.max())) > 0:
            # Bits of the largest squared distance, computed without overflow.
            square_bits = np.log2(np.square(spreads / largest).sum()) + 2 * np.log2(largest)
            bits = int(
                np.floor(
                    min(
                        _SPREAD_BITS - np.log2(largest),
                        (_SQUARE_BITS - square_bits) / 2,
                        _MAX_SCALE_BITS,
                    )
                )
            )
        max_distances = [min(round(float(np.ldexp(spread, bits))), _MAX_CODE) for spread in spreads]
        step_squares = [
            0 if a.tree is None else _compute_step_square(float(np.ldexp(a.spread, bits)), a.tree)
            for a in attributes
        ]
        return cls(
            tuple(attributes), np.array(max_distances, np.int64), np.array(step_squares, np.int64)
        )

    @property
    def trees(self) -> list[Hierarchy]:
        """The hierarchies of the attributes that have one."""
        return [a.tree for a in self.attributes if a.tree is not None]

    def codes(
        self, position: int, values: NDArray[np.float64], valid: NDArray[np.bool_] | None
    ) -> NDArray[np.int32]:
        """Encode the values, float64 (n,), of a numeric attribute, int32 (n,); 0 for NULL.

        Parameters
        ----------
        position : the index of the attribute among the d attributes.
        valid : bool (n,), False for NULL; None if no value is NULL.
        """
        scale = self.attributes[position].scale
        largest_code = int(self.max_distances[position])
        assert scale is not None
        if scale.is_integral and largest_code < _MIN_CODES_PER_STEP * scale.spread:
            scale = replace(scale, is_integral=False)
        return encode_numbers(values, valid, scale, largest_code)

    def table(self, codes: NDArray[np.int32]) -> MixedTable:
        """Combine the codes of records, int32 (n, d), and the hierarchies for kernels."""
        empty, zero = np.empty(0, np.int32), np.zeros(1, np.int32)
        leaf_counts = [0 if a.tree is None else a.tree.n_leaves for a in self.attributes]
        # Distances use heights, so a shallow leaf counts as if it were as deep as the others.
        depths = [np.full(tree.n_leaves, tree.height, np.int32) for tree in self.trees]
        # One entry per leaf. The last leaf of a tree has no next leaf: its entry is not used.
        ancestor_depths = [
            array for tree_depths in self._neighbor_ancestor_depths for array in (tree_depths, zero)
        ]
        return MixedTable(
            codes,
            self.max_distances,  # within each attribute
            np.array(leaf_counts, np.int32),  # 0 for numbers
            np.concatenate([empty, *depths]),  # of the leaves of all trees
            np.concatenate([empty, *ancestor_depths]),  # of each leaf and the next one
        )

    @cached_property
    def _neighbor_ancestor_depths(self) -> list[NDArray[np.int32]]:
        """For each tree, the depth of the lowest common ancestor of each leaf and the next one.

        Each array is int32 (n_leaves - 1,). A depth here is the height of the tree minus that of
        the ancestor.
        """
        depths = []
        for tree in self.trees:
            ancestors = tree.common_ancestors(tree.leaves[:-1], tree.leaves[1:])
            depths.append((tree.height - tree.heights[ancestors]).astype(np.int32))
        return depths


def _compute_step_square(width: float, tree: Hierarchy) -> int:
    """Compute the squared distance of two values whose lowest common ancestor has height 1.

    Parameters
    ----------
    width : the largest distance in the tree, up to rounding.
    """
    square = int(width * width)
    if square >= _MIN_EXACT_SQUARE:
        square -= square % _SHARE_MULTIPLE
    return square // max(tree.height, 1) ** 2


@dataclass(frozen=True, eq=False)
class CodeSpace:
    """Records as integer codes, for methods that need no coordinates.

    Parameters
    ----------
    codes : int32 (n, d), C order, read-only. For a number, 0 is the table's minimum and the
        attribute's largest distance in ``metric`` is the maximum. For an attribute with a
        hierarchy, the leaf's position.
    metric : the distances between codes.
    records : int64 (n,), the index of each record in the table.
    build_points : builds the space of points (``numeric.Space``) of records with given indices,
        int64 (m,); raises ``MemoryLimit``.
    """

    codes: NDArray[np.int32]
    metric: Metric
    records: NDArray[np.int64]
    build_points: Callable[[NDArray[np.int64]], PointSpace]

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
        return self.codes * (
            self._widths / compute_code_ranges(self.metric.max_distances, self._trees)
        )

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The meaning of the d columns of ``coordinates``."""
        return tuple(map(Axis, self._trees, self._widths.tolist()))

    @property
    def _widths(self) -> NDArray[np.float64]:
        """The largest distance within each attribute, float64 (d,), as a share of the largest."""
        return self.metric.max_distances / max(int(self.metric.max_distances.max()), 1)

    @property
    def _trees(self) -> list[Hierarchy | None]:
        return [attribute.tree for attribute in self.metric.attributes]

    def take(self, records: NDArray[np.int64]) -> CodeSpace:
        """Return the space of some of the records, int64 (m,)."""
        codes = np.ascontiguousarray(self.codes[records])
        return replace(self, codes=codes, records=self.records[records])

    def kernel(
        self, points_kernel: Callable[..., KernelT], codes_kernel: Callable[..., KernelT] | None
    ) -> Callable[..., KernelT]:
        """Return the method's kernel for codes, or else for points, with the records bound to it.

        Parameters
        ----------
        codes_kernel : None if the method has no kernel for codes.
        """
        if codes_kernel is None:
            return partial(points_kernel, self.points)
        return partial(codes_kernel, self.metric.table(self.codes), self.metric.step_squares)

    @cached_property
    def _points(self) -> PointSpace:
        return self.build_points(self.records)

    @property
    def points(self) -> NDArray[np.float64]:
        """The records as points, float64 (n, p), for methods that need coordinates.

        Raises
        ------
        MemoryLimit : the records would need too many coordinates; see ``numeric.embed_leaves``.
        """
        return self._points.points

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute of each of the p columns of ``points``; empty for embedded leaves."""
        return self._points.names
