"""Linkage of mixed tables against comparing everything with everything, question by question."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from tests.reference import linkage as reference


def finish(kernel, budget=kernels.DEFAULT_BUDGET):
    while not kernel.step(budget):
        pass
    return kernel.distances(), kernel.seconds(), kernel.weights()


def guesses(exact, rng):
    """Limits, float64 (n,): some right, some by far too small or too large, some on the edge."""
    factors = [0.0, 0.5, 1 - 5e-10, 1 - 1e-15, 1.0, 1 + 1e-9, 1 + 3e-9, 2.0, np.inf]
    with np.errstate(invalid="ignore"):
        limits = exact * rng.choice(factors, len(exact))
    return np.nan_to_num(limits, nan=1.0, posinf=np.inf)


def check(parents, questions, boxes, weights=None, budget=2**19):
    """All of it, whatever the guesses; without the second the rest is the same."""
    expected = reference.nearest_boxes(parents, questions, boxes, weights)
    rng = np.random.default_rng(len(questions[0]))
    for second in (True, False):
        for limits in (None, guesses(expected[int(second)], rng)):
            kernel = kernels.MixedLinkage(
                parents, *questions, *boxes, limits, weights, second=second
            )
            result = finish(kernel, budget)
            np.testing.assert_array_equal(result[0], expected[0])
            np.testing.assert_array_equal(result[1], expected[1] if second else [])
            np.testing.assert_array_equal(result[2], expected[2])


def tree(rng, kind):
    """Parents, depth first: flat, all leaves at one depth, any, or the root alone."""
    if kind == "root":
        return np.array([-1], np.int32)
    if kind == "flat":
        return np.array([-1] + [0] * int(rng.integers(1, 40)), np.int32)
    result = [-1]

    def grow(node, depth):
        for _ in range(int(rng.integers(1, 5))):
            result.append(node)
            if depth < 3 and (kind == "even" or rng.random() < 0.5):
                grow(len(result) - 1, depth + 1)

    grow(0, 1)
    return np.array(result, np.int32)


def leaves(parents):
    inner = np.zeros(len(parents), bool)
    inner[parents[1:]] = True
    return np.flatnonzero(~inner).astype(np.int32)


def table(rng, kinds, n, m, values, released):
    """Trees, records and released boxes: what each column may be."""
    parents, ends, nodes = [], ([], []), ([], [])
    for kind in kinds:
        if kind == "number":
            parents.append(None)
            at = rng.normal(size=n) if values == "normal" else rng.integers(0, 4, n) / 3
            middle = at[rng.integers(0, n, m)] + rng.choice([0.0, 1e-10, 0.01], m)
            width = {"values": 0.0, "few": rng.random(m) < 0.2, "many": rng.random(m)}[released]
            ends[0].append(np.stack((at, at), axis=1))
            ends[1].append(np.stack((middle - width, middle + width), axis=1))
            continue
        parent_of = tree(rng, kind)
        parents.append(parent_of)
        leaf_nodes = rng.choice(leaves(parent_of), n)
        above = leaf_nodes[rng.integers(0, n, m)]
        for _ in range(0 if released == "values" else 4):
            climbs = rng.random(m) < (0.1 if released == "few" else 0.4)
            above = np.where(climbs, np.maximum(parent_of[above], 0), above)
        nodes[0].append(leaf_nodes)
        nodes[1].append(above.astype(np.int32))
    return parents, *(
        (
            np.stack(ends[side], axis=1) if ends[side] else np.empty((count, 0, 2)),
            np.stack(nodes[side], axis=1) if nodes[side] else np.empty((count, 0), np.int32),
        )
        for side, count in ((0, n), (1, m))
    )


@st.composite
def tables(draw):
    kinds = draw(
        st.lists(st.sampled_from(["number", "flat", "even", "any", "root"]), min_size=1, max_size=6)
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, m = draw(st.integers(1, 120)), draw(st.integers(1, 150))
    values = draw(st.sampled_from(["normal", "grid"]))
    released = draw(st.sampled_from(["values", "few", "many"]))
    weights = draw(st.booleans())
    return *table(rng, kinds, n, m, values, released), [
        rng.integers(0, 9, n) if weights else None,
        rng.integers(0, 9, m) if weights else None,
    ]


@given(tables(), st.sampled_from([1, 50, 2**19]))
@settings(max_examples=60, deadline=None)
def test_equals_reference_both_ways(case, budget):
    parents, records, rows, weights = case
    check(parents, records, rows, weights[1], budget)
    check(parents, rows, records, weights[0], budget)


@pytest.mark.parametrize("released", ["values", "few", "many"])
@pytest.mark.parametrize("seed", range(3))
def test_trees_of_several_floors(seed, released):
    """Thousands of boxes: nodes above nodes, and columns in any order."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(["number", "flat", "even", "any", "number", "flat"])
    values = ("normal", "grid")[seed % 2]
    parents, records, rows = table(rng, kinds, 2500, 2000, values, released)
    some = tuple(side[:20] for side in records), tuple(side[:20] for side in rows)
    check(parents, some[0], rows)
    check(parents, some[1], records)


def test_many_equal_boxes_are_one_with_all_weights():
    rng = np.random.default_rng(1)
    parents, records, rows = table(rng, ["number", "flat"], 3, 4, "grid", "values")
    many = tuple(np.repeat(side, 1000, axis=0) for side in rows)
    check(parents, records, many, rng.integers(0, 2**32, 4000))


def test_infinite_ends():
    """Released values of a column that hardly varies may lie beyond any number of its widths."""
    ends = np.array([[[-np.inf, -np.inf]], [[0.5, 0.5]], [[np.inf, np.inf]], [[2.0, np.inf]]])
    questions = np.array([[[0.0, 0.0]], [[1.0, 1.0]], [[9.0, 9.0]]])
    none = [np.empty((n, 0), np.int32) for n in (3, 4)]
    check([None], (questions, none[0]), (ends, none[1]))
    check([None], (questions, none[0]), (ends[[0, 2]], none[1][:2]))
    check([None], (questions, none[0]), (ends[:3], none[1][:3]))
    check([None], (ends, none[1]), (questions, none[0]))


def test_progress_and_early_results():
    rng = np.random.default_rng(0)
    parents, records, rows = table(rng, ["number", "flat"], 2000, 500, "normal", "few")
    kernel = kernels.MixedLinkage(parents, *records, *rows, second=True)
    seen = [kernel.progress]
    for result in (kernel.distances, kernel.seconds, kernel.weights):
        with pytest.raises(RuntimeError):
            result()
    while not kernel.step(2000):
        seen.append(kernel.progress)
    seen.append(kernel.progress)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    assert len(seen) > 10


def test_a_slice_is_short_while_the_tree_grows():
    rng = np.random.default_rng(0)
    parents, records, rows = table(rng, ["number"] * 4 + ["flat"], 5, 200_000, "normal", "many")
    kernel = kernels.MixedLinkage(parents, *records, *rows)
    longest, slices, done = 0.0, 0, False
    while not done:
        began = time.thread_time()
        done = kernel.step()
        longest = max(longest, time.thread_time() - began)
        slices += 1
    assert slices > 3
    assert longest < 1.0


def test_arrays_outlive_their_names():
    rng = np.random.default_rng(0)
    parents, records, rows = table(rng, ["number", "even"], 50, 900, "normal", "few")
    weights = np.arange(900)
    expected = reference.nearest_boxes(parents, records, rows, weights)
    copies = [side.copy() for side in (*records, *rows)]
    kernel = kernels.MixedLinkage([parents[0], parents[1].copy()], *copies, None, weights.copy())
    del copies
    result = finish(kernel, 100)
    del kernel
    np.testing.assert_array_equal(result[0], expected[0])
    np.testing.assert_array_equal(result[2], expected[2])


FLAT = np.array([-1, 0, 0], np.int32)


def call(parents=(None, FLAT), ends=None, nodes=None, box_nodes=None, **more):
    single_box = np.zeros((2, 1, 2))
    leaf = np.ones((2, 1), np.int32)
    return kernels.MixedLinkage(
        parents,
        single_box if ends is None else ends,
        leaf if nodes is None else nodes,
        single_box,
        leaf if box_nodes is None else box_nodes,
        **more,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"parents": [None]},
        {"parents": [None, None]},
        {"parents": [FLAT, FLAT]},
        {"parents": [None, np.array([0, 0], np.int32)]},
        {"parents": [None, np.array([-1, 2, 0], np.int32)]},
        {"parents": [None, np.empty(0, np.int32)]},
        {"ends": np.zeros((3, 1, 2))},
        {"ends": np.zeros((2, 1, 3))},
        {"ends": np.zeros((0, 1, 2)), "nodes": np.ones((0, 1), np.int32)},
        {"ends": np.array([[[1.0, 0.0]], [[0.0, 0.0]]])},
        {"ends": np.full((2, 1, 2), np.nan)},
        {"nodes": np.full((2, 1), 3, np.int32)},
        {"nodes": np.full((2, 1), -1, np.int32)},
        {"nodes": np.zeros((2, 1), np.int32), "box_nodes": np.zeros((2, 1), np.int32)},
        {"limits": np.zeros(1)},
        {"limits": np.array([0.0, -1.0])},
        {"limits": np.array([0.0, np.nan])},
        {"weights": np.ones(3, np.int64)},
        {"weights": np.array([1, -1])},
        {"weights": np.array([1, 2**32 + 1])},
    ],
)
def test_wrong_values(wrong):
    with pytest.raises(ValueError):
        call(**wrong)
    call()


def test_wrong_arrays():
    with pytest.raises(TypeError):
        call(ends=np.zeros((2, 2)))
    with pytest.raises(TypeError):
        call(nodes=np.ones((2, 1)))
    with pytest.raises(TypeError):
        call(weights=np.ones(2, np.int32))


def test_dropped_halfway():
    rng = np.random.default_rng(1)
    parents, records, rows = table(rng, ["number", "any"], 2000, 900, "normal", "many")
    kernel = kernels.MixedLinkage(parents, *records, *rows)
    kernel.step(100)
    assert 0.0 <= kernel.progress <= 1.0
