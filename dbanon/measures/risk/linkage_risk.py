"""linkage_risk: the share of records that an attacker names rightly who holds the originals.

Of an original he asks which released class is nearest, and guesses one of its rows: the mean over
the originals of [own class among the nearest] / (rows of all nearest classes). Classes with equal
released values count as one. Where rows of a class are released alike it is never above 1/k. In
persons where an entity is named: one of the persons of the nearest classes is guessed. Cells that
are NULL in the release alone are compared with nothing: he links on those that are left.

``class_linkage`` is the share whose own class is among the nearest, before the guess.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Floats
from dbanon.measures.figure import NO_ROWS, Figure, Measure, Task
from dbanon.measures.risk.links import (
    TIE,
    Group,
    Nearest,
    compare,
    drawn,
    groups,
    paired,
    search,
    share,
    squares,
)

# Of two attackers on rows with suppressed cells, one takes a row that says least wrong, and of
# these one with most cells left. The other takes cells that are left out for average ones.
_WEIGHTS = (1e-6, 1.0)


def linkage_risk(task: Task) -> Figure:
    """Over the released records, or a sample of them."""
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


def _linked(task: Task) -> Figure:
    pairs = task.pairs
    chosen = drawn(task, auto=not pairs.all_numbers)
    shares, rights = np.zeros(pairs.n), np.zeros(pairs.n, bool)
    done = 0
    for group in groups(pairs):
        if chosen is not None:
            kept = chosen[group.records]
            group = Group(group.records[kept], group.rows, group.own[kept])
        done += len(group.records)
        if not len(group.records) or not len(group.rows):
            continue
        weights = pairs.sizes[pairs.alike[group.rows]]
        own, found = (_numbers if pairs.all_numbers else _mixed)(task, group, weights)
        right = (group.own >= 0) & (own <= found.distances * TIE)
        rights[group.records] = right
        shares[group.records] = right / np.maximum(found.weights, 1)
        task.tick(done / pairs.n)
    if chosen is not None:
        shares, rights = shares[chosen], rights[chosen]
    value, parts, note = share(shares, chosen is not None)
    return Figure(value, parts={"class_linkage": float(rights.mean()), **parts}, note=note)


def _numbers(task: Task, group: Group, weights: NDArray[np.int64]) -> tuple[Floats, Nearest]:
    """The squared distance of each record to its own row, and what is nearest."""
    points, released = task.pairs.points
    questions, rows = points[group.records], released[group.rows]
    # The nearest is no farther than the own row; records of other groups have none here.
    own = squares(questions, rows[np.maximum(group.own, 0)])
    return own, search(questions, rows, task.tick, limits=own, weights=weights)


def _mixed(task: Task, group: Group, weights: NDArray[np.int64]) -> tuple[Floats, Nearest]:
    """As ``_numbers``, by the sum of eq. (11)."""
    pairs, records = task.pairs, group.records
    own = paired(pairs, records, group.rows[np.maximum(group.own, 0)])
    return own, compare(
        pairs, records, group.rows, task.tick, released=True, limits=own, weights=weights
    )


MEASURE = Measure(
    name="linkage_risk",
    run=linkage_risk,
    summary="Share of records that an attacker with the originals names rightly",
    range="0 to 1/k where rows are k-anonymous, else to 1",
    cost="n log(n/k), more with many columns",
)
