"""Bands against plain code: which band a number is in, and what its label says."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.data.bands import Bands, consecutive_bands

AGES = Bands((0.0, 18.0, 30.0, 65.0), is_integral=True)


def test_labels() -> None:
    assert AGES.labels == ("<0", "0-17", "18-29", "30-64", "65+")
    assert [AGES.label(*band) for band in ((0, 1), (1, 2), (2, 3), (2, 4), (0, 4))] == [
        "<18",
        "0-29",
        "18-64",
        "18+",
        "*",
    ]


def test_labels_of_fractions_and_negative_numbers() -> None:
    fractions = Bands((0.0, 0.5, 10.0), is_integral=False)
    assert fractions.labels == ("<0", "[0, 0.5)", "[0.5, 10)", "10+")
    assert Bands((-10.0, -5.0, 5.0), is_integral=True).labels == (
        "<-10",
        "-10 to -6",
        "-5 to 4",
        "5+",
    )


def test_a_band_for_each_number() -> None:
    bands = consecutive_bands(18, 21, open_above=True)
    assert bands.labels == ("18", "19", "20", "21+")
    assert bands.ranks(np.array([18.0, 20.0, 21.0, 99.0])).tolist() == [0, 2, 3, 3]
    closed = consecutive_bands(18, 21, open_below=True)
    assert closed.labels == ("<18", "18", "19", "20")
    assert [closed.is_label(text) for text in ("*", "20+")] == [False, False]
    assert [closed.is_label(text) for text in ("<21", "18-20", "<18")] == [True, True, True]


def interval_of(label: str) -> tuple[float, float]:
    """The lowest number and the border above, as a reader takes the label."""
    if label == "*":
        return -np.inf, np.inf
    if label.startswith("<"):
        return -np.inf, float(label[1:])
    if label.endswith("+"):
        return float(label[:-1]), np.inf
    if label.startswith("["):
        low, high = label[1:-1].split(", ")
        return float(low), float(high)
    low, _, high = label.partition(" to ") if " to " in label else label.partition("-")
    return (float(low), float(high) + 1) if low and high else (float(label), float(label) + 1)


@given(
    st.lists(st.integers(-40, 40), min_size=1, max_size=6, unique=True),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_every_number_is_in_the_band_that_its_label_names(
    borders: list[int], is_integral: bool, open_below: bool, open_above: bool
) -> None:
    factor = 1.0 if is_integral else 0.25
    borders = sorted(borders)
    if not (open_below or open_above) and len(borders) < 2:
        return
    bands = Bands(tuple(b * factor for b in borders), is_integral, open_below, open_above)
    low = -50 if open_below else borders[0]
    high = 50 if open_above else borders[-1] - 1
    values = np.arange(low, high + 1) * factor
    ranks = bands.ranks(values).astype(int)
    intervals = [interval_of(label) for label in bands.labels]
    for value, rank in zip(values, ranks, strict=True):
        containing = [i for i, (start, end) in enumerate(intervals) if start <= value < end]
        assert containing == [rank]
    assert bands.n_bands == len(bands.labels) == len(set(bands.labels))
    for first, last in combinations_with_replacement(range(bands.n_bands), 2):
        label = bands.label(first, last)
        assert interval_of(label) == (intervals[first][0], intervals[last][1])
        assert bands.is_label(label)


@pytest.mark.parametrize(
    "text",
    [
        "17",
        "18",
        "66",
        "90+",
        "<17",
        "0-18",
        "18-30",
        "30-29",
        "29-30",
        "",
        "-",
        "+",
        "<",
        "0-",
        "x",
    ],
)
def test_texts_that_are_no_labels(text: str) -> None:
    assert not AGES.is_label(text)


@pytest.mark.parametrize(
    "text", ["[0, 0.4)", "0.5", "[10, 0.5)", "[0.5, 0.5)", "[0, 1", "0-0.5", "0, 0.5"]
)
def test_texts_that_are_no_labels_of_fractions(text: str) -> None:
    assert not Bands((0.0, 0.5, 10.0), is_integral=False).is_label(text)
