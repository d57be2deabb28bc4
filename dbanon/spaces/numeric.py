"""Standardized points for methods based on Euclidean distance."""

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
from dbanon.hierarchy.leaves import Hierarchies, encode_leaves, resolve_hierarchies
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.codes import AttributeMetric, CodeSpace, Metric
from dbanon.spaces.mixed import Axis, take_codes

KernelT = TypeVar("KernelT")

# Limit for the whole table, at 8 bytes per coordinate: 1 GiB.
MAX_COORDINATES = 1 << 27
# Limit for one record: kernels refuse wider points.
MAX_COORDINATES_PER_RECORD = 4096


def embed_leaves(
    n_records: int,
    measures: Measures,
    attributes: Sequence[Attribute],
    trees: Sequence[Hierarchy],
    n_further: int,
) -> list[NDArray[np.float64]]:
    """Embed the leaves of hierarchies in Euclidean space.

    Parameters
    ----------
    n_records : number of records that will be embedded, for the limit of coordinates.
    n_further : further coordinates per record.

    Returns
    -------
    Per attribute float64 (L, q), the point of each leaf; 0 for leaves that do not occur.

    Raises
    ------
    MemoryLimit : more than ``MAX_COORDINATES`` coordinates in total, or for one record more than
        ``MAX_COORDINATES_PER_RECORD``.
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    occurring_leaves = [
        _occurring_leaves(attribute, tree, measures)
        for attribute, tree in zip(attributes, trees, strict=True)
    ]
    nodes = [
        _splitting_nodes(tree, leaves) for tree, leaves in zip(trees, occurring_leaves, strict=True)
    ]
    n_coordinates = n_further + sum(map(len, nodes))
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


def _occurring_leaves(
    attribute: Attribute, tree: Hierarchy, measures: Measures
) -> NDArray[np.int64]:
    """List the positions of leaves that occur in the table, ascending; all leaves for numbers."""
    if attribute.name not in measures.categories:
        return np.arange(tree.n_leaves)
    values = measures.categories[attribute.name].occurring_values().values
    return np.sort(tree.encode(values, attribute.name)).astype(np.int64)


def _splitting_nodes(tree: Hierarchy, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
    """List the nodes that split the leaves: some of them are below the node, others are not."""
    first, last = tree.ranges.T
    below = np.searchsorted(leaves, last, "right") - np.searchsorted(leaves, first)
    return np.flatnonzero((below > 0) & (below < len(leaves)))


def _embed_tree(
    tree: Hierarchy, leaves: NDArray[np.int64], nodes: NDArray[np.int64]
) -> NDArray[np.float64]:
    squared = np.square(tree.heights / max(tree.height, 1))
    lengths = np.sqrt((squared[tree.parents[nodes]] - squared[nodes]) / 2)
    first, last = tree.ranges[nodes].T
    points = np.zeros((tree.n_leaves, len(nodes)))
    points[leaves] = np.where((leaves[:, None] >= first) & (leaves[:, None] <= last), lengths, 0.0)
    return points


@dataclass(frozen=True)
class Space:
    """Records as points.

    Parameters
    ----------
    points : float64 (n, p), C order, read-only: standardized and weighted numeric attributes, and
        the embeddings of others.
    names : the attribute of each of the p columns; empty for a coordinate of an embedding.
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
    measures: Measures,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
) -> Callable[[NDArray[np.int64]], Space | CodeSpace]:
    """Return a function from records, int64 (m,), to their space, on the scales of ``measures``.

    NULLs are 0: methods get one NULL pattern at a time. With text or hierarchies the space is a
    ``CodeSpace``, which computes points (``embed_leaves``) only for methods that need them.

    Raises
    ------
    InvalidParameter : ``mahalanobis`` with weights, with attributes that are not numeric, or
        without a covariance in the measures.
    HierarchyBroken : a value is not a leaf of its hierarchy.
    """
    check_weights(standardize, weights)
    trees = resolve_hierarchies(microdata.attributes, hierarchies, measures)
    if any(tree is not None for tree in trees):
        return _code_space(microdata, measures, trees, standardize, weights)
    return _points(microdata, measures, standardize, weights)


def _points(
    microdata: Microdata, measures: Measures, standardize: str, weights: Mapping[str, float]
) -> Callable[[NDArray[np.int64]], Space]:
    """``numeric_space`` for numeric attributes."""
    names = tuple(attribute.name for attribute in microdata.numeric)
    valid = microdata.numeric_valid()
    transform = Standardization.of([measures.numbers[name] for name in names], standardize)
    factors = compute_column_factors(names, weights)

    def space(records: NDArray[np.int64]) -> Space:
        points = transform.apply_to_records(microdata.numbers, records, factors)
        is_present = np.ones(len(names), np.bool_)
        if valid is not None and len(records):
            points[~valid[records]] = 0.0
            is_present = valid[records[0]]
        if standardize == MAHALANOBIS and len(records):
            points = measures.whitening_of(is_present).apply(points)
        return Space(np.ascontiguousarray(points), names)

    return space


def _code_space(
    microdata: Microdata,
    measures: Measures,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
) -> Callable[[NDArray[np.int64]], CodeSpace]:
    """``numeric_space`` for attributes that include text or hierarchies."""
    if standardize == MAHALANOBIS:
        raise InvalidParameter(
            "Mahalanobis distances need numbers, not text or hierarchies.",
            hint='Choose `standardize="range"` or `standardize="zscore"`.',
        )
    factors = compute_column_factors(tuple(a.name for a in microdata.attributes), weights)
    metric = Metric.of(
        [
            AttributeMetric.of(
                tree, None if tree else measures.numbers[a.name], standardize, factor
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
    build_points = _mixed_points(microdata, measures, trees, standardize, weights, factors, codes)
    return lambda records: CodeSpace(take_codes(codes, records), metric, records, build_points)


def _mixed_points(
    microdata: Microdata,
    measures: Measures,
    trees: tuple[Hierarchy | None, ...],
    standardize: str,
    weights: Mapping[str, float],
    factors: NDArray[np.float64],
    codes: NDArray[np.int32],
) -> Callable[[NDArray[np.int64]], Space]:
    """Return a function from records to points: numbers, then embeddings of other attributes.

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
    validity = [microdata.valid_column(attribute.name) for attribute in attributes]

    @cache
    def numbers() -> Callable[[NDArray[np.int64]], Space]:
        return _points(
            microdata.select_attributes(number_names), measures, standardize, number_weights
        )

    def space(records: NDArray[np.int64]) -> Space:
        # An embedding has a row per leaf, too.
        rows = max(len(records), *(tree.n_leaves for _, tree in tree_attributes))
        tables = embed_leaves(
            rows, measures, attributes, [tree for _, tree in tree_attributes], len(number_names)
        )
        number_space = numbers()(records)
        columns = [number_space.points]
        for (position, _), table, valid in zip(tree_attributes, tables, validity, strict=True):
            points = table[codes[records, position]] * factors[position]
            if valid is not None:
                points[~valid[records]] = 0.0
            columns.append(points)
        points = np.column_stack(columns)
        # Coordinates of an embedding have no name.
        names = number_space.names + ("",) * (points.shape[1] - len(number_names))
        return Space(np.ascontiguousarray(points), names)

    return space


def check_weights(standardize: str, weights: Mapping[str, float]) -> None:
    """Refuse weights that have no effect, since whitening undoes any scaling of columns.

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
    InvalidParameter : a weight is negative or not finite, or for an unknown attribute.
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
