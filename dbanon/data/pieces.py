"""Long arrays in pieces, processed on all cores or memory-mapped from disk.

Threads only speed up work that releases the interpreter lock.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.memory import worker_threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Records per piece; small enough for intermediate results to stay in the processor's cache.
AT_ONCE = 200_000


class ParallelMap(Protocol):
    """A function like ``map``: applies work to each item, in order."""

    def __call__(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], /
    ) -> Iterable[_Result]: ...


def pieces(n: int) -> list[slice]:
    """Split n records into pieces of at most ``AT_ONCE``, in order."""
    return [slice(start, min(start + AT_ONCE, n)) for start in range(0, n, AT_ONCE)]


def on_all_cores(work: Callable[[_Item], _Result], items: Iterable[_Item], /) -> list[_Result]:
    """As ``map``, in parallel; an exception is raised once the running calls have ended."""
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


def by_column(table: NDArray[Any]) -> ParallelMap:
    """The way to process the columns of a table, (n, p): in parallel if it is large.

    Columns on disk are processed one after the other, since they do not fit into memory together.
    """
    base: Any = table
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    return map if len(table) < AT_ONCE or isinstance(base, np.memmap) else on_all_cores


def block_signals() -> None:
    """Block all signals in a worker thread: server backends handle them in the main thread."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


# Rows to reorder at a time.
_AT_ONCE = 1 << 18


class Disk(Protocol):
    """Storage for private temporary files that vanish with the run."""

    def file(self) -> BinaryIO:
        """Create an empty, unnamed file."""

    def failed(self, error: OSError) -> Exception:
        """The exception to raise if a file cannot be written."""


class Rows:
    """An array on disk that grows by pieces of rows.

    Parameters
    ----------
    width : number of columns.
    dtype : dtype of the values.

    Raises
    ------
    DbanonError : the disk is full.
    """

    def __init__(self, disk: Disk, width: int, dtype: Any) -> None:
        self._disk, self._width, self._dtype = disk, width, np.dtype(dtype)
        self._file = disk.file()
        self._rows = 0

    def add(self, piece: NDArray[Any]) -> None:
        """Append rows, (c, width)."""
        self._rows += len(piece)
        try:
            # Not through a memory map: on a full disk, writing to one kills the process.
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
    """Reorder rows, (n, width), by positions, int64 (n,), into a new array on disk."""
    reordered = Rows(disk, rows.shape[1], rows.dtype)
    for start in range(0, len(order), _AT_ONCE):
        reordered.add(rows[order[start : start + _AT_ONCE]])
    return reordered.done()
