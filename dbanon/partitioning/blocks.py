"""Cut many records into blocks that are anonymized separately, on all cores.

Blocks are cut repeatedly across a principal direction (``cuts``) or, if there are categories,
between two values of an attribute (``mixed_cuts``), so that the records of a block are near each
other. No class crosses the border of a block. This increases the loss, so blocks are only used on
request. Refinement in blocks has several steps, each with different borders. A *piece* is only a
slice of consecutive records that one thread processes at a time; it does not affect the result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.memory import start_worker_thread, worker_threads
from dbanon.data.partition import Partition, combine_partitions
from dbanon.data.pieces import on_all_cores, split_records
from dbanon.job.policy import Policy
from dbanon.kernels import grouped
from dbanon.methods.registry import BuildSpace, MethodSpace, Tick
from dbanon.partitioning.cuts import Cuts, sample_positions

SECONDS_BETWEEN_TICKS = 0.05

# A block joins another one if it has fewer records than the block size divided by this number.
_SMALL_BLOCK_DIVISOR = 20


class _StoppedError(Exception):
    """Ends the work on a block because another block failed or the caller cancelled."""


class DivisibleSpace(Protocol):
    """A space that can return the space of some of its records, such as ``Space``.

    The result of ``take`` has ``coordinates``, float64 (m, p), across which blocks are cut, and
    ``axes``, which say what each coordinate means.
    """

    @property
    def n_records(self) -> int: ...

    def take(self, records: NDArray[np.int64]) -> MethodSpace: ...


@dataclass(frozen=True)
class DeferredSpace:
    """The space of a stratum, which is built only for the records of a block at a time.

    Parameters
    ----------
    build_space : builds the space of some records of the table, int64 (m,).
    n_records : the number of records of the stratum, n.
    records : the records of the stratum, int64 (n,); None if it is the whole table, in order.
    """

    build_space: BuildSpace
    n_records: int
    records: NDArray[np.int64] | None

    def take(self, records: NDArray[np.int64]) -> MethodSpace:
        """Build the space of some of the stratum's records, int64 (m,)."""
        return self.build_space(records if self.records is None else self.records[records])


@dataclass(frozen=True)
class Blocks:
    """Cuts records into blocks of a given size.

    Parameters
    ----------
    size : approximate number of records per block. ``cut`` makes no larger block if all attributes
        are numbers and the table is small enough that cuts are fitted to all records. Otherwise
        blocks may be about a third larger, and more if small blocks join them.
    min_records : minimum number of records per block.
    """

    size: int
    min_records: int

    @classmethod
    def of(cls, policy: Policy) -> Blocks | None:
        """Return the blocks of a policy; None if the policy does not use blocks."""
        if policy.block_size is None:
            return None
        return cls(policy.block_size, max(int(policy.k), policy.block_size // _SMALL_BLOCK_DIVISOR))

    def block_count_for(self, n_records: int) -> int | None:
        """Return the number of blocks for this many records; None if they are not cut."""
        return -(-n_records // self.size) if n_records > self.size else None

    def cut(
        self, space: DivisibleSpace, keys: NDArray[np.int64], direction: int = 0
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of about the same size.

        Parameters
        ----------
        space : the space of the n records.
        keys : int64 (n,), the key of each record, ascending, all different. Keys choose the sample
            that cuts are fitted to, and the side of records on the border.
        direction : index of the principal direction to cut across, from 0; if there are fewer,
            the last one is used.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        n_blocks = self.block_count_for(len(keys)) or 1
        sample = sample_positions(keys, n_blocks)
        sample_space = space.take(sample)
        cuts = Cuts.fit(
            sample_space.coordinates, n_blocks, direction, keys[sample], sample_space.axes
        )
        block_numbers = np.empty(len(keys), np.int32)

        def assign(piece: slice) -> NDArray[np.int64]:
            positions = np.arange(piece.start, piece.stop)
            piece_numbers = cuts.assign(space.take(positions).coordinates, keys[piece])
            block_numbers[piece] = piece_numbers
            return np.bincount(piece_numbers, minlength=cuts.n_blocks)

        counts = sum(
            on_all_cores(assign, split_records(len(keys))), np.zeros(cuts.n_blocks, np.int64)
        )
        return _records_by_block(block_numbers, cuts.join_small(counts, self.min_records))

    def cut_classes(
        self,
        space: DivisibleSpace,
        partition: Partition,
        keys: NDArray[np.int64],
        direction: int = 0,
        satisfies_models: Callable[[NDArray[np.int64]], bool] | None = None,
        count_values: Callable[[NDArray[np.int64], int], NDArray[np.int64]] | None = None,
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of complete classes, each represented by its mean.

        Parameters
        ----------
        space : the space of the n records.
        partition : the classes of these records; suppressed ones are in no block.
        keys : int64 (n,), the key of each record, as in ``cut``. A class has the key of its first
            record.
        direction : index of the principal direction to cut across, from 0; if there are fewer,
            the last one is used.
        satisfies_models : returns True if counts of sensitive values, int64 (s,), satisfy the
            privacy models; None without models. Blocks that violate them join others.
        count_values : returns the counts of sensitive values in groups, int64 (n_groups, s), from
            the group of each record, int64 (n,), -1 for none, and the number of groups. None
            without models.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        n_blocks = self.block_count_for_classes(partition.n_classes, len(partition.members))
        class_means = compute_class_means(space, partition)
        class_keys = first_keys_of_classes(partition, keys)
        sample = sample_positions(class_keys, n_blocks)
        # Pass no axes: means of leaves are not leaves, so cuts cannot be made between values.
        cuts = Cuts.fit(class_means[sample], n_blocks, direction, class_keys[sample])
        numbers_by_piece = on_all_cores(
            lambda piece: cuts.assign(class_means[piece], class_keys[piece]),
            split_records(len(class_keys)),
        )
        block_numbers = np.concatenate(numbers_by_piece)
        records_per_block = np.bincount(block_numbers, partition.sizes, cuts.n_blocks)
        violates_models = None
        if satisfies_models is not None and count_values is not None:
            # Suppressed records have the label -1, which selects the last element.
            block_of_record = np.append(block_numbers, -1)[partition.labels]
            violates_models = make_violation_check(
                satisfies_models, count_values(block_of_record, cuts.n_blocks)
            )
        joined_blocks = cuts.join_small(
            records_per_block.astype(np.int64), self.min_records, violates_models
        )
        block_of_class = joined_blocks[block_numbers]
        return _records_by_block(partition.labels, block_of_class)

    def block_count_for_classes(self, n_classes: int, n_records: int) -> int:
        """Return the number of blocks for classes that contain this many records in total."""
        classes_per_block = max(self.size * n_classes // n_records, 1)
        return -(-n_classes // classes_per_block)


def make_violation_check(
    satisfies_models: Callable[[NDArray[np.int64]], bool], counts: NDArray[np.int64]
) -> Callable[[list[int]], bool]:
    """Return a function that tells whether some blocks together violate the privacy models.

    Parameters
    ----------
    satisfies_models : returns True if counts of sensitive values, int64 (s,), satisfy the models.
    counts : the counts of each block, int64 (n_blocks, s).
    """
    return lambda blocks: not satisfies_models(counts[blocks].sum(axis=0))


def compute_class_means(space: DivisibleSpace, partition: Partition) -> NDArray[np.float64]:
    """Return the mean of each class, float64 (n_classes, p)."""

    def compute_means(classes: slice) -> NDArray[np.float64]:
        points = space.take(partition.members_of(classes)).coordinates
        starts = partition.starts[classes] - partition.starts[classes.start]
        sums = np.add.reduceat(points, starts, axis=0)
        means: NDArray[np.float64] = sums / partition.sizes[classes, None]
        return means

    return np.concatenate(on_all_cores(compute_means, partition.split_classes()))


def first_keys_of_classes(partition: Partition, keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the key of the first record of each class, int64 (n_classes,)."""
    return keys[partition.members[partition.starts]]


def _records_by_block(
    group_of_record: NDArray[np.int32], block_of_group: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Return the positions of the records of each block, int64, ascending; skips empty blocks.

    Parameters
    ----------
    group_of_record : int32 (n,), the class or preliminary block of each record; -1 for none.
    block_of_group : int64 (m,), the block of each class or preliminary block, from 0 without gaps.
    """
    # Records without a group (-1) select the last entry.
    blocks_by_group = np.append(block_of_group, -1).astype(np.int32)
    block_of_record = np.empty(len(group_of_record), np.int32)

    def assign_blocks(piece: slice) -> None:
        block_of_record[piece] = blocks_by_group[group_of_record[piece]]

    on_all_cores(assign_blocks, split_records(len(group_of_record)))
    # ``members`` holds the records block by block, and ``starts`` says where each block begins.
    members, starts = grouped(block_of_record, int(block_of_group.max(initial=-1)) + 1)
    return [block for block in np.split(members, starts[1:]) if len(block)]


def partition_blocks(
    blocks: list[NDArray[np.int64]],
    run: Callable[[int, NDArray[np.int64], Tick], Partition],
    tick: Tick,
    threads: int | None = None,
) -> Partition:
    """Partition each block separately, in parallel; the result does not depend on the threads.

    Parameters
    ----------
    blocks : the positions of each block's records; together they cover all records once.
    run : called with the index of a block, its positions and a tick for its progress; it must
        release the interpreter lock while it works, as the kernels do.
    tick : called in this thread only, at least ten times a second.
    threads : the number of threads; None for as many as the machine allows.
    """
    from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

    stop = threading.Event()
    progress = [0.0] * len(blocks)

    def partition_block(index: int) -> Partition:
        def block_tick(share: float) -> None:
            if stop.is_set():
                raise _StoppedError
            progress[index] = share

        block_tick(0.0)
        return run(index, blocks[index], block_tick)

    with ThreadPoolExecutor(threads or worker_threads(), initializer=start_worker_thread) as pool:
        futures: list[Future[Partition]] = [
            pool.submit(partition_block, i) for i in range(len(blocks))
        ]
        try:
            pending = set(futures)
            while pending:
                done, pending = wait(pending, SECONDS_BETWEEN_TICKS, FIRST_EXCEPTION)
                for future in done:
                    future.result()  # Raises the error of a block that failed.
                tick(sum(progress) / len(progress))
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    results = [(block, future.result()) for block, future in zip(blocks, futures, strict=True)]
    return combine_partitions(results, sum(map(len, blocks)), parallel_map=on_all_cores)
