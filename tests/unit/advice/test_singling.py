"""Columns that make rows unique, compared with counts by hand."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.profile import Count
from dbanon.advice.singling import (
    MAX_COLUMNS,
    MAX_EXTENDED_SHARE,
    find_unique_sets,
    group_size_counter,
    rate_set,
)
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind

cells = st.one_of(st.none(), st.integers(0, 4))
tables = st.integers(1, 5).flatmap(
    lambda width: st.lists(st.tuples(*[cells] * width), min_size=1, max_size=30)
)


def microdata(rows: list[tuple[int | None, ...]]) -> Microdata:
    """The table with numbers in even columns and categories in odd ones."""
    n, width = len(rows), len(rows[0])
    filled = np.array([[0 if cell is None else cell for cell in row] for row in rows])
    valid = np.array([[cell is not None for cell in row] for row in rows])
    kinds = [Kind.INTEGER if at % 2 == 0 else Kind.CATEGORY for at in range(width)]
    codes = np.where(valid, filled, -1)[:, 1::2].astype(np.int32)
    return Microdata(
        attributes=tuple(Attribute(f"c{at}", kind) for at, kind in enumerate(kinds)),
        numbers=filled[:, 0::2].astype(np.float64),
        codes=codes,
        categories=tuple(tuple("abcde") for _ in range(codes.shape[1])),
        valid=None if valid.all() else valid,
        keys=np.arange(n, dtype=np.int64).reshape(-1, 1),
    )


def by_hand(rows: list[tuple[int | None, ...]], places: tuple[int, ...]) -> Counter[int]:
    return Counter(Counter(tuple(row[at] for at in places) for row in rows).values())


@given(tables)
def test_groups_are_those_counted_by_hand(rows: list[tuple[int | None, ...]]) -> None:
    sizes = group_size_counter(microdata(rows))
    width = len(rows[0])
    for count in range(1, width + 1):
        for places in combinations(range(width), count):
            assert dict(sizes([f"c{at}" for at in places])) == dict(by_hand(rows, places))


@given(tables)
def test_sets_grow_until_nearly_all_are_alone(rows: list[tuple[int | None, ...]]) -> None:
    names = [f"c{at}" for at in range(len(rows[0]))]
    result = find_unique_sets(names, group_size_counter(microdata(rows)), small=3)
    unique_counts = {
        places: by_hand(rows, places)[1]
        for count in range(1, MAX_COLUMNS + 1)
        for places in combinations(range(len(names)), count)
    }
    expected = {
        places
        for places in unique_counts
        if all(
            unique_counts[part] <= MAX_EXTENDED_SHARE * len(rows)
            for count in range(1, len(places))
            for part in combinations(places, count)
        )
    }
    assert {
        tuple(int(name[1:]) for name in column_set.columns) for column_set in result.sets
    } == expected
    assert not result.cut
    counts = [column_set.unique.count for column_set in result.sets]
    assert counts == sorted(counts, reverse=True)
    assert set(result.without) == (set(names) if len(names) > 1 else set())


def test_distinction_and_separation() -> None:
    # Sizes 1, 1, 2: 4 rows, 6 pairs, one of which cannot be separated.
    rated = rate_set(["a"], {1: 2, 2: 1}, 3)
    assert (rated.unique.count, rated.few.count) == (2, 4)
    assert (rated.distinction, rated.separation) == (0.75, 0.8333)
    assert rate_set(["a"], {1: 1}, 3).separation == 0.0


def test_the_limit_on_sets_is_obeyed_and_reported() -> None:
    rows = [tuple(np.random.default_rng(at).integers(0, 3, 5).tolist()) for at in range(30)]
    names = [f"c{at}" for at in range(5)]
    result = find_unique_sets(names, group_size_counter(microdata(rows)), small=3, max_sets=7)
    assert (len(result.sets), result.cut) == (7, True)
    assert sum(len(column_set.columns) == 1 for column_set in result.sets) == 5


@pytest.mark.parametrize(
    ("count", "of", "words", "share"),
    [
        (0, 100, "0", 0.0),
        (1, 100, "1..4", None),
        (4, 100, "1..4", None),
        (5, 100, "5", 0.05),
        (96, 100, "all but 1..4", None),
        (95, 100, "95", 0.95),
        (100, 100, "100", 1.0),
        (3, 4, "1..4", None),
        (12345, 99999, "12345", 0.1235),
        (0, 0, "0", 0.0),
    ],
)
def test_few_rows_are_reported_as_a_range(
    count: int, of: int, words: str, share: float | None
) -> None:
    counted = Count(count, of)
    assert (str(counted), counted.share) == (words, share)
    assert counted.to_dict() == {"rows": words, "share": share}
