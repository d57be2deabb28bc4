"""Rows of a binary COPY, taken apart and put together as plain Python does it."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon import kernels

Fields = list[bytes | None]
Row = tuple[Fields, Fields]

WIDTHS = (6, 8, 0)


def packed(fields: Fields) -> bytes:
    return b"".join(
        struct.pack(">i", -1) if field is None else struct.pack(">i", len(field)) + field
        for field in fields
    )


def copied(rows: list[Row]) -> bytes:
    return b"".join(
        struct.pack(">h", len(first) + len(others)) + packed(first) + packed(others)
        for first, others in rows
    )


def array(found: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(found, np.uint8)


def rows_of(others: int) -> st.SearchStrategy[list[Row]]:
    first = st.tuples(
        *(st.none() | st.binary(min_size=width, max_size=width) for width in WIDTHS)
    ).map(list)
    more = st.lists(st.none() | st.binary(max_size=9), min_size=others, max_size=others)
    return st.lists(st.tuples(first, more), max_size=12)


@given(st.integers(0, 3).flatmap(lambda others: st.tuples(st.just(others), rows_of(others))))
def test_rows_fall_apart_and_come_together(case: tuple[int, list[Row]]) -> None:
    others, rows = case
    heads, tails, ends = kernels.split_rows(array(copied(rows)), WIDTHS, others)
    zeros = [
        b"".join(
            packed([field]) + (bytes(width) if field is None else b"")
            for field, width in zip(first, WIDTHS, strict=True)
        )
        for first, _ in rows
    ]
    assert heads.tobytes() == b"".join(zeros)
    assert tails.tobytes() == b"".join(packed(more) for _, more in rows)
    assert ends.tolist() == np.cumsum([len(packed(more)) for _, more in rows]).tolist()
    if not others:
        return
    # Backwards, each behind the one head there is.
    join = kernels.RowJoin(others + 1, array(packed([b"head"])), np.array([8]), tails, ends)
    order = np.arange(len(rows))[::-1].copy()
    found = join.join(np.zeros(len(rows), np.int64), order, 0, len(rows)).tobytes()
    assert found == copied([([b"head"], more) for _, more in reversed(rows)])
    middle = join.join(np.zeros(len(rows), np.int64), order, len(rows) // 2, len(rows)).tobytes()
    assert found.endswith(middle)


@pytest.mark.parametrize(
    "broken",
    [
        b"\x00",
        b"\x00\x02" + packed([b"12345678"]),
        b"\x00\x03" + packed([b"12345678", b"a"]),
        b"\x00\x02" + packed([b"1234567", b"a"]),
        b"\x00\x02" + packed([b"12345678"]) + struct.pack(">i", -2),
        b"\x00\x02" + packed([b"12345678"]) + struct.pack(">i", 2**31 - 1) + b"a",
        b"\x00\x02" + packed([b"12345678", b"a"]) + b"\xff",
        b"\x00\x02" + packed([b"12345678"]) + b"\x00\x00\x00",
        b"\xff\xff" + packed([b"12345678", b"a"]),
    ],
)
def test_what_is_no_row_is_refused(broken: bytes) -> None:
    with pytest.raises(ValueError, match="no rows"):
        kernels.split_rows(array(broken), [8], 1)
    # Behind a row that is one, too.
    with pytest.raises(ValueError, match="no rows"):
        kernels.split_rows(array(copied([([bytes(8)], [b"a"])]) + broken), [8], 1)


@pytest.mark.parametrize(("widths", "others"), [([-1], 0), ([2**16 + 1], 0), ([], 1665)])
def test_shapes_that_no_row_has(widths: list[int], others: int) -> None:
    with pytest.raises(ValueError, match="1664"):
        kernels.split_rows(array(b""), widths, others)


def test_rows_are_put_together_from_what_is_there() -> None:
    one = array(packed([b"a"]))
    for ends in ([6], [5, 4], [-1], [5, 6]):
        with pytest.raises(ValueError, match="ends must rise"):
            kernels.RowJoin(2, one, np.array(ends), one, np.array([5]))
        with pytest.raises(ValueError, match="ends must rise"):
            kernels.RowJoin(2, one, np.array([5]), one, np.array(ends))
    for fields in (0, 1665):
        with pytest.raises(ValueError, match="fields"):
            kernels.RowJoin(fields, one, np.array([5]), one, np.array([5]))
    join = kernels.RowJoin(2, one, np.array([5]), one, np.array([5]))
    none = np.zeros(1, np.int64)
    for head_of, tail_of in (([1], [0]), ([-1], [0]), ([0], [1]), ([0], [-1])):
        with pytest.raises(ValueError, match="that is none"):
            join.join(np.array(head_of), np.array(tail_of), 0, 1)
    for start, stop in ((0, 2), (1, 0)):
        with pytest.raises(ValueError, match="a head for each row"):
            join.join(none, none, start, stop)
    with pytest.raises(ValueError, match="a head for each row"):
        join.join(none, np.zeros(2, np.int64), 0, 1)
    assert join.join(none, None, 0, 1).tobytes() == b"\x00\x02" + packed([b"a"])
    assert len(join.join(none, none, 1, 1)) == 0
