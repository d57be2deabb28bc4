"""Frequencies equal those of comparing all pairs of records, with missing codes in two ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.data import extension
from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.extensions.survey.frequencies import (
    count_class_sizes,
    count_frequencies,
    sum_over_matches,
)
from tests.reference import survey_risk as reference

# Codes up to these make numbers of 64 bits for four keys impossible.
WIDE = 2**31 - 2


def make_codes(seed, n, m, n_values, missing_share):
    """Random codes, int32 (n, m), with ties and missing codes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, n_values, (n, m))
    codes[codes == n_values - 1] += WIDE - n_values if seed % 2 else 0
    codes[rng.random((n, m)) < missing_share] = -1
    return codes.astype(np.int32)


tables = st.builds(
    make_codes,
    seed=st.integers(0, 1000),
    n=st.integers(1, 40),
    m=st.integers(1, 5),
    n_values=st.integers(1, 4),
    missing_share=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)


@given(codes=tables, missing=st.sampled_from(["wildcard", "category"]))
def test_frequencies_are_those_of_all_pairs(codes, missing):
    weights = np.random.default_rng(0).uniform(0.5, 90, len(codes))
    frequencies = count_frequencies(codes, weights, missing=missing)
    ones = np.ones(len(codes))
    expected = reference.sums_over_matches(codes, codes, ones, missing)
    assert frequencies.sample.tolist() == expected.tolist()
    expected = reference.sums_over_matches(codes, codes, weights, missing)
    assert frequencies.population == pytest.approx(expected, rel=1e-12)


@given(
    seed=st.integers(0, 1000),
    sizes=st.tuples(st.integers(1, 30), st.integers(1, 30), st.integers(1, 5)),
    missing=st.sampled_from(["wildcard", "category"]),
)
def test_sums_over_another_table_are_those_of_all_pairs(seed, sizes, missing):
    n_queries, n_rows, m = sizes
    queries = make_codes(seed, n_queries, m, 3, 0.2)
    table = make_codes(seed + 2, n_rows, m, 3, 0.1)
    values = np.random.default_rng(seed).normal(size=n_rows)
    sums = sum_over_matches(queries, table, values[:, None], missing=missing)[:, 0]
    expected = reference.sums_over_matches(queries, table, values, missing)
    assert sums == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_wildcards_match_more_than_classes():
    # The example of sdcMicro's freqCalc: a missing value stands for any category.
    codes = np.array([[0, 0], [0, 1], [0, -1], [1, -1], [-1, -1]], np.int32)
    assert count_frequencies(codes).sample.tolist() == [3, 3, 4, 2, 5]
    assert count_frequencies(codes, missing="category").sample.tolist() == [1] * 5


def test_without_weights_the_sample_is_the_population():
    codes = np.array([[0], [0], [1]], np.int32)
    frequencies = count_frequencies(codes)
    assert frequencies.population.tolist() == frequencies.sample.tolist() == [2, 2, 1]


def test_class_sizes():
    codes = make_codes(3, 200, 3, 3, 0.1)
    sizes = sorted(count_class_sizes(codes).tolist())
    assert sizes == sorted(np.unique(codes, axis=0, return_counts=True)[1].tolist())


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((3, 2)),
        np.zeros((3, 2), np.int64),
        np.zeros(3, np.int32),
        np.zeros((3, 0), np.int32),
        np.full((3, 2), -2, np.int32),
        [[1, 2]],
    ],
)
def test_wrong_codes_are_refused(codes):
    with pytest.raises(InvalidParameter):
        count_frequencies(codes)


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_wrong_weights_are_refused(weight):
    codes = np.zeros((2, 1), np.int32)
    with pytest.raises(InvalidParameter):
        count_frequencies(codes, np.array([1.0, weight]))
    with pytest.raises(InvalidParameter):
        count_frequencies(codes, np.ones(3))


def test_no_records_unknown_options_and_other_keys_are_refused():
    codes = np.zeros((2, 1), np.int32)
    with pytest.raises(TooFewRecords):
        count_frequencies(codes[:0])
    with pytest.raises(InvalidParameter):
        count_frequencies(codes, missing="drop")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        sum_over_matches(codes, np.zeros((2, 2), np.int32), np.ones((2, 1)))


def test_the_extension_is_registered():
    assert "survey" in [record.name for record in extension.built_in_extensions()]
