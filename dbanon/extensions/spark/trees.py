"""Trees that cut strata into blocks, and the assignment of records and tasks to blocks.

Samples are selected by hashes of keys: the records whose key has a hash up to a limit. ``cuts`` is
a tree itself: each cut divides a part of the stratum at a border in the space of the method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.pieces import PIECE_RECORDS
from dbanon.extensions.spark.pieces import TableContext
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import make_space_builder
from dbanon.partitioning.cuts import Cuts, hash_keys
from dbanon.partitioning.strata import find_strata

# Which quasi-identifiers are present, that is, not NULL.
NullPattern = tuple[bool, ...]

# Hashes of keys are unsigned 64-bit integers.
_HASH_RANGE = 2.0**64
MAX_HASH = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Stratum:
    """A set of records that classes do not cross.

    Parameters
    ----------
    combination_number : stands for the values that the records have in the strata columns; see
        ``TableContext.combination_numbers``.
    null_pattern : which quasi-identifiers are present in the records.
    n_rows : number of records.
    n_units : number of units: the records or persons that k counts, and that methods cluster.
    """

    combination_number: int
    null_pattern: NullPattern
    n_rows: int
    n_units: int


@dataclass(frozen=True, eq=False)
class Tree:
    """The cuts of a stratum into leaves, and the blocks that consist of these leaves.

    Blocks are numbered across the whole table, stratum by stratum.

    Parameters
    ----------
    first_block : the number of the stratum's first block.
    cuts : the cuts; None if the stratum is one block.
    block_of_leaf : int64 (n_leaves,), the block of each leaf after small leaves are merged, from 0
        for the first block of the stratum; None before leaves are counted.
    """

    first_block: int = 0
    cuts: Cuts | None = None
    block_of_leaf: NDArray[np.int64] | None = None

    @property
    def n_blocks(self) -> int:
        """The number of blocks of the stratum."""
        return 1 if self.block_of_leaf is None else int(self.block_of_leaf.max()) + 1

    def blocks_of_leaves(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each leaf's block, int64 (n,), for indices of leaves, int64 (n,)."""
        block_indices = leaves if self.block_of_leaf is None else self.block_of_leaf[leaves]
        return self.first_block + block_indices


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of all strata.

    Parameters
    ----------
    strata : the strata, in a fixed order.
    trees : one per stratum.
    task_of_block : the task of each block, int32 (n_blocks,); empty before tasks are assigned.
    """

    strata: tuple[Stratum, ...]
    trees: tuple[Tree, ...]
    task_of_block: NDArray[np.int32]

    @property
    def stratum_numbers(self) -> Mapping[tuple[int, NullPattern], int]:
        """The number of each stratum, by ``combination_number`` and ``null_pattern``."""
        return {
            (stratum.combination_number, stratum.null_pattern): i
            for i, stratum in enumerate(self.strata)
        }

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have a block."""
        return len(np.unique(self.task_of_block))

    @property
    def n_blocks(self) -> int:
        """The number of blocks of all strata."""
        return sum(tree.n_blocks for tree in self.trees)

    def locate_block(self, block: int) -> tuple[int, int | None]:
        """Return the number of a block's stratum, and the block's index in the stratum.

        The index is None if the stratum is not cut.
        """
        first_blocks = [tree.first_block for tree in self.trees]
        stratum_number = int(np.searchsorted(first_blocks, block, "right")) - 1
        tree = self.trees[stratum_number]
        return stratum_number, None if tree.cuts is None else block - tree.first_block


def group_by_stratum(
    microdata: Microdata, policy: Policy, forest: Forest
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return each stratum's number and the indices of its records, int64, ascending."""
    groups = []
    stratum_numbers = forest.stratum_numbers
    all_present = (True,) * len(microdata.attributes)
    for records in find_strata(microdata, policy):
        first_record = int(records[0])
        combination_number = 0 if microdata.strata is None else int(microdata.strata[first_record])
        null_pattern = all_present
        if microdata.valid is not None:
            null_pattern = tuple(microdata.valid[first_record].tolist())
        groups.append((stratum_numbers[combination_number, null_pattern], records))
    return groups


def assign_leaves(
    microdata: Microdata, context: TableContext, forest: Forest
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Return each stratum's number, the indices of its records, and each record's leaf, int64."""
    build_space = None
    groups = []
    keys = microdata.keys[:, 0]
    for stratum_number, records in group_by_stratum(microdata, context.policy, forest):
        cuts = forest.trees[stratum_number].cuts
        leaves = np.zeros(len(records), np.int64)
        if cuts is not None:
            build_space = build_space or make_space_builder(
                microdata, context.clustered_statistics, context.policy
            )
            for start in range(0, len(records), PIECE_RECORDS):
                # At once, coordinates of all records would need too much memory.
                chunk = records[start : start + PIECE_RECORDS]
                leaves[start : start + PIECE_RECORDS] = cuts.assign(
                    build_space(chunk).coordinates, keys[chunk]
                )
        groups.append((stratum_number, records, leaves))
    return groups


def hash_limit(sample_size: int, n_keys: int) -> int:
    """Return a limit such that almost certainly ``sample_size`` keys or more have a hash up to it.

    Parameters
    ----------
    n_keys : number of keys, with random hashes.
    """
    if sample_size >= n_keys:
        return MAX_HASH
    # Eight standard deviations more than needed, and a few keys for small samples.
    sampled_share = (sample_size + 8.0 * np.sqrt(sample_size) + 32.0) / n_keys
    return min(int(sampled_share * _HASH_RANGE), MAX_HASH)


def has_hash_up_to(keys: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Return which keys have a hash up to a limit, bool (n,)."""
    return np.asarray(hash_keys(keys) <= np.uint64(limit))


def assign_tasks(block_sizes: Sequence[int], n_tasks: int) -> NDArray[np.int32]:
    """Assign the largest block first, each to the least loaded task; return the tasks, int32."""
    task_loads = np.zeros(max(n_tasks, 1), np.int64)
    task_of_block = np.zeros(len(block_sizes), np.int32)
    for block in np.argsort(-np.asarray(block_sizes, np.int64), kind="stable").tolist():
        task = int(task_loads.argmin())
        task_of_block[block] = task
        task_loads[task] += int(block_sizes[block])
    return task_of_block
