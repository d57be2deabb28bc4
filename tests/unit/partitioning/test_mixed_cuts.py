"""Cuts between values: those that a plain loop finds, in blocks of a good size."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy
from dbanon.partitioning.blocks import Blocks
from dbanon.partitioning.cuts import Cuts
from dbanon.partitioning.mixed_cuts import (
    MAX_SIZE_RATIO,
    MIN_SIZE_RATIO,
    MixedCuts,
    ancestors_by_height,
)
from dbanon.spaces.mixed import Axis
from tests.reference import cuts as reference

UNEVEN = Hierarchy.from_nested({"*": {"a": ["a1", "a2"], "b": {"c": ["c1", "c2", "c3"]}, "d": {}}})
TREES = (UNEVEN, flat_hierarchy(("v", "w", "x")), flat_hierarchy(("y", "z")), None)


@st.composite
def tables(draw):
    """Coordinates of all sorts of columns, their attributes, and a number of blocks."""
    n, seed = draw(st.integers(2, 80)), draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    chosen = draw(st.lists(st.sampled_from(range(4)), min_size=1, max_size=4))
    columns, axes = [], []
    for which in chosen:
        tree, width = TREES[which], draw(st.sampled_from([1.0, 0.25, 0.0]))
        values = rng.integers(0, 9, n) / 8
        if tree is not None:
            values = rng.integers(0, tree.n_leaves, n) / (tree.n_leaves - 1)
        columns.append(values * width)
        axes.append(Axis(tree, width))
    return np.column_stack(columns), tuple(axes), draw(st.integers(1, max(n // 4, 1)))


@given(tables())
@settings(max_examples=60, deadline=None)
def test_records_go_where_a_plain_loop_sends_them_and_blocks_have_a_good_size(table) -> None:
    points, axes, parts = table
    keys = np.arange(len(points))[::-1].copy()
    cuts = Cuts.fit(points, parts, 0, keys, axes)
    assigned = cuts.assign(points, keys)
    assert assigned.tolist() == reference.assign(cuts, points, keys)
    counts = np.bincount(assigned, minlength=parts)
    assert len(counts) == parts
    assert counts.min() >= 1
    between = (cuts.keys == np.iinfo(np.int64).min).all()
    if between and parts > 1:
        assert counts.max() <= MAX_SIZE_RATIO * len(points) / parts
        assert counts.min() >= MIN_SIZE_RATIO * len(points) / parts


@given(tables())
@settings(max_examples=60, deadline=None)
def test_the_border_parts_the_fewest_pairs_for_each_bit(table) -> None:
    points, axes, n_parts = table
    records = np.arange(len(points))
    mixed = MixedCuts.of(axes, len(points) / n_parts, lambda some: np.eye(some.shape[1])[0])
    if mixed is None or n_parts == 1:
        return
    pairs = mixed.find_near_pairs(points, records, None)
    cut = mixed.find_best_border(points, records, pairs, n_parts)
    best = None
    numbers = [at for at, axis in enumerate(axes) if axis.tree is None][:1]
    for at in numbers + [at for at, axis in enumerate(axes) if axis.tree and axis.width > 0]:
        for value in np.unique(points[:, at])[1:]:
            below = points[:, at] < value
            low, high = below.sum(), (~below).sum()
            blocks = min(max(round(n_parts * low / len(points)), 1), n_parts - 1)
            sizes = [low / blocks, high / (n_parts - blocks)]
            if max(sizes) > MAX_SIZE_RATIO * mixed.mean_size or min(sizes) < max(
                MIN_SIZE_RATIO * mixed.mean_size, 1
            ):
                continue
            share = low / len(points)
            bits = -share * np.log2(share) - (1 - share) * np.log2(1 - share)
            cost = sum(below[i] != below[j] for i, j in pairs)
            value_of = (cost + 1) / (len(pairs) + 1) / bits
            best = value_of if best is None else min(best, value_of)
    assert (cut is None) == (best is None)
    if cut is not None:
        assert cut.cost == pytest.approx(best)


def test_levels_are_where_leaves_meet() -> None:
    levels = ancestors_by_height(UNEVEN)
    for i, j in itertools.combinations(range(UNEVEN.n_leaves), 2):
        meet = UNEVEN.heights[UNEVEN.common_nodes(np.array([i]), np.array([j]))[0]]
        assert [bool(row[i] == row[j]) for row in levels] == [
            height >= meet for height in range(UNEVEN.height)
        ]


def test_pairs_are_the_nearest_by_the_squares_of_heights() -> None:
    rng = np.random.default_rng(1)
    axes = (Axis(UNEVEN, 1.0), Axis(None, 1.0), Axis(TREES[2], 0.5))
    codes = np.column_stack([rng.integers(0, UNEVEN.n_leaves, 60), rng.integers(0, 2, 60)])
    points = np.column_stack([codes[:, 0] / (UNEVEN.n_leaves - 1), rng.random(60), codes[:, 1] / 2])
    mixed = MixedCuts.of(axes, 30, lambda some: np.ones(some.shape[1]))
    assert mixed is not None
    pairs = mixed.find_near_pairs(points, np.arange(60), None)
    common = UNEVEN.heights[UNEVEN.common_nodes(*(codes[pairs, 0].T))] / UNEVEN.height
    same = codes[pairs[:, 0], 0] == codes[pairs[:, 1], 0]
    assert ((common == 0) == same).all()

    def squared(i, j):
        high = UNEVEN.heights[UNEVEN.common_nodes(codes[i, :1], codes[j, :1])[0]] / UNEVEN.height
        return high**2 + (points[i, 1] - points[j, 1]) ** 2 + (points[i, 2] != points[j, 2]) / 4

    for i in range(60):
        expected = sorted(squared(i, j) for j in range(60) if j != i)[:5]
        distances = sorted(squared(i, j) for at, j in pairs if at == i)
        assert distances == pytest.approx(expected)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_values_that_near_records_share_are_not_parted(method) -> None:
    rng = np.random.default_rng(2)
    n = 6000
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "job": rng.choice([f"job {i}" for i in range(4)], n),
            "place": rng.choice([f"{i:04}" for i in range(2000)], n),
        }
    )
    more = {"recoding": "representative"} if method == "mdav" else {}
    all_blocks = []

    def cut(self, *arguments):
        all_blocks.extend(original_cut(self, *arguments))
        return all_blocks

    original_cut = Blocks.cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Blocks, "cut", cut)
        labels = dbanon.partition(frame, 5, method=method, block_size=1500, **more).labels
    assert np.bincount(labels).min() >= 5
    assert [frame["job"].iloc[block].nunique() for block in all_blocks] == [1, 1, 1, 1]
