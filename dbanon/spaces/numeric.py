"""Spaces for methods based on Euclidean distance: records as standardized points.

A leaf of a hierarchy becomes a point with several coordinates (an embedding), such that the
distance of two leaves depends on the height of their lowest common ancestor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.scales import MAHALANOBIS, Standardization
from dbanon.data.schema import Attribute
from dbanon.errors import InvalidParameter, MemoryLimit
from dbanon.hierarchy.leaves import Hierarchies, encode_leaves, resolve_hierarchies
from dbanon.hierarchy.tree import Hierarchy

if TYPE_CHECKING:
    from dbanon.spaces.codes import CodeSpace
    from dbanon.spaces.mixed import Axis

KernelT = TypeVar("KernelT")

# Limit of the coordinates of all records together: 1 GiB at 8 bytes per coordinate.
MAX_COORDINATES = 1 << 27
# Limit of the coordinates of a record: kernels refuse points with more.
MAX_COORDINATES_PER_RECORD = 4096


def embed_leaves(
    n_records: int,
    column_statistics: ColumnStatistics,
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy],
    n_number_coordinates: int,
) -> list[NDArray[np.float64]]:
    """Embed the leaves of hierarchies in Euclidean space.

    Parameters
    ----------
    n_records : the number of records that will be embedded; it counts towards the limit.
    column_statistics : the values that occur in the table.
    attributes, trees : the attributes that have a hierarchy, and the hierarchies.
    n_number_coordinates : the number of each record's other coordinates, those of numbers.

    Returns
    -------
    For each attribute float64 (L, q), the point of each leaf; 0 for leaves that do not occur.

    Raises
    ------
    MemoryLimit : more than ``MAX_COORDINATES`` coordinates in total, or for one record more than
        ``MAX_COORDINATES_PER_RECORD``.
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    occurring_leaves = [
        _list_occurring_leaves(attribute, tree, column_statistics)
        for attribute, tree in zip(attributes, trees, strict=True)
    ]
    # Each of these nodes adds a coordinate.
    nodes = [
        _list_splitting_nodes(tree, leaves)
        for tree, leaves in zip(trees, occurring_leaves, strict=True)
    ]
    n_coordinates = n_number_coordinates + sum(map(len, nodes))
    if n_coordinates > MAX_COORDINATES_PER_RECORD or n_records * n_coordinates > MAX_COORDINATES:
        n_largest, largest_attribute = max(
            zip(map(len, nodes), attributes, strict=True), key=lambda entry: entry[0]
        )
        limit = f"{MAX_COORDINATES} in all"
        if n_coordinates > MAX_COORDINATES_PER_RECORD:
            limit = f"{MAX_COORDINATES_PER_RECORD} for each"
        raise MemoryLimit(
            f"{n_coordinates} coordinates for each of {n_records} records are more than {limit},"
            " which is the most that methods on points may have.",
            detail=f'"{largest_attribute.name}" needs the most, {n_largest}, about one for each'
            " value.",
            hint="Bring rare values together in a view, or choose a method that needs no"
            ' coordinates, as `method="mdav"`.',
        )
    return [
        _embed_tree(tree, leaves, attribute_nodes)
        for tree, leaves, attribute_nodes in zip(trees, occurring_leaves, nodes, strict=True)
    ]


def _list_occurring_leaves(
    attribute: Attribute, tree: Hierarchy, column_statistics: ColumnStatistics
) -> NDArray[np.int64]:
    """List the positions of the leaves that occur in the table, ascending, int64 (m,).

    For a numeric attribute these are all leaves.
    """
    if attribute.name not in column_statistics.categories:
        return np.arange(tree.n_leaves)
    values = column_statistics.categories[attribute.name].occurring_values().values
    return np.sort(tree.encode(values, attribute.name)).astype(np.int64)


def _list_splitting_nodes(tree: Hierarchy, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the nodes that have some, but not all, of the leaves below them, int64 (q,).

    Parameters
    ----------
    leaves : int64 (m,), the positions of the leaves that occur.
    """
    first, last = tree.leaf_ranges.T
    n_below = np.searchsorted(leaves, last, "right") - np.searchsorted(leaves, first)
    return np.flatnonzero((n_below > 0) & (n_below < len(leaves)))


def _embed_tree(
    tree: Hierarchy, leaves: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the point of each leaf, float64 (n_leaves, q); 0 for leaves that do not occur.

    Parameters
    ----------
    leaves : int64 (m,), the positions of the leaves that occur.
    nodes : int64 (q,), the splitting nodes. Leaves below a node have a positive coordinate there.
    """
    # Two leaves differ in the coordinates of the nodes on the two paths down to them from their
    # lowest common ancestor. The squares of these lengths add up to the ancestor's squared height.
    squared_heights = np.square(tree.heights / max(tree.height, 1))
    lengths = np.sqrt((squared_heights[tree.parents[nodes]] - squared_heights[nodes]) / 2)
    first, last = tree.leaf_ranges[nodes].T
    points = np.zeros((tree.n_leaves, len(nodes)))
    points[leaves] = np.where((leaves[:, None] >= first) & (leaves[:, None] <= last), lengths, 0.0)
    return points


@dataclass(frozen=True)
class Space:
    """Records as points.

    Parameters
    ----------
    points : float64 (n, p), C order, read-only: the numbers, standardized and weighted, and the
        embedded leaves of other attributes.
    names : the attribute of each of the p columns; empty for a coordinate of embedded leaves.
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
        """Coordinates of the records, float64 (n, p), for splitting them into blocks."""
        return self.points

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Empty: blocks of points may be split in any direction."""
        return ()

    def take(self, records: NDArray[np.int64]) -> Space:
        """Return the space of some of the records, int64 (m,)."""
        return Space(np.ascontiguousarray(self.points[records]), self.names)

    def kernel(
        self, points_kernel: Callable[..., KernelT], codes_kernel: Callable[..., KernelT] | None
    ) -> Callable[..., KernelT]:
        """Bind the points to the method's kernel for points."""
        del codes_kernel
        return partial(points_kernel, self.points)


def numeric_space(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
) -> Callable[[NDArray[np.int64]], Space | CodeSpace]:
    """Return a function that builds the space of given records, int64 (m,).

    Numbers are standardized by their scales in ``column_statistics``. NULLs become 0, since methods
    run separately on the records of each NULL pattern. If an attribute is text or has a hierarchy,
    the space is a ``CodeSpace``, which computes points only for methods that need them.

    Raises
    ------
    InvalidParameter : ``mahalanobis`` with weights, with attributes that are not numeric, or
        without a covariance in the column statistics.
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    check_weights(standardize, weights)
    trees = resolve_hierarchies(microdata.attributes, hierarchies, column_statistics)
    if any(tree is not None for tree in trees):
        return _make_code_space_builder(microdata, column_statistics, trees, standardize, weights)
    return _make_point_space_builder(microdata, column_statistics, standardize, weights)


def _make_point_space_builder(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    standardize: str,
    weights: Mapping[str, float],
) -> Callable[[NDArray[np.int64]], Space]:
    """Return a function that builds the space of given records; all attributes are numeric."""
    names = tuple([attribute.name for attribute in microdata.attributes])
    valid = microdata.valid
    transform = Standardization.of([column_statistics.scales[name] for name in names], standardize)
    factors = compute_column_factors(names, weights)

    def build_space(records: NDArray[np.int64]) -> Space:
        points = transform.apply_to_records(microdata.numbers, records, factors)
        is_present = np.ones(len(names), np.bool_)
        if valid is not None and len(records):
            points[~valid[records]] = 0.0
            # All records of a space have the same pattern of NULLs.
            is_present = valid[records[0]]
        if standardize == MAHALANOBIS and len(records):
            points = column_statistics.whitening_of(is_present).apply(points)
        return Space(np.ascontiguousarray(points), names)

    return build_space


def _make_code_space_builder(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
) -> Callable[[NDArray[np.int64]], CodeSpace]:
    """Return a function that builds the space of given records; some attributes are not numeric."""
    from dbanon.spaces.codes import AttributeMetric, CodeSpace, Metric
    from dbanon.spaces.mixed import take_codes

    if standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Mahalanobis distances need numbers, not text or hierarchies.",
            hint='Choose `standardize="range"` or `standardize="zscore"`.',
        )
    factors = compute_column_factors(tuple(a.name for a in microdata.attributes), weights)
    metric = Metric.of(
        [
            AttributeMetric.of(
                tree, None if tree else column_statistics.scales[a.name], standardize, factor
            )
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
            codes[:, position] = encode_leaves(microdata, attribute, tree)
            if valid is not None:
                codes[~valid, position] = 0
    build_points = _make_mixed_point_builder(
        microdata, column_statistics, trees, standardize, weights, factors, codes
    )
    return lambda records: CodeSpace(take_codes(codes, records), metric, records, build_points)


def _make_mixed_point_builder(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
    factors: NDArray[np.float64],
    codes: NDArray[np.int32],
) -> Callable[[NDArray[np.int64]], Space]:
    """Return a function that builds points of given records: numbers, then embedded leaves.

    Parameters
    ----------
    factors : float64 (d,), the multiplier of each attribute's coordinates.
    codes : int32 (n, d), the leaf positions of attributes with a hierarchy.
    """
    number_names = [
        a.name for a, tree in zip(microdata.attributes, trees, strict=True) if tree is None
    ]
    number_weights = {name: weight for name, weight in weights.items() if name in number_names}
    tree_attributes = [(position, tree) for position, tree in enumerate(trees) if tree is not None]
    attributes = [microdata.attributes[position] for position, _ in tree_attributes]
    valid_columns = [microdata.valid_column(attribute.name) for attribute in attributes]

    # Built on first use, since methods that work on codes need no points.
    @cache
    def number_space_builder() -> Callable[[NDArray[np.int64]], Space]:
        return _make_point_space_builder(
            microdata.select_attributes(number_names),
            column_statistics,
            standardize,
            number_weights,
        )

    def build_space(records: NDArray[np.int64]) -> Space:
        # The embedding itself has a point for each leaf, so it counts towards the limit, too.
        n_points = max(len(records), *(tree.n_leaves for _, tree in tree_attributes))
        embeddings = embed_leaves(
            n_points,
            column_statistics,
            attributes,
            [tree for _, tree in tree_attributes],
            n_number_coordinates=len(number_names),
        )
        number_space = number_space_builder()(records)
        columns = [number_space.points]
        for (position, _), leaf_points, valid in zip(
            tree_attributes, embeddings, valid_columns, strict=True
        ):
            points = leaf_points[codes[records, position]] * factors[position]
            if valid is not None:
                points[~valid[records]] = 0.0
            columns.append(points)
        points = np.column_stack(columns)
        # Coordinates of embedded leaves have no name.
        names = number_space.names + ("",) * (points.shape[1] - len(number_names))
        return Space(np.ascontiguousarray(points), names)

    return build_space


def check_weights(standardize: str, weights: Mapping[str, float]) -> None:
    """Refuse weights with Mahalanobis distances, on which the scaling of columns has no effect.

    Raises
    ------
    InvalidParameter : weights with ``mahalanobis``.
    """
    if weights and standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Weights have no effect on Mahalanobis distances, which do not depend on scales.",
            hint='Leave them out, or choose `standardize="zscore"` or `standardize="range"`.',
        )


def compute_column_factors(
    names: tuple[str, ...], weights: Mapping[str, float]
) -> NDArray[np.float64]:
    """Compute the multiplier of each column, float64 (p,): the square root of its weight.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or names no attribute.
    """
    for name, weight in weights.items():
        if name not in names:
            raise InvalidParameter(
                f'The weight of "{name}" names no quasi-identifier.',
                hint="Give weights to quasi-identifiers only.",
            )
        if not np.isfinite(weight) or weight < 0:
            raise InvalidParameter(f'The weight of "{name}" must be 0 or more and finite.')
    return np.sqrt(np.array([weights.get(name, 1.0) for name in names], np.float64))
