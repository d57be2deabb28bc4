"""k-member, KACA, EBKC and the local search: kernels against the plain versions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.spaces.mixed import ROOT_COST, LabelCosts, MixedSpace
from tests.generalization_data import draw_costs, draw_space, mixed_search, spaces
from tests.reference import generalization as reference
from tests.reference import refine_loss


def finish(kernel, budget=kernels.DEFAULT_BUDGET):
    while not kernel.step(budget):
        assert 0 <= kernel.progress < 1
    assert kernel.progress == 1
    return kernel.labels()


NO_MODELS = kernels.Models(np.empty(0, np.int32))


@given(spaces())
@settings(max_examples=100)
def test_kmember_equals_the_plain_version(case):
    space, k = case
    np.testing.assert_array_equal(
        finish(kernels.KMember(space.table(), k)), reference.kmember(space, k)
    )


@given(spaces(largest=40), st.integers(0, 2**63 - 1), st.sampled_from([-1.0, 0.0, 0.1, 0.3, 0.5]))
@settings(max_examples=100)
@pytest.mark.parametrize("search", ["auto", "brute"])
def test_merging_equals_the_plain_version(search, case, seed, threshold):
    space, k = case
    with mixed_search(search):
        labels = finish(kernels.Merging(space.table(), k, seed, threshold), 1)
    np.testing.assert_array_equal(labels, reference.merging(space, k, seed, threshold))


@given(st.data(), st.integers(0, 2**63 - 1), st.sampled_from([-1.0, -1.0, 0.05]))
@settings(max_examples=10)
def test_merging_equals_the_plain_version_where_its_trees_are_built_anew(data, seed, threshold):
    space = draw_space(data.draw, 130)
    with mixed_search("index"):
        labels = finish(kernels.Merging(space.table(), 3, seed, threshold), 1000)
    np.testing.assert_array_equal(labels, reference.merging(space, 3, seed, threshold))


@given(spaces(), st.integers(0, 2**63 - 1), st.integers(0, 300))
@settings(max_examples=150)
def test_refine_never_loses_more(case, seed, rounds):
    space, k = case
    records = reference.Records(space)
    start = finish(kernels.GaaCp(space.table(), k))

    def loss(labels):
        return sum(records.loss(np.flatnonzero(labels == c)) for c in range(labels.max() + 1))

    refined = finish(kernels.RefineLoss(space.table(), start, k, rounds, seed, NO_MODELS))
    again = finish(kernels.RefineLoss(space.table(), start, k, rounds, seed, NO_MODELS), 1)
    np.testing.assert_array_equal(refined, again)
    assert np.bincount(refined).min() >= k
    assert loss(refined) <= loss(start)
    first = np.unique(refined, return_index=True)[1]
    assert (np.diff(first) > 0).all()  # classes are numbered by their first record


@given(spaces(largest=30), st.integers(0, 9))
@settings(max_examples=50)
def test_refine_leaves_suppressed_records_alone(case, seed):
    space, k = case
    start = finish(kernels.GaaCp(space.table(), k))
    start = np.where(start == start.max(), -1, start).astype(np.int32)
    refined = finish(kernels.RefineLoss(space.table(), start, k, 100, seed, NO_MODELS))
    np.testing.assert_array_equal(refined < 0, start < 0)


@given(spaces(largest=40), st.data(), st.integers(0, 2**63 - 1), st.integers(0, 40), st.booleans())
@settings(max_examples=150, deadline=None)
def test_refine_equals_the_plain_version(case, data, seed, rounds, labelled):
    space, k = case
    if labelled:
        space = replace(space, minimized_label_costs=draw_costs(data.draw, space))
    start = finish(kernels.GaaCp(space.table(), k))
    if labelled and start.max() > 1:
        start = np.where(start == 1, -1, start - (start > 1)).astype(np.int32)
    arguments = (space.table(), start, k, rounds, seed, NO_MODELS)
    refined = finish(kernels.RefineLoss(*arguments, *space.label_costs.arrays()))
    np.testing.assert_array_equal(refined, refine_loss.refine(space, start, k, rounds, seed))
    if not labelled:
        np.testing.assert_array_equal(refined, finish(kernels.RefineLoss(*arguments)))


def test_swaps_of_a_worked_example():
    """0 1 2 | 10 11 12 and a wrong start: one swap of 2 and 10, and no round at all."""
    codes = np.array([[0], [1], [2], [10], [11], [12]], np.int32) * (ROOT_COST // 12)
    space = MixedSpace(codes, np.array([ROOT_COST], np.int64), (None,), ("a",))
    start = np.array([0, 0, 1, 0, 1, 1], np.int32)
    refined = finish(kernels.RefineLoss(space.table(), start, 3, 0, 1, NO_MODELS))
    assert refined.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.slow
@given(st.data(), st.integers(3, 6), st.integers(0, 2**32))
@settings(max_examples=7, deadline=None)
def test_swaps_equal_the_plain_version_on_trees_of_several_nodes(data, k, seed):
    """At all levels."""
    space = draw_space(data.draw, 120)
    space = replace(space, minimized_label_costs=draw_costs(data.draw, space))
    rng = np.random.default_rng(seed)
    # Far from settled, of several sizes, some records withheld.
    start = rng.permutation(np.repeat(np.arange(120 // k), k + (120 % k > 0))[:120])
    start = np.where(np.bincount(start, minlength=120)[start] < k, -1, start).astype(np.int32)
    arguments = (space.table(), start, k, 0, 1, NO_MODELS)
    expected = refine_loss.refine(space, start, k, 0, 1)
    before = kernels.simd_level()
    try:
        for level in kernels.simd_levels():
            kernels.set_simd_level(level)
            refined = finish(kernels.RefineLoss(*arguments, *space.label_costs.arrays()), 1000)
            np.testing.assert_array_equal(refined, expected, level)
    finally:
        kernels.set_simd_level(before)


@pytest.mark.slow
def test_rounds_end_when_they_no_longer_pay():
    """They are measured by 4,096 where there are fewer classes; nothing saves all of the loss."""
    space = MixedSpace(
        np.random.default_rng(2).integers(0, ROOT_COST, (400, 3)).astype(np.int32),
        np.full(3, ROOT_COST, np.int64),
        (None, None, None),
        ("a", "b", "c"),
    )
    start = finish(kernels.GaaCp(space.table(), 3))

    def refined(rounds, least_saving):
        arguments = (space.table(), start, 3, rounds, 1, NO_MODELS)
        return finish(kernels.RefineLoss(*arguments, worth=least_saving))

    np.testing.assert_array_equal(refined(9_000, 1), refined(4_096, 0))
    np.testing.assert_array_equal(refined(9_000, 10**9), refined(9_000, 0))
    assert (refined(9_000, 0) != refined(4_096, 0)).any()
    with pytest.raises(ValueError, match="worth must be at least 0"):
        refined(1, -1)


@pytest.mark.parametrize("seed", range(20))
def test_refine_holds_where_an_attribute_costs_nothing(seed):
    """Different rows lose nothing together; they lend no more copies than each has."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, 3, 60) * (ROOT_COST // 4), rng.integers(0, 3, 60)])
    units = np.array([ROOT_COST, 0], np.int64)
    space = MixedSpace(codes.astype(np.int32), units, (None, flat_hierarchy("abc")), ("a", "b"))
    start = finish(kernels.GaaCp(space.table(), 3))
    refined = finish(kernels.RefineLoss(space.table(), start, 3, 60, seed, NO_MODELS))
    assert np.bincount(refined).min() >= 3
    np.testing.assert_array_equal(refined, refine_loss.refine(space, start, 3, 60, seed))


@pytest.mark.slow
@given(st.data(), st.integers(0, 9))
@settings(max_examples=4, deadline=None)
def test_refine_equals_the_plain_version_on_many_numbers(data, seed):
    """More than 256 different ones: labels by their pieces, own ranges by subtraction."""
    space = draw_space(data.draw, 270)
    numbers = np.random.default_rng(seed).permutation(270) * (int(space.root_costs[0]) // 270)
    codes = np.column_stack([numbers, space.codes[:, 1:]]).astype(np.int32)
    space = replace(space, codes=codes, trees=(None, *space.trees[1:]))
    space = replace(space, minimized_label_costs=draw_costs(data.draw, space))
    start = finish(kernels.GaaCp(space.table(), 4))
    arguments = (space.table(), start, 4, 25, seed, NO_MODELS)
    refined = finish(kernels.RefineLoss(*arguments, *space.label_costs.arrays()))
    np.testing.assert_array_equal(refined, refine_loss.refine(space, start, 4, 25, seed))


@pytest.mark.parametrize(
    ("pieces", "firsts", "costs"),
    [
        ([2], [0], [0, 1, 0, 0]),
        ([2], [0, 5], [0, 1, 0]),
        ([2], [5, 0], [0, 1, 0, 0]),
        ([2], [0, 5], [0, -1, 0, 0]),
        ([2], [1, 5], [0, 1, 0, 0]),
        ([257], range(257), np.zeros(257 * 257)),
        ([-1], [], []),
        ([1, 1], [0, 0], [0, 0]),
    ],
)
def test_refine_refuses_wrong_costs_of_labels(pieces, firsts, costs):
    codes = np.arange(6, dtype=np.int32)[:, None]
    none = np.empty(0, np.int32)
    table = kernels.MixedTable(codes, np.array([10], np.int64), np.zeros(1, np.int32), none, none)
    wrong = LabelCosts(*(np.array(list(part), np.int32) for part in (pieces, firsts, costs)))
    with pytest.raises(ValueError):
        kernels.RefineLoss(table, np.zeros(6, np.int32), 2, 9, 1, NO_MODELS, *wrong.arrays())
