"""k-map and presence equal those of comparing each record with each person."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import InvalidParameter, TooFewRecords
from dbanon.extensions.survey.k_map import measure_k_map, measure_presence
from tests.reference import survey_risk as reference


@given(seed=st.integers(0, 1000), missing=st.sampled_from(["wildcard", "category"]))
def test_both_are_those_of_all_pairs(seed, missing):
    rng = np.random.default_rng(seed)
    population = rng.integers(-1, 3, (30, 3)).astype(np.int32)
    sample = population[rng.choice(30, 12, replace=False)].copy()
    sample[rng.random(sample.shape) < 0.2] = -1
    k_map = measure_k_map(sample, population, missing=missing)
    sizes = reference.sums_over_matches(sample, population, np.ones(30), missing)
    assert k_map.frequencies.tolist() == sizes.tolist()
    assert (k_map.k, k_map.count_below(3)) == (sizes.min(), (sizes < 3).sum())
    shares = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0)
    expected = reference.sums_over_matches(population, sample, shares, missing)
    presence = measure_presence(sample, population, k_map, missing=missing)
    assert presence.probabilities == pytest.approx(np.minimum(expected, 1), rel=1e-12)


def test_without_missing_codes_a_presence_is_the_share_of_the_class():
    population = np.array([[0]] * 4 + [[1]] * 2 + [[2]] * 3, np.int32)
    sample = np.array([[0], [1], [1]], np.int32)
    k_map = measure_k_map(sample, population)
    presence = measure_presence(sample, population, k_map)
    assert presence.probabilities.tolist() == [0.25] * 4 + [1.0] * 2 + [0.0] * 3
    assert (presence.lowest, presence.highest) == (0.0, 1.0)
    assert (k_map.k, k_map.n_unmatched) == (2, 0)


def test_records_that_match_nobody_are_counted():
    sample = np.array([[0], [7]], np.int32)
    population = np.array([[0], [0]], np.int32)
    k_map = measure_k_map(sample, population)
    assert (k_map.k, k_map.n_unmatched, k_map.count_below(3)) == (0, 1, 2)
    assert measure_presence(sample, population, k_map).probabilities.tolist() == [0.5, 0.5]


def test_wrong_tables_are_refused():
    sample = np.zeros((2, 2), np.int32)
    with pytest.raises(InvalidParameter):
        measure_k_map(sample, np.zeros((2, 1), np.int32))
    with pytest.raises(InvalidParameter):
        measure_k_map(sample, np.zeros((2, 2)))
    with pytest.raises(TooFewRecords):
        measure_k_map(sample, sample[:0])
