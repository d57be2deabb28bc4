"""Who is nearest to whom: what the measures of record linkage share.

An attacker compares only records and classes of one stratum and with the same NULLs, which show.
Tables of numbers are measured by Euclidean distance of z-scores, others by the sum of eq. (11), for
a sample of the records where these are many. Trees find what comparing everything would.

Distances are the same when their squares (of eq. (11): they) differ by a factor of at most 1e-9:
centroids of classes lie equally far from several records by construction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.kernels import Linkage, MixedLinkage
from dbanon.measures.attributes import Floats
from dbanon.measures.figure import Task, Tick
from dbanon.measures.pairs import Pairs, joined

TIE = 1.0 + 1e-9

# Pairs, times attributes, up to which all records are linked, and not a sample.
MOST_CELLS = 2_000_000_000
SAMPLE = 10_000


@dataclass(frozen=True, eq=False)
class Nearest:
    """What is nearest to each of q questions.

    Parameters
    ----------
    distances : float64 (q,), of the nearest.
    seconds : float64 (q,), of the next that is no tie, or the same; empty where not asked for.
    weights : int64 (q,), of all nearest together.
    """

    distances: Floats
    seconds: Floats
    weights: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Group:
    """Records and released rows that an attacker compares.

    Parameters
    ----------
    records : int64 (r,), in the order of their classes.
    rows : int64 (c,), one class for each different row that is released in this group.
    own : int64 (r,), which of ``rows`` each record is released as; -1 where it is of another group.
    """

    records: NDArray[np.int64]
    rows: NDArray[np.int64]
    own: NDArray[np.int64]


def groups(pairs: Pairs) -> Iterator[Group]:
    """The groups that hold records and released rows."""
    alike = pairs.alike
    firsts = np.unique(alike, return_index=True)[1]
    members = pairs.partition.members
    if pairs.groups is None:
        yield Group(members, firsts, alike[pairs.partition.labels[members]])
        return
    of_records, of_classes = pairs.groups
    of_rows = of_classes[firsts]
    places = np.empty(len(firsts), np.int64)
    in_order = np.argsort(of_rows, kind="stable")
    starts = np.searchsorted(of_rows[in_order], np.arange(int(of_rows.max(initial=-1)) + 2))
    places[in_order] = np.arange(len(firsts)) - starts[of_rows[in_order]]
    by_group = members[np.argsort(of_records[members], kind="stable")]
    numbers, begins = np.unique(of_records[by_group], return_index=True)
    for number, records in zip(numbers, np.split(by_group, begins[1:]), strict=True):
        mine = alike[pairs.partition.labels[records]]
        own = np.where(of_rows[mine] == number, places[mine], -1)
        # Groups of records alone have the numbers behind those of any row.
        ends = starts[min(number, len(starts) - 1)], starts[min(number + 1, len(starts) - 1)]
        yield Group(records, firsts[in_order[ends[0] : ends[1]]], own)


def search(
    questions: Floats,
    points: Floats,
    tick: Tick,
    *,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    second: bool = False,
) -> Nearest:
    """The nearest of ``points``, float64 (m, p), to ``questions``, float64 (q, p).

    Parameters
    ----------
    limits : float64 (q,), squared distances that answers are expected within, which makes it
        faster; None for no guess.
    weights : int64 (m,), of the points; None for ones.
    """
    if not points.shape[1]:
        return _all_alike(len(questions), len(points), weights)
    questions, points = np.ascontiguousarray(questions), np.ascontiguousarray(points)
    return _found(Linkage(questions, points, limits, weights, second), tick)


def squares(one: Floats, other: Floats) -> Floats:
    """float64 (r,), squared distances of points, float64 (r, p), to the bit as in ``search``."""
    found = np.zeros(len(one))
    for column in range(one.shape[1]):
        gap = one[:, column] - other[:, column]
        found += gap * gap
    return found


def compare(
    pairs: Pairs,
    questions: NDArray[np.int64],
    points: NDArray[np.int64],
    tick: Tick,
    *,
    released: bool,
    limits: Floats | None = None,
    weights: NDArray[np.int64] | None = None,
    second: bool = False,
) -> Nearest:
    """As ``search`` by the sum of eq. (11), of a group; limits are of the second where asked for.

    Parameters
    ----------
    questions, points : int64 (q,) and (m,), records and released rows, or the other way round.
    released : True when the points are the released rows.
    """
    # What is NULL is so in the whole group, and tells nothing apart.
    first = (questions if released else points)[0]
    columns = [c for c in pairs.columns if c.missing is None or not c.missing[first]]
    if not columns:
        return _all_alike(len(questions), len(points), weights)
    records, rows = (questions, points) if released else (points, questions)
    values = [
        [column.of_records(records) for column in columns],
        [column.of_rows(rows) for column in columns],
    ]
    parents = [column.parents for column in columns]
    if pairs.suppressed_cells:
        # One more column: 0 in the originals, and what suppressed cells of a row count.
        values[0].append(np.zeros((len(records), 2)))
        values[1].append(np.repeat(pairs.suppressed_distance[rows][:, None], 2, axis=1))
        parents.append(None)
    boxes = [_boxes(one) for one in values]
    asked, given = boxes if released else boxes[::-1]
    return _found(MixedLinkage(parents, *asked, *given, limits, weights, second), tick)


def _boxes(values: list[NDArray[Any]]) -> tuple[Floats, NDArray[np.int32]]:
    """Ends, float64 (r, numbers, 2), and nodes, int32 (r, hierarchies), column by column."""
    ends = [one for one in values if one.ndim == 2]
    nodes = [one for one in values if one.ndim == 1]
    none = len(values[0]), 0
    return (
        np.stack(ends, axis=1) if ends else np.empty((*none, 2)),
        np.stack(nodes, axis=1) if nodes else np.empty(none, np.int32),
    )


def _all_alike(questions: int, points: int, weights: NDArray[np.int64] | None) -> Nearest:
    """Nothing tells records apart: all are nearest."""
    zero = np.zeros(questions)
    total = points if weights is None else int(weights.sum())
    return Nearest(zero, zero, np.full(questions, total))


def _found(kernel: Linkage | MixedLinkage, tick: Tick) -> Nearest:
    while not kernel.step():
        tick(kernel.progress)
    return Nearest(kernel.distances(), kernel.seconds(), kernel.weights())


def paired(pairs: Pairs, records: NDArray[np.int64], rows: NDArray[np.int64]) -> Floats:
    """float64 (r,), the sum of eq. (11) between records and released rows, one by one.

    A suppressed cell counts as ``Pairs.suppressed_distance`` says.
    """
    found = np.zeros(len(records))
    for column in pairs.columns:
        found += column.apart(records, rows)
    return found + pairs.suppressed_distance[rows] if pairs.suppressed_cells else found


def different(
    codes: list[NDArray[np.int64]], n: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first of each combination of codes, int64 (d,), and which of them each is, int64 (n,)."""
    _, firsts, which = np.unique(joined(codes, n), return_index=True, return_inverse=True)
    return firsts, which.reshape(-1)


def drawn(task: Task, auto: bool) -> NDArray[np.bool_] | None:
    """bool (n,), the records that are linked; None for all.

    Parameters
    ----------
    auto : True when too many make a sample.
    """
    pairs, wanted = task.pairs, task.parameters.sample
    if wanted is None and auto and _cells(pairs) > MOST_CELLS:
        wanted = SAMPLE
    if wanted is None or wanted >= pairs.n:
        return None
    chosen = np.zeros(pairs.n, bool)
    rng = np.random.default_rng(task.parameters.seed)
    chosen[rng.choice(pairs.n, wanted, replace=False)] = True
    return chosen


def _cells(pairs: Pairs) -> int:
    """How many distances of one attribute there are between different records and rows."""
    kinds = [column.kinds for column in pairs.columns]
    rows = np.unique(pairs.alike, return_index=True)[1]
    if pairs.groups is None:
        return (int(joined(kinds, pairs.n).max(initial=-1)) + 1) * len(rows) * len(kinds)
    of_records, of_classes = pairs.groups
    records = different([*kinds, of_records], pairs.n)[0]
    width = int(max(of_records.max(initial=0), of_classes.max(initial=0))) + 1
    counts = (
        np.bincount(group, minlength=width) for group in (of_records[records], of_classes[rows])
    )
    return int(np.multiply(*counts).sum()) * len(kinds)


def share(hits: Floats, sampled: bool) -> tuple[float, dict[str, float], str]:
    """The mean over the records that were linked, and for a sample its standard error."""
    if not sampled:
        return float(hits.mean()), {}, ""
    error = float(hits.std(ddof=1) / np.sqrt(len(hits))) if len(hits) > 1 else 0.0
    return float(hits.mean()), {"standard_error": error}, f"of a sample of {len(hits)} records"
