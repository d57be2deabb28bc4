"""iloss: what generalization loses when a class is released as its own ranges and common ancestors.

A class C loses |C| * (max_C - min_C) / (max_T - min_T) in a numeric attribute, and the sum over its
records of h(leaf to common ancestor) / h(leaf to root) in a categorical one, h being edges. NULLs
and suppressed records lose nothing.

Source: Jiang, Zeng and Ma, Journal of Software 28 (2017), section 2.2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.hierarchy.tree import Hierarchy


def iloss(
    numbers: NDArray[np.float64] | NDArray[np.int32],
    measure: Hierarchy | Scale,
    partition: Partition,
    valid: NDArray[np.bool_] | None = None,
) -> float:
    """The loss of one attribute, summed over the records: 0 to n.

    Parameters
    ----------
    numbers : (n,), values, or positions of leaves where there is a hierarchy.
    measure : the hierarchy, or the table's scale of the values.
    valid : bool (n,), False where the value is NULL; None for nowhere. No class is of both kinds.
    """
    if not partition.n_classes:
        return 0.0
    members, starts = partition.members, partition.starts
    grouped = numbers[members]
    low, high = np.minimum.reduceat(grouped, starts), np.maximum.reduceat(grouped, starts)
    present = np.ones(len(starts), bool) if valid is None else valid[members[starts]]
    if isinstance(measure, Scale):
        if not measure.spread:
            return 0.0
        return float((partition.sizes * (high - low) / measure.spread)[present].sum())
    nodes = np.repeat(measure.common(low, high), partition.sizes)
    return float(measure.loss(grouped, nodes)[np.repeat(present, partition.sizes)].sum())
