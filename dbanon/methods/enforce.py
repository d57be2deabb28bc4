"""Merging classes until all keep to a privacy model.

The failing class of smallest number merges with the class that makes the loss (iloss) grow
least; it then has that class's number. Ties go to the smaller number. A merged class is
never worse than both of its parts, and merging ends at the latest with all records in one class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dbanon.errors import ModelInfeasible
from dbanon.methods.registry import Tick
from dbanon.mixed_space import MixedSpace
from dbanon.partitions import Partition

Satisfied = Callable[[Sequence[NDArray[np.int64]]], NDArray[np.bool_]]


def enforce(
    space: MixedSpace,
    partition: Partition,
    counts: Sequence[NDArray[np.int64]],
    satisfied: Satisfied,
    tick: Tick,
) -> Partition:
    """The partition with classes merged until ``satisfied`` holds for each.

    Parameters
    ----------
    counts : for each sensitive attribute, int64 (n_classes, s).
    satisfied : from such counts of some classes, which of them keep to all models.

    Raises
    ------
    ModelInfeasible : the table as one class does not keep to them.
    """
    if not partition.n_classes:
        return partition
    if not satisfied([count.sum(axis=0, keepdims=True) for count in counts])[0]:
        raise ModelInfeasible()
    counts = [count.copy() for count in counts]
    fails = ~satisfied(counts)
    merges = _Merges(space, partition)
    into = np.arange(partition.n_classes)
    failing = int(fails.sum())
    while fails.any():
        chosen = int(fails.argmax())
        target = merges.cheapest(chosen)
        merges.merge(chosen, target)
        into[into == chosen] = target
        for count in counts:
            count[target] += count[chosen]
        fails[chosen] = False
        fails[target] = not satisfied([count[target : target + 1] for count in counts])[0]
        tick(1 - float(fails.sum()) / max(failing, 1))
    labels = np.where(partition.labels >= 0, into[partition.labels], -1)
    kept = np.unique(labels[labels >= 0])
    return Partition(np.where(labels >= 0, np.searchsorted(kept, labels), -1))


class _Merges:
    """Classes by their smallest and largest codes, and what merging two costs."""

    def __init__(self, space: MixedSpace, partition: Partition) -> None:
        grouped = space.codes[partition.members]
        starts = partition.starts
        self.space = space
        self.low = np.minimum.reduceat(grouped, starts, axis=0)
        self.high = np.maximum.reduceat(grouped, starts, axis=0)
        self.sizes = partition.sizes.copy()
        self.alive = np.ones(len(starts), bool)
        # Sums of unit / depth over the records: what each level up costs a class.
        self.shares = np.zeros((len(starts), len(space.trees)), np.int64)
        for a, tree in enumerate(space.trees):
            if tree is not None:
                share = space.units[a] // np.maximum(tree.leaf_depths, 1)
                share[tree.leaf_depths == 0] = 0
                self.shares[:, a] = np.add.reduceat(share[grouped[:, a]], starts)
        self.losses = self._loss(self.low, self.high, self.sizes, self.shares)

    def _loss(
        self,
        low: NDArray[np.int32],
        high: NDArray[np.int32],
        sizes: NDArray[np.int64],
        shares: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        loss = np.zeros(len(sizes), np.int64)
        for a, tree in enumerate(self.space.trees):
            if tree is None:
                loss += sizes * (high[:, a].astype(np.int64) - low[:, a])
                continue
            depths = tree.common_depths(low[:, a], high[:, a])
            climbed = sizes * self.space.units[a] - depths * shares[:, a]
            loss += np.where(low[:, a] == high[:, a], 0, climbed)
        return loss

    def cheapest(self, chosen: int) -> int:
        others = np.flatnonzero(self.alive)
        others = others[others != chosen]
        merged = self._loss(
            np.minimum(self.low[others], self.low[chosen]),
            np.maximum(self.high[others], self.high[chosen]),
            self.sizes[others] + self.sizes[chosen],
            self.shares[others] + self.shares[chosen],
        )
        return int(others[(merged - self.losses[others]).argmin()])

    def merge(self, chosen: int, target: int) -> None:
        self.low[target] = np.minimum(self.low[target], self.low[chosen])
        self.high[target] = np.maximum(self.high[target], self.high[chosen])
        self.sizes[target] += self.sizes[chosen]
        self.shares[target] += self.shares[chosen]
        self.alive[chosen] = False
        one = slice(target, target + 1)
        self.losses[one] = self._loss(
            self.low[one], self.high[one], self.sizes[one], self.shares[one]
        )
