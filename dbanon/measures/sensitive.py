"""What classes tell about a sensitive attribute.

All measures take counts: int64 (n_classes, s), how often each of the s values occurs in each class,
as ``sensitive_counts`` gives them. The distribution of the whole table is that of the released
records. Each measure is of the worst class; without classes it is that of a perfect release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.hierarchy import Hierarchy
from dbanon.partitions import Partition


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


def distinct_l(counts: NDArray[np.int64]) -> int:
    """Distinct l-diversity, also the p of p-sensitive k-anonymity: values in a class, at least.

    Sources: A. Machanavajjhala, J. Gehrke, D. Kifer and M. Venkitasubramaniam, "l-diversity", ACM
    TKDD 1 (2007); T. Truta and B. Vinay, "Privacy protection: p-sensitive k-anonymity property",
    ICDE workshops 2006.
    """
    return int((counts > 0).sum(axis=1).min()) if len(counts) else counts.shape[1]


def entropy_l(counts: NDArray[np.int64]) -> float:
    """Entropy l-diversity: the exponential of the smallest entropy; l or more of it is wanted."""
    if not len(counts):
        return float(counts.shape[1])
    shares = _shares(counts)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return float(np.exp((-(shares * logs).sum(axis=1)).min()))


def recursive_c(counts: NDArray[np.int64], l: int) -> float:  # noqa: E741
    """Recursive (c, l)-diversity: it holds for every c above this; infinite when for none.

    With a class's counts r_1 >= r_2 >= ...: the largest r_1 / (r_l + r_(l+1) + ...).
    """
    if not len(counts):
        return 0.0
    falling = -np.sort(-counts, axis=1)
    rest = falling[:, l - 1 :].sum(axis=1)
    if (rest == 0).any():
        return float("inf")
    return float((falling[:, 0] / rest).max())


def largest_share(counts: NDArray[np.int64]) -> float:
    """The alpha of (alpha, k)-anonymity: the largest share of one value in a class.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    return float(_shares(counts).max()) if len(counts) else 0.0


def t_closeness(counts: NDArray[np.int64], distance: str | Hierarchy = "equal") -> float:
    """The t of t-closeness: the largest earth mover's distance of a class from the whole table.

    Parameters
    ----------
    distance : ``equal``: all values are one apart; ``ordered``: values are in their order, the ends
        one apart; or a hierarchy whose leaves are the values, in their order: two are apart by the
        height of their common ancestor over the height of the tree.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.
    """
    if not len(counts):
        return 0.0
    extra = _shares(counts) - _whole(counts)
    if isinstance(distance, Hierarchy):
        return float(_by_hierarchy(extra, distance).max())
    if distance == "equal":
        return float(np.abs(extra).sum(axis=1).max() / 2)
    if distance != "ordered":
        raise ValueError("distance must be equal, ordered or a hierarchy")
    steps = max(counts.shape[1] - 1, 1)
    return float(np.abs(np.cumsum(extra, axis=1)).sum(axis=1).max() / steps)


def beta_likeness(counts: NDArray[np.int64]) -> float:
    """Basic beta-likeness: the largest relative gain (q - p) / p of a value's share in a class.

    Source: J. Cao and P. Karras, "Publishing microdata with a robust privacy guarantee", PVLDB 5
    (2012).
    """
    if not len(counts):
        return 0.0
    whole = _whole(counts)
    present = whole > 0
    return float((_shares(counts)[:, present] / whole[present] - 1).max())


def enhanced_beta_likeness(counts: NDArray[np.int64]) -> float:
    """Enhanced beta-likeness: as basic, no value's gain counting above -ln of its share.

    As pycanon computes it: the basic beta or the largest -ln p, whichever is smaller.
    """
    if not len(counts):
        return 0.0
    whole = _whole(counts)
    return float(min(beta_likeness(counts), -np.log(whole[whole > 0].min())))


def delta_disclosure(counts: NDArray[np.int64]) -> float:
    """The delta of delta-disclosure privacy: the largest |ln(q / p)| of a value that a class holds.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. There a value that a
    class lacks breaks every delta; here, as in pycanon, it is left out.
    """
    if not len(counts):
        return 0.0
    whole = _whole(counts)
    present = whole > 0
    ratios = _shares(counts)[:, present] / whole[present]
    return float(np.abs(np.log(ratios, out=np.zeros_like(ratios), where=ratios > 0)).max())


def _shares(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = counts / counts.sum(axis=1, keepdims=True)
    return shares


def _whole(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    whole: NDArray[np.float64] = counts.sum(axis=0) / counts.sum()
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
