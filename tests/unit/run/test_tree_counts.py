"""Counts below the nodes of a hierarchy: how many nodes a page shows."""

from __future__ import annotations

import numpy as np
import pytest

from dbanon.hierarchy.tree import Hierarchy
from dbanon.release.distribution import Bar
from dbanon.run import tree_counts

LEAVES = [(f"{letter}{i}", letter, "all") for letter in "abc" for i in range(2)]


def test_leaves_have_nothing_below_them_also_once_the_page_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree = Hierarchy.from_levels(LEAVES)
    rows = np.full(len(tree.parents), 100)
    # The root's children and the leaves of the first of them.
    monkeypatch.setattr(tree_counts, "MAX_NODES", 5)
    root = tree_counts._build_tree(tree, rows, 3, Bar("all", 0))
    assert [len(child.children) for child in root.children] == [2, 0, 0]
    assert [child.others_text for child in root.children] == ["", *["more below, not shown"] * 2]
    assert [leaf.others_text for leaf in root.children[0].children] == ["", ""]
