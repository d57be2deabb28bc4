"""dp_ranks of text, enumerated types, booleans, dates and logarithms: public domains."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import errors
from dbanon.extensions.synthesis.columns import TypedTable, define_public_columns
from dbanon.extensions.synthesis.dependence import (
    compute_expected_counts,
    count_two_way,
    score_independence,
)
from dbanon.extensions.synthesis.domains import (
    BOOLEAN_HIERARCHY,
    CategoricalDomain,
    add_other_leaf,
    assign_bins,
)
from dbanon.extensions.synthesis.margins import CategoricalMargin, count_rows_per_leaf
from dbanon.extensions.synthesis.ranks import dp_ranks
from dbanon.extensions.synthesis.shares import GRID, divide_epsilon
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.job.synthesis import PrivateOptions
from tests.reference.private_calls import JOB_TREE as TREE
from tests.reference.private_calls import JOBS as LABELS
from tests.reference.private_calls import people, synthesize
from tests.reference.synthesis import Recording

# Sensitivity


def test_counts_of_leaves_move_by_two_at_most_and_reach_it():
    """All columns of four rows over three leaves, and all changes of one of them."""
    worst = 0
    for values in product(range(3), repeat=4):
        before = count_rows_per_leaf(np.array(values), 3)
        assert before.sum() == 4
        for index, other in product(range(4), range(3)):
            changed = np.array(values)
            changed[index] = other
            worst = max(worst, int(np.abs(count_rows_per_leaf(changed, 3) - before).sum()))
    assert worst == 2


def test_no_value_adds_a_count():
    assert count_rows_per_leaf(np.zeros(5, np.int64), 4).tolist() == [5, 0, 0, 0]


@st.composite
def neighbours(draw):
    """Bins of two columns of two tables that differ in a row, and noisy shares of the bins."""
    n, most = draw(st.integers(1, 30)), draw(st.integers(2, 9))
    sizes = draw(st.integers(1, most)), draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    table = np.array([rng.integers(0, size, n) for size in sizes])
    other = table.copy()
    other[:, rng.integers(n)] = [rng.integers(0, size) for size in sizes]
    odds = [rng.dirichlet(np.full(size, 0.3)) for size in sizes]
    return table, other, sizes, odds, most**2


@given(neighbours())
@settings(max_examples=400, deadline=None)
def test_scores_with_products_of_noisy_margins(tables):
    """Whatever the shares are: 2 units, for which the expected counts must be whole numbers."""
    first, other, sizes, odds, unit = tables
    apart = compute_expected_counts(first.shape[1], *odds, unit)
    assert apart.dtype == np.int64
    before, after = (count_two_way(*table, sizes) for table in (first, other))
    assert np.abs(before - after).sum() <= 2
    assert (
        abs(score_independence(before, apart, unit) - score_independence(after, apart, unit))
        <= 2 * unit
    )


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=100, deadline=None)
def test_one_value_changes_one_whole_number(seed, n):
    """Columns of every kind, so that every property of the grid holds for the table."""
    rng = np.random.default_rng(seed)
    table = people(n, seed)
    table["tail"] = rng.pareto(1.0, n) * 100
    columns = kinds_of(table, bounds={"age": (0, 100), "tail": (1, 1000)}, scale={"tail": "log"})
    other = table.copy()
    other.loc[rng.integers(n)] = ["x", True, np.inf, np.nan]
    for column in columns:
        both = [
            column.to_grid(column.encode(t[column.name].to_numpy(), None)) for t in (table, other)
        ]
        assert all(part.dtype == np.int64 for part in both)
        assert (both[0] != both[1]).sum() <= 1
        top = GRID if column.tree is None else column.tree.n_leaves - 1
        assert min(part.min() for part in both) >= 0
        assert max(part.max() for part in both) <= top


def kinds_of(frame, labels=None, **options):
    options = {"orders": {"job": LABELS}, **options}
    kinds = [np.dtype(object) if dtype == frame["job"].dtype else dtype for dtype in frame.dtypes]
    table = TypedTable(
        len(frame),
        tuple(frame),
        tuple(kinds),
        (False,) * len(kinds),
        lambda j: None,
        labels=labels or {},
    )
    return define_public_columns(table, PrivateOptions(epsilon=1.0, **options))


# Accounting

MIXED = (None, TREE, BOOLEAN_HIERARCHY, flat_hierarchy([str(i) for i in range(300)]))


@pytest.mark.parametrize(
    "trees", [MIXED, (TREE,), (BOOLEAN_HIERARCHY, BOOLEAN_HIERARCHY), (None, TREE)]
)
@pytest.mark.parametrize("epsilon", [0.1, 1 / 3, 1.0, 7.3])
def test_the_price_is_epsilon_and_never_more(trees, epsilon):
    from dbanon.extensions.synthesis.noise import OpenDpNoise

    noise = OpenDpNoise()
    for n in (1012, 19_020, 10**6):
        if 4 * len(trees) / (n * epsilon) > 0.05:
            continue
        divided = divide_epsilon(n, len(trees), epsilon, trees)
        assert epsilon * (1 - 1e-9) <= divided.price(noise) <= epsilon


@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_draws_are_the_same_whatever_the_data_are(epsilon):
    n, rng = 2000, np.random.default_rng(0)
    divided = divide_epsilon(n, 4, epsilon, MIXED)
    tops = [GRID, *(tree.n_leaves - 1 for tree in MIXED[1:])]
    seen = []
    for grid in (
        np.array([rng.integers(0, top + 1, n) for top in tops]),
        np.zeros((4, n), np.int64),
        np.array([np.full(n, top) for top in tops]),
    ):
        noise = Recording()
        dp_ranks(grid, divided, noise, rng)
        # The tables' sizes follow from which pairs were chosen, by noisy scores; their price not.
        tables = divided.count_scale
        seen.append([(kind, scale != tables and m, scale) for kind, m, scale in noise.drawn])
        assert noise.spent(divided) <= epsilon
    assert seen[0] == seen[1] == seen[2]
    assert [m for kind, m, _ in seen[0][1:4] if kind == "laplace"] == [6, 2, 300]


# Bins


def test_bins_are_the_deepest_cut_and_then_the_heaviest_values():
    even = np.full(6, 1 / 6)
    assert assign_bins(TREE, even, 9).tolist() == [0, 1, 2, 3, 4, 5]
    # Work, none, other.
    assert assign_bins(TREE, even, 3).tolist() == [0, 0, 0, 1, 1, 2]
    assert assign_bins(TREE, np.array([0.1, 0.5, 0.1, 0.1, 0.1, 0.1]), 4).tolist() == [
        0,
        3,
        0,
        1,
        1,
        2,
    ]
    assert assign_bins(TREE, even, 2).tolist() == [1, 0, 0, 0, 0, 0]
    assert assign_bins(TREE, even, 1).tolist() == [0] * 6
    listed = flat_hierarchy([str(i) for i in range(50)])
    assert len(set(assign_bins(listed, np.arange(50.0), 8).tolist())) == 8
    assert assign_bins(listed, np.arange(50.0), 8)[:43].tolist() == [0] * 43


@given(st.integers(2, 40), st.integers(1, 12), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_how_many_bins_there_are_is_public(leaves, most, seed):
    rng = np.random.default_rng(seed)
    tree = dbanon.hierarchy.builders.ordered([str(i) for i in range(leaves)])
    for _ in range(3):
        bins = assign_bins(tree, rng.dirichlet(np.full(leaves, 0.1)), most)
        assert sorted(set(bins.tolist())) == list(range(min(most, leaves)))


def test_values_are_drawn_by_their_shares_within_a_bin():
    margin = CategoricalMargin(np.array([0.3, 0.1, 0.6, 0.0, 0.0]), np.array([0, 0, 1, 2, 2]))
    np.testing.assert_allclose(margin.bin_shares, [0.4, 0.6, 0.0])
    inside = (np.arange(1000) + 0.5) / 1000
    values = margin.to_values(np.zeros(1000, np.int64), inside)
    assert np.bincount(values.astype(int)).tolist() == [750, 250]
    assert set(margin.to_values(np.full(10, 2), np.linspace(0, 0.999, 10))) == {3.0, 4.0}
    codes, places = margin.locate(np.array([4, 0, 2, 1]), np.random.default_rng(0))
    assert codes.tolist() == [2, 0, 1, 0]
    # The first bin is the first leaf's to three quarters, the last is none's and half of each.
    assert 0.5 <= places[0] <= 1
    assert 0 <= places[1] <= 0.75 <= places[3] <= 1


def test_a_leaf_without_rows_joins_the_bin_of_the_leaf_with_the_most():
    margin = CategoricalMargin(np.array([0.4, 0.0, 0.5, 0.1]), np.array([0, 1, 2, 1]))
    without = margin.without_leaf(1)
    assert without.bins.tolist() == [0, 2, 2, 1]
    assert (margin.n_counts, without.n_counts) == (4, 3)
    values = without.to_values(np.full(9, 2), np.linspace(0, 0.999, 9))
    assert set(values.tolist()) == {2.0}
    # A bin that nothing is left in is not kept.
    with_two_bins = CategoricalMargin(np.array([0.7, 0.0, 0.3]), np.arange(3)).without_leaf(1)
    assert with_two_bins.bins.tolist() == [0, 0, 1]
    np.testing.assert_allclose(with_two_bins.bin_shares, [0.7, 0.3])


# Refusals, and public domains


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"orders": {}}, errors.BoundsRequired),
        ({"orders": {"job": LABELS}, "hierarchies": {"job": TREE}}, errors.InvalidParameter),
        ({"orders": {"job": ["nurse", "nurse"]}}, errors.InvalidParameter),
        ({"orders": {"job": []}}, errors.InvalidParameter),
        ({"orders": {"job": "nurse"}}, errors.InvalidParameter),
        ({"orders": {"job": LABELS, "age": ["1"]}}, errors.InvalidParameter),
        ({"orders": {"job": LABELS, "nothing": ["1"]}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": {"mask": True}}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": {"ordered": True}}}, errors.InvalidParameter),
        ({"orders": {}, "hierarchies": {"job": "name:jobs"}}, errors.InvalidParameter),
        (
            {"orders": {}, "hierarchies": {"job": {"tree": {"*": {"other": ["a", "b"]}}}}},
            errors.InvalidParameter,
        ),
        ({"null_as": {}}, errors.InvalidParameter),
        ({"null_as": {"job": "unknown"}}, errors.InvalidParameter),
        ({"null_as": {"job": 3}}, errors.InvalidParameter),
        ({"null_as": {"job": "other", "ill": 0.5}}, errors.InvalidParameter),
        ({"bounds": {"age": (0, 100), "job": (0, 1)}}, errors.InvalidParameter),
        ({"bounds": {"age": (0, 100), "ill": (0, 2)}}, errors.InvalidParameter),
        ({"scale": {"age": "log"}}, errors.InvalidParameter),
        ({"scale": {"job": "log"}}, errors.InvalidParameter),
        ({"scale": {"age": "sqrt"}}, errors.InvalidParameter),
    ],
)
def test_refusals_spend_nothing(options, error):
    budget = dbanon.Budget(50.0)
    usual = {"orders": {"job": LABELS}, "bounds": {"age": (0, 100)}, "null_as": {"job": "other"}}
    with pytest.raises(error) as refused:
        synthesize(people(200), budget=budget, **usual | options)
    assert budget.spent == 0.0
    assert "0x" not in str(refused.value)


def test_text_without_a_list_is_refused():
    for column in (pd.interval_range(0, 300), [1 + 2j] * 300, pd.Categorical(range(300))):
        with pytest.raises(errors.BoundsRequired):
            synthesize(pd.DataFrame({"strange": column}))


def test_a_type_that_states_its_values_has_no_other():
    """Like an enumerated type of a database: its labels are public and complete."""
    frame = people(50)
    usual = {"labels": {"job": LABELS}, "orders": {}, "bounds": {"age": (0, 100)}}
    job = kinds_of(frame, **usual)[0]
    assert isinstance(job, CategoricalDomain)
    assert list(job.tree.positions) == list(LABELS)
    halves = dbanon.Hierarchy.from_nested({"*": {"a": LABELS[:2], "b": LABELS[2:]}})
    by_tree = kinds_of(frame, **usual, hierarchies={"job": halves})[0]
    assert by_tree.tree.height == 2
    # A list of the caller's own goes before that of the type.
    domain = kinds_of(frame, **usual | {"orders": {"job": LABELS[:3]}})[0]
    assert domain.labels == (*LABELS[:3], "other")


def test_other_is_a_leaf_and_only_one():
    assert add_other_leaf(TREE) is TREE
    assert list(add_other_leaf(flat_hierarchy(["a", "b"])).positions) == ["a", "b", "other"]
