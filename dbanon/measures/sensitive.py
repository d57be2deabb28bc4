"""Measures of what classes reveal about a sensitive attribute, for privacy models.

Functions whose names begin with ``class_`` return a value per class, float64 (n_classes,). The
worst class determines whether a table satisfies a model. Arguments are:

- ``counts``, int64 (n_classes, s): how often each of s values occurs in each class
  (``sensitive_counts``).
- ``table_shares``, float64 (s,): the share of each value in the whole table; None to compute the
  shares from the counts of all classes.
- ``persons``, int64 (n_classes,): persons per class if ``counts`` counts persons, each of whom may
  have several values; None if it counts rows.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.hierarchy.tree import Hierarchy

# Counts by class and value, (n_classes, s).
Counts: TypeAlias = NDArray[np.int64]
# Numbers per class (n_classes,), shares by value (s,), or shares by class and value.
Values: TypeAlias = NDArray[np.float64]


def sensitive_counts(partition: Partition, codes: NDArray[np.int32], s: int) -> NDArray[np.int64]:
    """Count how often each value occurs in each class, int64 (n_classes, s).

    Parameters
    ----------
    codes : int32 (n,), the code of each record's value, 0 to s - 1. NULL has its own code. Records
        with code -1 are not counted.
    s : the number of codes.
    """
    is_counted = (partition.labels >= 0) & (codes >= 0)
    flat_indices = partition.labels[is_counted].astype(np.int64) * s + codes[is_counted]
    counts = np.bincount(flat_indices, minlength=partition.n_classes * s)
    return counts.reshape(partition.n_classes, s).astype(np.int64)


def least_diverse_counts(counts: Counts, persons: NDArray[np.int64]) -> Counts:
    """Return the least diverse counts with only one value per person, int64 (n_classes, s).

    In each class, all persons who have the most frequent value are counted for this value, then as
    many of the remaining persons as possible for the next frequent value, and so on. No choice of
    one value per person is less diverse, so guarantees for these counts cover every choice. If each
    person has one value, the result has the counts of ``counts``, in descending order.
    """
    descending = -np.sort(-counts, axis=1)
    preceding = np.cumsum(descending, axis=1) - descending
    least_diverse: Counts = np.clip(persons[:, None] - preceding, 0, descending)
    return least_diverse


def class_distinct_counts(counts: Counts) -> Values:
    """Return the number of distinct values per class; the minimum is the l of distinct l-diversity.

    It is also the p of p-sensitive k-anonymity. Sources: A. Machanavajjhala, J. Gehrke, D. Kifer
    and M. Venkitasubramaniam, "l-diversity", ACM TKDD 1 (2007); T. Truta and B. Vinay, "Privacy
    protection: p-sensitive k-anonymity property", ICDE workshops 2006.
    """
    values: Values = (counts > 0).sum(axis=1).astype(np.float64)
    return values


def class_entropies(counts: Counts) -> Values:
    """Return e^H of each class's entropy H; entropy l-diversity requires at least l."""
    shares = _shares(counts)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    values: Values = np.exp(-(shares * logs).sum(axis=1))
    return values


def class_recursive_ratios(counts: Counts, l: int) -> Values:  # noqa: E741
    """Return r_1 / (r_l + r_(l+1) + ...) of each class, for its counts r_1 >= r_2 >= ...

    The ratio may be infinite. Recursive (c, l)-diversity requires a ratio below c in every class.
    """
    descending = -np.sort(-counts, axis=1)
    tail = descending[:, l - 1 :].sum(axis=1)
    ratios = np.full(len(counts), np.inf)
    np.divide(descending[:, 0], tail, out=ratios, where=tail > 0)
    return ratios


def class_largest_shares(counts: Counts) -> Values:
    """Return the share of the most frequent value per class: at most alpha in (alpha, k)-anonymity.

    Source: R. Wong, J. Li, A. Fu and K. Wang, "(alpha, k)-anonymity", KDD 2006.
    """
    values: Values = _shares(counts).max(axis=1, initial=0.0)
    return values


def class_distances(
    counts: Counts,
    distance: str | Hierarchy = "equal",
    table_shares: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """Return the earth mover's distance of each class from the whole table; t is the largest.

    The distance between two values is 1 for ``equal``, and the difference of their positions for
    ``ordered``, divided by that of the first and the last value. With a hierarchy, whose leaves are
    the values in order, it is the height of their common ancestor divided by the tree's height.

    If persons are counted, shares add up to the mean number of values per person. If class and
    table differ in this sum, the difference is moved to "no value", at distance 1 from every value.

    Source: N. Li, T. Li and S. Venkatasubramanian, "t-closeness", ICDE 2007, section 4.

    Parameters
    ----------
    distance : ``equal``, ``ordered`` or a hierarchy.
    """
    excess = _shares(counts, persons) - _table_shares(counts, table_shares)
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
    """Return the earth mover's distance of a class for ordered values, one of them "no value".

    The cumulative mass that is moved to "no value" increases from 0 to the final excess. It has to
    be as close to ``cumulative`` as possible: isotonic regression in the L1 norm, with a heap.

    Parameters
    ----------
    cumulative : float64 (s,), cumulative sums of the class's shares minus the table's.
    steps : the number of steps from the first value to the last.
    """
    if cumulative[-1] < 0:
        cumulative = -cumulative
    clipped = np.clip(cumulative, 0.0, cumulative[-1])
    cost = float(np.abs(cumulative - clipped).sum())
    # A max-heap of the previous values, as negative numbers.
    heap: list[float] = []
    for value in clipped.tolist():
        heappush(heap, -value)
        largest = -heap[0]
        if largest > value:
            cost += largest - value
            heapreplace(heap, -value)
    return float(cumulative[-1]) + cost / steps


def class_gains(
    counts: Counts, table_shares: Values | None = None, persons: NDArray[np.int64] | None = None
) -> Values:
    """Return the largest relative gain (q - p) / p of a value in each class, for beta-likeness.

    Here p is the value's share in the table, and q its share in the class. The gain is infinite if
    a class has a value that the table lacks. Source: J. Cao and P. Karras, "Publishing microdata
    with a robust privacy guarantee", PVLDB 5 (2012).
    """
    p = _table_shares(counts, table_shares)
    values: Values = (_shares(counts, persons)[:, p > 0] / p[p > 0] - 1).max(axis=1, initial=0.0)
    values[_has_new_value(counts, p)] = np.inf
    return values


def class_log_ratios(
    counts: Counts,
    table_shares: Values | None = None,
    persons: NDArray[np.int64] | None = None,
) -> Values:
    """Return the largest |ln(q / p)| of a value in each class, for delta-disclosure privacy.

    Here p is the value's share in the table, and q its share in the class. The result is infinite
    if a class has a value that the table lacks.

    Source: J. Brickell and V. Shmatikov, "The cost of privacy", KDD 2008. The paper includes all
    values of the table, so a class that lacks a value violates every delta. Here, as in ARX and
    pycanon, values that a class lacks are ignored. Both definitions agree if every class has all
    values (``class_distinct_counts``).
    """
    p = _table_shares(counts, table_shares)
    ratios = _shares(counts, persons)[:, p > 0] / p[p > 0]
    logs = np.zeros_like(ratios)
    np.log(ratios, out=logs, where=ratios > 0)
    np.abs(logs, out=logs)
    values: Values = logs.max(axis=1, initial=0.0)
    values[_has_new_value(counts, p)] = np.inf
    return values


def _has_new_value(counts: Counts, table_shares: Values) -> NDArray[np.bool_]:
    """Return bool (n_classes,), True for classes with a value that the table lacks."""
    has_new_value: NDArray[np.bool_] = np.any(counts[:, table_shares <= 0] > 0, axis=1)
    return has_new_value


def _shares(counts: Counts, persons: NDArray[np.int64] | None = None) -> Values:
    """Return the share of each value in each class, float64 (n_classes, s)."""
    sizes = counts.sum(axis=1) if persons is None else persons
    shares: Values = counts / sizes[:, None]
    return shares


def _table_shares(counts: Counts, table_shares: Values | None) -> Values:
    """Return ``table_shares``; if it is None, compute the shares from all counts, float64 (s,)."""
    if table_shares is not None:
        return table_shares
    total = max(int(counts.sum()), 1)
    shares: Values = counts.sum(axis=0) / total
    return shares


def _hierarchical_distance(
    excess: NDArray[np.float64], tree: Hierarchy, allows_no_value: bool = False
) -> NDArray[np.float64]:
    """Return the earth mover's distance of each class along a hierarchy, float64 (n_classes,).

    Mass moves through a node from children with an excess to children with a deficit. The moved
    mass is the smaller of the two sums over the children, and its cost per unit is the node's
    height divided by the tree's height.

    Parameters
    ----------
    excess : float64 (n_classes, s), shares in the class minus those in the table.
    allows_no_value : True if "no value" may take the remaining imbalance, at distance 1.
    """
    cumulative = np.cumsum(np.pad(excess, ((0, 0), (1, 0))), axis=1)
    node_sums = cumulative[:, tree.leaf_ranges[:, 1] + 1] - cumulative[:, tree.leaf_ranges[:, 0]]
    heights = np.zeros(len(tree.labels), np.int64)
    excesses = np.zeros_like(node_sums)
    deficits = np.zeros_like(node_sums)
    for node in range(len(tree.labels) - 1, 0, -1):
        parent = int(tree.parents[node])
        heights[parent] = max(heights[parent], heights[node] + 1)
        excesses[:, parent] += np.maximum(node_sums[:, node], 0)
        deficits[:, parent] += np.maximum(-node_sums[:, node], 0)
    if not heights[0]:
        return np.zeros(len(excess))
    moved = np.minimum(excesses, deficits)
    if allows_no_value:
        # At the root, the imbalance moves, too.
        moved[:, 0] = np.maximum(excesses[:, 0], deficits[:, 0])
    distances: NDArray[np.float64] = (moved * heights).sum(axis=1) / heights[0]
    return distances
