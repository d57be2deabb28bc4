"""Cutting many records into blocks that are anonymized on their own, on all cores.

Blocks are cut along the first principal direction, again and again (``cuts``), or where there are
categories between two values (``mixed_cuts``), so that a block holds records that are near each
other. No class crosses a block's border, which costs some loss: a
method in blocks is another method, and is asked for by name. Refinement in blocks has several
turns, whose borders lie elsewhere.
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
from dbanon.data.pieces import AT_ONCE, block_signals, on_all_cores, pieces
from dbanon.job.policy import Policy
from dbanon.kernels import grouped
from dbanon.methods.registry import Tick
from dbanon.partitioning.cuts import Cuts, sample_positions

SECONDS_BETWEEN_TICKS = 0.05

# Of the size of a block: with fewer records than this part it joins another.
_SMALLEST = 20


class _StoppedError(Exception):
    """Another block failed, or the caller cancelled."""


class Spread(Protocol):
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
    size : approximate number of records per block; an upper limit for small tables of numbers,
        else exceeded by a third at most.
    least : minimum number of records per block.
    """

    size: int
    least: int

    @classmethod
    def of(cls, policy: Policy) -> Blocks | None:
        """The blocks of a policy; None if it has none."""
        if policy.block_size is None:
            return None
        return cls(policy.block_size, max(int(policy.k), policy.block_size // _SMALLEST))

    def block_count_for(self, n_records: int) -> int | None:
        """The number of blocks for so many records; None if they stay together."""
        return -(-n_records // self.size) if n_records > self.size else None

    def cut(
        self, space: Spread, keys: NDArray[np.int64], direction: int = 0
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of about the same size.

        Parameters
        ----------
        space : where the n records are.
        keys : int64 (n,), ascending, all different.
        direction : across which principal direction, the first being 0; the last when p is less.

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
            some = np.arange(piece.start, piece.stop)
            block_numbers = cuts.assign(space.take(some).coordinates, keys[piece])
            numbers[piece] = block_numbers
            return np.bincount(block_numbers, minlength=cuts.n_blocks)

        counts = sum(on_all_cores(assign, pieces(len(keys))), np.zeros(cuts.n_blocks, np.int64))
        return _groups(numbers, cuts.join_small(counts, self.least))

    def cut_classes(
        self,
        space: Spread,
        partition: Partition,
        keys: NDArray[np.int64],
        direction: int = 0,
        keeps: Callable[[NDArray[np.int64]], bool] | None = None,
        counts: Callable[[NDArray[np.int64], int], NDArray[np.int64]] | None = None,
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of complete classes, which are located at their means.

        Parameters
        ----------
        space : where the n records are.
        partition : of these records; suppressed ones are in no block.
        keys, direction : as for ``cut``.
        keeps, counts : whether counts of sensitive values, int64 (s,), keep to privacy models; and
            what gives those of groups, int64 (n_groups, s), from the group of each record, int64
            (n,), -1 for none, and their number. Blocks that do not keep to them join others. None
            where there are none.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        parts = self.parts_of_classes(partition.n_classes, len(partition.members))
        places = places_of_classes(space, partition)
        class_keys = first_keys(partition, keys)
        sample = sample_positions(class_keys, parts)
        cuts = Cuts.fit(places[sample], parts, direction, class_keys[sample])
        number_parts = on_all_cores(
            lambda piece: cuts.assign(places[piece], class_keys[piece]), pieces(len(class_keys))
        )
        numbers = np.concatenate(number_parts)
        rows = np.bincount(numbers, partition.sizes, cuts.n_blocks).astype(np.int64)
        fails = None
        if keeps is not None and counts is not None:
            of_records = np.append(numbers, -1)[partition.labels]
            fails = failing(keeps, counts(of_records, cuts.n_blocks))
        owner = cuts.join_small(rows, self.least, fails)[numbers]
        return _groups(partition.labels, owner)

    def parts_of_classes(self, n_classes: int, n_records: int) -> int:
        """The number of blocks for so many classes with so many records."""
        return -(-n_classes // max(self.size * n_classes // n_records, 1))


def failing(
    keeps: Callable[[NDArray[np.int64]], bool], counts: NDArray[np.int64]
) -> Callable[[list[int]], bool]:
    """A test whether some blocks together violate the privacy models.

    Parameters
    ----------
    keeps : whether counts of values, int64 (s,), do.
    counts : of each block, int64 (n_blocks, s).
    """
    return lambda blocks: not keeps(counts[blocks].sum(axis=0))


def places_of_classes(space: Spread, partition: Partition) -> NDArray[np.float64]:
    """The mean of each class, float64 (n_classes, p)."""
    members, sizes, starts = partition.members, partition.sizes, partition.starts
    ends = np.append(starts[1:], len(members))
    parts: list[tuple[int, int]] = []
    first = 0
    while first < len(sizes):
        last = max(int(np.searchsorted(ends, starts[first] + AT_ONCE, "right")), first + 1)
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


def _groups(numbers: NDArray[np.int32], owner: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions of the records of each owner, int64, ascending; in the order of the owners.

    Parameters
    ----------
    numbers : int32 (n,), what each record belongs to; -1 where to nothing.
    owner : int64 (m,), of each of these, numbered from 0 without gaps.
    """
    # A number of -1 selects the last entry.
    owners = np.append(owner, -1).astype(np.int32)
    owner_of_record = np.empty(len(numbers), np.int32)

    def look_up(piece: slice) -> None:
        owner_of_record[piece] = owners[numbers[piece]]

    on_all_cores(look_up, pieces(len(numbers)))
    members, starts = grouped(owner_of_record, int(owner.max(initial=-1)) + 1)
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
