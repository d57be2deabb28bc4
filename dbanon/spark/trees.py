"""How strata are cut into blocks, and which block a record belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.pieces import AT_ONCE
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import make_space_builder
from dbanon.partitioning.cuts import Cuts, hash_keys
from dbanon.partitioning.strata import find_strata
from dbanon.spark.pieces import TableContext

Pattern = tuple[bool, ...]

_HASH_RANGE = 2.0**64
# The largest hash.
MAX_HASH = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Stratum:
    """A set of records that classes do not cross.

    Parameters
    ----------
    by, pattern : the number of its values in ``TableContext.by``; which quasi-identifiers are not
        NULL.
    rows, size : number of its records, and of its clustered units.
    """

    by: int
    pattern: Pattern
    rows: int
    size: int


@dataclass(frozen=True, eq=False)
class Tree:
    """How a stratum is cut.

    Parameters
    ----------
    first : the table-wide number of its first block.
    cuts : None if it is not cut.
    block_of_leaf : int64 (m,), the block in the stratum of each leaf of ``cuts``, after small
        leaves are merged; None before they are counted.
    """

    first: int = 0
    cuts: Cuts | None = None
    block_of_leaf: NDArray[np.int64] | None = None

    @property
    def n_blocks(self) -> int:
        """The number of its blocks."""
        return 1 if self.block_of_leaf is None else int(self.block_of_leaf.max()) + 1

    def blocks(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """The table-wide block of each leaf, int64 (n,)."""
        block_indices = leaves if self.block_of_leaf is None else self.block_of_leaf[leaves]
        return self.first + block_indices


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of all strata.

    Parameters
    ----------
    strata : in a fixed order.
    trees : one per stratum.
    tasks : int32 (n_blocks,), the task of each block; empty before tasks are assigned.
    """

    strata: tuple[Stratum, ...]
    trees: tuple[Tree, ...]
    tasks: NDArray[np.int32]

    @property
    def numbers(self) -> Mapping[tuple[int, Pattern], int]:
        """The number of each stratum."""
        return {(stratum.by, stratum.pattern): i for i, stratum in enumerate(self.strata)}

    @property
    def n_tasks(self) -> int:
        """The number of tasks that have a block."""
        return len(np.unique(self.tasks))

    @property
    def n_blocks(self) -> int:
        """The number of blocks of all strata."""
        return sum(tree.n_blocks for tree in self.trees)

    def locate(self, block: int) -> tuple[int, int | None]:
        """The stratum of a block, and the block's number in it; None if the stratum is not cut."""
        firsts = [tree.first for tree in self.trees]
        stratum = int(np.searchsorted(firsts, block, "right")) - 1
        tree = self.trees[stratum]
        return stratum, None if tree.cuts is None else block - tree.first


def groups_of(
    microdata: Microdata, policy: Policy, forest: Forest
) -> list[tuple[int, NDArray[np.int64]]]:
    """Group records by stratum: the stratum's number, and its records, int64, ascending."""
    groups = []
    numbers = forest.numbers
    all_present = (True,) * len(microdata.attributes)
    for records in find_strata(microdata, policy):
        first = int(records[0])
        by = 0 if microdata.strata is None else int(microdata.strata[first])
        pattern = all_present
        if microdata.valid is not None:
            pattern = tuple(microdata.valid[first].tolist())
        groups.append((numbers[by, pattern], records))
    return groups


def leaves_of(
    microdata: Microdata, context: TableContext, forest: Forest
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """By stratum: its number, its records, and the leaf of each record, int64."""
    space = None
    groups = []
    keys = microdata.keys[:, 0]
    for number, records in groups_of(microdata, context.policy, forest):
        cuts = forest.trees[number].cuts
        leaves = np.zeros(len(records), np.int64)
        if cuts is not None:
            space = space or make_space_builder(microdata, context.clustered, context.policy)
            for start in range(0, len(records), AT_ONCE):
                chunk = records[start : start + AT_ONCE]
                leaves[start : start + AT_ONCE] = cuts.assign(space(chunk).coordinates, keys[chunk])
        groups.append((number, records, leaves))
    return groups


def hash_limit(sample_size: int, count: int) -> int:
    """A hash limit that at least ``sample_size`` of ``count`` keys meet, almost certainly."""
    if sample_size >= count:
        return MAX_HASH
    share = (sample_size + 8.0 * np.sqrt(sample_size) + 32.0) / count
    return min(int(share * _HASH_RANGE), MAX_HASH)


def hashes_up_to(keys: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Return which keys have a hash up to a limit, bool (n,)."""
    return np.asarray(hash_keys(keys) <= np.uint64(limit))


def assign_tasks(sizes: Sequence[int], tasks: int) -> NDArray[np.int32]:
    """Assign blocks to tasks, int32: the largest first, each to the least loaded task."""
    load = np.zeros(max(tasks, 1), np.int64)
    task_of_block = np.zeros(len(sizes), np.int32)
    for block in np.argsort(-np.asarray(sizes, np.int64), kind="stable").tolist():
        task = int(load.argmin())
        task_of_block[block] = task
        load[task] += int(sizes[block])
    return task_of_block
