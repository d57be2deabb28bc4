from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.partition import SUPPRESSED, Partition
from dbanon.job.policy import Policy
from dbanon.methods.mdav import mdav
from dbanon.partitioning.blocks import cut, cut_classes, partition_blocks
from dbanon.partitioning.classes import find_classes
from dbanon.spaces.numeric import Space
from dbanon.stores.frame.microdata import microdata_from_frame


def _run_on(points):
    def run(number, records, tick):
        block = np.ascontiguousarray(points[records])
        return mdav(Space(block, ("a",) * block.shape[1]), 5, tick=tick, rng=None)

    return run


@pytest.mark.parametrize(("n", "size"), [(1, 10), (10, 10), (11, 10), (1000, 64), (999, 100)])
def test_blocks_cover_every_record_once_and_keep_their_size(n, size):
    points = np.random.default_rng(n).normal(size=(n, 3))
    blocks = cut(points, size)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(n))
    assert max(map(len, blocks)) <= size
    assert min(map(len, blocks)) >= n // (-(-n // size)) - 1
    assert all((np.diff(block) > 0).all() for block in blocks)


def test_blocks_are_cut_across_the_longest_direction():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(4000, 2)) * [10.0, 0.1]
    low, high = sorted((points[block, 0] for block in cut(points, 2000)), key=np.mean)
    assert low.max() <= high.min()


def test_no_class_crosses_a_border_and_threads_change_nothing():
    points = np.random.default_rng(1).normal(size=(3000, 4))
    blocks = cut(points, 500)
    one = partition_blocks(blocks, _run_on(points), lambda share: None, threads=1)
    four = partition_blocks(blocks, _run_on(points), lambda share: None, threads=4)
    assert (one.labels == four.labels).all()
    assert one.sizes.min() >= 5
    owner = np.empty(3000, int)
    for number, block in enumerate(blocks):
        owner[block] = number
    for members in np.split(one.members, one.starts[1:]):
        assert len(set(owner[members])) == 1


def test_what_tick_raises_stops_all_blocks():
    points = np.random.default_rng(1).normal(size=(20000, 4))

    def tick(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition_blocks(cut(points, 1000), _run_on(points), tick, threads=2)


def test_loss_in_blocks_is_near_the_loss_of_the_whole():
    points = np.random.default_rng(2).normal(size=(20000, 3))
    whole = dbanon.information_loss(points, dbanon.partition(points, 5))
    blocks = partition_blocks(cut(points, 5000), _run_on(points), lambda share: None)
    assert whole < dbanon.information_loss(points, blocks) < 1.15 * whole


def test_directions_cut_across_one_another():
    points = np.random.default_rng(0).normal(size=(4000, 2)) * [2.0, 1.0]
    for direction in (0, 1):
        first, second = (points[block].mean(axis=0) for block in cut(points, 2000, direction))
        apart = np.abs(first - second)
        assert apart[direction] > 1 > 0.2 > apart[1 - direction]
    third, last = cut(points, 500, 7), cut(points, 500, 1)
    assert all((a == b).all() for a, b in zip(third, last, strict=True))


@pytest.mark.parametrize(("n", "size"), [(20, 30), (1000, 100), (1000, 3)])
def test_blocks_of_classes_hold_whole_classes(n, size):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 3))
    labels = np.unique(rng.integers(0, n // 10, n), return_inverse=True)[1]
    labels[labels == labels.max()] = SUPPRESSED
    blocks = cut_classes(points, Partition(labels), size)
    assert sorted(np.concatenate(blocks).tolist()) == np.flatnonzero(labels >= 0).tolist()
    held = [set(labels[block].tolist()) for block in blocks]
    assert sum(map(len, held)) == len(set().union(*held))
    assert all((np.diff(block) > 0).all() for block in blocks)


def _people(n):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "job": rng.choice([f"job {i}" for i in range(12)], n),
            "place": rng.choice([f"{i:03}" for i in range(60)], n),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("iterations", [None, 0, 2000])
def test_refinement_in_blocks_does_not_depend_on_threads(iterations, monkeypatch):
    frame = _people(3000)
    asked = {"method": "gaa_cp", "block_size": 500}
    refined = {"refine": "fast", "refine_iterations": iterations}
    plain = dbanon.partition(frame, 5, **asked)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(dbanon.partition(frame, 5, **asked, **refined))
    assert (found[0].labels == found[1].labels).all()
    assert found[0].sizes.min() >= 5
    before, after = (dbanon.generalization_loss(frame, p) for p in (plain, found[0]))
    # Classes have other numbers, and losses are added up in their order.
    assert after == pytest.approx(before, rel=1e-12) if iterations == 0 else after < before


@pytest.mark.slow
def test_refinement_in_blocks_loses_little_more_than_on_the_whole():
    frame = _people(20_000)
    whole = dbanon.partition(frame, 5, method="gaa_cp", refine="fast")
    blocks = dbanon.partition(frame, 5, method="gaa_cp", refine="fast", block_size=5000)
    alone = dbanon.partition(frame, 5, method="gaa_cp", block_size=5000)
    losses = [dbanon.generalization_loss(frame, p) for p in (whole, blocks, alone)]
    assert losses[1] < 1.15 * losses[0] < losses[2]


def test_what_tick_raises_ends_refinement_in_blocks():
    def tick(share):
        if share > 0.8:
            raise KeyboardInterrupt

    frame = _people(3000)
    policy = Policy(k=5, method="gaa_cp", refine="fast", block_size=500)
    with pytest.raises(KeyboardInterrupt):
        find_classes(microdata_from_frame(frame, list(frame)), policy, tick)
