"""Nearest-neighbour search shared by measures of record linkage.

Attackers see strata and NULLs, so they only compare records and classes with equal ones. Numeric
tables use Euclidean distances of z-scores, others the sum of eq. (11), which adds the distances of
all columns (``ColumnPair.distances_ignoring_nulls``), on a sample if there are many records. Search trees give the
same results as comparing all pairs.

Distances count as equal if their squares (for eq. (11): the distances) differ by a factor of at
most 1 + 1e-9, because centroids are equally far from several records by construction.
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

TIE = 1.0 + 1e-9

# Number of pairs times attributes up to which all records are linked rather than a sample.
MOST_CELLS = 2_000_000_000
SAMPLE = 10_000


@dataclass(frozen=True, eq=False)
class NearestPoints:
    """The nearest points of q query points.

    Parameters
    ----------
    distances : float64 (q,), to the nearest point.
    seconds : float64 (q,), the next larger distance, or the same; empty if not requested.
    weights : int64 (q,), total weight of all nearest points.
    """

    distances: Floats
    seconds: Floats
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Records and released rows that an attacker compares with each other.

    Parameters
    ----------
    records : int64 (r,), in the order of their classes.
    rows : int64 (c,), a class for each distinct released row of the group.
    own_row : int64 (r,), the index in ``rows`` of each record; -1 if released in another group.
    """

    records: NDArray[np.int64]
    rows: NDArray[np.int64]
    own_row: NDArray[np.int64]


def comparison_groups(pairs: Pairs) -> Iterator[Group]:
    """The groups with records and released rows."""
    row_ids = pairs.row_ids
    firsts = np.unique(row_ids, return_index=True)[1]
    members = pairs.partition.members
    if pairs.groups is None:
        yield Group(members, firsts, row_ids[pairs.partition.labels[members]])
        return
    record_groups, class_groups = pairs.groups
    row_groups = class_groups[firsts]
    positions = np.empty(len(firsts), np.int64)
    in_order = np.argsort(row_groups, kind="stable")
    starts = np.searchsorted(row_groups[in_order], np.arange(int(row_groups.max(initial=-1)) + 2))
    positions[in_order] = np.arange(len(firsts)) - starts[row_groups[in_order]]
    by_group = members[np.argsort(record_groups[members], kind="stable")]
    group_ids, begins = np.unique(record_groups[by_group], return_index=True)
    for group_id, records in zip(group_ids, np.split(by_group, begins[1:]), strict=True):
        ids = row_ids[pairs.partition.labels[records]]
        own_row = np.where(row_groups[ids] == group_id, positions[ids], -1)
        # Groups without rows have ids after those of all rows.
        ends = starts[min(group_id, len(starts) - 1)], starts[min(group_id + 1, len(starts) - 1)]
        yield Group(records, firsts[in_order[ends[0] : ends[1]]], own_row)


def nearest_points(
    queries: Floats,
    points: Floats,
    tick: Tick,
    *,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    second: bool = False,
) -> NearestPoints:
    """The nearest of ``points``, float64 (m, p), to ``queries``, float64 (q, p).

    Parameters
    ----------
    limits : float64 (q,), expected upper bounds of squared distances, for speed; None if unknown.
    weights : int64 (m,), weights of the points; None for ones.
    """
    if not points.shape[1]:
        return _all_nearest(len(queries), len(points), weights)
    queries, points = np.ascontiguousarray(queries), np.ascontiguousarray(points)
    return _run_kernel(Linkage(queries, points, limits, weights, second), tick)


def squared_distances(first: Floats, second: Floats) -> Floats:
    """float64 (r,), squared distances of points, float64 (r, p), bitwise as in the kernels."""
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
    released: bool,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    second: bool = False,
) -> NearestPoints:
    """``nearest_points`` with the sum of eq. (11), within a group.

    Parameters
    ----------
    queries, points : int64 (q,) and (m,), records and released rows, or vice versa.
    released : True if ``points`` are the released rows.
    limits : as in ``nearest_points``; bounds of the second distance if ``second``.
    """
    # NULLs are the same in the whole group, so they do not distinguish records.
    first = (queries if released else points)[0]
    columns = [c for c in pairs.columns if c.original_nulls is None or not c.original_nulls[first]]
    if not columns:
        return _all_nearest(len(queries), len(points), weights)
    records, rows = (queries, points) if released else (points, queries)
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
    boxes = [_boxes(side) for side in values]
    query_boxes, point_boxes = boxes if released else boxes[::-1]
    return _run_kernel(
        MixedLinkage(parents, *query_boxes, *point_boxes, limits, weights, second), tick
    )


def _boxes(values: list[NDArray[Any]]) -> tuple[Floats, NDArray[np.int32]]:
    """Intervals, float64 (r, numbers, 2), and nodes, int32 (r, hierarchies), by column."""
    ends = [column for column in values if column.ndim == 2]
    nodes = [column for column in values if column.ndim == 1]
    empty_shape = len(values[0]), 0
    return (
        np.stack(ends, axis=1) if ends else np.empty((*empty_shape, 2)),
        np.stack(nodes, axis=1) if nodes else np.empty(empty_shape, np.int32),
    )


def _all_nearest(queries: int, points: int, weights: NDArray[np.int64] | None) -> NearestPoints:
    """All points are nearest, since no column distinguishes them."""
    zero = np.zeros(queries)
    total = points if weights is None else int(weights.sum())
    return NearestPoints(zero, zero, np.full(queries, total))


def _run_kernel(kernel: Linkage | MixedLinkage, tick: Tick) -> NearestPoints:
    while not kernel.step():
        tick(kernel.progress)
    return NearestPoints(kernel.distances(), kernel.seconds(), kernel.weights())


def paired_distances(pairs: Pairs, records: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
    """float64 (r,), the sum of eq. (11) between corresponding records and rows.

    Suppressed cells add ``Pairs.suppressed_distance``.
    """
    distances = np.zeros(len(records))
    for column in pairs.columns:
        distances += column.distances_ignoring_nulls(records, rows)
    return distances + pairs.suppressed_distance[rows] if pairs.suppressed_cells else distances


def distinct_combinations(
    codes: list[NDArray[np.int64]], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first index of each combination of codes, int64 (d,), and the inverse, int64 (n,)."""
    _, firsts, combination = np.unique(
        combine_codes(codes, n), return_index=True, return_inverse=True
    )
    return firsts, combination.reshape(-1)


def choose_sample(task: EvaluationTask, auto: bool) -> NDArray[np.bool_] | None:
    """bool (n,), the records to link; None for all.

    Parameters
    ----------
    auto : True to sample large tables by default.
    """
    pairs, size = task.pairs, task.parameters.sample
    if size is None and auto and _cells(pairs) > MOST_CELLS:
        size = SAMPLE
    if size is None or size >= pairs.n:
        return None
    chosen = np.zeros(pairs.n, bool)
    rng = np.random.default_rng(task.parameters.seed)
    chosen[rng.choice(pairs.n, size, replace=False)] = True
    return chosen


def _cells(pairs: Pairs) -> int:
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
    width = int(max(record_groups.max(initial=0), class_groups.max(initial=0))) + 1
    counts = (
        np.bincount(group, minlength=width)
        for group in (record_groups[records], class_groups[rows])
    )
    return int(np.multiply(*counts).sum()) * len(value_ids)


def mean_hits(hits: Floats, sampled: bool) -> tuple[float, dict[str, float], str]:
    """The mean over linked records, with its standard error for a sample."""
    if not sampled:
        return float(hits.mean()), {}, ""
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return float(hits.mean()), {"standard_error": error}, f"of a sample of {len(hits)} records"
