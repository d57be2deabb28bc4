"""Nearest-neighbour search shared by measures of record linkage.

Attackers see strata and NULLs, so they only compare records and classes with equal ones. Numeric
tables use Euclidean distances of z-scores. Other tables use the sum of eq. (11), which adds the
distances of all columns (``ColumnPair.distances_ignoring_nulls``), on a sample if there are many
records. Search trees give the same results as comparing all pairs.

Distances count as ties if their squares (for eq. (11): the distances) differ by a factor of at most
1 + 1e-9, because centroids are equally far from several records by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.kernels import Linkage, MixedLinkage
from dbanon.measures.attributes import Floats
from dbanon.measures.figure import EvaluationTask, Tick
from dbanon.measures.pairs import Pairs, combine_codes

TIE_FACTOR = 1.0 + 1e-9

# Up to this many comparisons of attributes, all records are linked; else a sample of this many.
MAX_ATTRIBUTE_COMPARISONS = 2_000_000_000
SAMPLE_SIZE = 10_000


@dataclass(frozen=True, eq=False)
class NearestPoints:
    """The nearest points of q query points.

    Parameters
    ----------
    distances : float64 (q,), to the nearest point.
    second_distances : float64 (q,), the smallest distance that is larger, or the nearest one again
        if there is none; empty if not requested.
    weights : int64 (q,), total weight of all nearest points.
    """

    distances: Floats
    second_distances: Floats
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Records and released rows that an attacker compares with each other.

    Parameters
    ----------
    records : int64 (r,), in the order of their classes.
    rows : int64 (c,), a class for each distinct released row of the group.
    own_row : int64 (r,), the index in ``rows`` of each record's released row; -1 if that row is in
        another group.
    """

    records: NDArray[np.int64]
    rows: NDArray[np.int64]
    own_row: NDArray[np.int64]


def comparison_groups(pairs: Pairs) -> Iterator[Group]:
    """Yield the groups that have records, each with its released rows."""
    row_ids = pairs.row_ids
    # The first class of each distinct row.
    row_classes = np.unique(row_ids, return_index=True)[1]
    members = pairs.partition.members
    if pairs.groups is None:
        yield Group(members, row_classes, row_ids[pairs.partition.labels[members]])
        return
    record_groups, class_groups = pairs.groups
    row_groups = class_groups[row_classes]
    rows_by_group = np.argsort(row_groups, kind="stable")
    n_groups = int(row_groups.max(initial=-1)) + 1
    row_starts = np.searchsorted(row_groups[rows_by_group], np.arange(n_groups + 1))
    # The index of each row in its group.
    index_in_group = np.empty(len(row_classes), np.int64)
    index_in_group[rows_by_group] = (
        np.arange(len(row_classes)) - row_starts[row_groups[rows_by_group]]
    )
    records_by_group = members[np.argsort(record_groups[members], kind="stable")]
    group_ids, record_starts = np.unique(record_groups[records_by_group], return_index=True)
    for group_id, records in zip(
        group_ids, np.split(records_by_group, record_starts[1:]), strict=True
    ):
        ids = row_ids[pairs.partition.labels[records]]
        own_row = np.where(row_groups[ids] == group_id, index_in_group[ids], -1)
        # Groups without rows have ids after those of all rows.
        start, end = (row_starts[min(i, n_groups)] for i in (group_id, group_id + 1))
        yield Group(records, row_classes[rows_by_group[start:end]], own_row)


def nearest_points(
    queries: Floats,
    points: Floats,
    tick: Tick,
    *,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    needs_second: bool = False,
) -> NearestPoints:
    """The nearest of ``points``, float64 (m, p), to ``queries``, float64 (q, p).

    Parameters
    ----------
    limits : float64 (q,), upper bounds of squared distances, for speed; None if unknown.
    weights : int64 (m,), weights of the points; None if all are 1.
    needs_second : True to search the second distances, too.
    """
    if not points.shape[1]:
        return _all_nearest(len(queries), len(points), weights)
    queries, points = np.ascontiguousarray(queries), np.ascontiguousarray(points)
    return _run_kernel(Linkage(queries, points, limits, weights, needs_second), tick)


def squared_distances(first: Floats, second: Floats) -> Floats:
    """float64 (r,), squared distances of corresponding points, float64 (r, p).

    The kernels compute exactly the same numbers.
    """
    distances = np.zeros(len(first))
    for column in range(first.shape[1]):
        difference = first[:, column] - second[:, column]
        distances += difference * difference
    return distances


def nearest_by_sum(
    pairs: Pairs,
    queries: NDArray[np.int64],
    points: NDArray[np.int64],
    tick: Tick,
    *,
    points_are_released: bool,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    needs_second: bool = False,
) -> NearestPoints:
    """``nearest_points`` with the sum of eq. (11), within a group.

    Parameters
    ----------
    queries, points : int64 (q,) and (m,), records and released rows, or vice versa.
    points_are_released : True if ``points`` are the released rows.
    limits : upper bounds of the distance, or of the second distance if that is needed.
    weights, needs_second : as in ``nearest_points``.
    """
    # All records of a group have NULL in the same columns, so these do not distinguish them.
    records, rows = (queries, points) if points_are_released else (points, queries)
    first = records[0]
    columns = [c for c in pairs.columns if c.original_nulls is None or not c.original_nulls[first]]
    if not columns:
        return _all_nearest(len(queries), len(points), weights)
    values = [
        [column.originals_for_kernel(records) for column in columns],
        [column.released_for_kernel(rows) for column in columns],
    ]
    parents = [column.parents for column in columns]
    if pairs.suppressed_cells:
        # An extra column adds the distance of suppressed cells: 0 for originals.
        values[0].append(np.zeros((len(records), 2)))
        values[1].append(np.repeat(pairs.suppressed_distance[rows][:, None], 2, axis=1))
        parents.append(None)
    record_boxes, row_boxes = (_stack_by_kind(kernel_values) for kernel_values in values)
    query_boxes, point_boxes = (
        (record_boxes, row_boxes) if points_are_released else (row_boxes, record_boxes)
    )
    return _run_kernel(
        MixedLinkage(parents, *query_boxes, *point_boxes, limits, weights, needs_second), tick
    )


def _stack_by_kind(values: list[NDArray[Any]]) -> tuple[Floats, NDArray[np.int32]]:
    """Stack the intervals, float64 (r, n_intervals, 2), and the nodes, int32 (r, n_hierarchies)."""
    intervals = [column for column in values if column.ndim == 2]
    nodes = [column for column in values if column.ndim == 1]
    empty_shape = len(values[0]), 0
    return (
        np.stack(intervals, axis=1) if intervals else np.empty((*empty_shape, 2)),
        np.stack(nodes, axis=1) if nodes else np.empty(empty_shape, np.int32),
    )


def _all_nearest(n_queries: int, n_points: int, weights: NDArray[np.int64] | None) -> NearestPoints:
    """The result if no column distinguishes points: all are nearest, at distance 0."""
    zeros = np.zeros(n_queries)
    total = n_points if weights is None else int(weights.sum())
    return NearestPoints(zeros, zeros, np.full(n_queries, total))


def _run_kernel(kernel: Linkage | MixedLinkage, tick: Tick) -> NearestPoints:
    while not kernel.step():
        tick(kernel.progress)
    return NearestPoints(kernel.distances(), kernel.seconds(), kernel.weights())


def paired_distances(pairs: Pairs, records: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
    """float64 (r,), the sum of eq. (11) between corresponding records and released rows.

    Suppressed cells add ``Pairs.suppressed_distance``.

    Parameters
    ----------
    records, rows : int64 (r,).
    """
    distances = np.zeros(len(records))
    for column in pairs.columns:
        distances += column.distances_ignoring_nulls(records, rows)
    return distances + pairs.suppressed_distance[rows] if pairs.suppressed_cells else distances


def distinct_combinations(
    codes: list[NDArray[np.int64]], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first index of each combination of codes, int64 (d,), and the inverse, int64 (n,).

    Parameters
    ----------
    codes : one array, int64 (n,), per column.
    """
    _, first_indices, inverse = np.unique(
        combine_codes(codes, n), return_index=True, return_inverse=True
    )
    return first_indices, inverse.reshape(-1)


def choose_sample(task: EvaluationTask, limits_cost: bool) -> NDArray[np.bool_] | None:
    """bool (n,), True for the records to link; None for all.

    Parameters
    ----------
    limits_cost : True to sample large tables even if the task requests no sample.
    """
    pairs, sample_size = task.pairs, task.parameters.sample
    if sample_size is None and limits_cost:
        sample_size = SAMPLE_SIZE if _count_comparisons(pairs) > MAX_ATTRIBUTE_COMPARISONS else None
    if sample_size is None or sample_size >= pairs.n:
        return None
    is_sampled = np.zeros(pairs.n, bool)
    rng = np.random.default_rng(task.parameters.seed)
    is_sampled[rng.choice(pairs.n, sample_size, replace=False)] = True
    return is_sampled


def _count_comparisons(pairs: Pairs) -> int:
    """The number of attribute distances between distinct records and rows."""
    value_ids = [column.value_ids for column in pairs.columns]
    rows = np.unique(pairs.row_ids, return_index=True)[1]
    if pairs.groups is None:
        return (
            (int(combine_codes(value_ids, pairs.n).max(initial=-1)) + 1)
            * len(rows)
            * len(value_ids)
        )
    record_groups, class_groups = pairs.groups
    records = distinct_combinations([*value_ids, record_groups], pairs.n)[0]
    n_groups = int(max(record_groups.max(initial=0), class_groups.max(initial=0))) + 1
    n_records, n_rows = (
        np.bincount(groups, minlength=n_groups)
        for groups in (record_groups[records], class_groups[rows])
    )
    return int((n_records * n_rows).sum()) * len(value_ids)


def mean_hits(hits: Floats, is_sample: bool) -> tuple[float, dict[str, float], str]:
    """The mean over linked records, parts of the figure, and a note.

    For a sample, the parts are the standard error and the note is the size of the sample.

    Parameters
    ----------
    hits : float64 (r,), the probability that each record is linked correctly.
    """
    if not is_sample:
        return float(hits.mean()), {}, ""
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return float(hits.mean()), {"standard_error": error}, f"of a sample of {len(hits)} records"
