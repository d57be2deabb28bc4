"""k-member, KACA, EBKC and the local search: kernels against the plain versions."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from tests.generalization_data import spaces
from tests.reference import generalization as reference


def finish(kernel, budget=kernels.DEFAULT_BUDGET):
    while not kernel.step(budget):
        assert 0 <= kernel.progress < 1
    assert kernel.progress == 1
    return kernel.labels()


def no_models(space):
    return np.empty((space.n_records, 0), np.int32), kernels.Models(np.empty(0, np.int32))


@given(spaces())
@settings(max_examples=100)
def test_kmember_equals_the_plain_version(case):
    space, k = case
    np.testing.assert_array_equal(
        finish(kernels.KMember(*space.arrays(), k)), reference.kmember(space, k)
    )


@given(spaces(largest=40), st.integers(0, 2**63 - 1), st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.5]))
@settings(max_examples=100)
def test_merging_equals_the_plain_version(case, seed, threshold):
    space, k = case
    np.testing.assert_array_equal(
        finish(kernels.Merging(*space.arrays(), k, seed, threshold), 1),
        reference.merging(space, k, seed, threshold),
    )


@given(spaces(), st.integers(0, 2**63 - 1), st.integers(0, 300))
@settings(max_examples=150)
def test_refine_never_loses_more(case, seed, rounds):
    space, k = case
    records = reference.Records(space)
    start = finish(kernels.GaaCp(*space.arrays(), k))

    def loss(labels):
        return sum(records.loss(np.flatnonzero(labels == c)) for c in range(labels.max() + 1))

    refined = finish(kernels.RefineLoss(*space.arrays(), start, k, rounds, seed, *no_models(space)))
    again = finish(
        kernels.RefineLoss(*space.arrays(), start, k, rounds, seed, *no_models(space)), 1
    )
    np.testing.assert_array_equal(refined, again)
    assert np.bincount(refined).min() >= k
    assert loss(refined) <= loss(start)
    first = np.unique(refined, return_index=True)[1]
    assert (np.diff(first) > 0).all()  # classes are numbered by their first record


@given(spaces(largest=30), st.integers(0, 9))
@settings(max_examples=50)
def test_refine_leaves_suppressed_records_alone(case, seed):
    space, k = case
    start = finish(kernels.GaaCp(*space.arrays(), k))
    start = np.where(start == start.max(), -1, start).astype(np.int32)
    refined = finish(kernels.RefineLoss(*space.arrays(), start, k, 100, seed, *no_models(space)))
    np.testing.assert_array_equal(refined < 0, start < 0)
