"""What a kept column discloses: the rule on arrays, compared with counts by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind
from dbanon.release.attribute_disclosure import (
    LEAST_REPORTED_SHARE,
    Originals,
    ValueGroups,
    find_disclosures,
    floor_share,
    group_by_value,
    proof_sample_size,
    prove_nearly_unique,
)
from dbanon.release.report import DisclosiveColumn

RNG = np.random.default_rng(11)


def microdata(values: NDArray[np.float64]) -> Microdata:
    keys = np.arange(len(values)).reshape(-1, 1)
    return microdata_from_chunks(
        [Attribute("age", Kind.FLOAT)], [Chunk(keys, values.reshape(-1, 1).astype(float))]
    )


def tells(
    column_values: NDArray[np.int64],
    age: NDArray[np.int64],
    k: int,
    labels: NDArray[np.int64] | None = None,
) -> list[DisclosiveColumn]:
    data = microdata(age.astype(float))
    # Classes of neighbours in the array: ages of a class differ.
    partition = Partition(np.arange(len(age)) // k if labels is None else labels)
    originals = Originals(data, partition, ())
    codes = originals.codes("age")
    return find_disclosures("kept", group_by_value(column_values, [codes], k), originals, k)


@pytest.mark.parametrize("nulls", [False, True])
def test_rows_of_classes_with_several_originals_are_hidden(nulls: bool) -> None:
    values = RNG.integers(0, 3, 600) / 4.0
    labels = RNG.integers(-1, 200, 600)
    # Equal numbers that differ in their sign bit are one original.
    values[(values == 0) & (RNG.random(600) < 0.5)] = -0.0
    labels = np.unique(labels, return_inverse=True)[1].reshape(-1) - int(labels.min() == -1)
    data = microdata(values)
    is_null = RNG.random(600) < 0.2
    if nulls:
        data = replace(data, valid=~is_null.reshape(-1, 1))
    originals = [
        None if nulls and null else value
        for value, null in zip(values.tolist(), is_null.tolist(), strict=True)
    ]
    expected = 0
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        expected += len(members) * (len({originals[member] for member in members}) > 1)
    partition = Partition(labels)
    assert 0 < expected < (labels >= 0).sum()
    assert Originals(data, partition, ()).hidden_rows("age") == expected


def test_groups_are_those_counted_by_hand() -> None:
    values = RNG.integers(-1, 40, 500)
    age = values // 2 + (RNG.random(500) < 0.1)
    persons = RNG.integers(0, 60, 500).astype(np.int32)
    groups = group_by_value(values, [age.astype(np.int64)], 9, persons)
    expected: Counter[tuple[int, str]] = Counter()
    for value in set(values[values >= 0].tolist()):
        rows = np.flatnonzero(values == value)
        expected[len(rows), "counts"] += 1
        expected[len(rows), "rare"] += len(set(persons[rows])) < 9
        expected[len(rows), "alike"] += len(set(age[rows])) == 1
    for i, size in enumerate(groups.sizes.tolist()):
        assert groups.counts[i] == expected[size, "counts"]
        assert groups.rare[i] == expected[size, "rare"]
        assert groups.identical[i, 0] == expected[size, "alike"]
    assert groups.n_rows == int((values >= 0).sum())


@pytest.mark.parametrize("seed", range(20))
def test_a_column_that_tells_nothing_is_not_warned_of(seed: int) -> None:
    """Neither small groups nor a nearly constant quasi-identifier are findings."""
    rng = np.random.default_rng(seed)
    n = 2000
    for width in (2, 3, 10, 100):
        column_values = rng.permutation(np.repeat(np.arange(n // width), width))
        for often in (0.5, 0.9, 0.99):
            age = (rng.random(n) > often).astype(np.int64)
            assert tells(column_values, age, 2) == []


def test_half_of_the_rows_are_enough_and_a_little_less_is_not() -> None:
    n = 10_000
    age = RNG.integers(0, 100, n)
    noise = RNG.integers(0, 5, n)
    for share, expected in ((0.47, []), (0.55, ["age"])):
        column_values = np.where(np.arange(n) < share * n, age, 100 + noise)
        disclosive = tells(column_values, age, 5)
        assert [column.determines for column in disclosive] == expected
        # The same of values that few share.
        column_values = np.where(np.arange(n) < share * n, 1000 + np.arange(n) // 4, noise)
        disclosive = tells(column_values, age, 5)
        assert [column.determines for column in disclosive] == [None] * bool(expected)


def test_what_the_release_shows_is_not_told_again() -> None:
    age = np.repeat(np.arange(100), 20)
    assert [c.determines for c in tells(age * 3, age, 20, RNG.permutation(age))] == ["age"]
    assert tells(age * 3, age, 20, age) == []


def test_a_constant_quasi_identifier_tells_nothing() -> None:
    assert tells(np.arange(100) // 10, np.zeros(100, np.int64), 5) == []


def test_nothing_but_null() -> None:
    assert tells(np.full(100, -1), np.arange(100), 5) == []


@pytest.mark.parametrize("n", [5, 20, 99, 1000])
def test_shares_tell_no_count_below_k(n: int) -> None:
    k = 5
    for count in range((n + 1) // 2, n + 1):
        share = floor_share(count, n, k)
        assert LEAST_REPORTED_SHARE <= share <= max(count / n, LEAST_REPORTED_SHARE)
        if 0 < n - count < k <= n // 2:
            assert share == floor_share(n - k, n, k)


@pytest.mark.slow
def test_a_sample_is_believed_within_its_bound() -> None:
    """Columns just above the tolerance of a sample are never treated as all different."""
    assert proof_sample_size(50_000) == 0
    for n in (60_000, 1_000_000):
        size = proof_sample_size(n)
        assert prove_nearly_unique("kept", n, size, size, size) == DisclosiveColumn(
            "kept", None, 0.9
        )
        assert prove_nearly_unique("kept", n, size, size, size - 1) is None
        assert prove_nearly_unique("kept", n, size, size - 1, size - 1) is None
        assert prove_nearly_unique("kept", n, size // 2, size // 2, size // 2) is None
        # A tenth of the rows in pairs: a sample without a pair is one in exp(20).
        column_values = np.arange(n)
        column_values[: n // 10] //= 2
        for _ in range(50):
            sampled = column_values[RNG.random(n) < size / n]
            different = len(np.unique(sampled))
            assert prove_nearly_unique("kept", n, len(sampled), len(sampled), different) is None


def test_empty_groups() -> None:
    nothing = np.zeros(0, np.int64)
    groups = ValueGroups(nothing, nothing, nothing, np.zeros((0, 1), np.int64))
    assert groups.n_rows == 0
    empty = group_by_value(np.full(3, -1), [np.arange(3)], 2)
    assert (empty.sizes.shape, empty.identical.shape) == ((0,), (0, 1))
