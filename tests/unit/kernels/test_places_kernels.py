"""Centroid methods on mixed records without coordinates, against a matrix of all distances."""

from functools import cache, partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.data.scales import Scale
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.codes import AttributeMetric, Metric
from tests.generalization_data import mixed_search, random_tree
from tests.reference import code_space as plain
from tests.reference import passed

METHODS = {
    "mdav": (kernels.MixedMdav, plain.mdav),
    "cbfs": (kernels.MixedCbfs, plain.cbfs),
    "vmdav": (partial(kernels.MixedVmdav, lambda_=0.2), partial(plain.vmdav, lambda_=0.2)),
    "vmdav, far": (partial(kernels.MixedVmdav, lambda_=1.1), partial(plain.vmdav, lambda_=1.1)),
    "md": (kernels.MixedMd, plain.md),
    "ldf": (
        partial(kernels.MixedDensityFirst, lowest=True),
        partial(plain.density_first, lowest=True),
    ),
    "hdf": (
        partial(kernels.MixedDensityFirst, lowest=False),
        partial(plain.density_first, lowest=False),
    ),
    "tfrp1": (
        partial(kernels.MixedTfrp, second_stage=False),
        partial(plain.tfrp, second_stage=False),
    ),
    "tfrp2": (
        partial(kernels.MixedTfrp, second_stage=True),
        partial(plain.tfrp, second_stage=True),
    ),
}
# Their plain versions look at each remaining record in each round.
SLOW = {"ldf", "hdf", "tfrp2"}


@pytest.fixture(params=kernels.simd_levels())
def level(request):
    """Each build of the inner loops in turn."""
    before = kernels.simd_level()
    kernels.set_simd_level(request.param)
    yield request.param
    kernels.set_simd_level(before)


def flat_hierarchy(leaves):
    return Hierarchy(["root", *(f"v{i}" for i in range(leaves))], [-1] + [0] * leaves)


def broad(levels=6, leaves=20):
    """A tree whose paths do not fit: at each level the first of many children goes on."""
    tree = [f"{levels}.{i}" for i in range(leaves)]
    for at in range(levels - 1, 0, -1):
        tree = {f"{at}.{i}": tree if i == 0 else [f"leaf {at}.{i}"] for i in range(leaves)}
    return Hierarchy.from_nested({"*": tree})


TREES = {
    "two": lambda rng: flat_hierarchy(2),
    "some": lambda rng: flat_hierarchy(30),
    "even": lambda rng: random_tree(rng, 60, "even"),
    "deep": lambda rng: random_tree(rng, 200, "deep"),
    "uneven": lambda rng: random_tree(rng, 50, "uneven"),
    "broad": lambda rng: broad(),
    "one": lambda rng: random_tree(rng, 1, "one"),
}

KINDS = (
    ("number", "number"),
    ("number", "grid", "two", "some"),
    ("number", "even", "deep"),
    ("two", "some"),
    ("uneven", "grid"),
    ("broad", "two", "number"),
    ("one", "uneven", "deep"),
    ("grid", "grid", "two"),
)


def random_records(kinds, n, rng, weights=None):
    """Records of attributes of these kinds, and what measures them."""
    weights = weights or [1.0] * len(kinds)
    measured, columns = [], []
    for kind, weight in zip(kinds, weights, strict=True):
        tree = TREES[kind](rng) if kind in TREES else None
        scale = None
        values = np.empty(0)
        if tree is None:
            values = rng.integers(0, 4, n).astype(float) if kind == "grid" else rng.normal(size=n)
            scale = Scale.of(values)
        measured.append(AttributeMetric.of(tree, scale, "range", weight**0.5))
        columns.append(values)
    metric = Metric.of(measured)
    codes = np.empty((n, len(kinds)), np.int32)
    for at, (values, attribute) in enumerate(zip(columns, measured, strict=True)):
        if attribute.tree is None:
            codes[:, at] = metric.codes(at, values, None)
        else:
            codes[:, at] = attribute.tree.n_leaves * rng.random(n) ** 2.5
    return codes, metric


def run(method, codes, metric, k, budget=kernels.DEFAULT_BUDGET, search="auto"):
    with mixed_search(search):
        kernel = METHODS[method][0](metric.table(codes), metric.step_squares, k)
        while not kernel.step(budget):
            assert 0 <= kernel.progress < 1
    return kernel.labels()


def expected(method, codes, metric, k):
    more = {}
    if method.startswith("tfrp"):
        numbers = [tree.tree is None for tree in metric.attributes]
        more["numbers"] = codes[:, numbers].astype(np.int64)
    return METHODS[method][1](plain.squared(codes, metric), k, **more)


@cache
def case_of(method, kinds):
    """Records of these kinds, what measures them, and the plain version's classes for each k."""
    rng = np.random.default_rng(len(kinds))
    codes, metric = random_records(kinds, 80 if method in SLOW else 300, rng)
    return codes, metric, {k: expected(method, codes, metric, k) for k in (2, 7)}


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("method", METHODS)
def test_every_build_gives_the_classes_of_the_plain_version(method, kinds, level):
    codes, metric, classes = case_of(method, kinds)
    for k, labels in classes.items():
        for search in ("auto", "brute"):
            np.testing.assert_array_equal(run(method, codes, metric, k, search=search), labels)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 130), k=st.integers(1, 12))
@example(seed=1402309, n=25, k=1)  # ties of costs with more digits than a float64
def test_small_tables_with_many_ties(method, seed, n, k):
    rng = np.random.default_rng(seed)
    kinds = KINDS[rng.integers(len(KINDS))]
    weights = rng.choice([0.0, 0.25, 1.0, 3.7], len(kinds)).tolist()
    codes, metric = random_records(kinds, n, rng, weights)
    # Copies of few rows: as many ties as can be.
    codes = np.ascontiguousarray(codes[rng.integers(0, rng.integers(1, n + 1), n)])
    k = min(k, n)
    classes, budget = expected(method, codes, metric, k), int(rng.integers(1, 500))
    for search in ("auto", "brute"):
        actual = run(method, codes, metric, k, budget, search)
        np.testing.assert_array_equal(actual, classes)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mdav", "cbfs", "md", "tfrp1"])
def test_a_table_that_fills_several_trees(method):
    rng = np.random.default_rng(7)
    # Trees are built anew where half of the tuples are left, and these are 1000 at least.
    codes, metric = random_records(("number", "some", "deep", "broad"), 2_100, rng)
    assert len(np.unique(codes, axis=0)) == 2_100
    classes = expected(method, codes, metric, 5)
    for search in ("index", "brute"):
        np.testing.assert_array_equal(run(method, codes, metric, 5, search=search), classes)


def test_the_order_of_attributes_changes_nothing():
    rng = np.random.default_rng(8)
    codes, metric = random_records(("uneven", "number", "some", "grid"), 400, rng)
    order = [2, 0, 3, 1]
    turned = Metric(
        tuple(metric.attributes[i] for i in order),
        metric.max_distances[order],
        metric.step_squares[order],
    )
    for method in METHODS:
        np.testing.assert_array_equal(
            run(method, codes, metric, 3),
            run(method, np.ascontiguousarray(codes[:, order]), turned, 3),
        )


def test_what_is_wrong_is_refused():
    codes, metric = random_records(("number", "two"), 20, np.random.default_rng(1))
    table = metric.table(codes)
    for squares in ([0], [0, -1], [0, 1 << 62], [0, 0, 0]):
        with pytest.raises(ValueError, match="square"):
            kernels.MixedMdav(table, np.array(squares), 2)
    with pytest.raises(ValueError, match="k must be"):
        kernels.MixedMdav(table, metric.step_squares, 0)
    with pytest.raises(ValueError, match="fewer than k"):
        kernels.MixedMdav(table, metric.step_squares, 21)
    high = np.array([2, 2, 1], np.int32)
    below = kernels.MixedTable(
        np.zeros((4, 1), np.int32),
        np.array([8]),
        np.array([3], np.int32),
        high,
        np.zeros(3, np.int32),
    )
    with pytest.raises(ValueError, match="one depth"):
        kernels.MixedMdav(below, np.array([1]), 2)


def in_40_bits(codes, metric):
    """Squared distances as refinements count them."""
    largest = sum(
        int(unit) ** 2 if attribute.tree is None else int(square) * attribute.tree.height**2
        for attribute, unit, square in zip(
            metric.attributes, metric.max_distances, metric.step_squares, strict=True
        )
    )
    return plain.squared(codes, metric) >> max(largest.bit_length() - 40, 0)


def sums_of_squares(squares, labels):
    """The sums of squares of all classes, as squared distances of pairs tell them."""
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sum(
        squares[np.ix_(class_members, class_members)].sum() / 2 / len(class_members)
        for class_members in members
    )


def refined(codes, metric, k, labels, budget=kernels.DEFAULT_BUDGET, **effort):
    table = metric.table(codes)
    kernel = (
        kernels.MixedRefine(table, metric.step_squares, k, labels, **effort)
        if effort
        else kernels.MixedPass(table, metric.step_squares, k, labels)
    )
    while not kernel.step(budget):
        assert 0 <= kernel.progress < 1
    return kernel.labels()


@pytest.mark.parametrize("kinds", KINDS)
def test_the_pass_gives_the_classes_of_the_plain_version(kinds, level):
    rng = np.random.default_rng(len(kinds) + 1)
    codes, metric = random_records(kinds, 120, rng)
    labels = run("mdav", codes, metric, 3)
    actual = refined(codes, metric, 3, labels)
    squares = in_40_bits(codes, metric)
    np.testing.assert_array_equal(actual, passed.passed_apart(squares, labels, 3))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(1, 70), k=st.integers(1, 6))
def test_the_pass_on_small_tables_with_many_ties(seed, n, k):
    rng = np.random.default_rng(seed)
    codes, metric = random_records(KINDS[rng.integers(len(KINDS))], n, rng)
    codes = np.ascontiguousarray(codes[rng.integers(0, rng.integers(1, n + 1), n)])
    k = min(k, n // 2 + 1)
    labels = run("cbfs", codes, metric, k)
    actual = refined(codes, metric, k, labels, budget=int(rng.integers(1, 500)))
    squares = in_40_bits(codes, metric)
    np.testing.assert_array_equal(actual, passed.passed_apart(squares, labels, k))


@pytest.mark.parametrize("heat", [0.0, 0.09])
def test_refinement_loses_no_more_and_follows_its_seed(heat, level):
    rng = np.random.default_rng(11)
    codes, metric = random_records(("number", "some", "deep", "broad"), 300, rng)
    squares = in_40_bits(codes, metric)
    # Classes of 2k and more are cut first.
    labels = np.repeat(np.arange(10), 30).astype(np.int32)
    effort = {
        "iterations": 400,
        "work": 10**9,
        "seconds": 0.0,
        "heat": heat,
        "classes": 6,
    }
    actual = refined(codes, metric, 3, labels, seed=5, **effort)
    sizes = np.bincount(actual)
    assert sizes.min() >= 3
    assert sizes.max() <= 5
    again = refined(codes, metric, 3, labels, budget=1_000, seed=5, **effort)
    np.testing.assert_array_equal(actual, again)
    best = refined(codes, metric, 3, run("mdav", codes, metric, 3))
    assert sums_of_squares(squares, actual) < 1.01 * sums_of_squares(squares, best)
    assert sums_of_squares(squares, best) < sums_of_squares(squares, run("mdav", codes, metric, 3))
