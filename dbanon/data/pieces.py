"""Process long arrays in pieces on all cores, or store them on disk.

A piece is a slice of records. Unlike the blocks of an anonymization, pieces do not change the
result. Threads process the pieces. They speed up only work that releases Python's global
interpreter lock.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from typing import BinaryIO, Protocol, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.memory import start_worker_thread, worker_threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Number = TypeVar("_Number", bound=np.generic)

# Records per piece; small enough for intermediate results to stay in the processor's cache.
PIECE_RECORDS = 200_000


class ParallelMap(Protocol):
    """A function like ``map``, possibly parallel: it returns the results in the order of items."""

    def __call__(
        self, work: Callable[[_Item], _Result], items: Iterable[_Item], /
    ) -> Iterable[_Result]: ...


def split_records(n: int) -> list[slice]:
    """Split n records into pieces of at most ``PIECE_RECORDS``, in order."""
    return [slice(start, min(start + PIECE_RECORDS, n)) for start in range(0, n, PIECE_RECORDS)]


def on_all_cores(work: Callable[[_Item], _Result], items: Iterable[_Item], /) -> list[_Result]:
    """Like ``map``, but in parallel. If a call raises, cancel the calls that have not started."""
    items = list(items)
    n_threads = worker_threads()
    if n_threads == 1 or len(items) < 2:
        return list(map(work, items))
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(n_threads, initializer=start_worker_thread) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def choose_column_map(table: NDArray[np.generic]) -> ParallelMap:
    """Choose the function that maps over the columns of a table, (n, p): parallel for large tables.

    If the table is on disk, columns are processed one at a time: together they do not fit into
    memory.
    """
    is_small_or_on_disk = len(table) < PIECE_RECORDS or _find_memory_map(table) is not None
    return map if is_small_or_on_disk else on_all_cores


def read_column(table: NDArray[_Number], index: int) -> NDArray[_Number]:
    """Return a column of a table, (n,); of a table on disk a copy, else a view.

    The rows of a table on disk are read piece by piece, so that few are in memory at a time.
    """
    column = table[:, index]
    if _find_memory_map(table) is None:
        return column
    copy = np.empty(len(column), column.dtype)
    for piece in split_records(len(column)):
        copy[piece] = column[piece]
        release_pages(table)
    return copy


def release_pages(array: NDArray[np.generic]) -> None:
    """Release the memory of an array on disk, which can be read again.

    The system may release it at any time, but counts it as memory of this process.
    """
    memory_map = _find_memory_map(array)
    if memory_map is not None:
        memory_map.madvise(mmap.MADV_DONTNEED)


def _find_memory_map(array: NDArray[np.generic]) -> mmap.mmap | None:
    """Return the memory map that an array is a view of; None if the array is not on disk."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return base if isinstance(base, mmap.mmap) else None


# Number of rows that are in memory at a time when rows on disk are reordered.
_REORDERED_ROWS = 1 << 18


class Disk(Protocol):
    """Storage for private temporary files that vanish with the run."""

    def create_file(self) -> BinaryIO:
        """Create an empty, unnamed file."""

    def write_failure(self, error: OSError) -> Exception:
        """Build the exception to raise if a file cannot be written."""


class DiskArray:
    """An array on disk that grows by batches of rows.

    Parameters
    ----------
    width : number of columns.
    dtype : dtype of the values.

    Raises
    ------
    DbanonError : the file cannot be written, for example because the disk is full.
    """

    def __init__(self, disk: Disk, width: int, dtype: DTypeLike) -> None:
        self._disk, self._width, self._dtype = disk, width, np.dtype(dtype)
        self._file = disk.create_file()
        self._n_rows = 0

    def add(self, batch: AnyArray) -> None:
        """Append rows, (c, width)."""
        self._n_rows += len(batch)
        try:
            # Do not write to a memory map: if the disk is full, that kills the process.
            self._file.write(np.ascontiguousarray(batch, self._dtype).tobytes())
        except OSError as error:
            raise self._disk.write_failure(error) from None

    def to_array(self) -> AnyArray:
        """The array, (n, width), read-only."""
        with self._file as file:
            try:
                file.flush()
            except OSError as error:
                raise self._disk.write_failure(error) from None
            shape = (self._n_rows, self._width)
            if not self._n_rows or not self._width:
                return np.empty(shape, self._dtype)
            return np.asarray(np.memmap(file, self._dtype, "r", shape=shape))


def reorder_on_disk(disk: Disk, rows: AnyArray, order: NDArray[np.int64]) -> AnyArray:
    """Write rows in another order to a new array on disk, and return it.

    Parameters
    ----------
    rows : the rows, (n, width).
    order : int64 (n,), the index of each row of the result in ``rows``.
    """
    reordered = DiskArray(disk, rows.shape[1], rows.dtype)
    for start in range(0, len(order), _REORDERED_ROWS):
        reordered.add(rows[order[start : start + _REORDERED_ROWS]])
        release_pages(rows)
    return reordered.to_array()
