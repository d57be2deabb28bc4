"""GAA-CP: the worked example, and the kernel against the plain version record by record."""

import numpy as np
import pytest
from hypothesis import given, settings

from dbanon import kernels, methods
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.generalization_data import spaces
from tests.reference import generalization as reference


def run(space, k, budget=kernels.DEFAULT_BUDGET):
    kernel = kernels.GaaCp(space.table(), k)
    while not kernel.step(budget):
        assert 0 <= kernel.progress < 1
    return kernel.labels()


@given(spaces())
@settings(max_examples=120)
def test_equals_the_plain_version(case):
    space, k = case
    expected = reference.gaa_cp(space, k)
    np.testing.assert_array_equal(run(space, k), expected)
    np.testing.assert_array_equal(run(space, k, budget=1), expected)


def test_worked_example():
    """The paper's table 1, k = 2: age 30 35 45 42 55, sex m m f m f, zip 232 232 230 232 230.

    Class 0 starts with record 0 (30, m, 232). Distances, the widths of age over 25: record 1 5/25,
    record 3 12/25; records 2 and 4 differ in sex too. So {0, 1}, age 30 to 35. Farthest from it:
    record 4 (55: width 25/25, other sex, other zip). Class 1: record 4; nearest record 2 (10/25),
    so {4, 2}. One record is left, 3 (42, m, 232). To class 0: 3 * 12/25 - 2 * 5/25 = 26/25. To
    class 1: 3 * 13/25 - 2 * 10/25 = 19/25 in age, and 3 + 3 in sex and zip. It joins class 0, as in
    the paper's table 2.
    """
    tree = Hierarchy.from_levels([["m", "person"], ["f", "person"]])
    zips = Hierarchy.from_levels([["230", "23"], ["232", "23"]])
    ages = (np.array([30, 35, 45, 42, 55]) - 30) * (ROOT_COST // 25)
    codes = np.column_stack([ages, [0, 0, 1, 0, 1], [1, 1, 0, 1, 0]]).astype(np.int32)
    space = MixedSpace(codes, np.full(3, ROOT_COST), (None, tree, zips), ("age", "sex", "zip"))
    rng = np.random.default_rng(0)
    method = methods.METHODS["gaa_cp"]
    partition = method.run(space, 2, tick=lambda share: None, rng=rng)
    assert partition.labels.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.slow
def test_large_tree_and_wide_table():
    """10,000 leaves (no table of pairs), 66 attributes."""
    rows = [[f"v{i}", f"a{i // 10}", f"b{i // 100}", f"c{i // 1000}", "*"] for i in range(10_000)]
    tree = Hierarchy.from_levels(rows)
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 10_000, (14, 66)).astype(np.int32)
    codes[:, 1::2] = codes[:, 1::2] // 40 * 40
    names = tuple(map(str, range(66)))
    space = MixedSpace(codes, np.full(66, ROOT_COST), (tree,) * 66, names)
    np.testing.assert_array_equal(run(space, 3), reference.gaa_cp(space, 3))


@pytest.mark.parametrize(
    ("position", "value", "text"),
    [
        (0, np.array([[7], [0]], np.int32), "codes must be leaves"),
        (1, np.array([2**31]), "units must be"),
        (3, np.array([1, 1, 1, -1], np.int32), "depths and gaps"),
    ],
)
def test_wrong_arrays_are_refused(position, value, text):
    arrays = [
        np.array([[0], [3]], np.int32),
        np.array([ROOT_COST]),
        np.array([4], np.int32),
        np.ones(4, np.int32),
        np.zeros(4, np.int32),
    ]
    table = kernels.MixedTable(*arrays)
    arrays[position] = value
    with pytest.raises(ValueError, match=text):
        kernels.MixedTable(*arrays)
    with pytest.raises(ValueError, match="fewer than k"):
        kernels.GaaCp(table, 3)
