"""Work on a long array in pieces, on all cores: what holds the interpreter gains nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

# Records to a piece: what is made of them on the way stays near the processor.
AT_ONCE = 200_000


class Each(Protocol):
    """What ``map`` does: a function of each item, in the order of the items."""

    def __call__(
        self, work: Callable[[_Item], _Found], items: Iterable[_Item], /
    ) -> Iterable[_Found]: ...


def pieces(n: int) -> list[slice]:
    """So many records in pieces of ``AT_ONCE`` at most, in order."""
    return [slice(start, min(start + AT_ONCE, n)) for start in range(0, n, AT_ONCE)]


def on_all_cores(work: Callable[[_Item], _Found], items: Iterable[_Item], /) -> list[_Found]:
    """As ``map``, at once; what one raises is raised when those that had begun are at their end."""
    items = list(items)
    if len(items) < 2:
        return list(map(work, items))
    with ThreadPoolExecutor(os.cpu_count(), initializer=block_signals) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def by_column(table: NDArray[Any]) -> Each:
    """How work on each column of a table, (n, p), is done: on all cores where it is large.

    One after the other where it waits on a disk, as it does not fit into memory.
    """
    held: Any = table
    while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
        held = held.base
    return map if len(table) < AT_ONCE or isinstance(held, np.memmap) else on_all_cores


def block_signals() -> None:
    """Signals are for the thread that waits: a server's backend must not be woken elsewhere."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
