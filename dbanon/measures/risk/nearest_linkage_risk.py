"""nearest_linkage_risk, DLD: released records whose original is nearest or second nearest.

From each released record to all originals: it is linked when its own original is at the smallest
distance, or at the next distinct one. Of class means it is about 2/k, and says little about an
attacker: the record is one of k equal rows, see ``linkage_risk``. ``nearest`` is the share at the
smallest distance.

Source: Chen and Han 2010, definition 4 and eq. (18).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Floats
from dbanon.measures.figure import NO_ROWS, NOT_FOR_LABELS, Figure, Measure, Task
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


@dataclass(frozen=True, eq=False)
class _Asked:
    """Distances of records from their own rows, and what is nearest to each of the rows asked."""

    own: Floats
    rows: NDArray[np.int64]
    found: Nearest


def nearest_linkage_risk(task: Task) -> Figure:
    """Over the released records, or a sample of them."""
    pairs = task.pairs
    if not pairs.n:
        return Figure(None, note=NO_ROWS)
    chosen = drawn(task, auto=not pairs.all_numbers)
    linked, first = np.zeros(pairs.n, bool), np.zeros(pairs.n, bool)
    done = 0
    for group in groups(pairs):
        done += len(group.records)
        mine = group.own >= 0
        if chosen is not None:
            mine &= chosen[group.records]
        if not mine.any():
            continue
        records, rows = group.records[mine], group.own[mine]
        answer = (_numbers if pairs.all_numbers else _mixed)(task, group, records, rows)
        found, asked = answer.found, answer.rows
        first[records] = answer.own <= found.distances[asked] * TIE
        linked[records] = answer.own <= found.seconds[asked] * TIE
        task.tick(done / pairs.n)
    if chosen is not None:
        linked, first = linked[chosen], first[chosen]
    value, parts, note = share(linked.astype(np.float64), chosen is not None)
    if task.figures["direct_loss"].note == NOT_FOR_LABELS:
        note = "; ".join(filter(None, (NOT_FOR_LABELS, note)))
    return Figure(value, parts={"nearest": float(first.mean()), **parts}, note=note)


def _numbers(
    task: Task, group: Group, records: NDArray[np.int64], rows: NDArray[np.int64]
) -> _Asked:
    """By Euclidean distance, squared; originals with the same values are looked at once."""
    points, released = task.pairs.points
    asked, at = _different(rows, len(group.rows))
    own = squares(released[group.rows][rows], points[records])
    whole = len(group.records) == len(points)
    originals = _once(points if whole else points[group.records])
    found = search(
        released[group.rows[asked]],
        originals,
        task.tick,
        limits=_two_of_own(own, at, len(asked)),
        second=True,
    )
    return _Asked(own, at, found)


def _different(rows: NDArray[np.int64], n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of n rows are asked about, and the place of each of ``rows`` among them."""
    used = np.zeros(n, bool)
    used[rows] = True
    return np.flatnonzero(used), (np.cumsum(used) - 1)[rows]


def _two_of_own(own: Floats, at: NDArray[np.int64], n: int) -> Floats:
    """float64 (n,): within what squared distance each row has two of its own that do not tie."""
    order = np.argsort(at, kind="stable")
    starts = np.searchsorted(at[order], np.arange(n))
    ordered = own[order]
    least = np.minimum.reduceat(ordered, starts)
    beyond = np.where(ordered > least[at[order]] * TIE, ordered, np.inf)
    return np.asarray(np.minimum.reduceat(beyond, starts))


def _once(points: Floats) -> Floats:
    """The points without repetitions: many at one distance would all be looked at."""
    together: NDArray[np.int64] | None = None
    for column in points.T:
        values, at = np.unique(column, return_inverse=True)
        at = at.reshape(-1)
        if together is not None:
            values, at = np.unique(together * len(values) + at, return_inverse=True)
        together = at.reshape(-1)
        if len(values) == len(points):
            return points
    if together is None:
        return points
    firsts: Floats = points[np.unique(together, return_index=True)[1]]
    return firsts


def _mixed(task: Task, group: Group, records: NDArray[np.int64], rows: NDArray[np.int64]) -> _Asked:
    """By the sum of eq. (11)."""
    pairs = task.pairs
    own = paired(pairs, records, group.rows[rows])
    asked, at = _different(rows, len(group.rows))
    # Nothing is nearer than those that are covered.
    far = np.zeros(len(asked), bool)
    far[at[own > 0]] = True
    zeros = np.zeros(len(asked))
    found = Nearest(zeros, zeros.copy(), np.zeros(len(asked), np.int64))
    if far.any():
        limits = _two_of_own(own, at, len(asked))[far]
        farther = compare(
            pairs,
            group.rows[asked[far]],
            group.records,
            task.tick,
            released=False,
            limits=limits,
            second=True,
        )
        found.distances[far], found.seconds[far] = farther.distances, farther.seconds
    return _Asked(own, at, found)


MEASURE = Measure(
    name="nearest_linkage_risk",
    symbol="DLD",
    run=nearest_linkage_risk,
    summary="Share of released records whose original is nearest or second nearest",
    range="0 to 1; about 2/k for means",
    cost="n log n, more with many columns",
    of=("direct_loss",),
)
