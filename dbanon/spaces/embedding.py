"""Text and hierarchies among numbers: coordinates that are as far apart as the measure says.

In each such attribute the distance of two points is that of evaluation (``direct_loss``): 1 for
values without a hierarchy that differ, else the height of their lowest common ancestor over that of
the tree. Both are ultrametric, and so are their squares, which makes points of them exactly: every
node has a coordinate, not 0 for the leaves below it, whose square is half of what the squared
distance grows by from the node to its parent. Without a hierarchy that is one-hot, 0.5 ** 0.5 for
the value a record has. A node above none or all of the values that occur tells none from another,
and has no coordinate.

A regular simplex of m values has m - 1 dimensions, so that no exact embedding has many fewer
coordinates. They are dense; ``MOST_COORDINATES`` bounds them before any is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute
from dbanon.errors import MemoryLimit
from dbanon.hierarchy.leaves import leaf_codes
from dbanon.hierarchy.tree import Hierarchy

# Of all records and attributes, 8 bytes each: 1 GiB.
MOST_COORDINATES = 1 << 27


@dataclass(frozen=True, eq=False)
class Embedded:
    """An attribute whose values are points.

    Parameters
    ----------
    codes : int32 (n,), the leaf of each record.
    points : float64 (L, q), of each leaf; 0 for leaves that do not occur.
    """

    codes: NDArray[np.int32]
    points: NDArray[np.float64]


def embedded(
    microdata: Microdata,
    measures: Measures,
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy],
    others: int,
) -> list[Embedded]:
    """The attributes as points, each by its hierarchy.

    Parameters
    ----------
    others : how many coordinates the records have beside these.

    Raises
    ------
    MemoryLimit : there would be more coordinates than ``MOST_COORDINATES``.
    HierarchyBroken : a value is no leaf of its hierarchy.
    """
    occurring = [
        _occurring(attribute, tree, measures)
        for attribute, tree in zip(attributes, trees, strict=True)
    ]
    nodes = [_telling(tree, used) for tree, used in zip(trees, occurring, strict=True)]
    wanted = others + sum(map(len, nodes))
    if microdata.n_records * wanted > MOST_COORDINATES:
        most = max(zip(map(len, nodes), attributes, strict=True), key=lambda one: one[0])
        raise MemoryLimit(
            f"{wanted} coordinates for each of {microdata.n_records} records are more than"
            f" {MOST_COORDINATES} in all, which methods on points may have.",
            detail=f'The most, {most[0]}, are of "{most[1].name}", about one for each value.',
            hint="Bring rare values together in a view, or choose a method that needs no"
            ' coordinates, as in `method="gaa_cp"`.',
        )
    return [
        Embedded(leaf_codes(microdata, attribute, tree), _points(tree, used, telling))
        for attribute, tree, used, telling in zip(attributes, trees, occurring, nodes, strict=True)
    ]


def _occurring(attribute: Attribute, tree: Hierarchy, measures: Measures) -> NDArray[np.int64]:
    """The positions of the leaves that occur in the table, ascending; all of numbers."""
    if attribute.name not in measures.categories:
        return np.arange(tree.n_leaves)
    values = measures.categories[attribute.name].occurring().values
    return np.sort(tree.encode(values, attribute.name)).astype(np.int64)


def _telling(tree: Hierarchy, used: NDArray[np.int64]) -> NDArray[np.int64]:
    """The nodes that some of the leaves used are below, and some are not."""
    first, last = tree.ranges.T
    below = np.searchsorted(used, last, "right") - np.searchsorted(used, first)
    return np.flatnonzero((below > 0) & (below < len(used)))


def _points(
    tree: Hierarchy, used: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    squared = np.square(tree.heights / max(tree.height, 1))
    lengths = np.sqrt((squared[tree.parents[nodes]] - squared[nodes]) / 2)
    first, last = tree.ranges[nodes].T
    points = np.zeros((tree.n_leaves, len(nodes)))
    points[used] = np.where((used[:, None] >= first) & (used[:, None] <= last), lengths, 0.0)
    return points
