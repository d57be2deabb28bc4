"""Computations from labels equal plain numpy bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dbanon import kernels

Numbers = NDArray[np.float64]
Labels = NDArray[np.int32]

FINITE = st.floats(allow_nan=False, allow_infinity=False, width=64)


def grouped(labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.argsort(labels, kind="stable")[int((labels < 0).sum()) :]
    sizes = np.bincount(labels[labels >= 0])
    return order, np.concatenate(([0], np.cumsum(sizes)))[: len(sizes)].astype(np.int64)


def class_means(values: Numbers, labels: Labels) -> Numbers | None:
    members, starts = grouped(labels)
    class_values, sizes = values[members], np.bincount(labels[labels >= 0])
    with np.errstate(over="ignore"):
        means = np.add.reduceat(class_values, starts) / sizes
    if not np.isfinite(means).all():
        return None
    return np.clip(
        means, np.minimum.reduceat(class_values, starts), np.maximum.reduceat(class_values, starts)
    )


def integer_class_means(values: NDArray[np.int64], labels: Labels) -> NDArray[np.int64]:
    members, starts = grouped(labels)
    class_values, sizes = values[members], np.bincount(labels[labels >= 0])
    divisor = np.repeat(sizes, sizes)
    remainders = np.add.reduceat(class_values % divisor, starts)
    quotients = np.add.reduceat(class_values // divisor, starts) + remainders // sizes
    remainders %= sizes
    up = (2 * remainders > sizes) | ((2 * remainders == sizes) & (quotients % 2 != 0))
    return np.asarray(quotients + up, np.int64)


def added(values: Numbers) -> float:
    """Their sum, halves first: as numpy from 2.3 on adds all that lies side by side."""
    # Earlier versions do so with no more than a buffer of them.
    n = values.size
    if n <= np.getbufsize():
        return float(values.sum())
    half = n // 2 - n // 2 % 8
    return added(values[:half]) + added(values[half:])


def column_squares(
    values: Numbers,
    labels: Labels,
    released: Numbers,
    valid: NDArray[np.bool_] | None,
    exponent: int,
    shift: float,
    scale: float,
    part: bool,
) -> tuple[float, float]:
    def mapped(numbers: Numbers) -> Numbers:
        if scale == 0:
            return np.zeros(numbers.shape)
        return (np.ldexp(numbers, -exponent) - shift) / scale

    used = labels >= 0 if valid is None else (labels >= 0) & valid
    points = mapped(values)[used]
    error = points - mapped(released)[labels[used]]
    total = 0.0
    if part:
        total = added(np.square(points))
    elif points.size and points.max() != points.min():
        total = added(np.square(points - added(points) / points.size))
    return added(np.square(error)), total


def shuffled(words: list[int]) -> list[int]:
    order = list(range(len(words)))
    for i in range(len(words), 1, -1):
        chosen = words[i - 1] * i >> 64
        order[i - 1], order[chosen] = order[chosen], order[i - 1]
    return order


def labels_of(rng: np.random.Generator, n: int, classes: int, suppressed: bool) -> Labels:
    """Each class occurs; some records have none."""
    labels = rng.integers(-1 if suppressed else 0, classes, n)
    labels[rng.permutation(n)[:classes]] = np.arange(classes)
    return labels.astype(np.int32)


SHAPES = [(1, 1), (7, 2), (8, 1), (9, 3), (130, 1), (1000, 7), (5000, 3), (40_000, 9_000)]


@pytest.mark.parametrize("suppressed", [False, True])
@pytest.mark.parametrize(("n", "classes"), SHAPES)
def test_groups_and_means_are_those_of_numpy(n: int, classes: int, suppressed: bool) -> None:
    rng = np.random.default_rng(n)
    labels = labels_of(rng, n, classes, suppressed)
    members, starts = kernels.grouped(labels, classes)
    for actual, of_numpy in zip((members, starts), grouped(labels), strict=True):
        assert actual.dtype == np.int64
        assert actual.tolist() == of_numpy.tolist()
    table = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-8, 9, (n, 3))
    for values in (*table.T, np.round(table[:, 0])):
        sizes = kernels.class_means(values, members, starts)
        expected = class_means(values, labels)
        assert sizes is not None
        assert expected is not None
        assert sizes.tolist() == expected.tolist()
    quotients = rng.integers(-(2**62), 2**62, n)
    for integers in (quotients, quotients % 100):
        means = kernels.integer_class_means(integers, members, starts)
        assert means.tolist() == integer_class_means(integers, labels).tolist()


@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("valid_share", [None, 0.0, 0.7])
@pytest.mark.parametrize(("n", "classes"), SHAPES)
def test_squares_are_those_of_numpy(
    n: int, classes: int, valid_share: float | None, part: bool
) -> None:
    rng = np.random.default_rng(n)
    labels = labels_of(rng, n, classes, suppressed=valid_share is not None)
    valid = None if valid_share is None else (rng.random((n, 2)) < valid_share)[:, 1]
    table = rng.normal(size=(n, 3))
    released, other = rng.normal(size=(2, classes))
    for exponent, shift, scale in [(0, 0.0, 1.0), (3, 0.1, 0.7), (-1100, 0.0, 2.0), (5, 1.0, 0.0)]:
        values = table[:, 1] * (1e-300 if exponent < -1000 else 1.0)
        tables = [column * (1e-300 if exponent < -1000 else 1.0) for column in (released, other)]
        means = kernels.column_squares(
            values, labels, tables[0], tables[1], valid, exponent, shift, scale, part
        )
        both = [
            column_squares(values, labels, column, valid, exponent, shift, scale, part)
            for column in tables
        ]
        assert means == (both[0][0], both[1][0], both[0][1])
        without_other = kernels.column_squares(
            values, labels, tables[0], None, valid, exponent, shift, scale, part
        )
        assert without_other == (means[0], means[0], means[2])


@given(st.lists(st.tuples(FINITE, st.integers(0, 3)), min_size=4, max_size=40))
def test_means_of_any_numbers(rows: list[tuple[float, int]]) -> None:
    labels = np.array([label for _, label in rows], np.int32)
    labels[:4] = range(4)
    values = np.array([value for value, _ in rows])
    means = kernels.class_means(values, *kernels.grouped(labels, 4))
    expected = class_means(values, labels)
    assert (means is None) == (expected is None)
    if means is not None and expected is not None:
        assert means.tolist() == expected.tolist()


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50))
def test_an_order_by_words(words: list[int]) -> None:
    assert kernels.shuffled(np.array(words, np.uint64)).tolist() == shuffled(words)


def test_every_order_is_as_likely() -> None:
    words = np.random.default_rng(1).integers(0, 2**64, (60_000, 4), np.uint64)
    orders, counts = np.unique(
        [kernels.shuffled(row).tolist() for row in words], axis=0, return_counts=True
    )
    assert len(orders) == 24
    expected = len(words) / 24
    # Chi-squared with 23 degrees of freedom: beyond 60 once in 30,000 times, and the seed stays.
    assert float((np.square(counts - expected) / expected).sum()) < 60


def test_nothing_and_what_is_wrong() -> None:
    nothing = np.zeros(0, np.int32)
    members, starts = kernels.grouped(nothing, 0)
    assert (members.tolist(), starts.tolist()) == ([], [])
    means = kernels.class_means(np.zeros(0), members, starts)
    assert means is not None
    assert means.tolist() == []
    assert kernels.integer_class_means(members, members, starts).tolist() == []
    assert kernels.column_squares(
        np.zeros(0), nothing, np.zeros(0), None, None, 0, 0.0, 1.0, False
    ) == (0.0, 0.0, 0.0)
    single = np.zeros(1, np.int64)
    for labels, classes in [([1], 1), ([-2], 1), ([0], -1)]:
        with pytest.raises(ValueError, match=r"labels|classes"):
            kernels.grouped(np.array(labels, np.int32), classes)
    for members, starts in [
        (single + 1, single),
        (single - 1, single),
        (single, single + 1),
        (single[:0], single),
    ]:
        with pytest.raises(ValueError, match="members and starts"):
            kernels.class_means(np.zeros(1), members, starts)
    label = np.zeros(1, np.int32)
    for values, valid in [(np.zeros(2), None), (np.zeros(1), np.ones(2, bool))]:
        with pytest.raises(ValueError, match="one label for each value"):
            kernels.column_squares(values, label, np.zeros(1), None, valid, 0, 0.0, 1.0, False)


@given(st.lists(st.integers(-1, 6), max_size=60))
def test_class_sizes_are_those_of_plain_counting(labels) -> None:
    means = kernels.class_sizes(np.array(labels, np.int32))
    expected = [labels.count(label) for label in range(max(labels, default=-1) + 1)]
    assert means.dtype == np.int64
    assert means.tolist() == expected


def test_class_sizes_refuse_what_is_no_label() -> None:
    with pytest.raises(ValueError, match="-1 or more"):
        kernels.class_sizes(np.array([0, -2], np.int32))
    with pytest.raises(TypeError):
        kernels.class_sizes(np.array([0.0]))
