"""Cuts: a record goes where a plain loop sends it; blocks keep their sizes whatever is alike."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dbanon import kernels
from dbanon.data.partition import Partition
from dbanon.partitioning.blocks import Blocks, DeferredSpace, _records_by_block
from dbanon.partitioning.cuts import Cuts, hash_keys, sample_positions
from dbanon.spaces.numeric import Space
from tests.reference import cuts as reference


@pytest.fixture(autouse=True, scope="module")
def small_samples():
    """Samples of 500 a block of small tables, too, as large ones have them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
        yield


def space_of(points):
    return Space(np.ascontiguousarray(points), ("a",) * points.shape[1])


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
    assigned = cuts.assign(points, keys)
    assert assigned.tolist() == reference.assign(cuts, points, keys)
    # Those it was fitted on: every block has its size, however many are alike.
    assert np.bincount(assigned, minlength=parts).tolist() == reference.sizes(len(points), parts)
    assert cuts.n_blocks == parts


@given(clouds(), st.sampled_from([0, 30, 20_000]))
@settings(max_examples=200, deadline=None)
def test_cuts_found_on_all_cores_are_those_found_one_by_one(cloud, apart) -> None:
    points, keys, parts, direction = cloud
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dbanon.partitioning.cuts._MIN_PARALLEL_POINTS", apart)
        cuts = Cuts.fit(points, parts, direction, keys)
    arrays = (cuts.directions, cuts.borders, cuts.keys, cuts.targets)
    for actual, expected in zip(arrays, reference.fit(points, parts, direction, keys), strict=True):
        np.testing.assert_array_equal(actual, expected)


@given(clouds(least=2), st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_the_block_of_a_record_does_not_depend_on_other_records(cloud, seed) -> None:
    points, keys, parts, direction = cloud
    rng = np.random.default_rng(seed)
    sample = rng.permutation(len(points))[: max(parts, len(points) // 2)]
    cuts = Cuts.fit(points[sample], parts, direction, keys[sample])
    assigned = cuts.assign(points, keys)
    order = rng.permutation(len(points))
    np.testing.assert_array_equal(cuts.assign(points[order], keys[order]), assigned[order])
    some = order[: rng.integers(0, len(points) + 1)]
    np.testing.assert_array_equal(cuts.assign(points[some], keys[some]), assigned[some])
    back = pickle.loads(pickle.dumps(cuts))
    np.testing.assert_array_equal(back.assign(points, keys), assigned)


@given(clouds(), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_every_record_is_in_one_block_of_its_size(cloud, size) -> None:
    points, _, _, direction = cloud
    keys = np.arange(len(points))
    blocks = Blocks(size, 1).cut(space_of(points), keys, direction)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(len(points)))
    assert all((np.diff(block) > 0).all() for block in blocks)
    parts = -(-len(points) // size)
    assert [len(block) for block in blocks] == reference.sizes(len(points), parts)
    assert max(map(len, blocks)) <= size

    def deferred(records):
        return space_of(points[records])

    for records in (None, np.arange(len(points))):
        again = Blocks(size, 1).cut(DeferredSpace(deferred, len(points), records), keys, direction)
        assert all((a == b).all() for a, b in zip(blocks, again, strict=True))


def test_blocks_are_numbered_from_below() -> None:
    points = np.arange(12.0).reshape(-1, 1)[::-1]
    cuts = Cuts.fit(points, 4)
    assigned = cuts.assign(points)
    if cuts.directions[0, 0] > 0:
        assigned = assigned[::-1]
    assert assigned.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


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


@given(st.integers(0, 2**63 - 1), st.integers(1, 50))
def test_hashes_are_those_of_splitmix64(first, n) -> None:
    keys = np.arange(n) + np.int64(first // 2)
    hashes = hash_keys(np.concatenate([keys, -keys]))
    assert hashes.tolist() == [reference.hashed(key) for key in [*keys.tolist(), *(-keys).tolist()]]
    # The first outputs of the paper's generator, seeded with 1234567.
    assert int(hash_keys(np.array([1234567]))[0]) == 6457827717110365317


@given(st.integers(1, 3000), st.integers(1, 4), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_sample_is_the_smallest_hashes_in_any_order(n, parts, seed) -> None:
    rng = np.random.default_rng(seed)
    keys = rng.choice(10**9, n, replace=False).astype(np.int64)
    parts = min(parts, n)
    positions = sample_positions(keys, parts)
    assert positions.tolist() == reference.sampled(keys.tolist(), 500 * parts)
    order = rng.permutation(n)
    again = sample_positions(keys[order], parts)
    assert set(keys[order][again].tolist()) == set(keys[positions].tolist())


def test_the_sample_is_the_same_where_the_first_bound_is_too_low(monkeypatch) -> None:
    keys = np.random.default_rng(5).permutation(3000) - 1000
    monkeypatch.setattr("dbanon.data.pieces.PIECE_RECORDS", 700)
    positions = sample_positions(keys, 2)
    assert positions.tolist() == reference.sampled(keys.tolist(), 1000)
    monkeypatch.setattr("dbanon.partitioning.cuts._MARGIN_DEVIATIONS", -20.0)
    assert sample_positions(keys, 2).tolist() == positions.tolist()


def test_a_sample_has_limits_but_a_point_for_each_block(monkeypatch) -> None:
    monkeypatch.setattr("dbanon.partitioning.cuts._MAX_SAMPLED", 700)
    keys = np.arange(5000)
    assert len(sample_positions(keys, 5)) == 700
    assert len(sample_positions(keys, 900)) == 900
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 650)
    assert len(sample_positions(keys, 1)) == 650


@given(clouds(), st.integers(0, 60), st.integers(0, 2**32))
@settings(max_examples=300, deadline=None)
def test_small_blocks_join_the_smallest_neighbour(cloud, least, seed) -> None:
    points, keys, parts, direction = cloud
    cuts = Cuts.fit(points, parts, direction, keys)
    counts = np.random.default_rng(seed).integers(0, 30, parts)
    joined = cuts.join_small(counts, least)
    assert joined.tolist() == reference.joined(cuts, counts.tolist(), least)
    together = np.bincount(joined, counts)
    assert together.min() >= min(least, counts.sum())
    # Numbered from below, without gaps.
    assert list(dict.fromkeys(joined.tolist())) == list(range(len(together)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "whole", "zipf", "constant"])
@pytest.mark.parametrize(("n", "size"), [(7000, 600), (7000, 2500), (1000, 400)])
def test_blocks_on_a_sample_are_those_of_plain_loops(kind, n, size) -> None:
    rng = np.random.default_rng(n + size)
    points = rng.normal(size=(n, 3))
    if kind == "whole":
        points = rng.integers(0, 3, (n, 3)).astype(float)
    elif kind == "zipf":
        points = rng.zipf(1.6, (n, 3)).clip(0, 10**6).astype(float)
    elif kind == "constant":
        points[:, :] = 4.0
    keys = np.sort(rng.choice(10**12, n, replace=False)).astype(np.int64)
    blocks = Blocks(size, size // 20)
    blocks_found = blocks.cut(space_of(points), keys)
    expected = reference.blocks(points, keys, size, size // 20)
    assert [block.tolist() for block in blocks_found] == expected
    assert min(map(len, blocks_found)) >= size // 20
    assert max(map(len, blocks_found)) < 1.3 * size
    # The same whatever other order the records are read in.
    order = rng.permutation(n)
    shuffled = blocks.cut(space_of(points[order]), keys[order])
    assert [sorted(order[block].tolist()) for block in shuffled] == expected


def test_classes_are_cut_by_means_and_first_keys(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    n, size = 9000, 1200
    points = rng.normal(size=(n, 2))
    keys = np.sort(rng.choice(10**9, n, replace=False)).astype(np.int64)
    labels = np.unique(rng.integers(0, n // 7, n), return_inverse=True)[1]
    # Means of classes that are made in pieces.
    monkeypatch.setattr("dbanon.data.partition.PIECE_RECORDS", 50)
    blocks_found = Blocks(size, 60).cut_classes(space_of(points), Partition(labels), keys, 1)
    assert [block.tolist() for block in blocks_found] == reference.blocks_of_classes(
        points, labels, keys, size, 60, 1
    )


def test_groups_leave_out_what_belongs_to_nothing(monkeypatch):
    monkeypatch.setattr("dbanon.data.pieces.PIECE_RECORDS", 3)
    numbers = np.array([2, -1, 0, 1, 2, 0, -1], np.int32)
    groups = _records_by_block(numbers, np.array([1, 0, 1]))
    assert [group.tolist() for group in groups] == [[3], [0, 2, 4, 5]]
    assert _records_by_block(np.full(4, -1, np.int32), np.array([0])) == []


def test_groups_of_more_blocks_than_16_bits_count():
    numbers = np.random.default_rng(0).permutation(np.arange(70_000).repeat(2)).astype(np.int32)
    groups = _records_by_block(numbers, np.arange(70_000))
    assert len(groups) == 70_000
    for number in (0, 2**16 - 1, 2**16, 69_999):
        np.testing.assert_array_equal(groups[number], np.flatnonzero(numbers == number))


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": np.zeros(3, np.int64)},
        {"directions": np.zeros((2, 3))},
        {"directions": np.zeros((1, 2))},
        {"borders": np.zeros(1)},
        {"cut_keys": np.zeros(1, np.int64)},
        {"sides": np.zeros((1, 2), np.int64)},
        {"sides": np.array([[1, -1], [0, -2]])},
        {"sides": np.array([[1, -1], [2, -2]])},
    ],
)
def test_walks_that_would_not_end_are_refused(wrong):
    right = {
        "points": np.zeros((4, 2)),
        "keys": np.arange(4),
        "directions": np.zeros((2, 2)),
        "borders": np.array([0.0, 1.0]),
        "cut_keys": np.array([2, 0]),
        "sides": np.array([[1, -1], [-2, -3]]),
    }
    np.testing.assert_array_equal(kernels.block_of(**right), [1, 1, 0, 0])
    with pytest.raises(ValueError):
        kernels.block_of(**{**right, **wrong})


def test_blocks_that_fail_join_the_smallest_that_lets_them_keep() -> None:
    cuts = Cuts.fit(np.arange(8.0).reshape(-1, 1), 8)
    counts = np.array([10, 11, 12, 13, 14, 15, 16, 17])
    has = np.array([1, 1, 1, 1, 0, 0, 0, 2])

    def fails(blocks: list[int]) -> bool:
        return bool(has[blocks].sum() < 1)

    owner = cuts.join_small(counts, 1, fails)
    # 4 and 5 fail alone and together; 6 joins 7, and then they both join these.
    assert owner.tolist() == [0, 1, 2, 3, 4, 4, 4, 4]
    assert cuts.join_small(counts, 1).tolist() == list(range(8))
    assert cuts.join_small(counts, 1, lambda blocks: len(blocks) < 8).tolist() == [0] * 8
