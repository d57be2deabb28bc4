"""Mondrian: multidimensional cuts.

A class is cut in two along its widest attribute, in units of the attribute's weight. If no cut of
that attribute leaves k records on both sides, the next widest is tried. A class that no attribute
can cut is a class of the result. Cuts, by ``cut``:

- ``strict`` (default): between two different values, nearest to the median; categories in the
  order of their hierarchy.
- ``tree``: as strict for numbers; categories only between children of their common ancestor, so
  that every side is a set of whole branches.
- ``relaxed``: at the median; records equal to it go to either side.

Source: K. LeFevre, D. DeWitt and R. Ramakrishnan, "Mondrian multidimensional k-anonymity", ICDE
2006. Ties go to the attribute named first and to the lower cut. The paper cuts at the median or not
at all; here the cut nearest to it that leaves k records on both sides is used.
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
    waiting = [np.arange(space.n_records)]
    label = done = 0
    while waiting:
        records = waiting.pop()
        sides = None if len(records) < 2 * k else _sides(space, records, k, cut)
        if sides is None:
            labels[records] = label
            label += 1
            done += len(records)
            tick(done / space.n_records)
        else:
            waiting += sides[::-1]
    return Partition(labels)


def _sides(
    space: MixedSpace, records: NDArray[np.int64], k: int, cut: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The two sides of the best cut, each in record order; None if there is none."""
    class_codes = space.codes[records]
    low, high = class_codes.min(axis=0), class_codes.max(axis=0)
    widths = [
        _width(tree, int(unit), int(first), int(last))
        for tree, unit, first, last in zip(space.trees, space.units, low, high, strict=True)
    ]
    for attribute in np.argsort(-np.array(widths), kind="stable"):
        if low[attribute] == high[attribute]:
            continue
        codes = class_codes[:, attribute]
        order = np.argsort(codes, kind="stable")
        if cut == "relaxed":
            n_lower = len(records) // 2
        else:
            ordered = codes[order]
            borders = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
            tree = space.trees[attribute]
            if cut == "tree" and tree is not None:
                before, after = ordered[borders - 1], ordered[borders]
                depths = tree.depths[tree.common(before, after)]
                borders = borders[depths == depths.min()]
            borders = borders[(borders >= k) & (borders <= len(records) - k)]
            if not len(borders):
                continue
            n_lower = int(borders[np.abs(2 * borders - len(records)).argmin()])
        return records[np.sort(order[:n_lower])], records[np.sort(order[n_lower:])]
    return None


def _width(tree: Hierarchy | None, unit: int, low: int, high: int) -> float:
    """The loss in this attribute of each record in a class whose codes span ``low`` to ``high``."""
    if tree is None or low == high:
        return float(high - low) if tree is None else 0.0
    first, last = int(tree.leaves[low]), int(tree.leaves[high])
    while first != last:
        if first > last:
            first = int(tree.parents[first])
        else:
            last = int(tree.parents[last])
    return unit * (1.0 - int(tree.depths[first]) / tree.height)


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
