"""Chunks: a relation in the pieces that a store reads, put together as microdata."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.microdata import Microdata, is_wide
from dbanon.data.ranks import ranked
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DuplicateKeys, MemoryLimit, NonFiniteValue

# Standardized points, the kernel's copy and its index stand beside the matrix while a method runs.
_COPIES_OF_THE_MATRIX = 4


_BYTES_PER_RECORD = 64


@dataclass(frozen=True)
class Chunk:
    """One piece of a relation as a store reads it, in any order.

    Parameters
    ----------
    keys : int64 (c, m), what the store finds each row by; sorted lexicographically it is the
        record order.
    numbers : float64 (c, p), the attributes that are read as numbers, in their order; anything
        where not valid. Dates are days and timestamps are microseconds since 1970-01-01 (UTC).
    codes : int32 (c, q), the other attributes in their order, ordinal ones among them, as positions
        in the values of their dictionary; -1 where not valid. None when there are none.
    valid : bool (c, d) over all attributes in their order, or None when no value is NULL.
    wide : names of integer or decimal attributes with a value that float64 cannot hold exactly.
    """

    keys: NDArray[np.int64]
    numbers: NDArray[np.float64]
    codes: NDArray[np.int32] | None = None
    valid: NDArray[np.bool_] | None = None
    wide: frozenset[str] = frozenset()


def bytes_per_record(n_columns: int) -> int:
    """About the memory of a record while a method runs, of which so many columns are read."""
    return _BYTES_PER_RECORD + 8 * _COPIES_OF_THE_MATRIX * n_columns


def require_memory(n_records: int, n_columns: int, limit: int | None, read: str) -> int:
    """About the bytes that a method takes for so many records, within a limit unless it is None.

    Parameters
    ----------
    read : what became of the records, for the message: ``would be read``.

    Raises
    ------
    MemoryLimit : it is more.
    """
    each = bytes_per_record(n_columns)
    if limit is not None and n_records * each > limit:
        raise MemoryLimit.over(
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
) -> Microdata:
    """Put the chunks of a relation together, in record order.

    Parameters
    ----------
    attributes : the quasi-identifiers, in the order of the chunks' columns.
    chunks : the pieces; how the rows are cut never changes the result.
    categories : the dictionary of each attribute that is read by its codes: its values by code
        point.
    key_width : the number of key columns, m.
    memory_limit : bytes that the job may use, or None for no limit.

    Raises
    ------
    NonFiniteValue : an attribute holds NaN or infinity.
    ValueNotInOrder : an ordinal attribute holds a value that its order has not.
    DuplicateKeys : two rows have the same key.
    MemoryLimit : the records would need more memory than allowed.
    """
    attributes = tuple(attributes)
    n_numbers = sum(not attribute.kind.is_coded for attribute in attributes)
    pieces: list[Chunk] = []
    n = 0
    for chunk in chunks:
        n += len(chunk.keys)
        require_memory(n, len(attributes), memory_limit, "were read so far")
        pieces.append(chunk)

    keys = _join([piece.keys for piece in pieces], (0, key_width), np.int64)
    numbers = _join([piece.numbers for piece in pieces], (0, n_numbers), np.float64)
    valid = _join_valid(pieces, len(attributes))
    codes = _join(
        [
            np.empty((len(piece.keys), 0)) if piece.codes is None else piece.codes
            for piece in pieces
        ],
        (0, len(categories)),
        np.int32,
    )
    wide = frozenset[str]().union(*(piece.wide for piece in pieces))
    pieces.clear()

    order = _record_order(keys)
    if order is not None:
        keys, numbers = keys[order], numbers[order]
        valid = None if valid is None else valid[order]
        codes = codes[order]
    if len(keys) > 1 and bool((keys[1:] == keys[:-1]).all(axis=1).any()):
        raise DuplicateKeys(
            "The row key is not unique.",
            hint='Name columns that tell every row from every other: `key=["…"]`.',
        )
    if any(attribute.kind is Kind.ORDINAL for attribute in attributes):
        numbers, codes, categories = ranked(attributes, numbers, codes, categories)
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
    """A chunk of one column an attribute, as stores read them.

    Parameters
    ----------
    columns : float64 (c, d), numbers, and codes of what is no number; anything where not valid.
    valid : bool (c, d), or None when no value is NULL.
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


def _join(arrays: list[Any], empty_shape: tuple[int, int], dtype: Any) -> Any:
    if not arrays:
        return np.empty(empty_shape, dtype)
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _join_valid(pieces: list[Chunk], width: int) -> NDArray[np.bool_] | None:
    if all(piece.valid is None for piece in pieces):
        return None
    return np.concatenate(
        [
            np.ones((len(piece.keys), width), bool) if piece.valid is None else piece.valid
            for piece in pieces
        ]
    )


def _record_order(keys: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Positions that sort the keys, or None when they are sorted already."""
    if keys.shape[1] == 1:
        column = keys[:, 0]
        return None if bool((column[1:] >= column[:-1]).all()) else np.argsort(column)
    return np.lexsort(keys.T[::-1])


def _require_finite(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    valid: NDArray[np.bool_] | None,
) -> None:
    column = 0
    for position, attribute in enumerate(attributes):
        if not attribute.kind.is_numeric:
            continue
        bad = ~np.isfinite(numbers[:, column])
        if valid is not None:
            bad &= valid[:, position]
        if bad.any():
            what = (
                "infinity" if attribute.kind in (Kind.DATE, Kind.TIMESTAMP) else "NaN or infinity"
            )
            raise NonFiniteValue(
                f'Column "{attribute.name}" holds {what} in {int(bad.sum())} of {len(bad)} rows.',
                hint="Exclude these rows in a view, or set them to NULL and choose how NULLs are"
                " treated.",
            )
        column += 1


def watched(
    chunks: Iterable[Chunk], rows: int, progress: Callable[[float], None]
) -> Iterator[Chunk]:
    """The chunks, with the share of about so many rows told after each."""
    done = 0
    for chunk in chunks:
        done += len(chunk.keys)
        progress(min(done / rows, 1.0) if rows > 0 else 0.0)
        yield chunk
