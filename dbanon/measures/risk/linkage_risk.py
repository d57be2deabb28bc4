"""linkage_risk: the share of records re-identified by an attacker who holds the originals.

For each original, the attacker finds the nearest released classes and guesses one of their rows.
The figure is the mean of 1 / (rows of all nearest classes) over the records, where records whose
own class is not among the nearest count 0. Classes with equal values count as one. The figure is at
most 1/k if all rows of a class are equal. With an entity column, the attacker guesses a person
instead. Cells that are NULL only in the release are ignored in comparisons.

The part ``class_linkage`` is the share of records whose class is among the nearest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Floats
from dbanon.measures.figure import NO_ROWS, EvaluationTask, Figure, Measure
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

# Weights of suppressed cells for two attackers: one minimizes the distance of the other cells and
# breaks ties by fewest suppressed cells; the other assumes average distances for suppressed cells.
_SUPPRESSED_WEIGHTS = (1e-6, 1.0)


def linkage_risk(task: EvaluationTask) -> Figure:
    """Compute the figure over released records, or over a sample of them."""
    pairs = task.pairs
    if not pairs.n:
        return Figure(None, note=NO_ROWS)
    if not pairs.suppressed_cells:
        return _attack(task)
    figures = [
        _attack(replace(task, pairs=replace(pairs, suppressed_weight=weight)))
        for weight in _SUPPRESSED_WEIGHTS
    ]
    return max(figures, key=lambda figure: figure.value or 0.0)


def _attack(task: EvaluationTask) -> Figure:
    """Compute the figure for the attacker whom ``Pairs.suppressed_weight`` describes."""
    pairs = task.pairs
    is_sampled = choose_sample(task)
    # The probability of a right guess, and whether the record's class is among the nearest.
    probabilities, class_hits = np.zeros(pairs.n), np.zeros(pairs.n, bool)
    n_done = 0
    for group in comparison_groups(pairs):
        if is_sampled is not None:
            in_sample = is_sampled[group.records]
            group = ComparisonGroup(
                group.records[in_sample], group.row_classes, group.own_rows[in_sample]
            )
        n_done += len(group.records)
        if not len(group.records) or not len(group.row_classes):
            continue
        # The attacker guesses among all records, or persons, that are released as a nearest row.
        # ``sizes`` counts them by id of the released row, and ``row_ids`` has the id of each class.
        weights = pairs.sizes[pairs.row_ids[group.row_classes]]
        find_nearest = _nearest_by_squared_distance if pairs.is_all_numeric else _nearest_by_sum
        own_distances, nearest = find_nearest(task, group, weights)
        is_hit = (group.own_rows >= 0) & (own_distances <= nearest.distances * TIE_FACTOR)
        class_hits[group.records] = is_hit
        probabilities[group.records] = is_hit / np.maximum(nearest.weights, 1)
        task.tick(n_done / pairs.n)
    if is_sampled is not None:
        probabilities, class_hits = probabilities[is_sampled], class_hits[is_sampled]
    value, parts, note = mean_hits(probabilities, is_sampled is not None)
    return Figure(value, parts={"class_linkage": float(class_hits.mean()), **parts}, note=note)


def _nearest_by_squared_distance(
    task: EvaluationTask, group: ComparisonGroup, weights: NDArray[np.int64]
) -> tuple[Floats, NearestPoints]:
    """Return the squared distance of each record from its row, float64 (r,), and the nearest rows.

    If the record's row is in another group, it is the distance from some row of this group.

    Parameters
    ----------
    weights : int64 (c,), how many released rows, or persons, have each distinct row of the group.
    """
    points, released = task.pairs.points
    queries, rows = points[group.records], released[group.row_classes]
    own_distances = squared_distances(queries, rows[np.maximum(group.own_rows, 0)])
    return own_distances, nearest_points(
        queries, rows, task.tick, limits=own_distances, weights=weights
    )


def _nearest_by_sum(
    task: EvaluationTask, group: ComparisonGroup, weights: NDArray[np.int64]
) -> tuple[Floats, NearestPoints]:
    """Do the same as ``_nearest_by_squared_distance``, with the sum of distances in all columns."""
    pairs, records = task.pairs, group.records
    own_distances = paired_distances(
        pairs, records, group.row_classes[np.maximum(group.own_rows, 0)]
    )
    return own_distances, nearest_by_sum(
        pairs,
        records,
        group.row_classes,
        task.tick,
        points_are_released=True,
        limits=own_distances,
        weights=weights,
    )


MEASURE = Measure(
    name="linkage_risk",
    run=linkage_risk,
    summary="Share of records that an attacker with the originals re-identifies",
    range="0 to 1/k where rows are k-anonymous, else up to 1",
    cost="n log(n/k), more with many columns",
)
