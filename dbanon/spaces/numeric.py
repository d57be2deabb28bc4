"""Where methods measure distance: standardized points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.scales import MAHALANOBIS, Standardization
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter, MemoryLimit
from dbanon.hierarchy.leaves import Hierarchies, leaf_codes, trees_of
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
        Embedded(leaf_codes(microdata, attribute, tree), _tree_points(tree, used, telling))
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


def _tree_points(
    tree: Hierarchy, used: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    squared = np.square(tree.heights / max(tree.height, 1))
    lengths = np.sqrt((squared[tree.parents[nodes]] - squared[nodes]) / 2)
    first, last = tree.ranges[nodes].T
    points = np.zeros((tree.n_leaves, len(nodes)))
    points[used] = np.where((used[:, None] >= first) & (used[:, None] <= last), lengths, 0.0)
    return points


@dataclass(frozen=True)
class Space:
    """The records as a method sees them.

    Parameters
    ----------
    points : float64 (n, p), C order, read-only: standardized and weighted numeric attributes, and
        the coordinates of others.
    names : the attribute of each of the p columns; empty for one of several coordinates.
    """

    points: NDArray[np.float64]
    names: tuple[str, ...]

    def __post_init__(self) -> None:
        self.points.setflags(write=False)

    @property
    def n_records(self) -> int:
        """The number of records, n."""
        return len(self.points)

    @property
    def coordinates(self) -> NDArray[np.float64]:
        """Where the records lie, float64 (n, p), for cutting them into blocks."""
        return self.points

    def take(self, records: NDArray[np.int64]) -> Space:
        """The space of some of the records, int64 (m,)."""
        return Space(np.ascontiguousarray(self.points[records]), self.names)


def numeric_space(
    microdata: Microdata,
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
) -> Callable[[NDArray[np.int64]], Space]:
    """A function from sets of records, int64 (m,), to their points, on the scale of ``measures``.

    NULLs are 0: a method sees one pattern of NULLs at a time. Attributes that are no numbers, or
    have a hierarchy, are points of several coordinates (``embedding``).

    Raises
    ------
    InvalidParameter : weights with ``mahalanobis``, which have no use; ``mahalanobis``, and there
        are attributes that are no numbers, or the measures hold no covariance.
    MemoryLimit, HierarchyBroken : as ``embedded``.
    """
    check_weights(standardize, weights)
    trees = trees_of(microdata.attributes, hierarchies, measures)
    if any(tree is not None for tree in trees):
        return _mixed_points(microdata, measures, trees, standardize, weights)
    return _points(microdata, measures, standardize, weights)


def _points(
    microdata: Microdata, measures: Measures, standardize: str, weights: Mapping[str, float]
) -> Callable[[NDArray[np.int64]], Space]:
    """As ``numeric_space``, of numeric attributes."""
    names = tuple(attribute.name for attribute in microdata.numeric)
    valid = microdata.numeric_valid()
    transform = Standardization.of([measures.numbers[name] for name in names], standardize)
    factors = weight_vector(names, weights)

    def space(records: NDArray[np.int64]) -> Space:
        points = transform.of_records(microdata.numbers, records, factors)
        present = np.ones(len(names), np.bool_)
        if valid is not None and len(records):
            points[~valid[records]] = 0.0
            present = valid[records[0]]
        if standardize == MAHALANOBIS and len(records):
            points = measures.whitening_of(present).apply(points)
        return Space(np.ascontiguousarray(points), names)

    return space


def _mixed_points(
    microdata: Microdata,
    measures: Measures,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
) -> Callable[[NDArray[np.int64]], Space]:
    """As ``numeric_space``: numbers first, then the coordinates of each other attribute."""
    if standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Mahalanobis distances are of numbers, and text or hierarchies have none.",
            hint='Choose `standardize="range"` or `standardize="zscore"`.',
        )
    factors = weight_vector(tuple(a.name for a in microdata.attributes), weights)
    plain = [a.name for a, tree in zip(microdata.attributes, trees, strict=True) if tree is None]
    own = {name: weight for name, weight in weights.items() if name in plain}
    numbers = _points(microdata.of_attributes(plain), measures, standardize, own)
    attributes = [a for a in microdata.attributes if a.name not in plain]
    parts = embedded(
        microdata, measures, attributes, [tree for tree in trees if tree is not None], len(plain)
    )
    factor_of = dict(zip((a.name for a in microdata.attributes), factors.tolist(), strict=True))
    tables = [part.points * factor_of[a.name] for a, part in zip(attributes, parts, strict=True)]
    held = [microdata.valid_column(attribute.name) for attribute in attributes]

    def space(records: NDArray[np.int64]) -> Space:
        of_numbers = numbers(records)
        columns = [of_numbers.points]
        for part, table, valid in zip(parts, tables, held, strict=True):
            points = table[part.codes[records]]
            if valid is not None:
                points[~valid[records]] = 0.0
            columns.append(points)
        points = np.column_stack(columns)
        # No axis is named after an attribute of several coordinates.
        names = of_numbers.names + ("",) * (points.shape[1] - len(plain))
        return Space(np.ascontiguousarray(points), names)

    return space


def check_weights(standardize: str, weights: Mapping[str, float]) -> None:
    """Refuse weights where they would change nothing: whitening undoes any scale of a column.

    Raises
    ------
    InvalidParameter : weights and ``mahalanobis``.
    """
    if weights and standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Weights have no effect on Mahalanobis distances, which no scale of a column changes.",
            hint='Leave them out, or choose `standardize="zscore"` or `standardize="range"`.',
        )


def weight_vector(names: tuple[str, ...], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """What each column is multiplied by, float64 (p,): the square root of its weight.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or names no attribute.
    """
    for name, weight in weights.items():
        if name not in names:
            raise InvalidParameter(
                f'The weight of "{name}" names no numeric quasi-identifier.',
                hint="Give weights to quasi-identifiers only.",
            )
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(f'The weight of "{name}" must be 0 or more and finite.')
    return np.sqrt(np.array([weights.get(name, 1.0) for name in names], np.float64))
