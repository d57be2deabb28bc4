"""Move complete classes to blocks with different borders, for a round of refinement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.spark.arrow import combine_chunks
from dbanon.spark.layout import BLOCK, KEY, LABEL, POINT, SIZE, VALUES
from dbanon.spark.trees import Forest, hashes_up_to
from dbanon.spark.workers import by_task

# A class id combines the number of its block and its number in the block.
_BLOCK_SHIFT = 32


@dataclass(frozen=True, eq=False)
class ClassTable:
    """Classes as reported by the blocks that contain them.

    Parameters
    ----------
    ids : int64 (m,), ordered by block and class.
    strata : int64 (m,).
    keys : int64 (m,), of their first records.
    sizes : int64 (m,).
    coordinates : float64 (m, p).
    values : int64 (m, s), the count of each sensitive value; s is 0 if no model needs them.
    """

    ids: NDArray[np.int64]
    strata: NDArray[np.int64]
    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    coordinates: NDArray[np.float64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table, forest: Forest) -> ClassTable:
        """Read classes from packets of classes."""
        sizes = _numbers(rows, SIZE)
        blocks = _numbers(rows, BLOCK)
        firsts = np.array([tree.first for tree in forest.trees])
        flat = combine_chunks(rows[POINT]).flatten().to_numpy(zero_copy_only=False)
        value_counts = np.zeros(0, np.int64)
        if VALUES in rows.column_names:
            value_counts = combine_chunks(rows[VALUES]).flatten().to_numpy(zero_copy_only=False)
        return cls(
            (blocks << _BLOCK_SHIFT) | _numbers(rows, LABEL),
            (np.searchsorted(firsts, blocks, "right") - 1).astype(np.int64),
            _numbers(rows, KEY),
            sizes,
            flat.reshape(len(sizes), -1) if len(sizes) else np.empty((0, 0)),
            value_counts.reshape(len(sizes), -1)
            if len(value_counts)
            else np.empty((len(sizes), 0), np.int64),
        )

    def take(self, indices: NDArray[Any]) -> ClassTable:
        """Select some classes."""
        return ClassTable(
            self.ids[indices],
            self.strata[indices],
            self.keys[indices],
            self.sizes[indices],
            self.coordinates[indices],
            self.values[indices],
        )

    def by_stratum(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each stratum's number and the positions of its classes."""
        for number in np.unique(self.strata).tolist():
            yield number, np.flatnonzero(self.strata == number)


def concatenate_classes(parts: list[ClassTable]) -> ClassTable:
    """Concatenate the classes of several pieces, ordered by id."""
    combined = ClassTable(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("ids", "strata", "keys", "sizes", "coordinates", "values")
        )
    )
    return combined.take(np.argsort(combined.ids, kind="stable"))


def _numbers(rows: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(combine_chunks(rows[name]).to_numpy(zero_copy_only=False)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SampleClasses:
    """Sample the classes that determine the borders of a round.

    Parameters
    ----------
    forest : the forest that the classes are in.
    hash_limits : by stratum, the largest key hash to sample.
    """

    forest: Forest
    hash_limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        classes = ClassTable.of(rows, self.forest)
        for number, positions in classes.by_stratum():
            if number in self.hash_limits:
                sampled = positions[hashes_up_to(classes.keys[positions], self.hash_limits[number])]
                if len(sampled):
                    yield number, classes.take(sampled)


@dataclass(frozen=True, eq=False)
class CountClasses:
    """Count the records and values of classes in each leaf of the next round's cuts.

    Parameters
    ----------
    forest, next_forest : the forests that classes are in and move to.
    """

    forest: Forest
    next_forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[Any]:
        classes = ClassTable.of(rows, self.forest)
        leaf_sizes: Counter[tuple[int, int]] = Counter()
        leaf_values: dict[tuple[int, int], NDArray[np.int64]] = {}
        for number, positions in classes.by_stratum():
            cuts = self.next_forest.trees[number].cuts
            leaves = np.zeros(len(positions), np.int64)
            if cuts is not None:
                leaves = cuts.assign(classes.coordinates[positions], classes.keys[positions])
            counts = np.bincount(leaves, classes.sizes[positions]).astype(np.int64)
            values = np.zeros((len(counts), classes.values.shape[1]), np.int64)
            np.add.at(values, leaves, classes.values[positions])
            for leaf, count in enumerate(counts.tolist()):
                if count:
                    leaf_sizes[number, leaf] += count
                    leaf_values[number, leaf] = values[leaf]
        yield leaf_sizes, leaf_values


@dataclass(frozen=True, eq=False)
class MoveClasses:
    """Assign the rows of complete classes to the blocks of the next forest."""

    forest: Forest
    next_forest: Forest

    def __call__(self, rows: pa.Table, class_rows: pa.Table) -> Iterator[Any]:
        classes = ClassTable.of(class_rows, self.forest)
        classes = classes.take(np.argsort(classes.ids, kind="stable"))
        blocks = np.zeros(len(classes.ids), np.int64)
        for number, positions in classes.by_stratum():
            tree = self.next_forest.trees[number]
            if tree.cuts is None:
                blocks[positions] = tree.first
                continue
            leaves = tree.cuts.assign(classes.coordinates[positions], classes.keys[positions])
            blocks[positions] = tree.blocks(leaves)
        class_ids = (_numbers(rows, BLOCK) << _BLOCK_SHIFT) | _numbers(rows, LABEL)
        new_blocks = blocks[np.searchsorted(classes.ids, class_ids)]
        label_index = rows.column_names.index(LABEL)
        yield from by_task(
            rows.set_column(label_index, LABEL, pa.array(class_ids)), new_blocks, self.next_forest
        )
