"""linkage_risk: the share of records re-identified by an attacker who holds the originals.

For each original, the attacker finds the nearest released classes and guesses one of their rows.
The figure is the mean of [own class among the nearest] / (rows of all nearest classes). Classes
with equal values count as one. It is at most 1/k if all rows of a class are equal. With an entity
column, the attacker guesses a person instead. Cells that are NULL only in the release are ignored
in comparisons.

``class_linkage`` is the share of records whose class is among the nearest.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Floats
from dbanon.measures.figure import NO_ROWS, EvaluationTask, Figure, Measure
from dbanon.measures.risk.links import (
    TIE,
    Group,
    NearestPoints,
    choose_sample,
    comparison_groups,
    mean_hits,
    nearest_by_sum,
    nearest_points,
    paired_distances,
    squared_distances,
)

# Two attackers on rows with suppressed cells: one minimizes the distance of the remaining cells and
# breaks ties by fewest suppressed cells; the other assumes average distances for suppressed cells.
_WEIGHTS = (1e-6, 1.0)


def linkage_risk(task: EvaluationTask) -> Figure:
    """The figure over released records, or a sample of them."""
    pairs = task.pairs
    if not pairs.n:
        return Figure(None, note=NO_ROWS)
    if not pairs.suppressed_cells:
        return _linked(task)
    attackers = [
        _linked(replace(task, pairs=replace(pairs, suppressed_weight=weight)))
        for weight in _WEIGHTS
    ]
    return max(attackers, key=lambda figure: figure.value or 0.0)


def _linked(task: EvaluationTask) -> Figure:
    pairs = task.pairs
    chosen = choose_sample(task, auto=not pairs.is_all_numeric)
    shares, class_hits = np.zeros(pairs.n), np.zeros(pairs.n, bool)
    done = 0
    for group in comparison_groups(pairs):
        if chosen is not None:
            in_sample = chosen[group.records]
            group = Group(group.records[in_sample], group.rows, group.own_row[in_sample])
        done += len(group.records)
        if not len(group.records) or not len(group.rows):
            continue
        weights = pairs.sizes[pairs.row_ids[group.rows]]
        own_distances, nearest = (_by_scores if pairs.is_all_numeric else _by_sum)(
            task, group, weights
        )
        is_right = (group.own_row >= 0) & (own_distances <= nearest.distances * TIE)
        class_hits[group.records] = is_right
        shares[group.records] = is_right / np.maximum(nearest.weights, 1)
        task.tick(done / pairs.n)
    if chosen is not None:
        shares, class_hits = shares[chosen], class_hits[chosen]
    value, parts, note = mean_hits(shares, chosen is not None)
    return Figure(value, parts={"class_linkage": float(class_hits.mean()), **parts}, note=note)


def _by_scores(
    task: EvaluationTask, group: Group, weights: NDArray[np.int64]
) -> tuple[Floats, NearestPoints]:
    """The squared distance of each record to its row, and the nearest rows."""
    points, released = task.pairs.points
    questions, rows = points[group.records], released[group.rows]
    # The record's row bounds the distance; records released in another group have no row here.
    own_distances = squared_distances(questions, rows[np.maximum(group.own_row, 0)])
    return own_distances, nearest_points(
        questions, rows, task.tick, limits=own_distances, weights=weights
    )


def _by_sum(
    task: EvaluationTask, group: Group, weights: NDArray[np.int64]
) -> tuple[Floats, NearestPoints]:
    """``_by_scores`` with the sum of eq. (11)."""
    pairs, records = task.pairs, group.records
    own_distances = paired_distances(pairs, records, group.rows[np.maximum(group.own_row, 0)])
    return own_distances, nearest_by_sum(
        pairs, records, group.rows, task.tick, released=True, limits=own_distances, weights=weights
    )


MEASURE = Measure(
    name="linkage_risk",
    run=linkage_risk,
    summary="Share of records that an attacker with the originals names rightly",
    range="0 to 1/k where rows are k-anonymous, else to 1",
    cost="n log(n/k), more with many columns",
)
