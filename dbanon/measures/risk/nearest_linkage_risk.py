"""nearest_linkage_risk, DLD: released rows whose original is nearest or second nearest.

A *record* is an original; a *row* is what its class is released as. A record is linked if its
distance from its own row is the smallest or the second smallest that any record has from this row.
Records at the same distance are all linked. For class means the figure is about 2/k. It says little
about attackers, who cannot tell k equal rows apart: see ``linkage_risk``. The part ``nearest`` is
the share of records at the smallest distance from their row.

Source: Chen and Han 2010, definition 4 and eq. (18).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Floats
from dbanon.measures.figure import NO_ROWS, NOT_FOR_LABELS, EvaluationTask, Figure, Measure
from dbanon.measures.risk.links import (
    TIE_FACTOR,
    ComparisonGroup,
    NearestPoints,
    choose_sample,
    comparison_groups,
    mean_hits,
    nearest_by_sum,
    nearest_points,
    paired_distances,
    squared_distances,
)


@dataclass(frozen=True, eq=False)
class _RowLinks:
    """Distances of records from their rows, and the nearest records of each row.

    Parameters
    ----------
    own_distances : float64 (r,), the distance of each record from its row.
    row_index : int64 (r,), the index of each record's row among the rows of ``nearest``.
    nearest : the nearest records of each distinct row.
    """

    own_distances: Floats
    row_index: NDArray[np.int64]
    nearest: NearestPoints


def nearest_linkage_risk(task: EvaluationTask) -> Figure:
    """Compute the figure over released records, or over a sample of them."""
    pairs = task.pairs
    if not pairs.n:
        return Figure(None, note=NO_ROWS)
    is_sampled = choose_sample(task)
    in_two_nearest, in_nearest = np.zeros(pairs.n, bool), np.zeros(pairs.n, bool)
    n_done = 0
    # Records are only compared with rows of the same stratum and with the same NULLs.
    for group in comparison_groups(pairs):
        n_done += len(group.records)
        # A record whose own row is in another group is not linked: ``own_rows`` is -1.
        has_own_row = group.own_rows >= 0
        if is_sampled is not None:
            has_own_row &= is_sampled[group.records]
        if not has_own_row.any():
            continue
        records, own_rows = group.records[has_own_row], group.own_rows[has_own_row]
        link = _link_by_squared_distance if pairs.is_all_numeric else _link_by_sum
        links = link(task, group, records, own_rows)
        nearest, row_index = links.nearest, links.row_index
        nearest_distances = nearest.distances[row_index]
        second_distances = nearest.second_distances[row_index]
        in_nearest[records] = links.own_distances <= nearest_distances * TIE_FACTOR
        in_two_nearest[records] = links.own_distances <= second_distances * TIE_FACTOR
        task.tick(n_done / pairs.n)
    if is_sampled is not None:
        in_two_nearest, in_nearest = in_two_nearest[is_sampled], in_nearest[is_sampled]
    value, parts, note = mean_hits(in_two_nearest.astype(np.float64), is_sampled is not None)
    # ``direct_loss`` finds out whether released labels cover all their values.
    if task.figures["direct_loss"].note == NOT_FOR_LABELS:
        note = "; ".join(filter(None, (NOT_FOR_LABELS, note)))
    return Figure(value, parts={"nearest": float(in_nearest.mean()), **parts}, note=note)


def _link_by_squared_distance(
    task: EvaluationTask,
    group: ComparisonGroup,
    records: NDArray[np.int64],
    own_rows: NDArray[np.int64],
) -> _RowLinks:
    """Link by squared Euclidean distances of z-scores; equal records count as one.

    Parameters
    ----------
    records : int64 (r,), the records to link.
    own_rows : int64 (r,), the index in ``group.row_classes`` of each record's released row.
    """
    points, released = task.pairs.points
    distinct_rows, row_index = _distinct_rows(own_rows, len(group.row_classes))
    own_distances = squared_distances(released[group.row_classes][own_rows], points[records])
    is_all = len(group.records) == len(points)
    record_points = _distinct_points(points if is_all else points[group.records])
    nearest = nearest_points(
        released[group.row_classes[distinct_rows]],
        record_points,
        task.tick,
        # The second distance among all records is at most that among the row's own records.
        limits=_second_own_distance(own_distances, row_index, len(distinct_rows)),
        needs_second=True,
    )
    return _RowLinks(own_distances, row_index, nearest)


def _distinct_rows(
    rows: NDArray[np.int64], n_rows: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values of ``rows``, ascending, and the index of each value among them.

    Parameters
    ----------
    rows : int64 (r,), values from 0 to n_rows - 1.
    """
    occurs = np.zeros(n_rows, bool)
    occurs[rows] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[rows]


def _second_own_distance(
    own_distances: Floats, row_index: NDArray[np.int64], n_rows: int
) -> Floats:
    """Return the second smallest distance of each row from its own records, float64 (n_rows,).

    The distance is infinite if a row's own records are all equally far.

    Parameters
    ----------
    own_distances : float64 (r,), the distance of each record from its row.
    row_index : int64 (r,), the row of each record, from 0 to n_rows - 1.
    """
    order = np.argsort(row_index, kind="stable")
    starts = np.searchsorted(row_index[order], np.arange(n_rows))
    distances_by_row = own_distances[order]
    smallest = np.minimum.reduceat(distances_by_row, starts)
    is_larger = distances_by_row > smallest[row_index[order]] * TIE_FACTOR
    larger = np.where(is_larger, distances_by_row, np.inf)
    return np.asarray(np.minimum.reduceat(larger, starts))


def _distinct_points(points: Floats) -> Floats:
    """Return the distinct ones of points, float64 (n, p), so that searches visit fewer ties."""
    combined: NDArray[np.int64] | None = None
    for column in points.T:
        values, ids = np.unique(column, return_inverse=True)
        ids = ids.reshape(-1)
        if combined is not None:
            values, ids = np.unique(combined * len(values) + ids, return_inverse=True)
        combined = ids.reshape(-1)
        if len(values) == len(points):
            return points
    if combined is None:
        return points
    distinct: Floats = points[np.unique(combined, return_index=True)[1]]
    return distinct


def _link_by_sum(
    task: EvaluationTask,
    group: ComparisonGroup,
    records: NDArray[np.int64],
    own_rows: NDArray[np.int64],
) -> _RowLinks:
    """Link by the sum of distances in all columns (``nearest_by_sum``).

    Parameters
    ----------
    records : int64 (r,), the records to link.
    own_rows : int64 (r,), the index in ``group.row_classes`` of each record's released row.
    """
    pairs = task.pairs
    own_distances = paired_distances(pairs, records, group.row_classes[own_rows])
    distinct_rows, row_index = _distinct_rows(own_rows, len(group.row_classes))
    # A row at distance 0 from all of its records needs no search.
    is_far = np.zeros(len(distinct_rows), bool)
    is_far[row_index[own_distances > 0]] = True
    zeros = np.zeros(len(distinct_rows))
    nearest = NearestPoints(zeros, zeros.copy(), np.zeros(len(distinct_rows), np.int64))
    if is_far.any():
        limits = _second_own_distance(own_distances, row_index, len(distinct_rows))[is_far]
        farther = nearest_by_sum(
            pairs,
            group.row_classes[distinct_rows[is_far]],
            group.records,
            task.tick,
            points_are_released=False,
            limits=limits,
            needs_second=True,
        )
        nearest.distances[is_far] = farther.distances
        nearest.second_distances[is_far] = farther.second_distances
    return _RowLinks(own_distances, row_index, nearest)


MEASURE = Measure(
    name="nearest_linkage_risk",
    symbol="DLD",
    run=nearest_linkage_risk,
    summary="Share of released records whose original is nearest or second nearest",
    range="0 to 1; about 2/k for means",
    cost="n log n, more with many columns",
    depends_on=("direct_loss",),
)
