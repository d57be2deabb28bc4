"""Classes that move as a whole to blocks with other borders, for a turn of refinement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.spark.arrow import one_array
from dbanon.spark.layout import BLOCK, KEY, LABEL, PLACE, SIZE, VALUES
from dbanon.spark.trees import Forest, hashes_up_to
from dbanon.spark.workers import by_task

# A class goes by its block and its number there, in one number.
_BLOCK_AT = 32


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes as the blocks that they are in tell them.

    Parameters
    ----------
    ids : int64 (m,), in the order of blocks, and of classes there.
    strata : int64 (m,).
    keys : int64 (m,), of their first records.
    sizes : int64 (m,).
    places : float64 (m, p).
    values : int64 (m, s), how often each has each sensitive value; s is 0 where nobody asks.
    """

    ids: NDArray[np.int64]
    strata: NDArray[np.int64]
    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    places: NDArray[np.float64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table, forest: Forest) -> Classes:
        """Those that stand in packets of classes."""
        sizes = _numbers(rows, SIZE)
        blocks = _numbers(rows, BLOCK)
        firsts = np.array([tree.first for tree in forest.trees])
        flat = one_array(rows[PLACE]).flatten().to_numpy(zero_copy_only=False)
        held = np.zeros(0, np.int64)
        if VALUES in rows.column_names:
            held = one_array(rows[VALUES]).flatten().to_numpy(zero_copy_only=False)
        return cls(
            (blocks << _BLOCK_AT) | _numbers(rows, LABEL),
            (np.searchsorted(firsts, blocks, "right") - 1).astype(np.int64),
            _numbers(rows, KEY),
            sizes,
            flat.reshape(len(sizes), -1) if len(sizes) else np.empty((0, 0)),
            held.reshape(len(sizes), -1) if len(held) else np.empty((len(sizes), 0), np.int64),
        )

    def take(self, chosen: NDArray[Any]) -> Classes:
        """Some of them."""
        return Classes(
            self.ids[chosen],
            self.strata[chosen],
            self.keys[chosen],
            self.sizes[chosen],
            self.places[chosen],
            self.values[chosen],
        )

    def by_stratum(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """The classes of each stratum: its number, and their positions."""
        for number in np.unique(self.strata).tolist():
            yield number, np.flatnonzero(self.strata == number)


def joined(parts: list[Classes]) -> Classes:
    """The classes of several pieces in one, in their order."""
    together = Classes(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("ids", "strata", "keys", "sizes", "places", "values")
        )
    )
    return together.take(np.argsort(together.ids, kind="stable"))


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(one_array(rows[name]).to_numpy(zero_copy_only=False)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SampleClasses:
    """The classes on which the borders of a turn are found.

    Parameters
    ----------
    forest : that the classes are in.
    limits : by stratum, the largest hash of a key that is taken.
    """

    forest: Forest
    limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        classes = Classes.of(rows, self.forest)
        for number, places in classes.by_stratum():
            if number in self.limits:
                taken = places[hashes_up_to(classes.keys[places], self.limits[number])]
                if len(taken):
                    yield number, classes.take(taken)


@dataclass(frozen=True, eq=False)
class CountClasses:
    """How much of classes lies in each part of the cuts of the next turn.

    Parameters
    ----------
    forest, following : that the classes are in, and that they move to.
    """

    forest: Forest
    following: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        classes = Classes.of(rows, self.forest)
        found: Counter[tuple[int, int]] = Counter()
        held: dict[tuple[int, int], NDArray[np.int64]] = {}
        for number, places in classes.by_stratum():
            cuts = self.following.trees[number].cuts
            leaves = np.zeros(len(places), np.int64)
            if cuts is not None:
                leaves = cuts.assign(classes.places[places], classes.keys[places])
            counts = np.bincount(leaves, classes.sizes[places]).astype(np.int64)
            values = np.zeros((len(counts), classes.values.shape[1]), np.int64)
            np.add.at(values, leaves, classes.values[places])
            for leaf, count in enumerate(counts.tolist()):
                if count:
                    found[number, leaf] += count
                    held[number, leaf] = values[leaf]
        yield found, held


@dataclass(frozen=True, eq=False)
class Move:
    """Rows of whole classes, with the blocks that these move to; arguments as before."""

    forest: Forest
    following: Forest

    def __call__(self, rows: pa.Table, told: pa.Table) -> Iterator[Any]:
        classes = Classes.of(told, self.forest)
        classes = classes.take(np.argsort(classes.ids, kind="stable"))
        blocks = np.zeros(len(classes.ids), np.int64)
        for number, places in classes.by_stratum():
            tree = self.following.trees[number]
            if tree.cuts is None:
                blocks[places] = tree.first
                continue
            leaves = tree.cuts.assign(classes.places[places], classes.keys[places])
            blocks[places] = tree.blocks(leaves)
        own = (_numbers(rows, BLOCK) << _BLOCK_AT) | _numbers(rows, LABEL)
        owner = blocks[np.searchsorted(classes.ids, own)]
        at = rows.column_names.index(LABEL)
        yield from by_task(rows.set_column(at, LABEL, pa.array(own)), owner, self.following)
