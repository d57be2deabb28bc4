"""Cutting many records into blocks that are anonymized on their own, on all cores.

Blocks are cut along the first principal direction, again and again (``cuts``), so that a block
holds records that are near each other. No class crosses a block's border, which costs some loss: a
method in blocks is another method, and is asked for by name. Refinement in blocks has several
turns, whose borders lie elsewhere.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition, combine
from dbanon.job.policy import Policy
from dbanon.methods.registry import Tick
from dbanon.partitioning.cuts import Cuts, sampled

SECONDS_BETWEEN_TICKS = 0.05

# Of the size of a block: with fewer records than this part it joins another.
_SMALLEST = 20


class _StoppedError(Exception):
    """Another block failed, or the caller wants no more."""


@dataclass(frozen=True)
class Blocks:
    """How records are cut into blocks.

    Parameters
    ----------
    size : about how many records a block holds, exactly no more where the table is small.
    least : how many it holds at least.
    """

    size: int
    least: int

    @classmethod
    def of(cls, policy: Policy) -> Blocks | None:
        """Those of a policy; None where it has none."""
        if policy.block_size is None:
            return None
        return cls(policy.block_size, max(int(policy.k), policy.block_size // _SMALLEST))

    def cut_at(self, n_records: int) -> int | None:
        """How many blocks so many records are cut into; None where they stay together."""
        return -(-n_records // self.size) if n_records > self.size else None

    def cut(
        self, points: NDArray[np.float64], keys: NDArray[np.int64], direction: int = 0
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks of about the same size.

        Parameters
        ----------
        points : float64 (n, p).
        keys : int64 (n,), ascending, all different.
        direction : across which principal direction, the first being 0; the last when p is less.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        parts = self.cut_at(len(points)) or 1
        return _groups(self._numbers(points, keys, parts, np.ones(len(keys), np.int64), direction))

    def cut_classes(
        self,
        points: NDArray[np.float64],
        partition: Partition,
        keys: NDArray[np.int64],
        direction: int = 0,
    ) -> list[NDArray[np.int64]]:
        """Cut records into blocks that hold whole classes, which stand at their means.

        Parameters
        ----------
        points : float64 (n, p).
        partition : of these records; suppressed ones are in no block.
        keys, direction : as for ``cut``.

        Returns
        -------
        Positions of each block's records, int64, ascending.
        """
        members, sizes = partition.members, partition.sizes
        means = np.add.reduceat(points[members], partition.starts, axis=0) / sizes[:, None]
        most = max(self.size * len(sizes) // len(members), 1)
        # A class goes by the first of its records.
        own = keys[members[partition.starts]]
        owner = self._numbers(means, own, -(-len(sizes) // most), sizes, direction)
        records = np.sort(members)
        return [records[block] for block in _groups(owner[partition.labels[records]])]

    def _numbers(
        self,
        points: NDArray[np.float64],
        keys: NDArray[np.int64],
        parts: int,
        weights: NDArray[np.int64],
        direction: int,
    ) -> NDArray[np.int64]:
        """The block of each point, int64 (n,); ``weights`` are the records that each stands for."""
        sample = sampled(keys, parts)
        cuts = Cuts.fit(points[sample], parts, direction, keys[sample])
        numbers = cuts.assign(points, keys)
        counts = np.bincount(numbers, weights, cuts.n_blocks).astype(np.int64)
        return cuts.joined(counts, self.least)[numbers]


def _groups(numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Positions of each number, int64, ascending; in the order of the numbers."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


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
    stop = threading.Event()
    shares = [0.0] * len(blocks)

    def work(number: int) -> Partition:
        def watch(share: float) -> None:
            if stop.is_set():
                raise _StoppedError
            shares[number] = share

        watch(0.0)
        return run(number, blocks[number], watch)

    with ThreadPoolExecutor(threads or os.cpu_count(), initializer=_block_signals) as pool:
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
    return combine(parts, sum(map(len, blocks)))


def _block_signals() -> None:
    """Signals are for the thread that waits: a server's backend must not be woken elsewhere."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
