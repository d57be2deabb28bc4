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

import numpy as np
from numpy.typing import NDArray

from dbanon.data.partition import Partition, combine
from dbanon.methods.registry import Tick
from dbanon.partitioning.cuts import Cuts

SECONDS_BETWEEN_TICKS = 0.05


class _StoppedError(Exception):
    """Another block failed, or the caller wants no more."""


def cut(
    points: NDArray[np.float64], block_size: int, direction: int = 0
) -> list[NDArray[np.int64]]:
    """Cut records into blocks of nearly equal size, at most ``block_size``.

    Parameters
    ----------
    points : float64 (n, p).
    direction : across which principal direction, the first being 0; the last one when p is less.

    Returns
    -------
    Positions of each block's records, int64, ascending.
    """
    parts = max(-(-len(points) // block_size), 1)
    numbers = Cuts.fit(points, parts, direction).assign(points)
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)


def cut_classes(
    points: NDArray[np.float64], partition: Partition, block_size: int, direction: int = 0
) -> list[NDArray[np.int64]]:
    """Cut records into blocks of about ``block_size`` that hold whole classes.

    Parameters
    ----------
    points : float64 (n, p).
    partition : of these records; suppressed ones are in no block.
    direction : as for ``cut``.

    Returns
    -------
    Positions of each block's records, int64, ascending.
    """
    members, sizes = partition.members, partition.sizes
    means = np.add.reduceat(points[members], partition.starts, axis=0) / sizes[:, None]
    most = max(block_size * len(sizes) // len(members), 1)
    owner = np.empty(len(sizes), np.int64)
    for number, classes in enumerate(cut(means, most, direction)):
        owner[classes] = number
    records = np.sort(members)
    block = owner[partition.labels[records]]
    order = np.argsort(block, kind="stable")
    return np.split(records[order], np.flatnonzero(np.diff(block[order])) + 1)


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
