"""Mondrian: multidimensional cuts.

Starting with all records, each set is cut in two along its widest attribute. The width is the loss
per record if the set were a class, times the attribute's weight. If no cut of that attribute leaves
k records on both sides, the next widest attribute is tried. A set that cannot be cut along any
attribute is a class. Values of ``cut``:

- ``strict`` (default): the cut is between two different values, as near to the median as possible;
  categories are in the order of their hierarchy.
- ``tree``: numbers are cut as with ``strict``; categories are cut only between children of their
  common ancestor, so that each side is a set of whole branches.
- ``relaxed``: the cut is at the median; records equal to it may go to either side.

Source: K. LeFevre, D. DeWitt and R. Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE
2006. Ties go to the attribute named first and to the lower cut. The paper cuts at the median or not
at all; here the cut is the one nearest to the median that leaves k records on both sides.
Classes: k or more; with ``relaxed`` k to 2k-1, or more if all records of a class are equal.
Cost: O(n log n) for each attribute.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.hierarchy.tree import Hierarchy
from dbanon.methods.registry import MixedMethod, Tick
from dbanon.spaces.mixed import MixedSpace


def mondrian(
    space: MixedSpace, k: int, *, tick: Tick, rng: np.random.Generator, cut: str
) -> Partition:
    """Partition the records of ``space`` into classes of k or more records."""
    labels = np.empty(space.n_records, np.int32)
    pending = [np.arange(space.n_records)]
    n_classes = n_done = 0
    while pending:
        records = pending.pop()
        halves = None if len(records) < 2 * k else _cut_in_two(space, records, k, cut)
        if halves is None:
            labels[records] = n_classes
            n_classes += 1
            n_done += len(records)
            tick(n_done / space.n_records)
        else:
            # The lower half is popped next, so its classes get the smaller numbers.
            pending += halves[::-1]
    return Partition(labels)


def _cut_in_two(
    space: MixedSpace, records: NDArray[np.int64], k: int, cut: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Cut a set of records in two; returns None if no cut is possible.

    Returns the records on both sides, int64, ascending.

    Parameters
    ----------
    records : int64 (m,), ascending.
    cut : the value of the option ``cut``.
    """
    record_codes = space.codes[records]
    low, high = record_codes.min(axis=0), record_codes.max(axis=0)
    widths = [
        _cell_loss(tree, int(root_cost), int(lowest), int(highest))
        for tree, root_cost, lowest, highest in zip(
            space.trees, space.root_costs, low, high, strict=True
        )
    ]
    for attribute in np.argsort(-np.array(widths), kind="stable"):
        if low[attribute] == high[attribute]:
            continue
        codes = record_codes[:, attribute]
        order = np.argsort(codes, kind="stable")
        if cut == "relaxed":
            n_lower = len(records) // 2
        else:
            sorted_codes = codes[order]
            borders = np.flatnonzero(sorted_codes[1:] != sorted_codes[:-1]) + 1
            tree = space.trees[attribute]
            if cut == "tree" and tree is not None:
                codes_below, codes_above = sorted_codes[borders - 1], sorted_codes[borders]
                # Two neighbours belong to different children of the common ancestor of all records
                # if their own common ancestor is that node, which has the smallest depth.
                depths = tree.depths[tree.common_nodes(codes_below, codes_above)]
                borders = borders[depths == depths.min()]
            borders = borders[(borders >= k) & (borders <= len(records) - k)]
            if not len(borders):
                continue
            n_lower = int(borders[np.abs(2 * borders - len(records)).argmin()])
        return records[np.sort(order[:n_lower])], records[np.sort(order[n_lower:])]
    return None


def _cell_loss(tree: Hierarchy | None, root_cost: int, low: int, high: int) -> float:
    """Return the loss per record of an attribute in a class with codes from ``low`` to ``high``.

    Parameters
    ----------
    tree : the hierarchy of the attribute, whose leaves are numbered by the codes. None for numbers,
        whose codes are coordinates in units of loss.
    root_cost : the loss at the root of the hierarchy, which contains the weight of the attribute.
    """
    if tree is None or low == high:
        return float(high - low) if tree is None else 0.0
    # Nodes are numbered depth first, so the larger number is never an ancestor of the smaller.
    node, other_node = int(tree.leaves[low]), int(tree.leaves[high])
    while node != other_node:
        if node > other_node:
            node = int(tree.parents[node])
        else:
            other_node = int(tree.parents[other_node])
    return root_cost * (1.0 - int(tree.depths[node]) / tree.height)


METHOD = MixedMethod(
    name="mondrian",
    run=mondrian,
    summary="Recursive cuts of the widest attribute at its median",
    class_sizes="k and more; relaxed: k to 2k-1, more when all records of a class are equal",
    cost="O(n log n) for each attribute",
    reference="LeFevre, DeWitt & Ramakrishnan 2006",
    max_size=None,
    options=(
        Parameter(
            "cut",
            str,
            "strict",
            Option("Where a class may be cut.", choices=("strict", "relaxed", "tree")),
        ),
    ),
)
