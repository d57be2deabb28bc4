"""Cuts: a record goes where a plain loop sends it; blocks keep their sizes whatever is alike."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon.partitioning.blocks import cut
from dbanon.partitioning.cuts import Cuts
from tests.reference import cuts as reference


@st.composite
def clouds(draw, least=1):
    """Points of all sorts, many of them on one border, and a number of blocks."""
    n, p = draw(st.integers(least, 120)), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from(["normal", "whole", "repeated", "alike", "line", "huge"]))
    points = rng.normal(size=(n, p))
    if kind == "whole":
        points = rng.integers(0, 3, (n, p)).astype(float)
    elif kind == "repeated":
        points = points[rng.integers(0, max(n // 8, 1), n)]
    elif kind == "alike":
        points[:] = points[0]
    elif kind == "line":
        points = np.outer(points[:, 0].round(1), np.ones(p))
    elif kind == "huge":
        points *= 1e150
    keys = rng.permutation(n) * draw(st.integers(1, 1000)) - draw(st.integers(0, 1000))
    return points, keys.astype(np.int64), draw(st.integers(1, n)), draw(st.integers(0, 4))


@given(clouds())
@settings(max_examples=300, deadline=None)
def test_records_go_where_a_plain_loop_sends_them(cloud) -> None:
    points, keys, parts, direction = cloud
    cuts = Cuts.fit(points, parts, direction, keys)
    found = cuts.assign(points, keys)
    assert found.tolist() == reference.assign(cuts, points, keys)
    # Those it was fitted on: every block has its size, however many are alike.
    assert np.bincount(found, minlength=parts).tolist() == reference.sizes(len(points), parts)
    assert cuts.n_blocks == parts


@given(clouds(least=2), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_a_record_goes_there_whoever_comes_with_it(cloud, seed) -> None:
    points, keys, parts, direction = cloud
    rng = np.random.default_rng(seed)
    sample = rng.permutation(len(points))[: max(parts, len(points) // 2)]
    cuts = Cuts.fit(points[sample], parts, direction, keys[sample])
    found = cuts.assign(points, keys)
    order = rng.permutation(len(points))
    np.testing.assert_array_equal(cuts.assign(points[order], keys[order]), found[order])
    some = order[: rng.integers(0, len(points) + 1)]
    np.testing.assert_array_equal(cuts.assign(points[some], keys[some]), found[some])
    back = pickle.loads(pickle.dumps(cuts))
    np.testing.assert_array_equal(back.assign(points, keys), found)


@given(clouds(), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_every_record_is_in_one_block_of_its_size(cloud, size) -> None:
    points, _, _, direction = cloud
    blocks = cut(points, size, direction)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(points)))
    assert all((np.diff(block) > 0).all() for block in blocks)
    parts = -(-len(points) // size)
    assert [len(block) for block in blocks] == reference.sizes(len(points), parts)
    assert max(map(len, blocks)) <= size
    again = cut(points.copy(order="F"), size, direction)
    assert all((a == b).all() for a, b in zip(blocks, again, strict=True))


def test_blocks_are_numbered_from_below() -> None:
    points = np.arange(12.0).reshape(-1, 1)[::-1]
    cuts = Cuts.fit(points, 4)
    found = cuts.assign(points)
    if cuts.directions[0, 0] > 0:
        found = found[::-1]
    assert found.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_the_earlier_key_of_records_that_are_alike_is_below() -> None:
    points = np.ones((6, 2))
    cuts = Cuts.fit(points, 2, keys=np.array([50, 10, 40, 20, 60, 30]))
    assert cuts.assign(points, np.array([50, 10, 40, 20, 60, 30])).tolist() == [1, 0, 1, 0, 1, 0]
    assert cuts.assign(points[:3], np.array([39, 40, 41])).tolist() == [0, 1, 1]


def test_cuts_of_a_sample_make_blocks_of_nearly_equal_size() -> None:
    rng = np.random.default_rng(3)
    points = rng.integers(0, 4, (40_000, 2)).astype(float)
    keys = rng.permutation(len(points))
    sample = rng.choice(len(points), 8000, replace=False)
    cuts = Cuts.fit(points[sample], 16, keys=keys[sample])
    sizes = np.bincount(cuts.assign(points, keys), minlength=16)
    assert sizes.min() > 0.8 * 2500
    assert sizes.max() < 1.2 * 2500


def test_one_block_has_no_cut_and_each_needs_a_point() -> None:
    cuts = Cuts.fit(np.ones((3, 2)), 1)
    assert cuts.assign(np.ones((5, 2))).tolist() == [0] * 5
    assert Cuts.fit(np.empty((0, 2)), 1).assign(np.empty((0, 2))).tolist() == []
    with pytest.raises(ValueError, match="point for each block"):
        Cuts.fit(np.ones((3, 2)), 4)
