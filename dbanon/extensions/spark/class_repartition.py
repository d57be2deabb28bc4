"""Move complete classes to blocks that are cut differently, for another stage of refinement.

The cuts of a stratum form a tree (``trees``), whose leaves are joined to blocks. The functions for
workers get the rows of classes: one row per class, with its key, size and mean. The key of a class
is that of its first record. A class is sampled if the hash of its key is small.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.extensions.spark.arrow import combine_chunks
from dbanon.extensions.spark.layout import (
    BLOCK,
    CLASS_SIZE,
    COORDINATES,
    KEY,
    LABEL,
    SENSITIVE_COUNTS,
)
from dbanon.extensions.spark.trees import Forest, has_hash_up_to
from dbanon.extensions.spark.workers import pack_by_task

# A class id is the number of the block in the high bits, and the number of the class in that block
# in the low bits.
_BLOCK_SHIFT = 32


@dataclass(frozen=True, eq=False)
class ClassTable:
    """m classes as reported by the blocks that contain them.

    Parameters
    ----------
    ids : int64 (m,), the class ids: a block's number and the class's number in the block.
    strata : int64 (m,), the number of each class's stratum.
    keys : int64 (m,), the smallest key of each class.
    sizes : int64 (m,), in records, or in persons if k counts persons.
    coordinates : float64 (m, p), the mean of each class in the space of its method.
    sensitive_counts : int64 (m, s), the count of each sensitive value; s is 0 if no privacy model
        needs the counts.
    """

    ids: NDArray[np.int64]
    strata: NDArray[np.int64]
    keys: NDArray[np.int64]
    sizes: NDArray[np.int64]
    coordinates: NDArray[np.float64]
    sensitive_counts: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table, forest: Forest) -> ClassTable:
        """Read classes from rows of classes, whose columns are listed in ``spark.layout``."""
        sizes = _int64_column(rows, CLASS_SIZE)
        blocks = _int64_column(rows, BLOCK)
        # The blocks of a stratum have consecutive numbers.
        first_blocks = np.array([tree.first_block for tree in forest.trees])
        flat_coordinates = (
            combine_chunks(rows[COORDINATES]).flatten().to_numpy(zero_copy_only=False)
        )
        flat_counts = np.zeros(0, np.int64)
        if SENSITIVE_COUNTS in rows.column_names:
            flat_counts = (
                combine_chunks(rows[SENSITIVE_COUNTS]).flatten().to_numpy(zero_copy_only=False)
            )
        return cls(
            ids=(blocks << _BLOCK_SHIFT) | _int64_column(rows, LABEL),
            strata=(np.searchsorted(first_blocks, blocks, "right") - 1).astype(np.int64),
            keys=_int64_column(rows, KEY),
            sizes=sizes,
            coordinates=flat_coordinates.reshape(len(sizes), -1)
            if len(sizes)
            else np.empty((0, 0)),
            sensitive_counts=flat_counts.reshape(len(sizes), -1)
            if len(flat_counts)
            else np.empty((len(sizes), 0), np.int64),
        )

    def take(self, indices: AnyArray) -> ClassTable:
        """Select classes by their indices."""
        return ClassTable(
            self.ids[indices],
            self.strata[indices],
            self.keys[indices],
            self.sizes[indices],
            self.coordinates[indices],
            self.sensitive_counts[indices],
        )

    def group_by_stratum(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each stratum's number and the indices of its classes in this table, int64."""
        for stratum_number in np.unique(self.strata).tolist():
            yield stratum_number, np.flatnonzero(self.strata == stratum_number)


def concatenate_classes(tables: list[ClassTable]) -> ClassTable:
    """Concatenate tables of classes and order the classes by id."""
    combined = ClassTable(
        *(
            np.concatenate([getattr(table, name) for table in tables])
            for name in ("ids", "strata", "keys", "sizes", "coordinates", "sensitive_counts")
        )
    )
    return combined.take(np.argsort(combined.ids, kind="stable"))


def _int64_column(rows: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(combine_chunks(rows[name]).to_numpy(zero_copy_only=False)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SampleClasses:
    """Worker function that samples classes, from which the next stage chooses its cuts.

    Parameters
    ----------
    forest : the blocks that the classes are in.
    hash_limits : by stratum number, the largest key hash to sample.
    """

    forest: Forest
    hash_limits: dict[int, int]

    def __call__(self, rows: pa.Table) -> Iterator[object]:
        classes = ClassTable.of(rows, self.forest)
        for stratum_number, indices in classes.group_by_stratum():
            if stratum_number in self.hash_limits:
                sampled_indices = indices[
                    has_hash_up_to(classes.keys[indices], self.hash_limits[stratum_number])
                ]
                if len(sampled_indices):
                    yield stratum_number, classes.take(sampled_indices)


@dataclass(frozen=True, eq=False)
class CountClasses:
    """Worker function that counts records and sensitive values in each leaf of the next cuts.

    Yields both counts by stratum number and leaf.

    Parameters
    ----------
    forest, next_forest : the blocks that classes are in and move to.
    """

    forest: Forest
    next_forest: Forest

    def __call__(self, rows: pa.Table) -> Iterator[object]:
        classes = ClassTable.of(rows, self.forest)
        leaf_sizes: Counter[tuple[int, int]] = Counter()
        leaf_sensitive_counts: dict[tuple[int, int], NDArray[np.int64]] = {}
        for stratum_number, indices in classes.group_by_stratum():
            cuts = self.next_forest.trees[stratum_number].cuts
            leaves = np.zeros(len(indices), np.int64)
            # ``assign`` returns the leaf of each class; keys decide on which side of a cut a class
            # lies if its coordinates are exactly on the cut.
            if cuts is not None:
                leaves = cuts.assign(classes.coordinates[indices], classes.keys[indices])
            counts = np.bincount(leaves, classes.sizes[indices]).astype(np.int64)
            sensitive_counts = np.zeros((len(counts), classes.sensitive_counts.shape[1]), np.int64)
            np.add.at(sensitive_counts, leaves, classes.sensitive_counts[indices])
            for leaf, count in enumerate(counts.tolist()):
                if count:
                    leaf_sizes[stratum_number, leaf] += count
                    leaf_sensitive_counts[stratum_number, leaf] = sensitive_counts[leaf]
        yield leaf_sizes, leaf_sensitive_counts


@dataclass(frozen=True, eq=False)
class MoveClasses:
    """Worker function that sends the rows of complete classes to the next stage's blocks.

    Parameters
    ----------
    forest, next_forest : the blocks that classes are in and move to.
    """

    forest: Forest
    next_forest: Forest

    def __call__(self, rows: pa.Table, class_rows: pa.Table) -> Iterator[object]:
        classes = ClassTable.of(class_rows, self.forest)
        classes = classes.take(np.argsort(classes.ids, kind="stable"))
        blocks = np.zeros(len(classes.ids), np.int64)
        for stratum_number, indices in classes.group_by_stratum():
            tree = self.next_forest.trees[stratum_number]
            if tree.cuts is None:
                blocks[indices] = tree.first_block
                continue
            leaves = tree.cuts.assign(classes.coordinates[indices], classes.keys[indices])
            blocks[indices] = tree.blocks_of_leaves(leaves)
        class_ids = (_int64_column(rows, BLOCK) << _BLOCK_SHIFT) | _int64_column(rows, LABEL)
        # The block of each row's class. The classes are in the order of their ids.
        new_blocks = blocks[np.searchsorted(classes.ids, class_ids)]
        # Each block numbers its classes from 0, so the labels of two blocks overlap. In their new
        # block, rows are labeled with their class ids instead.
        label_index = rows.column_names.index(LABEL)
        yield from pack_by_task(
            rows.set_column(label_index, LABEL, pa.array(class_ids)), new_blocks, self.next_forest
        )
