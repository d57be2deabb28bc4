"""Where methods measure distance: standardized points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TypeVar

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
from dbanon.spaces.mixed import Axis, codes_of
from dbanon.spaces.places import Measured, Metric, Places

Made = TypeVar("Made")

# Of all records and attributes, 8 bytes each: 1 GiB.
MOST_COORDINATES = 1 << 27
# Of one record: kernels refuse points of more.
MOST_OF_A_RECORD = 4096


def embedded(
    n_records: int,
    measures: Measures,
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy],
    others: int,
) -> list[NDArray[np.float64]]:
    """The values of attributes as points, each by its hierarchy, for so many records.

    Parameters
    ----------
    others : how many coordinates the records have beside these.

    Returns
    -------
    float64 (L, q) of each attribute: the point of each leaf; 0 for leaves that do not occur.

    Raises
    ------
    MemoryLimit : there would be more coordinates than ``MOST_COORDINATES``, or of each record more
        than ``MOST_OF_A_RECORD``.
    HierarchyBroken : a value is no leaf of its hierarchy.
    """
    occurring = [
        _occurring(attribute, tree, measures)
        for attribute, tree in zip(attributes, trees, strict=True)
    ]
    nodes = [_telling(tree, used) for tree, used in zip(trees, occurring, strict=True)]
    wanted = others + sum(map(len, nodes))
    if wanted > MOST_OF_A_RECORD or n_records * wanted > MOST_COORDINATES:
        most = max(zip(map(len, nodes), attributes, strict=True), key=lambda one: one[0])
        limit = f"{MOST_COORDINATES} in all"
        if wanted > MOST_OF_A_RECORD:
            limit = f"{MOST_OF_A_RECORD} for each"
        raise MemoryLimit(
            f"{wanted} coordinates for each of {n_records} records are more than {limit}, which"
            " methods on points may have.",
            detail=f'The most, {most[0]}, are of "{most[1].name}", about one for each value.',
            hint="Bring rare values together in a view, or choose a method that needs no"
            ' coordinates, as `method="mdav"`.',
        )
    return [
        _tree_points(tree, used, telling)
        for tree, used, telling in zip(trees, occurring, nodes, strict=True)
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

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the columns of ``coordinates`` stand for: none, as any direction is as good."""
        return ()

    def take(self, records: NDArray[np.int64]) -> Space:
        """The space of some of the records, int64 (m,)."""
        return Space(np.ascontiguousarray(self.points[records]), self.names)

    def kernel(
        self, on_points: Callable[..., Made], on_places: Callable[..., Made] | None
    ) -> Callable[..., Made]:
        """Of a method's two kernels the one on points, on these."""
        del on_places
        return partial(on_points, self.points)


def numeric_space(
    microdata: Microdata,
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
) -> Callable[[NDArray[np.int64]], Space | Places]:
    """A function from sets of records, int64 (m,), to their points, on the scale of ``measures``.

    NULLs are 0: a method sees one pattern of NULLs at a time. Where attributes are no numbers, or
    have a hierarchy, records are in places, which become points of several coordinates for each
    such attribute (``embedded``) where a method asks for them.

    Raises
    ------
    InvalidParameter : weights with ``mahalanobis``, which have no use; ``mahalanobis``, and there
        are attributes that are no numbers, or the measures hold no covariance.
    HierarchyBroken : a value is no leaf of its hierarchy.
    """
    check_weights(standardize, weights)
    trees = trees_of(microdata.attributes, hierarchies, measures)
    if any(tree is not None for tree in trees):
        return _places(microdata, measures, trees, standardize, weights)
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


def _places(
    microdata: Microdata,
    measures: Measures,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
) -> Callable[[NDArray[np.int64]], Places]:
    """As ``numeric_space``, of attributes of which some are no numbers, or have a hierarchy."""
    if standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Mahalanobis distances need numbers, and text or hierarchies have none.",
            hint='Choose `standardize="range"` or `standardize="zscore"`.',
        )
    factors = weight_vector(tuple(a.name for a in microdata.attributes), weights)
    metric = Metric.of(
        [
            Measured.of(tree, None if tree else measures.numbers[a.name], standardize, factor)
            for a, tree, factor in zip(microdata.attributes, trees, factors.tolist(), strict=True)
        ]
    )
    codes = np.empty((microdata.n_records, len(trees)), np.int32)
    for position, (attribute, tree) in enumerate(zip(microdata.attributes, trees, strict=True)):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            codes[:, position] = metric.codes(position, values, valid)
        else:
            codes[:, position] = leaf_codes(microdata, attribute, tree)
            if valid is not None:
                codes[~valid, position] = 0
    dense = _mixed_points(microdata, measures, trees, standardize, weights, factors, codes)
    return lambda records: Places(codes_of(codes, records), metric, records, dense)


def _mixed_points(
    microdata: Microdata,
    measures: Measures,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
    factors: NDArray[np.float64],
    codes: NDArray[np.int32],
) -> Callable[[NDArray[np.int64]], Space]:
    """Points of records: numbers first, then the coordinates of each other attribute.

    Parameters
    ----------
    factors : float64 (d,), what the coordinates of each attribute are multiplied by.
    codes : int32 (n, d), of an attribute with a hierarchy the leaf of each record.
    """
    plain = [a.name for a, tree in zip(microdata.attributes, trees, strict=True) if tree is None]
    own = {name: weight for name, weight in weights.items() if name in plain}
    others = [(at, tree) for at, tree in enumerate(trees) if tree is not None]
    attributes = [microdata.attributes[at] for at, _ in others]
    held = [microdata.valid_column(attribute.name) for attribute in attributes]

    @cache
    def numbers() -> Callable[[NDArray[np.int64]], Space]:
        return _points(microdata.of_attributes(plain), measures, standardize, own)

    def space(records: NDArray[np.int64]) -> Space:
        # A table has a row for each leaf, too.
        rows = max(len(records), *(tree.n_leaves for _, tree in others))
        tables = embedded(rows, measures, attributes, [tree for _, tree in others], len(plain))
        of_numbers = numbers()(records)
        columns = [of_numbers.points]
        for (at, _), table, valid in zip(others, tables, held, strict=True):
            points = table[codes[records, at]] * factors[at]
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
