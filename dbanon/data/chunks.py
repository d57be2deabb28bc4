"""Assemble the chunks of a relation into microdata.

A *store*, which is the backend for a kind of database, reads the rows of a relation in chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.pieces import Disk, DiskArray, reorder_on_disk, split_records
from dbanon.data.schema import Attribute, Kind, move_ordinals_to_numbers
from dbanon.errors import DuplicateKeys, NonFiniteValue


@dataclass(frozen=True)
class Chunk:
    """Some rows of a relation as a store reads them, in any order.

    Parameters
    ----------
    keys : int64 (c, m), the store's row keys, which identify rows by m integers. Their
        lexicographic order is the record order.
    numbers : float64 (c, p), the attributes that are read as numbers, in order; arbitrary for NULL.
        Dates are days and timestamps are microseconds since 1970-01-01 (UTC).
    codes : int32 (c, q), the other attributes in order, including ordinal ones, as positions in
        the dictionaries of their values; -1 for NULL. None if there are no such attributes.
    valid : bool (c, d), which values are not NULL, for all attributes in order; None if no value is
        NULL.
    wide : names of attributes with a value that float64 may be unable to represent exactly.
    """

    keys: NDArray[np.int64]
    numbers: NDArray[np.float64]
    codes: NDArray[np.int32] | None = None
    valid: NDArray[np.bool_] | None = None
    wide: frozenset[str] = frozenset()


def microdata_from_chunks(
    attributes: Sequence[Attribute],
    chunks: Iterable[Chunk],
    *,
    categories: Sequence[Sequence[str]] = (),
    key_width: int = 1,
    require_memory: Callable[[int], None] | None = None,
    disk: Disk | None = None,
) -> Microdata:
    """Assemble the chunks of a relation into microdata, whose records are in the order of keys.

    Parameters
    ----------
    attributes : the quasi-identifiers, in the order of the chunks' columns.
    chunks : the rows of the relation. The result does not depend on how rows are split into chunks,
        or on their order.
    categories : the dictionary of each coded attribute: its values, sorted by code point.
    key_width : the number of columns of the row key, m.
    require_memory : called with the number of records read so far; raises MemoryLimit if they need
        more memory than allowed. None for no limit.
    disk : where to spill values; None to keep them in memory.

    Raises
    ------
    NonFiniteValue : an attribute holds NaN or infinity.
    ValueNotInOrder : an ordinal attribute has a value that is missing from its order.
    DuplicateKeys : two rows have the same key.
    MemoryLimit : the records need more memory than allowed.
    """
    attributes = tuple(attributes)
    widths = _Widths(
        keys=key_width,
        numbers=len(attributes) - len(categories),
        codes=len(categories),
        valid=len(attributes),
    )
    records = _MemoryRecords(widths) if disk is None else _DiskRecords(widths, disk)
    n_read = 0
    for chunk in chunks:
        n_read += len(chunk.keys)
        if require_memory is not None:
            require_memory(n_read)
        records.add(chunk)
    keys, numbers, codes, valid = records.arrays_by_record()
    # Strictly ascending keys are distinct; only others need a comparison of neighbors.
    if not records.is_ascending and bool((keys[1:] == keys[:-1]).all(axis=1).any()):
        raise duplicate_keys_error()
    chunk = Chunk(keys, numbers, codes, valid, records.wide)
    return microdata_of_records(attributes, chunk, categories, is_finite=records.is_finite)


def microdata_of_records(
    attributes: tuple[Attribute, ...],
    records: Chunk,
    categories: Sequence[Sequence[str]] = (),
    *,
    is_finite: bool = False,
) -> Microdata:
    """Make microdata of all records, which are in the order of their keys.

    Parameters
    ----------
    attributes, categories : as for ``microdata_from_chunks``.
    is_finite : True if all numbers are known to be finite.

    Raises
    ------
    NonFiniteValue : an attribute holds NaN or infinity.
    ValueNotInOrder : an ordinal attribute has a value that is missing from its order.
    """
    numbers, codes, valid = records.numbers, records.codes, records.valid
    if codes is None:
        codes = np.empty((len(numbers), 0), np.int32)
    # Stores read ordinal attributes as codes.
    if Kind.ORDINAL in [attribute.kind for attribute in attributes]:
        numbers, codes, categories = move_ordinals_to_numbers(
            attributes, numbers, codes, categories
        )
    if not is_finite:
        _require_finite(attributes, numbers, valid)
    return Microdata(
        attributes=attributes,
        keys=np.ascontiguousarray(records.keys),
        numbers=np.ascontiguousarray(numbers),
        codes=np.ascontiguousarray(codes, np.int32),
        categories=tuple(map(tuple, categories)),
        valid=None if valid is None or bool(valid.all()) else valid,
        wide=records.wide,
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
    keys : int64 (c, m), the row keys.
    columns : float64 (c, d), a number or a code for each value; arbitrary for NULL.
    valid : bool (c, d), which values are not NULL; None if no value is NULL.
    """
    is_read_as_number = [not attribute.kind.is_coded for attribute in attributes]
    wide = frozenset(
        attribute.name
        for position, attribute in enumerate(attributes)
        if is_wide(
            columns[:, position] if valid is None else columns[valid[:, position], position],
            attribute,
        )
    )
    if all(is_read_as_number):
        return Chunk(keys, columns, codes=None, valid=valid, wide=wide)
    is_coded = [attribute.kind.is_coded for attribute in attributes]
    codes = columns[:, is_coded].astype(np.int32)
    if valid is not None:
        codes[~valid[:, is_coded]] = -1
    return Chunk(keys, columns[:, is_read_as_number], codes, valid, wide)


def encode_texts(values: Iterable[str | None]) -> tuple[NDArray[np.int32], tuple[str, ...]]:
    """Encode texts as positions in a dictionary that is sorted by code point.

    Returns the codes, int32 (n,), with -1 for None, and the dictionary.
    """
    texts = list(values)
    dictionary = sorted({value for value in texts if value is not None})
    code_of: dict[str | None, int] = {value: code for code, value in enumerate(dictionary)}
    code_of[None] = -1
    codes = np.fromiter((code_of[value] for value in texts), np.int32, count=len(texts))
    return codes, tuple(dictionary)


class _GrowingArray:
    """An array that grows by batches of rows; a single batch is not copied.

    Parameters
    ----------
    width : number of columns.
    dtype : dtype of the values.
    """

    def __init__(self, width: int, dtype: DTypeLike) -> None:
        self._width, self._dtype = width, np.dtype(dtype)
        self._single_batch: AnyArray | None = None
        self._bytes = bytearray()

    def add(self, batch: AnyArray) -> None:
        """Append rows, (c, width)."""
        if not self._width or not len(batch):
            return
        batch = np.ascontiguousarray(batch, self._dtype)
        if self._single_batch is None and not self._bytes:
            self._single_batch = batch
            return
        for rows in (self._single_batch, batch):
            if rows is not None:
                self._bytes += rows.data.cast("B")
        self._single_batch = None

    def to_array(self, n: int) -> AnyArray:
        """The array of all n rows, (n, width)."""
        if self._single_batch is not None:
            return self._single_batch
        if not self._bytes:
            return np.empty((n, self._width), self._dtype)
        return np.frombuffer(self._bytes, self._dtype).reshape(n, self._width)


# The keys, numbers, codes and validity of all records.
_RecordArrays: TypeAlias = tuple[
    NDArray[np.int64], NDArray[np.float64], NDArray[np.int32], "NDArray[np.bool_] | None"
]


class _Widths(NamedTuple):
    """The number of columns of each array of a chunk; ``valid`` has one for each attribute."""

    keys: int
    numbers: int
    codes: int
    valid: int


class _MemoryRecords:
    """Collects chunks in memory, and checks their properties as they arrive.

    After the last chunk, ``is_ascending`` is True if the row keys have one column and are strictly
    ascending, and ``is_finite`` is True if all numbers are finite. ``wide`` holds the names of
    attributes with a value that float64 may be unable to represent exactly.

    Parameters
    ----------
    widths : the number of columns of each array of the chunks.
    """

    def __init__(self, widths: _Widths) -> None:
        dtypes = (np.int64, np.float64, np.int32, np.bool_)
        self._arrays = [
            _GrowingArray(width, dtype) for width, dtype in zip(widths, dtypes, strict=True)
        ]
        self._n, self._n_attributes, self._has_nulls = 0, widths.valid, False
        self._last_key: int | None = None
        self.wide = frozenset[str]()
        self.is_ascending = widths.keys == 1
        self.is_finite = True

    def add(self, chunk: Chunk) -> None:
        """Append a chunk."""
        n = len(chunk.keys)
        if n == 0:
            return
        self.wide |= chunk.wide
        self.is_finite = self.is_finite and bool(np.isfinite(chunk.numbers).all())
        if self.is_ascending:
            column = chunk.keys[:, 0]
            is_above_last = self._last_key is None or int(column[0]) > self._last_key
            self.is_ascending = is_above_last and bool((column[1:] > column[:-1]).all())
            self._last_key = int(column[-1])
        keys, numbers, codes, valid = self._arrays
        keys.add(chunk.keys)
        numbers.add(chunk.numbers)
        codes.add(_codes_or_empty(chunk))
        if chunk.valid is not None and not self._has_nulls:
            self._has_nulls = True
            # No value of the earlier chunks is NULL.
            valid.add(np.ones((self._n, self._n_attributes), bool))
        if self._has_nulls:
            valid.add(_validity_or_all_true(chunk, self._n_attributes))
        self._n += n

    def arrays_by_record(self) -> _RecordArrays:
        """Return all records in the order of their keys: keys, numbers, codes and validity.

        They are arrays (n, …) like those of ``Chunk``; validity is None if no value is NULL.
        """
        keys, numbers, codes = (array.to_array(self._n) for array in self._arrays[:3])
        valid = self._arrays[3].to_array(self._n) if self._has_nulls else None
        self._arrays.clear()
        order = None if self.is_ascending else _record_order(keys)
        if order is not None:
            keys, numbers, codes = keys[order], numbers[order], codes[order]
            valid = None if valid is None else valid[order]
        return keys, numbers, codes, valid


class _DiskRecords:
    """Collects chunks, writing their values to disk; keys stay in memory.

    Parameters
    ----------
    widths : the number of columns of each array of the chunks.
    disk : the storage for the values.
    """

    def __init__(self, widths: _Widths, disk: Disk) -> None:
        self._disk, self._n_attributes = disk, widths.valid
        self._keys = [np.empty((0, widths.keys), np.int64)]
        self._n = 0
        self._numbers = DiskArray(disk, widths.numbers, np.float64)
        self._codes = DiskArray(disk, widths.codes, np.int32)
        # The validity of all values; None until a value is NULL.
        self._valid: DiskArray | None = None
        self.wide = frozenset[str]()
        self.is_finite = True
        # False means "not known": the caller then checks the complete keys.
        self.is_ascending = False

    def add(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self.is_finite = self.is_finite and bool(np.isfinite(chunk.numbers).all())
        self._keys.append(chunk.keys)
        self._numbers.add(chunk.numbers)
        self._codes.add(_codes_or_empty(chunk))
        if chunk.valid is not None and self._valid is None:
            self._valid = DiskArray(self._disk, self._n_attributes, np.bool_)
            # No value of the earlier chunks is NULL.
            for piece in split_records(self._n):
                self._valid.add(np.ones((piece.stop - piece.start, self._n_attributes), bool))
        if self._valid is not None:
            self._valid.add(_validity_or_all_true(chunk, self._n_attributes))
        self._n += len(chunk.keys)
        self.wide |= chunk.wide

    def arrays_by_record(self) -> _RecordArrays:
        """Return all records in the order of their keys; see ``_MemoryRecords``."""
        keys = np.concatenate(self._keys)
        self._keys.clear()
        numbers, codes = self._numbers.to_array(), self._codes.to_array()
        valid = None if self._valid is None else self._valid.to_array()
        order = _record_order(keys)
        if order is not None:
            keys = keys[order]
            numbers = reorder_on_disk(self._disk, numbers, order)
            codes = reorder_on_disk(self._disk, codes, order)
            valid = None if valid is None else reorder_on_disk(self._disk, valid, order)
        return keys, numbers, codes, valid


def _codes_or_empty(chunk: Chunk) -> NDArray[np.int32]:
    """Return the codes of a chunk, int32 (c, q); if it has none, an empty array with q = 0."""
    return np.empty((len(chunk.keys), 0), np.int32) if chunk.codes is None else chunk.codes


def _validity_or_all_true(chunk: Chunk, n_attributes: int) -> NDArray[np.bool_]:
    """Return which values of a chunk are not NULL, bool (c, d), even if none is NULL."""
    return np.ones((len(chunk.keys), n_attributes), bool) if chunk.valid is None else chunk.valid


def _record_order(keys: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The indices that sort the keys, int64 (n,); None if the keys are known to be sorted."""
    if keys.shape[1] == 1:
        column = keys[:, 0]
        return None if bool((column[1:] >= column[:-1]).all()) else np.argsort(column)
    return np.lexsort(keys.T[::-1])


def _require_finite(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    valid: NDArray[np.bool_] | None,
) -> None:
    """Check that all numbers except NULLs are finite; raises NonFiniteValue.

    Parameters
    ----------
    numbers : float64 (n, p), the numeric attributes, with ordinal ones as ranks.
    valid : bool (n, d), which values of all attributes are not NULL; None if no value is NULL.
    """
    # Check slices of records in turn: the temporary arrays for all records may not fit into memory.
    if valid is None and all(
        np.isfinite(numbers[piece]).all() for piece in split_records(len(numbers))
    ):
        return
    number_column = 0
    for position, attribute in enumerate(attributes):
        if not attribute.kind.is_numeric:
            continue
        is_invalid = ~np.isfinite(numbers[:, number_column])
        if valid is not None:
            is_invalid &= valid[:, position]
        if is_invalid.any():
            raise non_finite_error(attribute, int(is_invalid.sum()), len(is_invalid))
        number_column += 1


def duplicate_keys_error() -> DuplicateKeys:
    """Build the error for two rows with the same key."""
    return DuplicateKeys(
        "The row key is not unique.",
        hint='Name columns that are unique for each row: `key=["…"]`.',
    )


def non_finite_error(attribute: Attribute, n_non_finite: int, n_rows: int) -> NonFiniteValue:
    """Build the error for a column with NaN or infinity in ``n_non_finite`` of ``n_rows`` rows."""
    # Dates and timestamps can be infinite, as in PostgreSQL, but not NaN.
    value_description = (
        "infinity" if attribute.kind in (Kind.DATE, Kind.TIMESTAMP) else "NaN or infinity"
    )
    return NonFiniteValue(
        f'Column "{attribute.name}" holds {value_description} in {n_non_finite} of {n_rows} rows.',
        hint="Exclude these rows in a view, or set them to NULL and choose how NULLs are treated.",
    )


def with_progress(
    chunks: Iterable[Chunk], n_rows: int, progress: Callable[[float], None]
) -> Iterator[Chunk]:
    """Yield the chunks; after each, report the share of rows read so far.

    Parameters
    ----------
    n_rows : the approximate number of rows of all chunks.
    progress : a function that is called with the share, 0 to 1.
    """
    n_read = 0
    for chunk in chunks:
        n_read += len(chunk.keys)
        progress(min(n_read / n_rows, 1.0) if n_rows > 0 else 0.0)
        yield chunk
