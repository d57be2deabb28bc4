"""Chunks: a relation in the pieces that a store reads, put together as microdata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.pieces import Disk, Rows, in_order, pieces
from dbanon.data.schema import Attribute, Kind, ranked
from dbanon.errors import DuplicateKeys, MemoryLimit, NonFiniteValue

# The matrix, standardized points, the kernel's copy and its index, while a method runs.
_COPIES_OF_THE_MATRIX = 4
# Categories also need positions in hierarchies and in search indexes. Equal rows are then processed
# as one: only _COPIES_OF_EACH copies exist per row, the others per distinct row.
_COPIES_OF_CODES, _COPIES_OF_EACH = 8, 2
_BYTES_PER_RECORD = 64


@dataclass(frozen=True)
class Chunk:
    """One piece of a relation as a store reads it, in any order.

    Parameters
    ----------
    keys : int64 (c, m), the store's row keys; their lexicographic order is the record order.
    numbers : float64 (c, p), the attributes that are read as numbers, in order; arbitrary where not
        valid. Dates are days and timestamps are microseconds since 1970-01-01 (UTC).
    codes : int32 (c, q), the other attributes in order, including ordinal ones, as positions in
        their dictionaries; -1 where not valid. None if there are none.
    valid : bool (c, d) over all attributes in order; None if no value is NULL.
    wide : names of integer or decimal attributes with a value that float64 cannot represent.
    """

    keys: NDArray[np.int64]
    numbers: NDArray[np.float64]
    codes: NDArray[np.int32] | None = None
    valid: NDArray[np.bool_] | None = None
    wide: frozenset[str] = frozenset()


def bytes_per_record(n_columns: int, coded: int = 0, different: float = 1.0) -> int:
    """Approximate bytes per record while a method runs.

    Parameters
    ----------
    n_columns : number of columns to read.
    coded : number of columns that are not numeric.
    different : share of records that differ from all earlier ones, if columns are mixed.
    """
    bytes_if_different = _COPIES_OF_THE_MATRIX * (n_columns - coded) + _COPIES_OF_CODES * coded
    bytes_if_equal = _COPIES_OF_EACH * n_columns if coded else bytes_if_different
    return _BYTES_PER_RECORD + round(
        8 * (bytes_if_equal + different * (bytes_if_different - bytes_if_equal))
    )


def bytes_on_disk(n_columns: int) -> int:
    """Approximate bytes in memory per record whose values are spilled to disk."""
    # Key, class and position in it; one column at a time, and the values that classes release.
    return _BYTES_PER_RECORD + 8 * n_columns


def require_memory(
    n_records: int,
    n_columns: int,
    limit: int | None,
    read: str,
    disk: bool = False,
    coded: int = 0,
) -> int:
    """Check that a method's approximate need of memory is within a limit, and return it in bytes.

    Parameters
    ----------
    limit : in bytes; None for no limit.
    read : a verb phrase for the message, as in ``would be read``.
    disk : True if values are spilled to disk.
    coded : number of columns that are not numeric.

    Raises
    ------
    MemoryLimit : it is above the limit.
    """
    each = bytes_on_disk(n_columns) if disk else bytes_per_record(n_columns, coded)
    if limit is not None and n_records * each > limit:
        raise MemoryLimit.exceeded(
            "The job needs",
            limit,
            detail=f"{n_records} records {read}, at about {each} bytes each.",
            hint="Raise the limit (`memory_limit`), or use fewer quasi-identifiers.",
        )
    return n_records * each


def microdata_from_chunks(
    attributes: Sequence[Attribute],
    chunks: Iterable[Chunk],
    *,
    categories: Sequence[Sequence[str]] = (),
    key_width: int = 1,
    memory_limit: int | None = None,
    disk: Disk | None = None,
) -> Microdata:
    """Assemble the chunks of a relation in record order.

    Parameters
    ----------
    attributes : the quasi-identifiers, in the order of the chunks' columns.
    chunks : the pieces; the result does not depend on how rows are split.
    categories : the dictionary of each coded attribute: its values by code point.
    key_width : the number of key columns, m.
    memory_limit : bytes that the job may use; None for no limit.
    disk : where to spill values; None to keep them in memory.

    Raises
    ------
    NonFiniteValue : an attribute holds NaN or infinity.
    ValueNotInOrder : an ordinal attribute has a value that is missing from its order.
    DuplicateKeys : two rows have the same key.
    MemoryLimit : the records need more memory than allowed.
    """
    attributes = tuple(attributes)
    n_numbers = sum(not attribute.kind.is_coded for attribute in attributes)
    widths = (key_width, n_numbers, len(categories), len(attributes))
    records = _MemoryRecords(widths) if disk is None else _DiskRecords(widths, disk)
    n = 0
    for chunk in chunks:
        n += len(chunk.keys)
        require_memory(
            n,
            len(attributes),
            memory_limit,
            "were read so far",
            disk is not None,
            len(categories),
        )
        records.add(chunk)
    keys, numbers, codes, valid = records.arrays_by_record()
    wide = records.wide
    if not records.ascending and bool((keys[1:] == keys[:-1]).all(axis=1).any()):
        raise duplicate_keys()
    if any(attribute.kind is Kind.ORDINAL for attribute in attributes):
        numbers, codes, categories = ranked(attributes, numbers, codes, categories)
    if not records.finite:
        _require_finite(attributes, numbers, valid)

    return Microdata(
        attributes=attributes,
        keys=np.ascontiguousarray(keys),
        numbers=np.ascontiguousarray(numbers),
        codes=np.ascontiguousarray(codes, np.int32),
        categories=tuple(tuple(values) for values in categories),
        valid=None if valid is None or bool(valid.all()) else valid,
        wide=wide,
    )


def chunk_from_columns(
    keys: NDArray[np.int64],
    columns: NDArray[np.float64],
    valid: NDArray[np.bool_] | None,
    attributes: Sequence[Attribute],
) -> Chunk:
    """Build a chunk from one column per attribute, as stores read them.

    Parameters
    ----------
    columns : float64 (c, d), numbers and codes; arbitrary where not valid.
    valid : bool (c, d); None if no value is NULL.
    """
    numeric = [not attribute.kind.is_coded for attribute in attributes]
    wide = frozenset(
        attribute.name
        for position, attribute in enumerate(attributes)
        if is_wide(
            columns[:, position] if valid is None else columns[valid[:, position], position],
            attribute,
        )
    )
    if all(numeric):
        return Chunk(keys, columns, None, valid, wide)
    others = [not number for number in numeric]
    codes = columns[:, others].astype(np.int32)
    if valid is not None:
        codes[~valid[:, others]] = -1
    return Chunk(keys, columns[:, numeric], codes, valid, wide)


def encode(values: Iterable[str | None]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Dictionary encoding: codes int32 (n,), -1 for None, and the values by code point."""
    texts = list(values)
    dictionary = sorted({value for value in texts if value is not None})
    position: dict[str | None, int] = {value: code for code, value in enumerate(dictionary)}
    position[None] = -1
    codes = np.fromiter((position[value] for value in texts), np.int32, count=len(texts))
    return codes, tuple(dictionary)


class _GrowingArray:
    """An array that grows by pieces of rows; a single piece is not copied.

    Parameters
    ----------
    width : number of columns.
    kind : dtype of the values.
    """

    def __init__(self, width: int, kind: Any) -> None:
        self._width, self._kind = width, np.dtype(kind)
        self._single_piece: NDArray[Any] | None = None
        self._bytes = bytearray()

    def add(self, piece: NDArray[Any]) -> None:
        """Append rows, (c, width)."""
        if not self._width or not len(piece):
            return
        piece = np.ascontiguousarray(piece, self._kind)
        if self._single_piece is None and not self._bytes:
            self._single_piece = piece
            return
        for rows in (self._single_piece, piece):
            if rows is not None:
                self._bytes += rows.data.cast("B")
        self._single_piece = None

    def done(self, n: int) -> NDArray[Any]:
        """The array, (n, width)."""
        if self._single_piece is not None:
            return self._single_piece
        if not self._bytes:
            return np.empty((n, self._width), self._kind)
        return np.frombuffer(self._bytes, self._kind).reshape(n, self._width)


class _MemoryRecords:
    """Chunks in memory, with properties that are checked as chunks arrive.

    Parameters
    ----------
    widths : number of columns of keys, numbers, codes and validity.
    """

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        kinds = (np.int64, np.float64, np.int32, np.bool_)
        self._parts = [
            _GrowingArray(width, kind) for width, kind in zip(widths, kinds, strict=True)
        ]
        self._n, self._width, self._has_nulls = 0, widths[3], False
        self._last: int | None = None
        self.wide = frozenset[str]()
        self.ascending = widths[0] == 1
        self.finite = True

    def add(self, chunk: Chunk) -> None:
        """Append a chunk."""
        n = len(chunk.keys)
        if n == 0:
            return
        self.wide |= chunk.wide
        self.finite = self.finite and bool(np.isfinite(chunk.numbers).all())
        if self.ascending:
            column = chunk.keys[:, 0]
            follows = self._last is None or int(column[0]) > self._last
            self.ascending = follows and bool((column[1:] > column[:-1]).all())
            self._last = int(column[-1])
        keys, numbers, codes, valid = self._parts
        keys.add(chunk.keys)
        numbers.add(chunk.numbers)
        codes.add(_codes(chunk))
        if chunk.valid is not None and not self._has_nulls:
            self._has_nulls = True
            valid.add(np.ones((self._n, self._width), bool))
        if self._has_nulls:
            valid.add(_valid(chunk, self._width))
        self._n += n

    def arrays_by_record(self) -> tuple[Any, Any, Any, Any]:
        """Keys, numbers, codes and validity, (n, width) each; validity is None if all is valid."""
        keys, numbers, codes, valid = self._parts
        arrays = [part.done(self._n) for part in (keys, numbers, codes)]
        if self._has_nulls:
            arrays.append(valid.done(self._n))
        self._parts.clear()
        order = None if self.ascending else _record_order(arrays[0])
        if order is not None:
            arrays = [array[order] for array in arrays]
        return arrays[0], arrays[1], arrays[2], arrays[3] if self._has_nulls else None


class _DiskRecords:
    """Chunks whose values are written to disk; keys stay in memory.

    Parameters
    ----------
    widths : as in ``_MemoryRecords``.
    """

    def __init__(self, widths: tuple[int, int, int, int], disk: Disk) -> None:
        self._disk, self._width = disk, widths[3]
        self._keys = [np.empty((0, widths[0]), np.int64)]
        kinds = (np.float64, np.int32, np.bool_)
        self._rows = [
            Rows(disk, width, kind) for width, kind in zip(widths[1:], kinds, strict=True)
        ]
        self._has_nulls = False
        self.wide = frozenset[str]()
        # Checked once all chunks have arrived.
        self.ascending = self.finite = False

    def add(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self._keys.append(chunk.keys)
        parts: tuple[NDArray[Any], ...] = chunk.numbers, _codes(chunk), _valid(chunk, self._width)
        for rows, part in zip(self._rows, parts, strict=True):
            rows.add(part)
        self._has_nulls |= chunk.valid is not None
        self.wide |= chunk.wide

    def arrays_by_record(self) -> tuple[Any, Any, Any, Any]:
        """As in ``_MemoryRecords``."""
        keys = np.concatenate(self._keys)
        self._keys.clear()
        numbers, codes, valid = (rows.done() for rows in self._rows)
        order = _record_order(keys)
        if order is not None:
            keys = keys[order]
            numbers, codes, valid = (
                in_order(self._disk, rows, order) for rows in (numbers, codes, valid)
            )
        return keys, numbers, codes, valid if self._has_nulls else None


def _codes(chunk: Chunk) -> NDArray[np.int32]:
    return np.empty((len(chunk.keys), 0), np.int32) if chunk.codes is None else chunk.codes


def _valid(chunk: Chunk, width: int) -> NDArray[np.bool_]:
    return np.ones((len(chunk.keys), width), bool) if chunk.valid is None else chunk.valid


def _record_order(keys: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Positions that sort the keys; None if they are sorted."""
    if keys.shape[1] == 1:
        column = keys[:, 0]
        return None if bool((column[1:] >= column[:-1]).all()) else np.argsort(column)
    return np.lexsort(keys.T[::-1])


def _require_finite(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    valid: NDArray[np.bool_] | None,
) -> None:
    if valid is None and all(np.isfinite(numbers[piece]).all() for piece in pieces(len(numbers))):
        return
    column = 0
    for position, attribute in enumerate(attributes):
        if not attribute.kind.is_numeric:
            continue
        bad = ~np.isfinite(numbers[:, column])
        if valid is not None:
            bad &= valid[:, position]
        if bad.any():
            raise non_finite(attribute, int(bad.sum()), len(bad))
        column += 1


def duplicate_keys() -> DuplicateKeys:
    """Build the error for two rows with the same key."""
    return DuplicateKeys(
        "The row key is not unique.",
        hint='Name columns that are unique for each row: `key=["…"]`.',
    )


def non_finite(attribute: Attribute, count: int, rows: int) -> NonFiniteValue:
    """Build the error for a column with NaN or infinity in ``count`` of its rows."""
    value_description = (
        "infinity" if attribute.kind in (Kind.DATE, Kind.TIMESTAMP) else "NaN or infinity"
    )
    return NonFiniteValue(
        f'Column "{attribute.name}" holds {value_description} in {count} of {rows} rows.',
        hint="Exclude these rows in a view, or set them to NULL and choose how NULLs are treated.",
    )


def with_progress(
    chunks: Iterable[Chunk], rows: int, progress: Callable[[float], None]
) -> Iterator[Chunk]:
    """Yield the chunks, and report the share of roughly ``rows`` rows after each."""
    done = 0
    for chunk in chunks:
        done += len(chunk.keys)
        progress(min(done / rows, 1.0) if rows > 0 else 0.0)
        yield chunk
