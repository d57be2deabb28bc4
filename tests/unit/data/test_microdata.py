from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.data.chunks import Chunk, chunk_from_columns, microdata_from_chunks
from dbanon.data.microdata import Microdata, find_records, is_wide, most_frequent_codes
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import DuplicateKeys, MemoryLimit, NonFiniteValue, SourceChanged
from dbanon.partitioning.record_memory import RecordMemory

LETTERS = ("", "B", "a", "é")
NUMBER, TEXT = Attribute("x", Kind.FLOAT), Attribute("t", Kind.CATEGORY)


def collect(chunks: Iterable[Chunk], **options: Any) -> Microdata:
    return microdata_from_chunks([NUMBER, TEXT], chunks, categories=[LETTERS], **options)


def chunk(rows: list[tuple[int, float | None, str | None]]) -> Chunk:
    keys = np.array([[key] for key, _, _ in rows], np.int64).reshape(-1, 1)
    numbers = np.array([[np.nan if x is None else x] for _, x, _ in rows]).reshape(-1, 1)
    codes = [[-1 if t is None else LETTERS.index(t)] for *_, t in rows]
    valid = np.array([[x is not None, t is not None] for _, x, t in rows]).reshape(-1, 2)
    return Chunk(keys, numbers, np.array(codes, np.int32), None if valid.all() else valid)


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.none() | st.floats(-1e9, 1e9),
            st.none() | st.sampled_from(LETTERS),
        ),
        unique_by=lambda row: row[0],
        min_size=1,
        max_size=30,
    ),
    st.data(),
)
def test_how_rows_are_cut_and_ordered_changes_nothing(rows: list[Any], data: st.DataObject) -> None:
    plain = collect([chunk(sorted(rows))])
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    ends = zip([0, *cuts], [*cuts, len(rows)], strict=True)
    microdata = collect([chunk(shuffled[a:b]) for a, b in ends if a < b])
    np.testing.assert_array_equal(microdata.keys, plain.keys)
    np.testing.assert_array_equal(microdata.numbers, plain.numbers)
    np.testing.assert_array_equal(microdata.codes, plain.codes)
    assert microdata.categories == plain.categories
    assert (microdata.valid is None) == (plain.valid is None)
    if plain.valid is not None:
        np.testing.assert_array_equal(microdata.valid, plain.valid)
    for (_, _, text), code in zip(sorted(rows), microdata.codes[:, 0], strict=True):
        assert text is None if code < 0 else microdata.categories[0][code] == text


def test_arrays_are_read_only() -> None:
    microdata = collect([chunk([(1, 1.0, "a"), (2, None, "B")])])
    for array in (microdata.keys, microdata.numbers, microdata.codes, microdata.valid):
        assert array is not None
        assert not array.flags.writeable


def test_nothing_is_read() -> None:
    microdata = collect([])
    assert (microdata.n_records, microdata.numbers.shape, microdata.codes.shape) == (
        0,
        (0, 1),
        (0, 1),
    )


def test_keys_that_occur_twice() -> None:
    with pytest.raises(DuplicateKeys):
        collect([chunk([(1, 1.0, "a")]), chunk([(1, 2.0, "B")])])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_with_the_columns_name(value: float) -> None:
    with pytest.raises(NonFiniteValue, match='Column "x" holds NaN or infinity in 1 of 2 rows'):
        collect([chunk([(1, value, "a"), (2, 1.0, "a")])])


def test_each_column_is_looked_into_and_named_where_it_is_not_finite() -> None:
    attributes = [NUMBER, TEXT, Attribute("day", Kind.DATE), Attribute("z", Kind.FLOAT)]
    numbers = np.ones((4, 3))
    # The number stored where a value is NULL is not a value.
    valid = np.ones((4, 4), bool)
    valid[3], numbers[3] = False, np.nan
    for column, message in enumerate(('"x" holds NaN or', '"day" holds', '"z" holds NaN or')):
        bad = numbers.copy()
        bad[1:3, column] = -np.inf
        for flags, rows, n_rows in ((valid, bad, 4), (None, bad[:3], 3)):
            n = len(rows)
            bad_chunk = Chunk(np.arange(n).reshape(-1, 1), rows, np.zeros((n, 1), np.int32), flags)
            with pytest.raises(NonFiniteValue, match=f"{message} infinity in 2 of {n_rows} rows"):
                microdata_from_chunks(attributes, [bad_chunk], categories=[LETTERS])
    keys, codes = np.arange(4).reshape(-1, 1), np.zeros((4, 1), np.int32)
    microdata = microdata_from_chunks(
        attributes, [Chunk(keys, numbers, codes, valid)], categories=[LETTERS]
    )
    assert microdata.n_records == 4


def test_the_memory_limit_ends_the_reading() -> None:
    chunks_read = []
    memory = RecordMemory(1000, n_columns=2, n_coded=1)

    def chunks() -> Any:
        for i in range(100):
            chunks_read.append(i)
            yield chunk([(i, 1.0, "a")])

    with pytest.raises(MemoryLimit):
        collect(chunks(), require_memory=memory.require_so_far)
    assert len(chunks_read) < 20


@pytest.mark.parametrize(
    ("attribute", "value", "wide"),
    [
        (Attribute("x", Kind.INTEGER), 2.0**53, True),
        (Attribute("x", Kind.INTEGER), 2.0**53 - 1, False),
        (Attribute("x", Kind.INTEGER), -(2.0**63), True),
        (Attribute("x", Kind.DECIMAL, scale=10), 1e6, True),
        (Attribute("x", Kind.DECIMAL, scale=2), 1e6, False),
        (Attribute("x", Kind.DECIMAL, scale=400), 0.0, True),
        (Attribute("x", Kind.FLOAT), 1e300, False),
        (Attribute("x", Kind.DATE), 1e6, False),
    ],
)
def test_what_float64_does_not_hold(attribute: Attribute, value: float, wide: bool) -> None:
    assert is_wide(np.array([1.0, value]), attribute) is wide


def test_records_are_found_by_their_keys() -> None:
    one_column_keys = np.array([[-5], [3], [9]])
    assert find_records(one_column_keys, np.array([[9], [-5]])).tolist() == [2, 0]
    two = np.array([[1, 2**48 - 1], [7, 0], [7, 5]])
    assert find_records(two, two[::-1]).tolist() == [2, 1, 0]
    for ordered, missing in (
        (one_column_keys, [[4]]),
        (two, [[7, 1]]),
        (two, [[8, 0]]),
        # Not the row at the same address of the next partition.
        (two, [[3, 0]]),
        (one_column_keys[:0], [[1]]),
    ):
        with pytest.raises(SourceChanged):
            find_records(ordered, np.array(missing))


def test_what_stands_where_a_value_is_null_makes_no_column_wide() -> None:
    attributes = [Attribute("x", Kind.DECIMAL, scale=2), Attribute("y", Kind.INTEGER)]
    columns = np.array([[1.25, 7.0], [1e300, -1e300], [2.5, 2.0**60]])
    valid = np.array([[True, True], [False, False], [True, True]])
    keys = np.arange(3).reshape(-1, 1)
    assert chunk_from_columns(keys, columns, valid, attributes).wide == {"y"}
    assert chunk_from_columns(keys[:2], columns[:2], valid[:2], attributes).wide == frozenset()


def test_the_most_frequent_code_of_each_unit_is_the_smallest_of_several() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        unit = np.unique(rng.integers(0, 12, 60), return_inverse=True)[1].reshape(-1)
        codes = rng.integers(-1, 5, 60).astype(np.int32)
        counts = [
            Counter(codes[unit == unit_number].tolist()) for unit_number in range(unit.max() + 1)
        ]
        expected = [min(many, key=lambda code: (-many[code], code)) for many in counts]
        assert most_frequent_codes(codes, unit).tolist() == expected
    assert most_frequent_codes(np.empty(0, np.int32), np.empty(0, np.int32)).tolist() == []
