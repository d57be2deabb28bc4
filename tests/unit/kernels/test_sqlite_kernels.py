"""Rows of SQLite, hashed and turned into arrays as plain Python does it."""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon import kernels

Row = tuple[object, ...]

INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-(2**32), 2**32)
VALUES = (
    st.none()
    | INTEGERS
    | st.floats(allow_nan=False)
    | st.binary(max_size=300)
    | st.binary(max_size=300).map(bytearray)
    # What a converter of the connection may return.
    | st.booleans()
    | st.text(max_size=3)
    | st.just("\ud800")
    | st.integers(2**63, 2**80)
)


def plain_hashes(rows: list[Row], salt: bytes) -> tuple[int, int]:
    """The number of rows, and the sum of their hashes: texts are tuples of their bytes."""
    total = 0
    for row in rows:
        values = tuple((bytes(v),) if isinstance(v, bytearray) else v for v in row)
        digest = hashlib.blake2b(salt + marshal.dumps(values, 2), digest_size=16).digest()
        total += int.from_bytes(digest, "little")
    return len(rows), total % 2**128


def compiled_hashes(rows: list[Row], salt: bytes) -> tuple[int, int]:
    n_rows, high_word, low_word = kernels.hash_rows(rows, salt)
    return n_rows, (high_word << 64) + low_word


@given(st.lists(st.lists(VALUES, max_size=6).map(tuple), max_size=8), st.binary(max_size=16))
def test_rows_hash_as_marshal_and_hashlib_say(rows: list[Row], salt: bytes) -> None:
    assert compiled_hashes(rows, salt) == plain_hashes(rows, salt)


@pytest.mark.parametrize("size", [0, 1, 109, 110, 111, 237, 238, 239, 240, 1000])
def test_messages_end_at_and_about_the_ends_of_blocks(size: int) -> None:
    blob = (bytes(range(250)) * 4)[:size]
    assert compiled_hashes([(blob,)], bytes(8)) == plain_hashes([(blob,)], bytes(8))


@pytest.mark.parametrize("power", [*range(13, 17), *range(29, 34), 45, 60, 62, 63])
def test_integers_about_the_limits_of_digits(power: int) -> None:
    values = {sign * 2**power + step for sign in (1, -1) for step in (-1, 0, 1)}
    rows: list[Row] = [(value,) for value in sorted(values)]
    assert compiled_hashes(rows, b"salt") == plain_hashes(rows, b"salt")


NUMBERS = st.none() | INTEGERS | st.floats()


@given(st.lists(st.tuples(INTEGERS, NUMBERS, st.none() | st.text(), NUMBERS), max_size=9))
def test_numbers_become_arrays(rows: list[Row]) -> None:
    keys, numbers, missing, others = kernels.take_numbers(iter(rows), 2**40, [True, False, True])
    assert keys.tolist() == [row[0] for row in rows]
    expected = [[row[1] or 0, 0, row[3] or 0] for row in rows]
    np.testing.assert_array_equal(
        numbers.reshape(-1, 3), np.array(expected, np.float64).reshape(-1, 3)
    )
    values = [value for row in rows for value in row[1:]]
    assert missing.tolist() == [i for i, value in enumerate(values) if value is None]
    assert others == [[], [row[2] for row in rows], []]


def failing_rows() -> Iterator[Row]:
    yield (1, 2.0)
    raise OSError


def test_errors_of_rows_are_raised() -> None:
    with pytest.raises(OSError):
        kernels.hash_rows(failing_rows(), b"")
    with pytest.raises(OSError):
        kernels.take_numbers(failing_rows(), 5, [True])
    # Only as many rows as are wanted are taken.
    assert kernels.take_numbers(failing_rows(), 1, [True])[0].tolist() == [1]
    with pytest.raises(TypeError, match="tuples"):
        kernels.hash_rows(iter([object()]), b"")
    with pytest.raises(ValueError, match="could not convert"):
        kernels.take_numbers(iter([(1, "x")]), 5, [True])
    with pytest.raises(OverflowError):
        kernels.take_numbers(iter([(2**64, 1)]), 5, [True])
    with pytest.raises(ValueError, match="each column"):
        kernels.take_numbers(iter([(1, 2, 3)]), 5, [True])
