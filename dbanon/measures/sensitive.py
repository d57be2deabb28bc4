"""What classes tell about a sensitive attribute.

Measures take counts: int64 (n_classes, s), how often each of the s values occurs in each class, as
``sensitive_counts`` gives them. ``whole``, float64 (s,), is the distribution of the whole table;
that of the counts when not given. ``persons``, int64 (n_classes,), where the counts are of persons
who have a value, and may have several: the persons of each class.

A measure gives a value a class, float64 (n_classes,): a release is as good as its worst class.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.hierarchy.tree import Hierarchy

Counts: TypeAlias = NDArray[np.int64]
Values: TypeAlias = NDArray[np.float64]


def sensitive_counts(partition: Partition, codes: NDArray[np.int32], s: int) -> NDArray[np.int64]:
    """How often each value occurs in each class, int64 (n_classes, s).

    Parameters
    ----------
    codes : int32 (n,), the value of each record, 0 to s - 1; NULL must be a value of its own. -1
        counts nowhere.
    """
    released = (partition.labels >= 0) & (codes >= 0)
    cells = partition.labels[released].astype(np.int64) * s + codes[released]
    counted = np.bincount(cells, minlength=partition.n_classes * s)
    return counted.reshape(partition.n_classes, s).astype(np.int64)


def least_diverse(counts: Counts, persons: NDArray[np.int64]) -> Counts:
    """Each person with one of their values, so that few values have much, int64 (n_classes, s).

    By class the most frequent value first, with all who have it, then the next with as many as are
    left. No choice of one value a person is less diverse, so that what holds for this holds
    whichever of their values is looked at. Where persons have one value each it is the counts.
    """
    falling = -np.sort(-counts, axis=1)
    before = np.cumsum(falling, axis=1) - falling
    chosen: Counts = np.clip(persons[:, None] - before, 0, falling)
    return chosen


def each_distinct(counts: Counts) -> Values:
    """Values in each class; the smallest is the l of distinct l-diversity.

    Also the p of p-sensitive k-anonymity. Sources: A. Machanavajjhala, J. Gehrke, D. Kifer and M.
    Venkitasubramaniam, "l-diversity", ACM TKDD 1 (2007); T. Truta and B. Vinay, "Privacy
    protection: p-sensitive k-anonymity property", ICDE workshops 2006.
    """
    values: Values = (counts > 0).sum(axis=1).astype(np.float64)
    return values


def each_entropy(counts: Counts) -> Values:
    """The exponential of each class's entropy: entropy l-diversity asks for l or more of it."""
    shares = _shares(counts)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    values: Values = np.exp(-(shares * logs).sum(axis=1))
    return values


def each_recursive(counts: Counts, l: int) -> Values:  # noqa: E741
    """With a class's counts r_1 >= r_2 >= ...: r_1 / (r_l + r_(l+1) + ...), infinite by 0.

    Recursive (c, l)-diversity holds for every c above the largest.
    """
    falling = -np.sort(-counts, axis=1)
    rest = falling[:, l - 1 :].sum(axis=1)
    ratios = np.full(len(counts), np.inf)
    np.divide(falling[:, 0], rest, out=ratios, where=rest > 0)
    return ratios


def each_largest_share(counts: Counts) -> Values:
    """The largest share of one value in each class: the alpha of (alpha, k)-anonymity, at most.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    values: Values = _shares(counts).max(axis=1, initial=0.0)
    return values


def each_t(
    counts: Counts,
    distance: str | Hierarchy = "equal",
    whole: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """The earth mover's distance of each class from the whole table; the largest is t-closeness' t.

    Parameters
    ----------
    distance : ``equal``: all values are one apart; ``ordered``: values are in their order, the ends
        one apart; or a hierarchy whose leaves are the values, in their order: two are apart by the
        height of their common ancestor over the height of the tree.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.

    Shares of persons add up to how many values a person has. Where class and table differ in that,
    the difference is moved to having none, which is as far from every value as values can be.
    """
    extra = _shares(counts, persons) - _whole(counts, whole)
    values: Values
    if isinstance(distance, Hierarchy):
        return _by_hierarchy(extra, distance, persons is not None)
    if distance == "equal":
        if persons is not None:
            values = np.maximum(np.maximum(extra, 0).sum(axis=1), np.maximum(-extra, 0).sum(axis=1))
            return values
        values = np.abs(extra).sum(axis=1) / 2
        return values
    if distance != "ordered":
        raise ValueError("distance must be equal, ordered or a hierarchy")
    steps = max(counts.shape[1] - 1, 1)
    if persons is not None:
        return np.array([_along(over, steps) for over in np.cumsum(extra, axis=1)], np.float64)
    values = np.abs(np.cumsum(extra, axis=1)).sum(axis=1) / steps
    return values


def _along(over: NDArray[np.float64], steps: int) -> float:
    """What moves along an order, and to none what is over at its end; ``over`` (s,) adds up.

    What goes to none, added up, rises from 0 to all of it, as near to ``over`` as can be: isotonic
    regression by absolute differences, with a heap.
    """
    if over[-1] < 0:
        over = -over
    inside = np.clip(over, 0.0, over[-1])
    cost = float(np.abs(over - inside).sum())
    largest: list[float] = []
    for value in inside.tolist():
        heappush(largest, -value)
        if -largest[0] > value:
            cost += -largest[0] - value
            heapreplace(largest, -value)
    return float(over[-1]) + cost / steps


def each_beta(
    counts: Counts, whole: Values | None = None, persons: NDArray[np.int64] | None = None
) -> Values:
    """The largest relative gain (q - p) / p of a value's share in each class: basic beta-likeness.

    Infinite where a class has a value that the table lacks. Source: J. Cao and P. Karras,
    "Publishing microdata with a robust privacy guarantee", PVLDB 5 (2012).
    """
    p = _whole(counts, whole)
    values: Values = (_shares(counts, persons)[:, p > 0] / p[p > 0] - 1).max(axis=1, initial=0.0)
    values[_new(counts, p)] = np.inf
    return values


def each_delta(
    counts: Counts,
    whole: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """The largest |ln(q / p)| of a value that each class holds: delta-disclosure privacy.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. There all values of the
    table are meant, so that one that a class lacks breaks every delta; here, as in ARX and pycanon,
    it is left out. Where classes hold every value (``each_distinct``) both are the same. Infinite
    where a class has a value that the table lacks.
    """
    p = _whole(counts, whole)
    ratios = _shares(counts, persons)[:, p > 0] / p[p > 0]
    logs = np.zeros_like(ratios)
    np.log(ratios, out=logs, where=ratios > 0)
    np.abs(logs, out=logs)
    values: Values = logs.max(axis=1, initial=0.0)
    values[_new(counts, p)] = np.inf
    return values


def _new(counts: Counts, whole: Values) -> NDArray[np.bool_]:
    """Which classes have a value that the table lacks, bool (n_classes,)."""
    new: NDArray[np.bool_] = np.any(counts[:, whole <= 0] > 0, axis=1)
    return new


def _shares(counts: Counts, persons: NDArray[np.int64] | None = None) -> Values:
    sizes = counts.sum(axis=1) if persons is None else persons
    shares: Values = counts / sizes[:, None]
    return shares


def _whole(counts: Counts, given: Values | None) -> Values:
    if given is not None:
        return given
    total = max(int(counts.sum()), 1)
    whole: Values = counts.sum(axis=0) / total
    return whole


def _by_hierarchy(
    extra: NDArray[np.float64], tree: Hierarchy, none: bool = False
) -> NDArray[np.float64]:
    """The earth mover's distance of each class: what does not balance below a node moves above it.

    Mass crosses a node when it is over below one child and short below another: the smaller of the
    two sums over its children, times the node's height over the tree's. With ``none`` what does not
    balance at all moves above the root, as far as the tree is high.
    """
    over = np.cumsum(np.pad(extra, ((0, 0), (1, 0))), axis=1)
    below = over[:, tree.ranges[:, 1] + 1] - over[:, tree.ranges[:, 0]]
    heights = np.zeros(len(tree.labels), np.int64)
    gains = np.zeros_like(below)
    losses = np.zeros_like(below)
    for node in range(len(tree.labels) - 1, 0, -1):
        parent = int(tree.parents[node])
        heights[parent] = max(heights[parent], heights[node] + 1)
        gains[:, parent] += np.maximum(below[:, node], 0)
        losses[:, parent] += np.maximum(-below[:, node], 0)
    if not heights[0]:
        return np.zeros(len(extra))
    crossing = np.minimum(gains, losses)
    if none:
        crossing[:, 0] = np.maximum(gains[:, 0], losses[:, 0])
    cost: NDArray[np.float64] = (crossing * heights).sum(axis=1) / heights[0]
    return cost
