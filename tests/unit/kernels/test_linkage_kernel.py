"""The linkage kernel against comparing everything with everything, question by question."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from tests.reference import linkage as reference


@pytest.fixture(autouse=True)
def _restore_level():
    level = kernels.simd_level()
    yield
    kernels.set_simd_level(level)


def guesses(exact, seed=0):
    """Limits, float64 (n,): some right, some by far too small or too large, some on the edge."""
    factors = [0.0, 0.5, 1 - 5e-10, 1 - 1e-15, 1.0, 1 + 1e-9, 1 + 3e-9, 2.0, np.inf]
    with np.errstate(invalid="ignore", over="ignore"):
        limits = exact * np.random.default_rng(seed).choice(factors, len(exact))
    return np.nan_to_num(limits, nan=1.0, posinf=np.inf)


def run(questions, points, weights=None, search="auto", budget=kernels.DEFAULT_BUDGET, exact=None):
    """Labels, distances, next distances and weights.

    All but the next distances are the same when these are not asked for, and all whatever the
    guesses are of the exact distances.
    """
    arrays = [np.ascontiguousarray(array, np.float64) for array in (questions, points)]
    guess = None if exact is None else guesses(exact)
    results = []
    for second, limits in ((True, None), (True, guess), (False, None), (False, guess)):
        kernel = kernels.Linkage(*arrays, limits, weights, second, search)
        while not kernel.step(budget):
            pass
        results.append((kernel.labels(), kernel.distances(), kernel.weights()))
        if not second:
            assert not kernel.seconds().size
        elif limits is None:
            seconds = kernel.seconds()
        else:
            np.testing.assert_array_equal(kernel.seconds(), seconds)
    for other in results[1:]:
        for actual, same in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(actual, same)
    labels, distances, sums = results[0]
    return labels, distances, seconds, sums


def check(questions, points, weights=None, searches=("index", "brute", "auto"), budget=2**19):
    expected = reference.nearest(questions, points, weights)
    for search in searches:
        results = run(questions, points, weights, search, budget, expected[1])
        for actual, other in zip(results, expected, strict=True):
            np.testing.assert_array_equal(actual, other)


def means_of_neighbours(points, k):
    """Every record's class mean when records in order of the first attribute share classes."""
    order = np.argsort(points[:, 0], kind="stable")
    classes = np.empty(len(points), int)
    classes[order] = np.minimum(np.arange(len(points)) // k, max(len(points) // k - 1, 0))
    sums = np.zeros((classes.max() + 1, points.shape[1]))
    np.add.at(sums, classes, points)
    return sums / np.bincount(classes)[:, None]


@st.composite
def tables(draw):
    """Originals and released points of all sorts: means, copies, noise, grids, far away."""
    p = draw(st.one_of(st.integers(1, 18), st.just(40)))
    n, m = draw(st.integers(1, 250)), draw(st.integers(1, 250))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "clusters", "grid", "binary", "repeated", "constant"]))
    points = rng.normal(size=(n, p))
    if kind == "clusters":
        points += 8.0 * rng.integers(0, 3, size=(n, 1))
    elif kind == "grid":
        points = np.round(2 * points)
    elif kind == "binary":
        points = rng.integers(0, 2, size=(n, p)).astype(float)
    elif kind == "repeated":
        points = points[rng.integers(0, max(1, n // 6), size=n)]
    elif kind == "constant":
        points[:] = 0.1
    released = draw(st.sampled_from(["means", "copies", "noise", "near ties", "other"]))
    if released == "means":
        others = means_of_neighbours(points, draw(st.integers(1, 6)))
    elif released == "copies":
        others = points[rng.integers(0, n, size=m)]
    elif released == "noise":
        others = points + 0.1 * rng.normal(size=points.shape)
    elif released == "near ties":  # around the factor at which squares cease to tie
        shell = np.ones((m, p)) * (1 + rng.choice([0, 4.9e-10, 5.1e-10, 1e-9], size=(m, 1)))
        others = points[:1] + shell
    else:
        others = rng.normal(size=(m, p)).round(1)
    scale = draw(st.sampled_from([1.0, 1e-3, 1e150, 1e160, 1e-158, 1e-162, 5e-324]))
    with np.errstate(under="ignore"):
        points, others = points * scale, others * scale
    weights = draw(st.sampled_from([None, "some"])) and rng.integers(0, 9, len(others))
    return points, others, weights


@pytest.mark.slow
@given(tables())
@settings(max_examples=150)
def test_equals_reference_both_ways(table):
    points, released, weights = table
    with np.errstate(over="ignore"):
        check(points, released, weights)
        check(released, points)


@pytest.mark.slow
@pytest.mark.parametrize("level", kernels.simd_levels())
@pytest.mark.parametrize("p", [1, 3, 8, 13, 17])
def test_every_instruction_set_at_every_width(level, p):
    rng = np.random.default_rng(p)
    points = rng.normal(size=(600, p)).round(1)
    kernels.set_simd_level(level)
    check(points, means_of_neighbours(points, 3), searches=("index", "brute"))
    check(means_of_neighbours(points, 3), points, searches=("index", "brute"))


@pytest.mark.parametrize("budget", [1, 7, 1000])
def test_slices_change_nothing(budget):
    rng = np.random.default_rng(0)
    points = rng.integers(0, 4, size=(700, 3)).astype(float)
    check(points, points[::3], searches=("index", "brute", "auto"), budget=budget)


def edge_case_tables():
    """Unusual shapes and values."""
    rng = np.random.default_rng(3)
    return {
        "one row": rng.normal(size=(1, 3)),
        "two rows": rng.normal(size=(2, 1)),
        "many columns": rng.normal(size=(12, 200)),
        "equal": np.full((30, 2), 0.1),
        "denormal": rng.integers(-9, 9, (50, 3)) * 5e-324,
        "huge": rng.normal(size=(50, 3)) * 1e153,
        "squares overflow": rng.normal(size=(50, 3)) * 1e300,
        "largest": rng.choice([-1.0, 1.0], (50, 3)) * np.finfo(float).max,
        "huge and tiny": np.exp(rng.normal(size=(60, 3)) * 200).clip(1e-300, 1e300),
        "negative zero": rng.choice([0.0, -0.0], (20, 2)),
        "beyond a block": rng.integers(0, 2, (530, 2)).astype(float),
    }


STRANGE = edge_case_tables()


@pytest.mark.parametrize("name", STRANGE)
def test_strange_tables(name):
    points = STRANGE[name]
    with np.errstate(over="ignore"):
        check(points, points[::3])
        check(points[::3], points, np.arange(len(points)))
        check(points, means_of_neighbours(points / 8, 3), searches=("index", "brute"), budget=50)


@pytest.mark.parametrize("search", ["index", "brute"])
def test_a_guess_between_ties(search):
    """Near enough to find the nearest, too near for all that tie with it."""
    points = np.zeros((40, 3))
    points[:, 0] = 1 + np.array([0.0, *[4e-10] * 39])
    exact = reference.nearest(np.zeros((1, 3)), points)
    assert exact[3][0] == 40
    for second in (False, True):
        limits = np.array([1 - 9e-10])
        kernel = kernels.Linkage(np.zeros((1, 3)), points, limits, None, second, search)
        while not kernel.step():
            pass
        assert kernel.weights().tolist() == [40]


def test_hundreds_of_ties():
    """Points on a sphere around the question, and many copies of one: far more than are asked."""
    rng = np.random.default_rng(2)
    corners = rng.choice([-1.0, 1.0], size=(3000, 6))
    weights = rng.integers(0, 2**32, size=3000)
    points = np.vstack((corners, np.full((1, 6), 1.5)))
    check(np.zeros((3, 6)), points, np.append(weights, 7))
    check(np.zeros((3, 6)), corners)
    check(points[:20], np.repeat(points[:5], 1000, axis=0))


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 5, 12])
def test_index_equals_brute_on_larger_tables(p):
    rng = np.random.default_rng(p)
    points = np.vstack((rng.normal(size=(9_000, p)), rng.integers(0, 3, size=(3_000, p))))
    for actual, other in zip(
        run(points, points[::5] + 0.01, None, "index"),
        run(points, points[::5] + 0.01, None, "brute"),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, other)


def test_progress_and_early_results():
    points = np.random.default_rng(0).normal(size=(2000, 2))
    kernel = kernels.Linkage(points, points, second=True, search="index")
    seen = [kernel.progress]
    for result in (kernel.labels, kernel.distances, kernel.seconds, kernel.weights):
        with pytest.raises(RuntimeError):
            result()
    while not kernel.step(5000):
        seen.append(kernel.progress)
    seen.append(kernel.progress)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
    assert len(seen) > 10
    np.testing.assert_array_equal(kernel.labels(), np.arange(2000))


def test_a_slice_is_short_whatever_the_ties():
    """Sixty thousand points at one distance are asked for again and again; slices stay slices."""
    rng = np.random.default_rng(4)
    points = rng.choice([-1.0, 1.0], size=(60_000, 16))
    kernel = kernels.Linkage(np.zeros((4, 16)), points, second=True)
    longest, done = 0.0, False
    while not done:
        began = time.thread_time()
        done = kernel.step()
        longest = max(longest, time.thread_time() - began)
    assert longest < 0.5
    assert kernel.weights().tolist() == [60_000] * 4


def test_arrays_outlive_their_names():
    points = np.random.default_rng(0).normal(size=(3000, 2))
    expected = reference.nearest(points[:50], points, np.arange(3000))
    kernel = kernels.Linkage(
        points[:50].copy(), points.copy(), np.full(50, 0.01), np.arange(3000), True
    )
    points[:] = 0
    while not kernel.step(1000):
        pass
    distances = kernel.distances()
    sums = kernel.weights()
    del kernel
    np.testing.assert_array_equal(distances, expected[1])
    np.testing.assert_array_equal(sums, expected[3])


@pytest.mark.parametrize(
    ("questions", "points", "weights"),
    [
        (np.zeros((0, 2)), np.zeros((3, 2)), None),
        (np.zeros((3, 2)), np.zeros((0, 2)), None),
        (np.zeros((3, 2)), np.zeros((3, 3)), None),
        (np.zeros((3, 0)), np.zeros((3, 0)), None),
        (np.array([[np.nan]]), np.zeros((3, 1)), None),
        (np.zeros((3, 1)), np.array([[np.inf]]), None),
        (np.zeros((3, 2)), np.zeros((3, 2)), np.ones(2, np.int64)),
        (np.zeros((3, 2)), np.zeros((3, 2)), np.full(3, -1)),
        (np.zeros((3, 2)), np.zeros((3, 2)), np.full(3, 2**32 + 1)),
    ],
)
def test_wrong_values(questions, points, weights):
    with pytest.raises(ValueError):
        kernels.Linkage(questions, points, weights=weights)


@pytest.mark.parametrize("limits", [[0.0, 1.0], [0.0, 1.0, -1.0], [0.0, 1.0, np.nan]])
def test_wrong_limits(limits):
    with pytest.raises(ValueError):
        kernels.Linkage(np.zeros((3, 2)), np.zeros((2, 2)), np.array(limits))


def test_wrong_arrays():
    points = np.zeros((4, 2))
    with pytest.raises(TypeError):
        kernels.Linkage(points, np.zeros(4))
    with pytest.raises(TypeError):
        kernels.Linkage(np.asfortranarray(points), points)
    with pytest.raises(TypeError):
        kernels.Linkage(points, points, weights=np.ones(4, np.int32))
    with pytest.raises(ValueError):
        kernels.Linkage(points, points, search="other")


def test_dropped_halfway():
    points = np.random.default_rng(1).normal(size=(2000, 3))
    kernel = kernels.Linkage(points, points)
    kernel.step(100)
    assert 0.0 <= kernel.progress <= 1.0
