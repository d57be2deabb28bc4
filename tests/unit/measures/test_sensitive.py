"""Measures of a sensitive attribute: by hand, against pycanon, and from their definitions."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.data.partition import Partition
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Model, average_class_size, discernibility, sensitive
from tests.generalization_data import random_tree
from tests.prerequisites import import_or_skip
from tests.reference import worst_class

HAND = np.array([[3, 1, 0, 0], [1, 1, 1, 1]])


def each(kind, counts, table_counts=None, persons=None, *, l=2, distance="equal"):  # noqa: E741
    """The level of each class, as the package measures it."""
    return {
        "distinct_l": lambda: sensitive.class_distinct_counts(counts),
        "entropy_l": lambda: sensitive.class_entropies(counts),
        "recursive_cl": lambda: sensitive.class_recursive_ratios(counts, l),
        "alpha_k": lambda: sensitive.class_largest_shares(counts),
        "t_closeness": lambda: sensitive.class_distances(counts, distance, table_counts, persons),
        "beta_likeness": lambda: sensitive.class_gains(counts, table_counts, persons),
        "delta_disclosure": lambda: sensitive.class_log_ratios(counts, table_counts, persons),
    }[kind]()


def worst(kind, counts, **more):
    """The level of the worst class; without classes that of a perfect release."""
    if kind in ("distinct_l", "entropy_l"):
        return float(each(kind, counts, **more).min(initial=counts.shape[1]))
    return float(each(kind, counts, **more).max(initial=0.0))


def test_by_hand():
    """Whole table: 4/8, 2/8, 1/8, 1/8."""
    assert worst("distinct_l", HAND) == 2
    entropy = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert worst("entropy_l", HAND) == pytest.approx(math.exp(entropy))
    assert worst("recursive_cl", HAND, l=2) == 3
    assert worst("recursive_cl", HAND, l=3) == math.inf
    assert worst("alpha_k", HAND) == 0.75
    assert worst("t_closeness", HAND) == pytest.approx(0.25)
    # Class 0 from the whole: 1/4, 0, -1/8, -1/8; running sums 1/4, 1/4, 1/8, 0.
    assert worst("t_closeness", HAND, distance="ordered") == pytest.approx(5 / 8 / 3)
    # Pairs {0, 1} and {2, 3}: 1/4 crosses the root; the pairs balance. In the other class 1/8 does
    # not: 1/4 crosses the root as well.
    pairs = Hierarchy.from_levels(
        [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"], ["d", "y", "*"]]
    )
    assert worst("t_closeness", HAND, distance=pairs) == pytest.approx(0.25)
    assert worst("beta_likeness", HAND) == pytest.approx(1.0)
    assert worst("delta_disclosure", HAND) == pytest.approx(math.log(2))
    with pytest.raises(ValueError, match="distance"):
        worst("t_closeness", HAND, distance="other")


def test_without_classes():
    none = sensitive.sensitive_counts(Partition([-1, -1]), np.array([0, 1], np.int32), 2)
    assert none.shape == (0, 2)
    assert worst("distinct_l", none) == worst("entropy_l", none) == 2
    for measure in (
        "alpha_k",
        "t_closeness",
        "beta_likeness",
        "delta_disclosure",
    ):
        assert worst(measure, none) == 0
    assert worst("recursive_cl", none, l=2) == 0


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m, s = draw(st.integers(2, 60)), draw(st.integers(1, 6)), draw(st.integers(2, 6))
    labels = np.unique(rng.integers(0, m, n), return_inverse=True)[1]
    return labels.astype(np.int32), np.unique(rng.integers(0, s, n), return_inverse=True)[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:In a future version:FutureWarning")
@pytest.mark.filterwarnings("ignore:In a future version:DeprecationWarning")
@given(tables())
@settings(max_examples=30)
def test_agrees_with_pycanon(case):
    anonymity = import_or_skip("pycanon.anonymity")
    labels, codes = case
    s = int(codes.max()) + 1
    counts = sensitive.sensitive_counts(Partition(labels), codes.astype(np.int32), s)
    frame = pd.DataFrame({"q": labels, "text": [f"v{code}" for code in codes], "number": codes})
    q, text, number = ["q"], ["text"], ["number"]
    assert worst("distinct_l", counts) == anonymity.l_diversity(frame, q, text)
    # pycanon rounds down.
    assert abs(worst("entropy_l", counts) - anonymity.entropy_l_diversity(frame, q, text)) <= 1
    assert worst("alpha_k", counts) == anonymity.alpha_k_anonymity(frame, q, text)[0]
    if s > 1:
        assert worst("t_closeness", counts) == pytest.approx(
            anonymity.t_closeness(frame, q, text), abs=1e-12
        )
        assert worst("t_closeness", counts, distance="ordered") == pytest.approx(
            anonymity.t_closeness(frame, q, number), abs=1e-12
        )
    for ours, theirs in (
        ("beta_likeness", anonymity.basic_beta_likeness),
        ("delta_disclosure", anonymity.delta_disclosure),
    ):
        assert worst(ours, counts) == pytest.approx(theirs(frame, q, text), abs=1e-12)


def utility_metrics():
    """One file of pycanon.metrics: the others import scipy."""
    pycanon = import_or_skip("pycanon")
    path = Path(pycanon.__file__).parent / "metrics" / "_utility_metrics.py"
    spec = importlib.util.spec_from_file_location("utility_metrics", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:In a future version:FutureWarning")
@pytest.mark.filterwarnings("ignore:In a future version:DeprecationWarning")
@given(tables(), st.integers(0, 3))
@settings(max_examples=30)
def test_class_sizes_agree_with_pycanon(case, withheld):
    metrics = utility_metrics()
    labels, _ = case
    partition = Partition(np.concatenate([labels, [-1] * withheld]))
    released = pd.DataFrame({"q": labels})
    table = pd.DataFrame({"q": [*labels, *range(withheld)]})
    k = int(partition.sizes.min())
    assert discernibility(partition) == metrics.discernability_metric(table, released, ["q"])
    assert average_class_size(partition, k) == pytest.approx(
        metrics.average_ecsize(table, released, ["q"])
    )


def beta_of(row, table, value):
    """How much more often than in the table a value is in a class, from the definition."""
    return row[value] / sum(row) / table[value] - 1


@given(tables())
@settings(max_examples=100)
def test_likeness_and_disclosure_by_their_definitions(case):
    labels, codes = case
    rows = [np.bincount(codes[labels == c], minlength=6).tolist() for c in range(labels.max() + 1)]
    table = [list(codes).count(value) / len(codes) for value in range(6)]
    occurring = [v for v in range(6) if table[v]]
    counts = sensitive.sensitive_counts(Partition(labels), codes.astype(np.int32), 6)
    beta = max(beta_of(row, table, v) for row in rows for v in occurring)
    assert worst("beta_likeness", counts) == pytest.approx(max(beta, 0), abs=1e-12)
    delta = max(
        abs(math.log(row[v] / sum(row) / table[v])) for row in rows for v in occurring if row[v]
    )
    assert worst("delta_disclosure", counts) == pytest.approx(delta, abs=1e-12)


def holds(row, c, most):
    """Recursive (c, l)-diversity of one class, from the definition."""
    falling = sorted(row, reverse=True)
    return falling[0] < c * sum(falling[most - 1 :])


@given(tables(), st.integers(2, 4))
@settings(max_examples=100)
def test_recursive_diversity_by_its_definition(case, most):
    """pycanon sorts the counts the other way round, so it is no witness here."""
    labels, codes = case
    counts = sensitive.sensitive_counts(Partition(labels), codes.astype(np.int32), 6)
    c = worst("recursive_cl", counts, l=most)
    if c == math.inf:
        assert not all(holds(row, 1e9, most) for row in counts.tolist())
    else:
        assert all(holds(row, c + 1e-9, most) for row in counts.tolist())
        assert not all(holds(row, c - 1e-9, most) for row in counts.tolist())


def movers_cost(extra, tree):
    """Mass moved up leaf by leaf, matched as low as it can be: optimal in a tree of equal depth."""
    waiting = {}
    for at, mass in enumerate(extra):
        waiting[int(tree.leaves[at])] = ([mass] if mass > 0 else [], [-mass] if mass < 0 else [])
    cost = 0.0
    for node in range(len(tree.labels) - 1, -1, -1):
        children = [c for c in range(len(tree.labels)) if tree.parents[c] == node]
        if not children:
            continue
        over = sum(sum(waiting[c][0]) for c in children)
        short = sum(sum(waiting[c][1]) for c in children)
        matched = min(over, short)
        high = max(int(tree.depths[c]) for c in range(len(tree.labels))) - int(tree.depths[node])
        cost += matched * high / tree.height
        waiting[node] = ([over - matched], [short - matched])
    return cost


@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from(["flat", "even", "deep"]))
@settings(max_examples=60)
def test_t_by_hierarchy(seed, leaves, shape):
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, leaves, shape)
    counts = rng.integers(0, 4, (3, tree.n_leaves)) + (np.arange(tree.n_leaves) < 1)
    table = counts.sum(axis=0) / counts.sum()
    expected = max(movers_cost(row / row.sum() - table, tree) for row in counts)
    assert worst("t_closeness", counts, distance=tree) == pytest.approx(expected, abs=1e-9)
    if shape == "flat":
        expected = worst("t_closeness", counts)
        assert worst("t_closeness", counts, distance=tree) == pytest.approx(expected)


KINDS = (
    "distinct_l",
    "entropy_l",
    "recursive_cl",
    "alpha_k",
    "t_closeness",
    "beta_likeness",
    "delta_disclosure",
)
DISTANCES = ("equal", "ordered", "flat", "even", "uneven", "deep")


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
@pytest.mark.parametrize("kind", KINDS)
@given(st.integers(0, 2**32), st.sampled_from(DISTANCES), st.integers(1, 4), st.floats(0.05, 1))
@settings(max_examples=60)
def test_levels_are_those_of_plain_loops(kind, persons, seed, distance, most, level):
    """Classes against their own table and another, with values that either may lack."""
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(1, 6)), int(rng.integers(2, 7))
    if distance not in ("equal", "ordered"):
        distance = random_tree(rng, width, distance)
        width = distance.n_leaves
    counts = rng.integers(0, 6, (n, width)) * rng.integers(0, 2, (n, width))
    counts[counts.sum(axis=1) == 0, 0] = 1
    # Everybody has a value, and may have several.
    sizes = rng.integers(counts.max(axis=1), counts.sum(axis=1) + 1) if persons else None
    table = counts.sum(axis=0) / (sizes.sum() if persons else counts.sum())
    other = rng.dirichlet(np.ones(width)) * rng.permutation(np.arange(width) % 2 == 0)
    if not persons:
        other /= other.sum()
    for table_counts in (table, other):
        more = {"l": most, "distance": distance}
        expected = [
            worst_class.level_of_class(
                kind, row, table_counts, **more, persons=None if sizes is None else sizes[c]
            )
            for c, row in enumerate(counts)
        ]
        model = Model(kind, "a", level, **more)
        reached, _ = model._levels(counts, table_counts, sizes)
        np.testing.assert_allclose(reached, expected, rtol=1e-9, atol=1e-9)
        better = max if kind in worst_class.AT_LEAST else min
        for bound in (level, better(expected)):
            if not 0 < bound <= (1 if kind in ("alpha_k", "t_closeness") else 1e9):
                continue
            model = Model(kind, "a", bound, **more)
            assert model.is_satisfied(counts, table_counts, sizes).tolist() == [
                worst_class.keeps(
                    kind,
                    bound,
                    row,
                    table_counts,
                    **more,
                    persons=None if sizes is None else sizes[c],
                )
                for c, row in enumerate(counts)
            ]
