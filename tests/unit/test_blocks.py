from __future__ import annotations

import numpy as np
import pytest

import dbanon
from dbanon.blocks import cut, partition_blocks
from dbanon.methods.mdav import mdav
from dbanon.space import Space


def _run(points, tick):
    return mdav(Space(points, ("a",) * points.shape[1]), 5, tick=tick, rng=None)


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
    one = partition_blocks(points, blocks, _run, lambda share: None, threads=1)
    four = partition_blocks(points, blocks, _run, lambda share: None, threads=4)
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
        partition_blocks(points, cut(points, 1000), _run, tick, threads=2)


def test_loss_in_blocks_is_near_the_loss_of_the_whole():
    points = np.random.default_rng(2).normal(size=(20000, 3))
    whole = dbanon.information_loss(points, dbanon.partition(points, 5))
    blocks = partition_blocks(points, cut(points, 5000), _run, lambda share: None)
    assert whole < dbanon.information_loss(points, blocks) < 1.15 * whole
