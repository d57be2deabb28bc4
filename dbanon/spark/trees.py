"""Where strata are cut into blocks, and which block a record is in, in whatever piece it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata
from dbanon.data.pieces import AT_ONCE
from dbanon.job.policy import Policy
from dbanon.partitioning.classes import space_of
from dbanon.partitioning.cuts import Cuts, hashed
from dbanon.partitioning.strata import strata_of
from dbanon.spark.pieces import TableContext

Pattern = tuple[bool, ...]

_HASHES = 2.0**64
# The largest hash.
EVERYTHING = 2**64 - 1


@dataclass(frozen=True, eq=False)
class Stratum:
    """A set of records that no class crosses.

    Parameters
    ----------
    by, pattern : what its columns hold, as the number in ``TableContext.by``; which
        quasi-identifiers are not NULL.
    rows, size : its records, and what is clustered of them.
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
    first : the number of its first block in the table.
    cuts : None where it stays together.
    owner : int64 (m,), the block in the stratum of each that ``cuts`` makes, once small ones are
        joined; None before these were counted.
    """

    first: int = 0
    cuts: Cuts | None = None
    owner: NDArray[np.int64] | None = None

    @property
    def n_blocks(self) -> int:
        """Its blocks."""
        return 1 if self.owner is None else int(self.owner.max()) + 1

    def blocks(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """The blocks in the table of what lies in some blocks of the cuts, int64 (n,)."""
        owner = leaves if self.owner is None else self.owner[leaves]
        return self.first + owner


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of all strata.

    Parameters
    ----------
    strata : in their order.
    trees : one a stratum.
    tasks : int32 (n_blocks,), which task works on each block; empty before that is known.
    """

    strata: tuple[Stratum, ...]
    trees: tuple[Tree, ...]
    tasks: NDArray[np.int32]

    @property
    def numbers(self) -> Mapping[tuple[int, Pattern], int]:
        """The number of each stratum."""
        return {(one.by, one.pattern): i for i, one in enumerate(self.strata)}

    @property
    def n_tasks(self) -> int:
        """The tasks that have a block."""
        return len(np.unique(self.tasks))

    @property
    def n_blocks(self) -> int:
        """The blocks of all strata."""
        return sum(tree.n_blocks for tree in self.trees)

    def place(self, block: int) -> tuple[int, int | None]:
        """The stratum of a block, and its number there; None where that is not cut."""
        firsts = [tree.first for tree in self.trees]
        stratum = int(np.searchsorted(firsts, block, "right")) - 1
        tree = self.trees[stratum]
        return stratum, None if tree.cuts is None else block - tree.first


def groups_of(
    microdata: Microdata, policy: Policy, forest: Forest
) -> list[tuple[int, NDArray[np.int64]]]:
    """The strata that records are in: the number of each, and its records, int64, ascending."""
    found = []
    numbers = forest.numbers
    everything = (True,) * len(microdata.attributes)
    for records in strata_of(microdata, policy):
        first = int(records[0])
        by = 0 if microdata.strata is None else int(microdata.strata[first])
        pattern = everything
        if microdata.valid is not None:
            pattern = tuple(microdata.valid[first].tolist())
        found.append((numbers[by, pattern], records))
    return found


def leaves_of(
    microdata: Microdata, known: TableContext, forest: Forest
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """By stratum: its number, its records, and which block of its cuts each lies in, int64."""
    space = None
    found = []
    keys = microdata.keys[:, 0]
    for number, records in groups_of(microdata, known.policy, forest):
        cuts = forest.trees[number].cuts
        leaves = np.zeros(len(records), np.int64)
        if cuts is not None:
            space = space or space_of(microdata, known.clustered, known.policy)
            for start in range(0, len(records), AT_ONCE):
                some = records[start : start + AT_ONCE]
                leaves[start : start + AT_ONCE] = cuts.assign(space(some).coordinates, keys[some])
        found.append((number, records, leaves))
    return found


def threshold(wanted: int, count: int) -> int:
    """A hash below which at least so many of so many lie, but for a chance of one in millions."""
    if wanted >= count:
        return EVERYTHING
    share = (wanted + 8.0 * np.sqrt(wanted) + 32.0) / count
    return min(int(share * _HASHES), EVERYTHING)


def hashes_up_to(keys: NDArray[np.int64], limit: int) -> NDArray[np.bool_]:
    """Which keys have a hash up to this, bool (n,)."""
    return np.asarray(hashed(keys) <= np.uint64(limit))


def packed(sizes: Sequence[int], tasks: int) -> NDArray[np.int32]:
    """The task of each block, int32: the largest first, each to whoever has least to do."""
    load = np.zeros(max(tasks, 1), np.int64)
    found = np.zeros(len(sizes), np.int32)
    for block in np.argsort(-np.asarray(sizes, np.int64), kind="stable").tolist():
        task = int(load.argmin())
        found[block] = task
        load[task] += int(sizes[block])
    return found
