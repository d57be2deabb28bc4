"""Where records lie that have text or hierarchies: their distances, without coordinates.

As points they have about one coordinate for each value (``numeric.embedded``). Squared distances
need none: those of numbers add up with, for each hierarchy, the square of the height at which two
values meet over that of the tree. Here they are whole numbers: numbers are rounded to steps of
2**-28 of the largest range (coarser beyond 32 attributes, and where a weight is very small), and
the shares of heights are exact. Hence distances that are equal stay so, whatever the order in which
they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.scales import Scale, Standardization
from dbanon.hierarchy.tree import Hierarchy
from dbanon.kernels import MixedTable
from dbanon.spaces.mixed import Axis, number_codes, spans

Made = TypeVar("Made")

# Of a step of whole numbers in codes, at least: smaller ones would be rounded too much.
_STEP = 1 << 8

# Of differences in bits, and of the sum of their squares, with room for rounding.
_WIDTH, _SQUARES = 30.0, 61.0
_LARGEST = 1 << 30

# Of a float64 that is multiplied by a power of two, and of distances, far from overflow.
_BITS, _FARTHEST = 1000, 1e300

# lcm(1, ..., 16)**2: what the square of a whole tree is a multiple of, so that heights of trees up
# to 16 high have exact shares; of smaller squares it would be too large a part.
_SHARES = 720720**2
_LEAST = 1 << 51


@dataclass(frozen=True)
class Measured:
    """An attribute on its own: what ``Metric.of`` weighs against the others.

    Parameters
    ----------
    tree, scale : its hierarchy, or of a number its scale; the other is None.
    spread : the largest distance of two values.
    """

    tree: Hierarchy | None
    scale: Scale | None
    spread: float

    @classmethod
    def of(cls, tree: Hierarchy | None, scale: Scale | None, how: str, factor: float) -> Measured:
        """An attribute whose distances are multiplied by a factor, a number standardized so."""
        if scale is None:
            return cls(tree, None, factor)
        with np.errstate(over="ignore", invalid="ignore"):
            ends = Standardization.of([scale], how).apply(np.array([[scale.least], [scale.most]]))
            spread = float(np.minimum(ends[1, 0] - ends[0, 0], _FARTHEST)) * factor
        return cls(None, scale, min(spread, _FARTHEST))


@dataclass(frozen=True, eq=False)
class Metric:
    """The attributes of a table in whole numbers, those of a stratum and a block as well.

    Parameters
    ----------
    attributes : the d attributes.
    units : int64 (d,), of a number its largest code; of a tree about the root of its square.
    squares : int64 (d,), the squared distance of two values that meet one step up in their tree.
    """

    attributes: tuple[Measured, ...]
    units: NDArray[np.int64]
    squares: NDArray[np.int64]

    @classmethod
    def of(cls, attributes: Sequence[Measured]) -> Metric:
        """That of these attributes, with as many bits as fit all of them."""
        spreads = np.array([attribute.spread for attribute in attributes])
        bits = 0
        if (most := float(spreads.max())) > 0:
            total = np.log2(np.square(spreads / most).sum()) + 2 * np.log2(most)
            bits = int(np.floor(min(_WIDTH - np.log2(most), (_SQUARES - total) / 2, _BITS)))
        units = [min(round(float(np.ldexp(s, bits))), _LARGEST) for s in spreads]
        squares = [
            0 if a.tree is None else _square(float(np.ldexp(a.spread, bits)), a.tree)
            for a in attributes
        ]
        return cls(tuple(attributes), np.array(units, np.int64), np.array(squares, np.int64))

    @property
    def trees(self) -> list[Hierarchy]:
        """The hierarchies of the attributes that have one."""
        return [a.tree for a in self.attributes if a.tree is not None]

    def codes(
        self, position: int, values: NDArray[np.float64], valid: NDArray[np.bool_] | None
    ) -> NDArray[np.int32]:
        """The codes of a number's values, float64 (n,); 0 where it is NULL."""
        scale, unit = self.attributes[position].scale, int(self.units[position])
        assert scale is not None
        if scale.whole and unit < _STEP * scale.spread:
            scale = replace(scale, whole=False)
        return number_codes(values, valid, scale, unit)

    def table(self, codes: NDArray[np.int32]) -> MixedTable:
        """What kernels take of records with these codes, int32 (n, d)."""
        none, zero = np.empty(0, np.int32), np.zeros(1, np.int32)
        leaves = [0 if a.tree is None else a.tree.n_leaves for a in self.attributes]
        # A leaf that lies higher than others stands for a path down from it.
        depths = [np.full(tree.n_leaves, tree.height, np.int32) for tree in self.trees]
        gaps = [part for gap in self._gaps for part in (gap, zero)]
        return MixedTable(
            codes,
            self.units,
            np.array(leaves, np.int32),
            np.concatenate([none, *depths]),
            np.concatenate([none, *gaps]),
        )

    @cached_property
    def _gaps(self) -> list[NDArray[np.int32]]:
        """Of each tree how far below its root, by height, each leaf and the next one meet."""
        found = []
        for tree in self.trees:
            above = tree.ancestors(tree.leaves[:-1], tree.leaves[1:])
            found.append((tree.height - tree.heights[above]).astype(np.int32))
        return found


def _square(width: float, tree: Hierarchy) -> int:
    """The square of one step up, where that of the whole tree is about that of the width."""
    square = int(width * width)
    if square >= _LEAST:
        square -= square % _SHARES
    return square // max(tree.height, 1) ** 2


@dataclass(frozen=True, eq=False)
class Places:
    """The records as a method sees them that needs no coordinates.

    Parameters
    ----------
    codes : int32 (n, d), C order, read-only. Numbers: 0 at the table's minimum to the attribute's
        unit at its maximum. Others: positions of leaves.
    metric : what they are measured by.
    records : int64 (n,), which records of the table they are.
    dense : gives a space of points of some of the table's records; it refuses too many coordinates.
    """

    codes: NDArray[np.int32]
    metric: Metric
    records: NDArray[np.int64]
    dense: Callable[[NDArray[np.int64]], Any]

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
        return self.codes * (self._widths / spans(self.metric.units, self._trees))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the d columns of ``coordinates`` stand for."""
        return tuple(map(Axis, self._trees, self._widths.tolist()))

    @property
    def _widths(self) -> NDArray[np.float64]:
        return self.metric.units / max(int(self.metric.units.max()), 1)

    @property
    def _trees(self) -> list[Hierarchy | None]:
        return [attribute.tree for attribute in self.metric.attributes]

    def take(self, records: NDArray[np.int64]) -> Places:
        """The space of some of the records, int64 (m,)."""
        codes = np.ascontiguousarray(self.codes[records])
        return replace(self, codes=codes, records=self.records[records])

    def kernel(
        self, on_points: Callable[..., Made], on_places: Callable[..., Made] | None
    ) -> Callable[..., Made]:
        """Of a method's two kernels the one that needs no coordinates, on these records."""
        if on_places is None:
            return partial(on_points, self.points)
        return partial(on_places, self.metric.table(self.codes), self.metric.squares)

    @cached_property
    def _points(self) -> Any:
        return self.dense(self.records)

    @property
    def points(self) -> NDArray[np.float64]:
        """The records as points, float64 (n, p), for methods that need coordinates.

        Raises
        ------
        MemoryLimit : as ``numeric.embedded``.
        """
        points: NDArray[np.float64] = self._points.points
        return points

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute of each of the p columns of ``points``, as of ``Space``."""
        names: tuple[str, ...] = self._points.names
        return names
