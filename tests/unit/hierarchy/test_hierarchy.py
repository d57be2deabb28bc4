"""Hierarchies: formats, the tree, builders, and their problems."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import HierarchyBroken, InvalidParameter
from dbanon.hierarchy import builders
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from tests.generalization_data import random_tree

ZIP = "23208;232**;23***;*\n23200;232**;23***;*\n23085;230**;23***;*\n10115;101**;10***;*\n"


def test_forms_agree(tmp_path):
    tree = Hierarchy.from_csv(ZIP)
    assert tree.labels[0] == "*"
    assert tree.n_leaves == 4
    assert tree.height == 3
    pairs = [
        (label, tree.labels[p] if p >= 0 else None)
        for label, p in zip(tree.labels, tree.parents.tolist(), strict=True)
    ]
    nested = {
        "*": {
            "23***": {"232**": ["23208", "23200"], "230**": ["23085"]},
            "10***": {"101**": ["10115"]},
        }
    }
    assert Hierarchy.from_parents(pairs) == tree
    assert Hierarchy.from_parents(pairs[1:]) == tree
    assert Hierarchy.from_nested(nested) == tree
    assert Hierarchy.from_csv(tree.to_csv()) == tree
    files = {"a.csv": ZIP, "b.json": json.dumps(nested), "c.json": json.dumps(pairs)}
    for name, text in files.items():
        (tmp_path / name).write_text("\ufeff" + text, encoding="utf-8")
    assert {Hierarchy.load(tmp_path / name) for name in files} == {tree}
    assert tree.path("23085") == ("23085", "230**", "23***", "*")


def test_tree():
    tree = Hierarchy.from_csv(ZIP)
    low, high = np.array([0, 0, 0, 2]), np.array([0, 1, 2, 3])
    nodes = tree.common_nodes(low, high)
    assert [tree.labels[node] for node in nodes] == ["23208", "232**", "23***", "*"]
    np.testing.assert_allclose(tree.loss(low, nodes), [0, 1 / 3, 2 / 3, 1])
    assert tree.neighbor_ancestor_depths.tolist() == [2, 1, 0]
    assert tree.leaf_ranges[tree.node("23***")].tolist() == [0, 2]
    assert [tree.labels[node] for node in tree.nodes_at_level(2)] == ["23***"] * 3 + ["10***"]


@given(
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.sampled_from(["one", "flat", "even", "deep", "uneven"]),
)
def test_common_ancestors_of_any_tree(seed, leaves, shape):
    tree = random_tree(np.random.default_rng(seed), leaves, shape)
    n = tree.n_leaves
    low, high = np.triu_indices(n)
    nodes = tree.common_nodes(low, high)
    for first, last, node in zip(low, high, nodes, strict=True):
        paths = [set(tree.path(tree.labels[tree.leaves[i]])) for i in range(first, last + 1)]
        shared = set.intersection(*paths)
        assert tree.depths[node] == max(tree.depths[tree.node(label)] for label in shared)
        assert tree.labels[node] in shared
        if first < last:
            assert tree.depths[node] == tree.neighbor_ancestor_depths[first:last].min()
    assert Hierarchy.from_csv(tree.to_csv()) == tree


def test_sizes():
    assert Hierarchy.from_csv("x\n").height == 0
    assert Hierarchy.from_csv("x;x;x\n").n_leaves == 1
    assert flat_hierarchy([]).n_leaves == 1
    assert flat_hierarchy(["*", "a"]).labels == ("**", "*", "a")
    uneven = Hierarchy.from_csv("a;a;north;*\nb;coast;north;*\n;;*;*\n".replace(";;*", ";*;*"))
    assert uneven.leaf_depths.tolist() == [2, 3, 1]
    assert uneven.positions[""] == 2
    rows = [[f"v{i}", f"a{i // 10}", f"b{i // 100}", "*"] for i in range(10_000)]
    assert Hierarchy.from_levels(rows).n_leaves == 10_000
    deep = Hierarchy.from_parents([(str(i), str(i + 1)) for i in range(5000)])
    assert deep.height == 5000


def problems(make, *arguments):
    with pytest.raises(HierarchyBroken) as caught:
        make(*arguments)
    error = caught.value
    assert error.exit_code == 2
    assert error.sqlstate == "ZK004"
    assert "secret" not in str(error)
    return [(problem.kind, problem.line, problem.label) for problem in error.problems]


def test_all_problems_are_named():
    text = "secret1;A;*\nsecret2;B;*\nsecret1;B;*\nsecret3;A;+\nsecret4;;*\n"
    assert problems(Hierarchy.from_csv, text) == [
        ("second parent", 3, "secret1"),
        ("second parent", 4, "A"),
        ("empty label", 5, ""),
        ("second root", 4, "+"),
    ]
    cycles = [("secret1", "b"), ("b", "secret1"), ("c", "d"), ("d", "c")]
    assert problems(Hierarchy.from_parents, cycles) == [
        ("cycle", 1, "secret1"),
        ("cycle", 3, "c"),
        ("missing root", 0, ""),
    ]
    assert problems(Hierarchy.from_csv, "") == [("missing root", 0, "")]
    tree = Hierarchy.from_csv(ZIP)
    values = ["23208", "secret", "232**", "secret "]
    assert problems(tree.encode, values, "zip") == [
        ("not a leaf", 0, "232**"),
        ("missing value", 0, "secret"),
        ("missing value", 0, "secret "),
    ]
    with pytest.raises(HierarchyBroken, match="999 problems"):
        tree.encode([f"x{i}" for i in range(999)], "zip")


def levels(tree, value):
    return tree.path(value)[1:]


def test_builders():
    ages = builders.intervals(["7", "12", "30", "-1"], [5, 10, 50])
    assert levels(ages, "12") == ("[10, 15)", "[10, 20)", "[0, 50)", "*")
    assert levels(ages, "-1") == ("[-5, 0)", "[-10, 0)", "[-50, 0)", "*")
    assert ages.positions == {"-1": 0, "7": 1, "12": 2, "30": 3}
    parts = builders.intervals(["0.25", "0.3"], ["0.1"])
    assert levels(parts, "0.3") == ("[0.3, 0.4)", "*")
    days = builders.dates(
        ["2024-05-17", "1999-12-31"], ("month", "quarter", "year", "5y", "decade")
    )
    assert levels(days, "2024-05-17") == (
        "2024-05",
        "2024-Q2",
        "2024",
        "2020 to 2024",
        "2020s",
        "*",
    )
    days = builders.dates(["2024-05-17 10:00", "2024-05-17 11:30"], ("day", "year"))
    assert levels(days, "2024-05-17 11:30") == ("2024-05-17", "2024", "*")
    # The first days of 2021 belong to the last week of 2020.
    weeks = builders.dates(["2020-12-31", "2021-01-02", "2021-01-04"], ("week",))
    assert levels(weeks, "2021-01-02") == levels(weeks, "2020-12-31") == ("2020-W53", "*")
    assert levels(weeks, "2021-01-04") == ("2021-W01", "*")
    assert levels(builders.dates(["2024-05-17"], ("day", "week")), "2024-05-17")[-2:] == (
        "2024-W20",
        "*",
    )
    codes = builders.prefixes(["23208", "23220", "99"])
    assert levels(codes, "23220") == ("2322*", "232**", "23***", "2****", "*****")
    assert levels(codes, "99") == ("9*", "*****")
    grades = builders.ordered(["bad", "fair", "good", "very good", "best"])
    assert levels(grades, "good") == ("good to very good", "bad to very good", "*")
    assert levels(grades, "best") == ("*",)
    groups = builders.grouped(["a", "b", "c"], [2, 1])
    assert levels(groups, "b") == ("a to b", "*")
    assert builders.ordered(["x"]).height == 1


def test_builders_refuse():
    for make, arguments in (
        (builders.intervals, (["x"], [1])),
        (builders.intervals, (["1"], [5, 12])),
        (builders.intervals, (["nan"], [5])),
        (builders.dates, (["17.5.2024"],)),
        (builders.dates, (["2024-05-17"], ("year", "month"))),
        (builders.dates, (["2024-05-17"], ("week", "month"))),
        (builders.dates, (["2024-05-17"], ("week", "day"))),
        (builders.prefixes, (["12*"],)),
        (builders.prefixes, (["123"], [1, 2])),
        (builders.ordered, (["a", "a"],)),
        (builders.ordered, (["a"], 1)),
        (builders.grouped, (["a", "b"], [1])),
    ):
        with pytest.raises(InvalidParameter):
            make(*arguments)


def test_suggest():
    assert builders.suggest(["2024-05-17", "2023-01-01"]).height == 4
    assert builders.suggest(["10115", "23208"]).height == 5
    assert builders.suggest([str(age) for age in range(17, 91)]).path("33")[1:] == (
        "[30, 35)",
        "[25, 50)",
        "*",
    )
    assert builders.suggest(["b", "a"]) == flat_hierarchy(["a", "b"])
    assert builders.suggest(["5"]).height == 1
    assert builders.suggest([]).n_leaves == 1


@pytest.mark.parametrize(
    ("labels", "parents"),
    [
        ([], []),
        (["a", "b", "b"], [-1, 0, 0]),
        (["a", "b", "b", "c"], [-1, 0, 1, 2]),
        (["a"], [0]),
        (["a", "b"], [-1, -1]),
        (["a", "b", "c", "d"], [-1, 0, 0, 1]),
    ],
)
def test_nodes_must_be_a_tree_in_order(labels, parents):
    with pytest.raises(ValueError):
        Hierarchy(labels, parents)
