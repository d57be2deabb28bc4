"""Arrays on a disk: rows that are written in pieces, and then read where they are looked at."""

from __future__ import annotations

from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

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
