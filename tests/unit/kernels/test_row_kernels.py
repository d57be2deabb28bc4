"""Rows of a binary COPY, taken apart and put together as plain Python does it."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import Counter
from typing import Any

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


def array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


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
    data = join.join(np.zeros(len(rows), np.int64), order, 0, len(rows)).tobytes()
    assert data == copied([([b"head"], more) for _, more in reversed(rows)])
    middle = join.join(np.zeros(len(rows), np.int64), order, len(rows) // 2, len(rows)).tobytes()
    assert data.endswith(middle)


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
    # Also after a valid row.
    with pytest.raises(ValueError, match="no rows"):
        kernels.split_rows(array(copied([([bytes(8)], [b"a"])]) + broken), [8], 1)


@pytest.mark.parametrize(("widths", "others"), [([-1], 0), ([2**16 + 1], 0), ([], 1665)])
def test_shapes_that_no_row_has(widths: list[int], others: int) -> None:
    with pytest.raises(ValueError, match="1664"):
        kernels.split_rows(array(b""), widths, others)


def test_rows_are_put_together_from_what_is_there() -> None:
    single_row = array(packed([b"a"]))
    for ends in ([6], [5, 4], [-1], [5, 6]):
        with pytest.raises(ValueError, match="ends must rise"):
            kernels.RowJoin(2, single_row, np.array(ends), single_row, np.array([5]))
        with pytest.raises(ValueError, match="ends must rise"):
            kernels.RowJoin(2, single_row, np.array([5]), single_row, np.array(ends))
    for fields in (0, 1665):
        with pytest.raises(ValueError, match="fields"):
            kernels.RowJoin(fields, single_row, np.array([5]), single_row, np.array([5]))
    join = kernels.RowJoin(2, single_row, np.array([5]), single_row, np.array([5]))
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


@given(
    st.lists(st.integers(-1, 4), max_size=30).map(lambda labels: np.array(labels, np.int32)),
    st.randoms(use_true_random=False),
)
def test_classes_come_in_their_order_and_records_at_random(labels: Any, draw: Any) -> None:
    members, starts = kernels.grouped(labels, 5)
    classes = np.array([draw.randrange(5) for _ in range(draw.randrange(7))], np.int64)
    sizes = [int((labels == c).sum()) for c in classes]
    words = np.array([draw.getrandbits(64) for _ in range(sum(sizes))], np.uint64)
    places, records = kernels.shuffled_classes(members, starts, classes, words, 7)
    assert places.tolist() == np.repeat(np.arange(7, 7 + len(classes)), sizes).tolist()
    for class_records, c in zip(
        np.split(records, np.cumsum(sizes)[:-1]), classes, strict=len(sizes) > 0
    ):
        assert sorted(class_records.tolist()) == np.flatnonzero(labels == c).tolist()


def test_every_order_of_a_class_is_as_likely() -> None:
    rng = np.random.default_rng(3)
    members, starts = np.arange(4), np.array([0])
    data = Counter(
        tuple(
            kernels.shuffled_classes(
                members, starts, starts, rng.integers(0, 2**64, 4, np.uint64), 0
            )[1].tolist()
        )
        for _ in range(24_000)
    )
    assert len(data) == 24
    # 1,000 of each are expected; 200 are more than six standard deviations.
    assert max(abs(count - 1000) for count in data.values()) < 200


@pytest.mark.parametrize(
    ("starts", "classes", "words"),
    [([0, 3], [2], 1), ([0, 3], [-1], 1), ([3, 0], [0], 3), ([0, 9], [0], 3), ([0, 3], [0], 2)],
)
def test_classes_that_are_not_there(starts: list[int], classes: list[int], words: int) -> None:
    with pytest.raises(ValueError, match="starts that rise"):
        kernels.shuffled_classes(
            np.arange(4), np.array(starts), np.array(classes), np.zeros(words, np.uint64), 0
        )


@given(st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_integers_as_text(values: list[int]) -> None:
    assert kernels.integers_text(np.array(values, np.int64)).decode() == ",".join(map(str, values))


@given(st.lists(st.floats()))
def test_floats_as_text(values: list[float]) -> None:
    text = kernels.floats_text(np.array(values, np.float64))
    if any(not np.isfinite(x) or 0 < abs(x) < sys.float_info.min for x in values):
        assert text is None
        return
    assert text is not None
    read = [float.fromhex(part) for part in text.decode().split(",") if part]
    assert np.array(read).tobytes() == np.array(values, np.float64).tobytes()


class Libpq:
    """Imitates libpq with messages that arrive one at a time: None if none has arrived yet."""

    def __init__(self, messages: list[bytes | None], end: int = -1) -> None:
        self._messages, self._end = list(messages), end
        self._held: dict[int, Any] = {}
        self.consumed = 0
        self._calls = (
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(
                self._get
            ),
            ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(self._consume),
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self._free),
        )
        self.addresses = [ctypes.cast(call, ctypes.c_void_p).value or 0 for call in self._calls]

    @property
    def n_unfreed(self) -> int:
        """Rows that were handed out and not freed."""
        return len(self._held)

    def _get(self, connection: int, row: int, asynchronous: int) -> int:
        assert (connection, asynchronous) == (77, 1)
        if not self._messages:
            return self._end
        message = self._messages[0]
        if message is None:
            return 0
        self._messages.pop(0)
        buffer = ctypes.create_string_buffer(message, len(message))
        self._held[ctypes.addressof(buffer)] = buffer
        ctypes.cast(row, ctypes.POINTER(ctypes.c_void_p))[0] = ctypes.addressof(buffer)
        return len(message)

    def _consume(self, connection: int) -> int:
        assert connection == 77
        self.consumed += 1
        if self._messages and self._messages[0] is None:
            self._messages.pop(0)
            # Every other time what came is no whole row yet.
            return int(self.consumed % 3 > 0)
        return 1

    def _free(self, row: int | None) -> None:
        if row is not None:
            del self._held[row]


FULL, WAITS, ENDED, FAILED = range(4)


@given(st.lists(st.binary(min_size=3, max_size=40)), st.data())
def test_rows_are_taken_from_libpq(rows: list[bytes], data: st.DataObject) -> None:
    head, end = b"head", b"\xff\xff"
    messages: list[bytes | None] = [*rows, end]
    messages[0] = head + (rows or [end])[0]
    for _ in range(data.draw(st.integers(0, 5))):
        messages.insert(data.draw(st.integers(0, len(messages))), None)
    libpq, chunks = Libpq(messages), list[bytes]()
    drain = kernels.CopyDrain(77, *libpq.addresses, len(head))
    n_rows = data.draw(st.integers(1, 5))
    while (why := drain.drain(n_rows)) != ENDED:
        assert why in (FULL, WAITS)
        if why == FULL:
            assert drain.rows == n_rows
            chunks.append(drain.take().tobytes())
    chunks.append(drain.take().tobytes())
    assert chunks == [
        *(b"".join(rows[i : i + n_rows]) for i in range(0, len(rows), n_rows)),
        *([b""] if len(rows) % n_rows == 0 else []),
    ]
    assert (drain.rows, libpq.n_unfreed) == (0, 0)


@pytest.mark.parametrize("end", [-1, -2])
def test_a_copy_that_breaks_off(end: int) -> None:
    libpq = Libpq([b"headrow", b"other row"], end)
    drain = kernels.CopyDrain(77, *libpq.addresses, 4)
    assert drain.drain(9) == FAILED
    assert (drain.rows, drain.take().tobytes()) == (2, b"rowother row")
    # A message that cannot hold the head.
    drain = kernels.CopyDrain(77, *Libpq([b"hea"]).addresses, 4)
    assert drain.drain(9) == FAILED


def test_nothing_lies_at_address_0() -> None:
    for index in range(4):
        addresses = [77, *Libpq([]).addresses]
        addresses[index] = 0
        with pytest.raises(ValueError, match="address 0"):
            kernels.CopyDrain(*addresses, 0)
