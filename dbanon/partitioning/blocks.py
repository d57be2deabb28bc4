"""Cutting many records into blocks that are anonymized on their own, on all cores.

Blocks are cut repeatedly across a principal direction (``cuts``) or, if there are categories,
between two values of an attribute (``mixed_cuts``), so that the records of a block are near each
other. No class crosses the border of a block. This costs some loss, so blocks are used on request
only. Refinement in blocks has several steps, each with other borders.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.memory import worker_threads
from dbanon.data.partition import Partition, combine
from dbanon.data.pieces import PIECE_RECORDS, block_signals, on_all_cores, split_records
from dbanon.job.policy import Policy
from dbanon.kernels import grouped
from dbanon.methods.registry import Tick
from dbanon.partitioning.cuts import Cuts, sample_positions

SECONDS_BETWEEN_TICKS = 0.05

# A block with fewer records than its intended size divided by this joins another block.
_SMALLEST_DIVISOR = 20


class _StoppedError(Exception):
    """Another block failed, or the caller cancelled."""


class DivisibleSpace(Protocol):
    """Records of a stratum that can be taken in parts, like ``Space`` and ``MixedSpace``."""

    @property
    def n_records(self) -> int: ...

    def take(self, records: NDArray[np.int64]) -> Any: ...


@dataclass(frozen=True)
class DeferredSpace:
    """A space that builds parts of itself on demand.

    Parameters
    ----------
    space : returns the space of some records of the table, int64 (m,).
    records : the records of the stratum, int64 (n,).
    """

    space: Callable[[NDArray[np.int64]], Any]
    records: NDArray[np.int64]

    @property
    def n_records(self) -> int:
        """The number of records, n."""
        return len(self.records)

    def take(self, records: NDArray[np.int64]) -> Any:
        """The space of some of the stratum's records, int64 (m,)."""
        return self.space(self.records[records])


@dataclass(frozen=True)
class Blocks:
    """How records are cut into blocks.

    Parameters
    ----------
    size : approximate number of records per block. Blocks of small tables of numbers are never
        larger, others by at most a third.
    least : minimum number of records per block.
    """

    size: int
    least: int

    @classmethod
    def of(cls, policy: Policy) -> Blocks | None:
        """The blocks of a policy; None if it has none."""
        if policy.block_size is None:
            return None
        return cls(policy.block_size, max(int(policy.k), policy.block_size // _SMALLEST_DIVISOR))

    def block_count_for(self, n_records: int) -> int | None:
        """The number of blocks for so many records; None if they stay together."""
        return -(-n_records // self.size) if n_records > self.size else None

    def cut(
        self, space: DivisibleSpace, keys: NDArray[np.int64], direction: int = 0
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of about the same size.

        Parameters
        ----------
        space : the n records as points.
        keys : int64 (n,), ascending, all different.
        direction : index of the principal direction to cut across, from 0; if there are fewer,
            the last one is used.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        parts = self.block_count_for(len(keys)) or 1
        sample = sample_positions(keys, parts)
        sample_space = space.take(sample)
        cuts = Cuts.fit(sample_space.coordinates, parts, direction, keys[sample], sample_space.axes)
        numbers = np.empty(len(keys), np.int32)

        def assign(piece: slice) -> NDArray[np.int64]:
            positions = np.arange(piece.start, piece.stop)
            block_numbers = cuts.assign(space.take(positions).coordinates, keys[piece])
            numbers[piece] = block_numbers
            return np.bincount(block_numbers, minlength=cuts.n_blocks)

        counts = sum(
            on_all_cores(assign, split_records(len(keys))), np.zeros(cuts.n_blocks, np.int64)
        )
        return _groups(numbers, cuts.join_small(counts, self.least))

    def cut_classes(
        self,
        space: DivisibleSpace,
        partition: Partition,
        keys: NDArray[np.int64],
        direction: int = 0,
        satisfies: Callable[[NDArray[np.int64]], bool] | None = None,
        counts: Callable[[NDArray[np.int64], int], NDArray[np.int64]] | None = None,
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of complete classes, which are located at their means.

        Parameters
        ----------
        space : the n records as points.
        partition : of these records; suppressed ones are in no block.
        keys, direction : as for ``cut``.
        satisfies : whether counts of sensitive values, int64 (s,), satisfy the privacy models; None
            without models. Blocks that violate them join others.
        counts : returns the counts of sensitive values in groups, int64 (n_groups, s), from the
            group of each record, int64 (n,), -1 for none, and the number of groups.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        parts = self.parts_of_classes(partition.n_classes, len(partition.members))
        class_means = means_of_classes(space, partition)
        class_keys = first_keys(partition, keys)
        sample = sample_positions(class_keys, parts)
        cuts = Cuts.fit(class_means[sample], parts, direction, class_keys[sample])
        number_parts = on_all_cores(
            lambda piece: cuts.assign(class_means[piece], class_keys[piece]),
            split_records(len(class_keys)),
        )
        numbers = np.concatenate(number_parts)
        rows = np.bincount(numbers, partition.sizes, cuts.n_blocks).astype(np.int64)
        fails = None
        if satisfies is not None and counts is not None:
            block_of_record = np.append(numbers, -1)[partition.labels]
            fails = failing(satisfies, counts(block_of_record, cuts.n_blocks))
        block_of_class = cuts.join_small(rows, self.least, fails)[numbers]
        return _groups(partition.labels, block_of_class)

    def parts_of_classes(self, n_classes: int, n_records: int) -> int:
        """The number of blocks for so many classes with so many records."""
        return -(-n_classes // max(self.size * n_classes // n_records, 1))


def failing(
    satisfies: Callable[[NDArray[np.int64]], bool], counts: NDArray[np.int64]
) -> Callable[[list[int]], bool]:
    """Return a check whether some blocks together violate the privacy models.

    Parameters
    ----------
    satisfies : whether counts of sensitive values, int64 (s,), satisfy the models.
    counts : the counts of each block, int64 (n_blocks, s).
    """
    return lambda blocks: not satisfies(counts[blocks].sum(axis=0))


def means_of_classes(space: DivisibleSpace, partition: Partition) -> NDArray[np.float64]:
    """The mean of each class, float64 (n_classes, p)."""
    members, sizes, starts = partition.members, partition.sizes, partition.starts
    ends = np.append(starts[1:], len(members))
    parts: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        last = max(int(np.searchsorted(ends, starts[first] + PIECE_RECORDS, "right")), first + 1)
        parts.append((first, last))
        first = last

    def mean(part: tuple[int, int]) -> NDArray[np.float64]:
        first, last = part
        points = space.take(members[starts[first] : ends[last - 1]]).coordinates
        sums = np.add.reduceat(points, starts[first:last] - starts[first], axis=0)
        means: NDArray[np.float64] = sums / sizes[first:last, None]
        return means

    return np.concatenate(on_all_cores(mean, parts))


def first_keys(partition: Partition, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """The keys of classes, int64 (n_classes,): the key of the first record of each."""
    return keys[partition.members[partition.starts]]


def _groups(
    part_of_record: NDArray[np.int32], block_of_part: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Positions of the records of each block, int64, ascending; in the order of the blocks.

    Parameters
    ----------
    part_of_record : int32 (n,), the class or smaller block of each record; -1 for none.
    block_of_part : int64 (m,), the block of each of these; numbered from 0 without gaps.
    """
    # A number of -1 selects the last entry.
    blocks_with_none = np.append(block_of_part, -1).astype(np.int32)
    block_of_record = np.empty(len(part_of_record), np.int32)

    def look_up(piece: slice) -> None:
        block_of_record[piece] = blocks_with_none[part_of_record[piece]]

    on_all_cores(look_up, split_records(len(part_of_record)))
    members, starts = grouped(block_of_record, int(block_of_part.max(initial=-1)) + 1)
    return [block for block in np.split(members, starts[1:]) if len(block)]


def partition_blocks(
    blocks: list[NDArray[np.int64]],
    run: Callable[[int, NDArray[np.int64], Tick], Partition],
    tick: Tick,
    threads: int | None = None,
) -> Partition:
    """Partition every block by itself, several at once; the result does not depend on how many.

    Parameters
    ----------
    blocks : disjoint positions that cover all records.
    run : called with a block's number, its positions and a tick of its own; it must release the
        interpreter while it works, as the kernels do.
    tick : called from this thread only, at least ten times a second.
    """
    from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

    stop = threading.Event()
    shares = [0.0] * len(blocks)

    def work(number: int) -> Partition:
        def watch(share: float) -> None:
            if stop.is_set():
                raise _StoppedError
            shares[number] = share

        watch(0.0)
        return run(number, blocks[number], watch)

    with ThreadPoolExecutor(threads or worker_threads(), initializer=block_signals) as pool:
        futures: list[Future[Partition]] = [pool.submit(work, i) for i in range(len(blocks))]
        try:
            waiting = set(futures)
            while waiting:
                done, waiting = wait(waiting, SECONDS_BETWEEN_TICKS, FIRST_EXCEPTION)
                for future in done:
                    future.result()
                tick(sum(shares) / len(shares))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    parts = [(block, future.result()) for block, future in zip(blocks, futures, strict=True)]
    return combine(parts, sum(map(len, blocks)), on_all_cores)
