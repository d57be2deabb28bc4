"""Kernels of privacy models against the plain versions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.data.partition import Partition
from dbanon.errors import ModelInfeasible
from dbanon.measures import Model, sensitive_counts
from dbanon.partitioning import refine
from dbanon.partitioning.merge import Guard, merge_classes
from dbanon.partitioning.protect import compile_models
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.generalization_data import random_tree, spaces
from tests.reference import enforce as reference_enforce
from tests.reference import generalization as reference_generalization

LEVELS = {
    "distinct_l": st.integers(1, 4),
    "entropy_l": st.floats(1, 3),
    "recursive_cl": st.floats(0.5, 4),
    "alpha_k": st.floats(0.2, 1),
    "beta_likeness": st.floats(0.1, 3),
    "delta_disclosure": st.floats(0.1, 3),
    "t_closeness": st.floats(0.01, 0.6),
}
EMPTY = np.empty(0, np.int32)
NO_RANGES = np.empty((0, 2), np.int32)


def draw_models(draw, rng, tree):
    """One to three models of attributes a and b, the order of a column being one."""
    models = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(list(LEVELS)))
        name = draw(st.sampled_from("ab"))
        distance = "equal"
        if kind == "t_closeness":
            distance = tree if name == "a" else draw(st.sampled_from(["equal", "ordered"]))
        level = draw(LEVELS[kind])
        models.append(Model(kind, name, level, l=draw(st.integers(1, 3)), distance=distance))
    return models


@st.composite
def cases(draw, largest=40):
    space, k = draw(spaces(largest=largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = space.n_records
    tree = random_tree(rng, int(rng.integers(2, 6)), rng.choice(["flat", "even", "uneven", "deep"]))
    codes = {
        "a": rng.integers(0, tree.n_leaves, n).astype(np.int32),
        "b": rng.choice(5, n, p=[0.5, 0.3, 0.1, 0.1, 0]).astype(np.int32),
    }
    return space, k, codes, draw_models(draw, rng, tree)


def guard_of(codes, models, labels):
    names = list(dict.fromkeys(model.attribute for model in models))
    part = Partition(np.where(labels >= 0, 0, -1))
    tables = {}
    for name in names:
        trees = [
            m.distance.n_leaves
            for m in models
            if m.attribute == name and not isinstance(m.distance, str)
        ]
        width = max([int(codes[name].max()) + 1, *trees])
        counts = sensitive_counts(part, codes[name], width)[0]
        tables[name] = counts / counts.sum()
    values = np.column_stack([codes[name] for name in names]).astype(np.int32)
    return Guard(values, compile_models(models, names, tables)), tables


def finish(kernel, budget=kernels.DEFAULT_BUDGET):
    while not kernel.step(budget):
        assert 0 <= kernel.progress <= 1
    return kernel.labels()


@given(cases(), st.integers(0, 20), st.integers(1, 6))
@settings(max_examples=250)
def test_the_kernel_equals_the_plain_version(case, budget, size):
    space, _, codes, models = case
    n = space.n_records
    labels = (np.random.default_rng(n).permutation(n) // size).astype(np.int32)
    guard, _ = guard_of(codes, models, labels)
    named = {m.attribute: codes[m.attribute] for m in models}
    arguments = (space.table(), labels, guard.values, guard.models, budget)
    actual = finish(kernels.Enforce(*arguments))
    np.testing.assert_array_equal(
        actual,
        reference_enforce.enforce(space, labels, named, models, budget, exact=guard.models),
    )
    np.testing.assert_array_equal(actual, finish(kernels.Enforce(*arguments), 1))


@given(cases(), st.integers(1, 3), st.integers(4, 40))
@settings(max_examples=150)
def test_cuts_equal_the_plain_version(case, k, size):
    space, _, codes, models = case
    n = space.n_records
    k = min(k, n)
    labels = (np.random.default_rng(n).permutation(n) // size).astype(np.int32)
    guard, tables = guard_of(codes, models, labels)
    arguments = (space.table(), labels, k, guard.values, guard.models)
    actual = finish(kernels.Split(*arguments))
    named = {m.attribute: codes[m.attribute] for m in models}
    np.testing.assert_array_equal(
        actual, reference_enforce.split(space, labels, k, named, models, tables)
    )
    np.testing.assert_array_equal(actual, finish(kernels.Split(*arguments), 1))


def test_slices_are_short_where_there_are_many_values():
    n, values = 1200, 20_000
    rng = np.random.default_rng(1)
    rows = rng.integers(0, ROOT_COST + 1, (n, 1)).astype(np.int32)
    space = MixedSpace(rows, np.array([ROOT_COST], np.int64), (None,), ("a",))
    models = kernels.Models(np.array([values], np.int32))
    models.add("entropy_l", 0, 8.0, 2, np.full(values, 1 / values), EMPTY, NO_RANGES)
    codes = rng.integers(0, values, (n, 1)).astype(np.int32)
    labels = (np.arange(n) // 4).astype(np.int32)
    kernel = kernels.Enforce(space.table(), labels, codes, models, 0)
    slices = 1
    while not kernel.step():
        slices += 1
    # At least one look at all counts of each class, some 100 microseconds.
    assert slices > 3 * values * (n // 4) / 8 / kernels.DEFAULT_BUDGET


@given(cases(), st.data())
@settings(max_examples=300)
def test_keeping_to_a_model_is_what_the_measure_says(case, data):
    _, _, codes, models = case
    labels = np.zeros(len(codes["a"]), np.int32)
    guard, tables = guard_of(codes, models, labels)
    counts = {
        name: np.array(data.draw(st.lists(st.integers(0, 5), min_size=len(w), max_size=len(w))))
        for name, w in tables.items()
    }
    if not all(actual.any() for actual in counts.values()):
        return
    together = np.concatenate(list(counts.values())).astype(np.int32)
    expected = all(
        m.is_satisfied(counts[m.attribute].reshape(1, -1), tables[m.attribute])[0] for m in models
    )
    assert guard.models.keeps(together) == expected
    lacking = reference_enforce.lack(
        models, {name: counts[name].reshape(1, -1) for name in tables}, tables
    )
    assert guard.models.lack(together) == pytest.approx(lacking[0], abs=1e-9)


@pytest.mark.parametrize("persons", [False, True], ids=["rows", "persons"])
def test_recursive_diversity_fails_at_equality(persons):
    """Its definition is r_1 < c (r_l + ...): with 3 and 1, c = 3 fails and any larger c holds."""
    level = 3.0
    for c, expected in ((level, False), (np.nextafter(level, 4), True)):
        models = kernels.Models(np.array([2, 1] if persons else [2], np.int32), persons)
        models.add("recursive_cl", 0, c, 2, np.full(2, 0.5), EMPTY, NO_RANGES)
        for counts in ([3, 1], [1, 3], [6, 2]):
            sizes = [sum(counts)] if persons else []
            counted = np.array(counts + sizes, np.int32)
            assert models.keeps(counted) is expected
            assert (models.lack(counted) == 0) is expected
        assert models.keeps(np.array([4, 2, 6] if persons else [4, 2], np.int32))


@given(cases(largest=60), st.integers(0, 2**63 - 1), st.integers(0, 300))
@settings(max_examples=150)
def test_refinement_keeps_to_the_models(case, seed, rounds):
    space, k, codes, models = case
    records = reference_generalization.Records(space)
    start = Partition(finish(kernels.GaaCp(space.table(), k)))
    guard, tables = guard_of(codes, models, start.labels)
    try:
        start = merge_classes(space, start, guard, lambda share: None)
    except ModelInfeasible:
        return

    def loss(labels):
        return sum(records.loss(np.flatnonzero(labels == c)) for c in range(labels.max() + 1))

    actual = refine.refine_generalized(
        space, start, k, "fast", tick=lambda share: None, seed=seed, iterations=rounds, guard=guard
    )
    counts = {name: sensitive_counts(actual, codes[name], len(w)) for name, w in tables.items()}
    assert reference_enforce.satisfied(models, counts, tables).all()
    assert actual.sizes.min() >= k
    assert loss(actual.labels) <= loss(start.labels)
    assert actual.n_suppressed == 0


def test_the_worked_example():
    """Sizes 3 and 2 fail; the larger merges first, with the one that helps, not the nearest."""
    codes = np.array([[0], [0], [0], [1], [1], [50], [50], [3], [3]], np.int32)
    labels = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3], np.int32)
    values = np.array([[0], [0], [0], [0], [0], [0], [1], [0], [1]], np.int32)
    models = kernels.Models(np.array([2], np.int32))
    models.add("distinct_l", 0, 2.0, 1, np.array([0.8, 0.2]), EMPTY, NO_RANGES)
    arrays = (codes, np.array([100], np.int64), np.zeros(1, np.int32), EMPTY, EMPTY)

    def run(budget):
        table = kernels.MixedTable(*arrays)
        return finish(kernels.Enforce(table, labels, values, models, budget)).tolist()

    # 0 to 3 for 15, not to 1 for 5; then 1 to 3 for 6 more. Far less than 100 a record.
    assert run(0) == run(9) == [1, 1, 1, 1, 1, 0, 0, 1, 1]
    values[:] = 0
    assert run(0) == run(9) == [0] * 9, "even one class fails, and is left as it is"
    # 0 and 1 would make the 2 + 30 records at 100 lose more than their own 5 do.
    codes[7:], values[-1] = 100, 1
    codes[5:7], labels[5:7] = 100, 3
    more = np.repeat(np.arange(9), [1] * 8 + [30])
    arguments = (
        kernels.MixedTable(codes[more], *arrays[1:]),
        np.array([0, 1, 2], np.int32)[np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])[more]],
        values[more],
        models,
    )
    assert finish(kernels.Enforce(*arguments, 5)).tolist() == [-1] * 5 + [0] * 33
    assert finish(kernels.Enforce(*arguments, 2)).max() == 0


@pytest.mark.parametrize(
    ("wish", "overrides", "message"),
    [
        ("no such", {}, "no such model"),
        ("distinct_l", {"attribute": 1}, "no such attribute"),
        ("distinct_l", {"whole": np.ones(2)}, "one share"),
        ("recursive_cl", {"l": 0}, "l must be"),
        ("hierarchical_t", {"parents": np.zeros(1, np.int32)}, "first and last"),
        (
            "hierarchical_t",
            {
                "parents": np.array([-1, 1], np.int32),
                "ranges": np.array([[0, 2], [0, 1]], np.int32),
            },
            "those of a tree",
        ),
        (
            "hierarchical_t",
            {"parents": np.array([-1], np.int32), "ranges": np.array([[0, 3]], np.int32)},
            "those of a tree",
        ),
    ],
)
def test_models_refuse_what_they_cannot_count(wish, overrides, message):
    models = kernels.Models(np.array([3], np.int32))
    arguments = {
        "attribute": 0,
        "level": 1.0,
        "l": 1,
        "whole": np.full(3, 1 / 3),
        "parents": EMPTY,
        "ranges": NO_RANGES,
    }
    with pytest.raises(ValueError, match=message):
        models.add(wish, **arguments | overrides)
    with pytest.raises(ValueError, match="one count"):
        models.keeps(np.zeros(2, np.int32))
    with pytest.raises(ValueError, match="at least 0"):
        models.keeps(np.array([0, 0, -1], np.int32))
    with pytest.raises(ValueError, match="must have a value"):
        kernels.Models(np.zeros(1, np.int32))
