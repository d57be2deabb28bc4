"""What classes tell about a sensitive attribute.

Measures take counts: int64 (n_classes, s), how often each of the s values occurs in each class, as
``sensitive_counts`` gives them. ``whole``, float64 (s,), is the distribution of the whole table;
that of the counts when not given. A measure with ``each_`` gives a value a class, float64
(n_classes,); the one without it that of the worst class, and without classes that of a perfect
release.
"""

from __future__ import annotations

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
    codes : int32 (n,), the value of each record, 0 to s - 1; NULL must be a value of its own.
    """
    released = partition.labels >= 0
    cells = partition.labels[released].astype(np.int64) * s + codes[released]
    counted = np.bincount(cells, minlength=partition.n_classes * s)
    return counted.reshape(partition.n_classes, s).astype(np.int64)


def each_distinct(counts: Counts) -> Values:
    """Values in each class."""
    values: Values = (counts > 0).sum(axis=1).astype(np.float64)
    return values


def distinct_l(counts: Counts) -> int:
    """Distinct l-diversity, also the p of p-sensitive k-anonymity: values in a class, at least.

    Sources: A. Machanavajjhala, J. Gehrke, D. Kifer and M. Venkitasubramaniam, "l-diversity", ACM
    TKDD 1 (2007); T. Truta and B. Vinay, "Privacy protection: p-sensitive k-anonymity property",
    ICDE workshops 2006.
    """
    return int(each_distinct(counts).min(initial=counts.shape[1]))


def each_entropy(counts: Counts) -> Values:
    """The exponential of each class's entropy."""
    shares = _shares(counts)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    values: Values = np.exp(-(shares * logs).sum(axis=1))
    return values


def entropy_l(counts: Counts) -> float:
    """Entropy l-diversity: the exponential of the smallest entropy; l or more of it is wanted."""
    return float(each_entropy(counts).min(initial=counts.shape[1]))


def each_recursive(counts: Counts, l: int) -> Values:  # noqa: E741
    """With a class's counts r_1 >= r_2 >= ...: r_1 / (r_l + r_(l+1) + ...), infinite by 0."""
    falling = -np.sort(-counts, axis=1)
    rest = falling[:, l - 1 :].sum(axis=1)
    ratios = np.full(len(counts), np.inf)
    np.divide(falling[:, 0], rest, out=ratios, where=rest > 0)
    return ratios


def recursive_c(counts: Counts, l: int) -> float:  # noqa: E741
    """Recursive (c, l)-diversity: it holds for every c above this; infinite when for none."""
    return float(each_recursive(counts, l).max(initial=0.0))


def each_largest_share(counts: Counts) -> Values:
    """The largest share of one value in each class."""
    values: Values = _shares(counts).max(axis=1, initial=0.0)
    return values


def largest_share(counts: Counts) -> float:
    """The alpha of (alpha, k)-anonymity: the largest share of one value in a class.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    return float(each_largest_share(counts).max(initial=0.0))


def each_t(
    counts: Counts, distance: str | Hierarchy = "equal", whole: Values | None = None
) -> Values:
    """The earth mover's distance of each class from the whole table, as ``t_closeness`` has it."""
    extra = _shares(counts) - _whole(counts, whole)
    values: Values
    if isinstance(distance, Hierarchy):
        return _by_hierarchy(extra, distance)
    if distance == "equal":
        values = np.abs(extra).sum(axis=1) / 2
        return values
    if distance != "ordered":
        raise ValueError("distance must be equal, ordered or a hierarchy")
    steps = max(counts.shape[1] - 1, 1)
    values = np.abs(np.cumsum(extra, axis=1)).sum(axis=1) / steps
    return values


def t_closeness(counts: Counts, distance: str | Hierarchy = "equal") -> float:
    """The t of t-closeness: the largest earth mover's distance of a class from the whole table.

    Parameters
    ----------
    distance : ``equal``: all values are one apart; ``ordered``: values are in their order, the ends
        one apart; or a hierarchy whose leaves are the values, in their order: two are apart by the
        height of their common ancestor over the height of the tree.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.
    """
    return float(each_t(counts, distance).max(initial=0.0))


def each_beta(counts: Counts, whole: Values | None = None) -> Values:
    """The largest relative gain (q - p) / p of a value's share in each class."""
    p = _whole(counts, whole)
    values: Values = (_shares(counts)[:, p > 0] / p[p > 0] - 1).max(axis=1, initial=0.0)
    return values


def beta_likeness(counts: Counts) -> float:
    """Basic beta-likeness: the largest relative gain (q - p) / p of a value's share in a class.

    Source: J. Cao and P. Karras, "Publishing microdata with a robust privacy guarantee", PVLDB 5
    (2012).
    """
    return float(each_beta(counts).max(initial=0.0))


def enhanced_beta_likeness(counts: Counts) -> float:
    """Enhanced beta-likeness: as basic, no value's gain counting above -ln of its share.

    As pycanon computes it: the basic beta or the largest -ln p, whichever is smaller.
    """
    if not len(counts):
        return 0.0
    p = _whole(counts, None)
    return float(min(beta_likeness(counts), -np.log(p[p > 0].min())))


def each_delta(counts: Counts, whole: Values | None = None, absent: float = 0.0) -> Values:
    """The largest |ln(q / p)| of a value in each class; ``absent`` is that of one it lacks."""
    p = _whole(counts, whole)
    ratios = _shares(counts)[:, p > 0] / p[p > 0]
    logs = np.full_like(ratios, absent)
    np.log(ratios, out=logs, where=ratios > 0)
    np.abs(logs, out=logs)
    values: Values = logs.max(axis=1, initial=0.0)
    return values


def delta_disclosure(counts: Counts) -> float:
    """The delta of delta-disclosure privacy: the largest |ln(q / p)| of a value that a class holds.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. There a value that a
    class lacks breaks every delta; here, as in pycanon, it is left out.
    """
    return float(each_delta(counts).max(initial=0.0))


def _shares(counts: Counts) -> Values:
    shares: Values = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _whole(counts: Counts, given: Values | None) -> Values:
    if given is not None:
        return given
    total = max(int(counts.sum()), 1)
    whole: Values = counts.sum(axis=0) / total
    return whole


def _by_hierarchy(extra: NDArray[np.float64], tree: Hierarchy) -> NDArray[np.float64]:
    """The earth mover's distance of each class: what does not balance below a node moves above it.

    Mass crosses a node when it is over below one child and short below another: the smaller of the
    two sums over its children, times the node's height over the tree's.
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
    cost: NDArray[np.float64] = (np.minimum(gains, losses) * heights).sum(axis=1) / heights[0]
    return cost
