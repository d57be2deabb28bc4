"""What classes reveal about a sensitive attribute.

Measures take counts of s values by class, int64 (n_classes, s), from ``sensitive_counts``.
``table``, float64 (s,), is the distribution in the whole table, by default that of the counts.
``persons``, int64 (n_classes,), are persons per class if the counts are of persons, who may have
several values.

A measure returns a value per class, float64 (n_classes,). The worst class decides.
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
    codes : int32 (n,), the value of each record, 0 to s - 1, with a separate code for NULL; -1 is
        not counted.
    """
    released = (partition.labels >= 0) & (codes >= 0)
    cells = partition.labels[released].astype(np.int64) * s + codes[released]
    counted = np.bincount(cells, minlength=partition.n_classes * s)
    return counted.reshape(partition.n_classes, s).astype(np.int64)


def least_diverse(counts: Counts, persons: NDArray[np.int64]) -> Counts:
    """Counts with one value per person, chosen to be least diverse, int64 (n_classes, s).

    In each class the most frequent value takes all its persons, and each following value as many as
    remain. No choice of one value per person is less diverse, so guarantees for these counts cover
    every choice. If persons have one value each, these are the counts.
    """
    descending = -np.sort(-counts, axis=1)
    preceding = np.cumsum(descending, axis=1) - descending
    chosen: Counts = np.clip(persons[:, None] - preceding, 0, descending)
    return chosen


def class_distinct_counts(counts: Counts) -> Values:
    """Distinct values in each class; the minimum is the l of distinct l-diversity.

    Also the p of p-sensitive k-anonymity. Sources: A. Machanavajjhala, J. Gehrke, D. Kifer and M.
    Venkitasubramaniam, "l-diversity", ACM TKDD 1 (2007); T. Truta and B. Vinay, "Privacy
    protection: p-sensitive k-anonymity property", ICDE workshops 2006.
    """
    values: Values = (counts > 0).sum(axis=1).astype(np.float64)
    return values


def class_entropies(counts: Counts) -> Values:
    """The exponential of each class's entropy, which entropy l-diversity requires to be >= l."""
    shares = _shares(counts)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    values: Values = np.exp(-(shares * logs).sum(axis=1))
    return values


def class_recursive_ratios(counts: Counts, l: int) -> Values:  # noqa: E741
    """r_1 / (r_l + r_(l+1) + ...) for counts r_1 >= r_2 >= ... of each class; may be infinite.

    Recursive (c, l)-diversity requires c to be greater than the maximum.
    """
    descending = -np.sort(-counts, axis=1)
    tail = descending[:, l - 1 :].sum(axis=1)
    ratios = np.full(len(counts), np.inf)
    np.divide(descending[:, 0], tail, out=ratios, where=tail > 0)
    return ratios


def class_largest_shares(counts: Counts) -> Values:
    """The largest share of a value in each class; (alpha, k)-anonymity requires <= alpha.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    values: Values = _shares(counts).max(axis=1, initial=0.0)
    return values


def class_distances(
    counts: Counts,
    distance: str | Hierarchy = "equal",
    table: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """The earth mover's distance of each class from the whole table; the largest is t-closeness' t.

    Parameters
    ----------
    distance : ``equal``: 1 between different values; ``ordered``: the difference of
        positions, scaled to 1 between the ends; or a hierarchy whose leaves are the values in
        order: the height of the common ancestor over that of the tree.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.

    Shares of persons add up to the number of values per person. If class and table differ in this,
    the difference is moved to "no value", at distance 1 from every value.
    """
    excess = _shares(counts, persons) - _table_shares(counts, table)
    values: Values
    if isinstance(distance, Hierarchy):
        return _hierarchical_distance(excess, distance, persons is not None)
    if distance == "equal":
        if persons is not None:
            values = np.maximum(
                np.maximum(excess, 0).sum(axis=1), np.maximum(-excess, 0).sum(axis=1)
            )
            return values
        values = np.abs(excess).sum(axis=1) / 2
        return values
    if distance != "ordered":
        raise ValueError("distance must be equal, ordered or a hierarchy")
    steps = max(counts.shape[1] - 1, 1)
    if persons is not None:
        return np.array(
            [_ordered_distance(row, steps) for row in np.cumsum(excess, axis=1)], np.float64
        )
    values = np.abs(np.cumsum(excess, axis=1)).sum(axis=1) / steps
    return values


def _ordered_distance(cumulative: NDArray[np.float64], steps: int) -> float:
    """The earth mover's distance along an order with "no value", from cumulative excess (s,).

    The cumulative mass moved to "no value" increases from 0 to the final excess and should be as
    close to ``cumulative`` as possible: isotonic regression in the L1 norm, with a heap.
    """
    if cumulative[-1] < 0:
        cumulative = -cumulative
    clipped = np.clip(cumulative, 0.0, cumulative[-1])
    cost = float(np.abs(cumulative - clipped).sum())
    largest: list[float] = []
    for value in clipped.tolist():
        heappush(largest, -value)
        if -largest[0] > value:
            cost += -largest[0] - value
            heapreplace(largest, -value)
    return float(cumulative[-1]) + cost / steps


def class_gains(
    counts: Counts, table: Values | None = None, persons: NDArray[np.int64] | None = None
) -> Values:
    """The largest relative gain (q - p) / p of a value's share in each class: basic beta-likeness.

    Infinite if a class has a value that the table lacks. Source: J. Cao and P. Karras,
    "Publishing microdata with a robust privacy guarantee", PVLDB 5 (2012).
    """
    p = _table_shares(counts, table)
    values: Values = (_shares(counts, persons)[:, p > 0] / p[p > 0] - 1).max(axis=1, initial=0.0)
    values[_has_new_value(counts, p)] = np.inf
    return values


def class_log_ratios(
    counts: Counts,
    table: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """The largest |ln(q / p)| over the values in each class: delta-disclosure privacy.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. The paper
    includes all values of the table, so a missing value violates every delta. Here, as in ARX and
    pycanon, missing values are ignored. Both agree if classes have every
    value (``class_distinct_counts``).
    Infinite if a class has a value that the table lacks.
    """
    p = _table_shares(counts, table)
    ratios = _shares(counts, persons)[:, p > 0] / p[p > 0]
    logs = np.zeros_like(ratios)
    np.log(ratios, out=logs, where=ratios > 0)
    np.abs(logs, out=logs)
    values: Values = logs.max(axis=1, initial=0.0)
    values[_has_new_value(counts, p)] = np.inf
    return values


def _has_new_value(counts: Counts, table: Values) -> NDArray[np.bool_]:
    """Whether each class has a value that the table lacks, bool (n_classes,)."""
    new: NDArray[np.bool_] = np.any(counts[:, table <= 0] > 0, axis=1)
    return new


def _shares(counts: Counts, persons: NDArray[np.int64] | None = None) -> Values:
    sizes = counts.sum(axis=1) if persons is None else persons
    shares: Values = counts / sizes[:, None]
    return shares


def _table_shares(counts: Counts, table: Values | None) -> Values:
    if table is not None:
        return table
    total = max(int(counts.sum()), 1)
    shares: Values = counts.sum(axis=0) / total
    return shares


def _hierarchical_distance(
    extra: NDArray[np.float64], tree: Hierarchy, with_none: bool = False
) -> NDArray[np.float64]:
    """The earth mover's distance of each class along a hierarchy.

    Mass crosses a node if it is in excess below one child and lacking below another: the smaller of
    the two sums over children, times the node's height over that of the tree. With ``with_none``
    the remaining imbalance moves to "no value", at the height of the tree.
    """
    cumulative = np.cumsum(np.pad(extra, ((0, 0), (1, 0))), axis=1)
    node_sums = cumulative[:, tree.ranges[:, 1] + 1] - cumulative[:, tree.ranges[:, 0]]
    heights = np.zeros(len(tree.labels), np.int64)
    gains = np.zeros_like(node_sums)
    losses = np.zeros_like(node_sums)
    for node in range(len(tree.labels) - 1, 0, -1):
        parent = int(tree.parents[node])
        heights[parent] = max(heights[parent], heights[node] + 1)
        gains[:, parent] += np.maximum(node_sums[:, node], 0)
        losses[:, parent] += np.maximum(-node_sums[:, node], 0)
    if not heights[0]:
        return np.zeros(len(extra))
    crossing = np.minimum(gains, losses)
    if with_none:
        crossing[:, 0] = np.maximum(gains[:, 0], losses[:, 0])
    cost: NDArray[np.float64] = (crossing * heights).sum(axis=1) / heights[0]
    return cost
