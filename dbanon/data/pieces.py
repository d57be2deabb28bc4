"""Long arrays in pieces: worked on by all cores, and written to a disk where they are looked at.

On all cores, what holds the interpreter gains nothing.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.memory import worker_threads

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
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(worker_threads(), initializer=block_signals) as pool:
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


# Of rows that are put in another order at once.
_AT_ONCE = 1 << 18


class Disk(Protocol):
    """A place for files that nobody else sees, and that are gone with the run."""

    def file(self) -> BinaryIO:
        """A new file, empty, that has no name."""

    def failed(self, error: OSError) -> Exception:
        """What is raised when a file cannot be written."""


class Rows:
    """An array that grows on a disk by pieces of rows.

    Parameters
    ----------
    width : columns.
    dtype : of the values.

    Raises
    ------
    DbanonError : the disk takes no more.
    """

    def __init__(self, disk: Disk, width: int, dtype: Any) -> None:
        self._disk, self._width, self._dtype = disk, width, np.dtype(dtype)
        self._file = disk.file()
        self._rows = 0

    def add(self, piece: NDArray[Any]) -> None:
        """Append rows, (c, width)."""
        self._rows += len(piece)
        try:
            # Never by a map of the file: a full disk ends a process that writes to one.
            self._file.write(np.ascontiguousarray(piece, self._dtype).tobytes())
        except OSError as error:
            raise self._disk.failed(error) from None

    def done(self) -> NDArray[Any]:
        """The array, (n, width), read-only."""
        with self._file as file:
            try:
                file.flush()
            except OSError as error:
                raise self._disk.failed(error) from None
            shape = (self._rows, self._width)
            if not self._rows or not self._width:
                return np.empty(shape, self._dtype)
            return np.asarray(np.memmap(file, self._dtype, "r", shape=shape))


def in_order(disk: Disk, rows: NDArray[Any], order: NDArray[np.int64]) -> NDArray[Any]:
    """Rows, (n, width), in another order, int64 (n,), as a new array on the disk."""
    made = Rows(disk, rows.shape[1], rows.dtype)
    for start in range(0, len(order), _AT_ONCE):
        made.add(rows[order[start : start + _AT_ONCE]])
    return made.done()
