"""Nearest-neighbor search shared by measures of record linkage.

A *record* is an original with all its columns; a *row* is what a class is released as.

Attackers see strata and NULLs, so they only compare records and classes of the same stratum with
the same NULLs. In numeric tables they compare squared Euclidean distances of z-scores. In other
tables they compare the sum of the distances in all columns
(``ColumnPair.distances_ignoring_nulls``), for a sample of the records if there are many. The sum is
eq. (11) of J. Chen and J. Han, "Evaluation model for quality of k-anonymity data oriented to
microaggregation", 2010. Search trees give the same results as comparing all pairs.

Nearly equal distances count as ties (``TIE_FACTOR``), because centroids are equally far from
several records by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.kernels import Linkage, MixedLinkage
from dbanon.measures.agreement import combine_codes
from dbanon.measures.attributes import Floats
from dbanon.measures.figure import EvaluationTask, Tick
from dbanon.measures.pairs import Pairs

# Squared distances, or sums, that differ by a factor of at most this count as equal.
TIE_FACTOR = 1.0 + 1e-9

# If linking all records takes more than this many comparisons of attributes, only a sample of
# records is linked.
MAX_ATTRIBUTE_COMPARISONS = 2_000_000_000
# The number of records in this sample.
SAMPLE_SIZE = 10_000


@dataclass(frozen=True, eq=False)
class NearestPoints:
    """The nearest points of q query points.

    Parameters
    ----------
    distances : float64 (q,), the distance of the nearest point.
    second_distances : float64 (q,), the smallest distance that is larger, or the nearest one again
        if there is none; empty if not requested.
    weights : int64 (q,), the total weight of all points at the nearest distance.
    """

    distances: Floats
    second_distances: Floats
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ComparisonGroup:
    """Records and released rows that an attacker compares with each other.

    Parameters
    ----------
    records : int64 (r,), the records, in the order of their classes.
    row_classes : int64 (c,), for each distinct released row, one of the classes that are released
        as it.
    own_rows : int64 (r,), for each record, the index in ``row_classes`` of its released row; -1 if
        that row is in another group.
    """

    records: NDArray[np.int64]
    row_classes: NDArray[np.int64]
    own_rows: NDArray[np.int64]


def comparison_groups(pairs: Pairs) -> Iterator[ComparisonGroup]:
    """Yield all groups that have records."""
    row_ids = pairs.row_ids
    # The first class of each distinct row.
    first_classes = np.unique(row_ids, return_index=True)[1]
    members = pairs.partition.members
    if pairs.groups is None:
        yield ComparisonGroup(members, first_classes, row_ids[pairs.partition.labels[members]])
        return
    record_groups, class_groups = pairs.groups
    row_groups = class_groups[first_classes]
    rows_by_group = np.argsort(row_groups, kind="stable")
    n_groups = int(row_groups.max(initial=-1)) + 1
    row_starts = np.searchsorted(row_groups[rows_by_group], np.arange(n_groups + 1))
    # The index of each row in its group.
    index_in_group = np.empty(len(first_classes), np.int64)
    index_in_group[rows_by_group] = (
        np.arange(len(first_classes)) - row_starts[row_groups[rows_by_group]]
    )
    records_by_group = members[np.argsort(record_groups[members], kind="stable")]
    group_ids, record_starts = np.unique(record_groups[records_by_group], return_index=True)
    for group_id, records in zip(
        group_ids, np.split(records_by_group, record_starts[1:]), strict=True
    ):
        ids = row_ids[pairs.partition.labels[records]]
        own_rows = np.where(row_groups[ids] == group_id, index_in_group[ids], -1)
        # A group with an id of ``n_groups`` or more has no rows: start and end are equal.
        row_start, row_end = (row_starts[min(i, n_groups)] for i in (group_id, group_id + 1))
        yield ComparisonGroup(records, first_classes[rows_by_group[row_start:row_end]], own_rows)


def nearest_points(
    queries: Floats,
    points: Floats,
    tick: Tick,
    *,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    needs_second: bool = False,
) -> NearestPoints:
    """Find the nearest points of each query point, by squared Euclidean distance.

    Parameters
    ----------
    queries : float64 (q, p), the query points.
    points : float64 (m, p), the points to search.
    limits : float64 (q,), upper bounds of the distances searched for (of the second distances if
        they are needed), which speed up the search; None if unknown.
    weights : int64 (m,), weights of the points; None if all are 1.
    needs_second : True to search the second distances, too.
    """
    if not points.shape[1]:
        return _all_nearest(len(queries), len(points), weights)
    queries, points = np.ascontiguousarray(queries), np.ascontiguousarray(points)
    return _run_kernel(Linkage(queries, points, limits, weights, needs_second), tick)


def squared_distances(first: Floats, second: Floats) -> Floats:
    """Return the squared distances of corresponding points, float64 (r,).

    The numbers are exactly those that the kernels compute.

    Parameters
    ----------
    first, second : float64 (r, p), points.
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
    """Find the nearest points within a group, by the sum of distances in all columns.

    Parameters
    ----------
    queries : int64 (q,), the records or the released rows to find neighbors of.
    points : int64 (m,), the released rows or the records to search.
    points_are_released : True if ``points`` are released rows; False if they are records.
    limits : float64 (q,), upper bounds of the distances searched for; of the second distances if
        they are needed. None if unknown.
    weights : int64 (m,), weights of the points; None if all are 1.
    needs_second : True to search the second distances, too.
    """
    # All records of a group have NULL in the same columns. Such columns do not distinguish records,
    # so leave these columns out.
    records, rows = (queries, points) if points_are_released else (points, queries)
    any_record = records[0]
    columns = [
        column
        for column in pairs.columns
        if column.original_nulls is None or not column.original_nulls[any_record]
    ]
    if not columns:
        return _all_nearest(len(queries), len(points), weights)
    values = [
        [column.originals_for_kernel(records) for column in columns],
        [column.released_for_kernel(rows) for column in columns],
    ]
    parents = [column.parents for column in columns]
    if pairs.suppressed_cells:
        # An additional column adds the distance of suppressed cells, as an interval of width 0. It
        # is 0 for originals.
        values[0].append(np.zeros((len(records), 2)))
        values[1].append(np.repeat(pairs.suppressed_distance[rows][:, None], 2, axis=1))
        parents.append(None)
    record_arrays, row_arrays = (_stack_by_kind(kernel_values) for kernel_values in values)
    query_arrays, point_arrays = (
        (record_arrays, row_arrays) if points_are_released else (row_arrays, record_arrays)
    )
    return _run_kernel(
        MixedLinkage(parents, *query_arrays, *point_arrays, limits, weights, needs_second), tick
    )


def _stack_by_kind(values: list[AnyArray]) -> tuple[Floats, NDArray[np.int32]]:
    """Stack the intervals, float64 (r, n_intervals, 2), and the nodes, int32 (r, n_hierarchies)."""
    intervals = [column for column in values if column.ndim == 2]
    nodes = [column for column in values if column.ndim == 1]
    empty_shape = len(values[0]), 0
    return (
        np.stack(intervals, axis=1) if intervals else np.empty((*empty_shape, 2)),
        np.stack(nodes, axis=1) if nodes else np.empty(empty_shape, np.int32),
    )


def _all_nearest(n_queries: int, n_points: int, weights: NDArray[np.int64] | None) -> NearestPoints:
    """Return the result if no column distinguishes points: all are nearest, at distance 0."""
    zeros = np.zeros(n_queries)
    total = n_points if weights is None else int(weights.sum())
    return NearestPoints(zeros, zeros, np.full(n_queries, total))


def _run_kernel(kernel: Linkage | MixedLinkage, tick: Tick) -> NearestPoints:
    """Run a search to its end, reporting its progress."""
    while not kernel.step():
        tick(kernel.progress)
    # ``seconds`` are the second distances.
    return NearestPoints(kernel.distances(), kernel.seconds(), kernel.weights())


def paired_distances(pairs: Pairs, records: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
    """Return the sum of distances in all columns of records from released rows, float64 (r,).

    Suppressed cells add ``Pairs.suppressed_distance``.

    Parameters
    ----------
    records : int64 (r,), records.
    rows : int64 (r,), the class of the released row to compare with each record.
    """
    distances = np.zeros(len(records))
    for column in pairs.columns:
        distances += column.distances_ignoring_nulls(records, rows)
    return distances + pairs.suppressed_distance[rows] if pairs.suppressed_cells else distances


def distinct_combinations(
    codes: list[NDArray[np.int64]], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first index of each of d distinct combinations, int64 (d,), and the inverse.

    The inverse, int64 (n,), is the index of each row's combination, as in ``numpy.unique``.

    Parameters
    ----------
    codes : one array, int64 (n,), per column.
    """
    _, first_indices, inverse = np.unique(
        combine_codes(codes, n), return_index=True, return_inverse=True
    )
    return first_indices, inverse.reshape(-1)


def choose_sample(task: EvaluationTask) -> NDArray[np.bool_] | None:
    """Choose the records to link, bool (n,); None to link all.

    Large tables are sampled even if the task requests no sample, unless all columns are numeric:
    then search trees are fast enough.
    """
    pairs, sample_size = task.pairs, task.parameters.sample
    if (
        sample_size is None
        and not pairs.is_all_numeric
        and _count_comparisons(pairs) > MAX_ATTRIBUTE_COMPARISONS
    ):
        sample_size = SAMPLE_SIZE
    if sample_size is None or sample_size >= pairs.n:
        return None
    is_sampled = np.zeros(pairs.n, bool)
    rng = np.random.default_rng(task.parameters.seed)
    is_sampled[rng.choice(pairs.n, sample_size, replace=False)] = True
    return is_sampled


def _count_comparisons(pairs: Pairs) -> int:
    """Return the number of attribute distances between distinct records and distinct rows."""
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
    """Return the mean over linked records, parts of the figure, and a note.

    For a sample, the parts hold the standard error, and the note says how large the sample is.

    Parameters
    ----------
    hits : float64 (r,), the probability that each record is linked correctly.
    is_sample : True if the records are a sample.
    """
    if not is_sample:
        return float(hits.mean()), {}, ""
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return float(hits.mean()), {"standard_error": error}, f"of a sample of {len(hits)} records"
