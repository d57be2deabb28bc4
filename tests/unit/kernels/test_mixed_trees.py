"""Trees and scans of mixed records, on tables that fill leaves, nodes and several trees.

Small tables are compared with the plain versions elsewhere; here with their arrays.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from dbanon import kernels
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.generalization_data import mixed_search, random_tree, spaces
from tests.reference import generalization as plain
from tests.reference import greedy as reference

METHODS = {"gaa_cp": kernels.GaaCp, "kmember": kernels.KMember}


@pytest.fixture(params=kernels.simd_levels())
def level(request):
    """Each build of the inner loops in turn."""
    before = kernels.simd_level()
    kernels.set_simd_level(request.param)
    yield request.param
    kernels.set_simd_level(before)


def run(method, space, k, budget=kernels.DEFAULT_BUDGET, search="auto"):
    return finish(METHODS[method](space.table(), k), budget, search)


def merge(space, k, threshold, search, budget=kernels.DEFAULT_BUDGET):
    return finish(kernels.Merging(space.table(), k, 7, threshold), budget, search)


def finish(kernel, budget, search):
    with mixed_search(search):
        while not kernel.step(budget):
            assert 0 <= kernel.progress < 1
    return kernel.labels()


def flat_hierarchy(leaves):
    return Hierarchy(["root", *(f"v{i}" for i in range(leaves))], [-1] + [0] * leaves)


def long_codes(leaves, fan):
    """An even tree of which every node has up to `fan` children."""
    rows = []
    for i in range(leaves):
        row, at = [f"v{i}"], i
        while at:
            at //= fan
            row.append(f"{at}/{len(row)}")
        rows.append(row)
    most = max(map(len, rows))
    return Hierarchy.from_levels(
        [
            row + [f"0/{j}" for j in range(len(row), most)] if len(row) < most else row
            for row in rows
        ]
    )


def wide_path(leaves):
    """An even tree whose paths have more than 31 bits: one node has all children at each level."""
    levels = 12
    rows = []
    for level in range(levels):
        # Siblings of the chain of first children; their own way down is a chain.
        for i in range(leaves):
            if level + 1 < levels and i == 0:
                continue
            down = [f"c{level}.{i}.{j}" for j in range(levels - level)][::-1]
            up = [f"c{j}.0.0" for j in range(level)][::-1]
            rows.append([*down, *up, "*"])
    return Hierarchy.from_levels(rows)


TREES = {
    "two": lambda rng: flat_hierarchy(2),
    "some": lambda rng: flat_hierarchy(40),
    "many": lambda rng: flat_hierarchy(2_000),
    "even": lambda rng: random_tree(rng, 90, "even"),
    "deep": lambda rng: random_tree(rng, 300, "deep"),
    "codes": lambda rng: long_codes(1_500, 5),
    "uneven": lambda rng: random_tree(rng, 60, "uneven"),
    "wide": lambda rng: wide_path(9),
    "one": lambda rng: random_tree(rng, 1, "one"),
}


@dataclass(frozen=True)
class Case:
    """A table of n records; its attributes are numbers, grids of few values, or trees."""

    n: int
    kinds: tuple[str, ...]
    k: int = 3
    distinct: float = 1.0
    weights: tuple[int, ...] = ()

    def space(self, seed):
        rng = np.random.default_rng(seed)
        columns, trees, units = [], [], []
        for position, kind in enumerate(self.kinds):
            weight = self.weights[position] if self.weights else 1024
            unit = ROOT_COST // 1024 * weight
            tree = TREES[kind](rng) if kind in TREES else None
            if tree is not None:
                # Few leaves hold most records, as in real tables.
                codes = (tree.n_leaves * rng.random(self.n) ** 2.5).astype(int)
            elif kind == "grid":
                codes = rng.integers(0, 5, self.n) * (unit // 4)
            elif kind == "heavy":
                codes = np.where(rng.random(self.n) < 0.8, 0, rng.integers(0, unit + 1, self.n))
            else:
                codes = (unit * rng.beta(2, 5, self.n)).astype(int)
            columns.append(codes)
            trees.append(tree)
            units.append(unit)
        rows = np.column_stack(columns).astype(np.int32)
        if self.distinct < 1:
            rows = rows[rng.integers(0, max(1, int(self.distinct * self.n)), self.n)]
        names = tuple(f"a{i}" for i in range(len(self.kinds)))
        units = np.array(units, np.int64)
        return MixedSpace(np.ascontiguousarray(rows), units, tuple(trees), names)


CASES = {
    "numbers and categories": Case(2_100, ("number", "number", "two", "some", "many"), k=5),
    "hierarchies": Case(2_100, ("number", "grid", "codes", "deep", "two")),
    "categories only": Case(2_100, ("two", "some", "many", "even")),
    "one category": Case(900, ("many",), k=4),
    "one number": Case(1_200, ("number",), k=2),
    "ties": Case(2_100, ("grid", "two", "two", "grid", "even"), distinct=0.1),
    "copies": Case(2_400, ("number", "even", "some"), distinct=0.4, k=7),
    "uneven": Case(2_100, ("number", "uneven", "two", "uneven")),
    "paths too long": Case(1_500, ("heavy", "wide", "codes")),
    "weights": Case(2_100, ("number", "some", "deep", "uneven"), weights=(1024, 1, 300, 0)),
    "no weight at all": Case(400, ("number", "some"), weights=(0, 0)),
    "nothing to climb": Case(600, ("one", "grid", "heavy"), k=2),
    "large classes": Case(2_100, ("number", "codes", "uneven"), k=60),
    "thirty attributes": Case(900, ("number", "two", "some") * 10, k=4),
    # A tree visits so much of these that scans take over.
    "many numbers": Case(2_100, ("number",) * 12, k=5),
    "many attributes": Case(2_100, ("number", "heavy", "some", "deep", "uneven", "two") * 2, k=4),
    "many ties": Case(1_500, ("grid", "two", "grid", "two", "some") * 2, distinct=0.7),
    "many categories": Case(1_500, ("two",) * 14, k=5),
    "classes above the candidates": Case(1_100, ("number", "some") * 4, k=300),
}


@cache
def case_of(method, name):
    """A space, its k and the labels of the reference."""
    case = CASES[name]
    space = case.space(len(name))
    return space, case.k, getattr(reference, method)(space, case.k)


@pytest.mark.parametrize("search", ["auto", "index", "brute"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", METHODS)
def test_equals_a_search_of_all_records(method, name, search):
    space, k, expected = case_of(method, name)
    np.testing.assert_array_equal(run(method, space, k, search=search), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["ties", "weights", "many attributes", "many ties"])
def test_scans_of_all_instruction_sets_are_equal(level, method, name):
    space, k, expected = case_of(method, name)
    np.testing.assert_array_equal(run(method, space, k, budget=1, search="brute"), expected)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("threshold", [-1.0, 0.1])
def test_merging_by_scans_equals_merging_by_trees(threshold, name):
    space, k = CASES[name].space(len(name)), CASES[name].k
    expected = merge(space, k, threshold, "index")
    np.testing.assert_array_equal(merge(space, k, threshold, "auto"), expected)
    np.testing.assert_array_equal(merge(space, k, threshold, "brute"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hierarchies", "weights", "many attributes", "many ties"])
def test_merging_by_scans_of_all_instruction_sets_is_equal(level, name):
    space, k = CASES[name].space(len(name)), CASES[name].k
    expected = merge(space, k, -1.0, "index")
    np.testing.assert_array_equal(merge(space, k, -1.0, "brute", budget=1), expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["hierarchies", "ties", "weights", "many numbers"])
def test_slices_and_instruction_sets_change_nothing(level, method, name):
    space, k, expected = case_of(method, name)
    np.testing.assert_array_equal(run(method, space, k, budget=1), expected)


@given(spaces())
@settings(max_examples=60)
def test_the_reference_equals_the_plain_version(case):
    space, k = case
    for method in METHODS:
        expected = getattr(plain, method)(space, k)
        np.testing.assert_array_equal(getattr(reference, method)(space, k), expected)


@pytest.mark.parametrize("search", ["index", "brute"])
def test_rows_that_differ_only_apart_from_their_codes(search):
    """More equal tuples than a leaf holds: by their first records."""
    n = 100
    codes = np.zeros((n, 2), np.int32)
    space = MixedSpace(codes, np.full(2, ROOT_COST), (None, flat_hierarchy(3)), ("a", "b"))
    table = space.table(np.arange(n, dtype=np.int32)[:, None])
    labels = finish(kernels.GaaCp(table, 5), kernels.DEFAULT_BUDGET, search)
    np.testing.assert_array_equal(labels, np.arange(n) // 5)


def test_an_unknown_search_is_refused():
    with pytest.raises(ValueError, match="search must be"):
        kernels.set_mixed_search("tree")
