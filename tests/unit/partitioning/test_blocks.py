from __future__ import annotations

from dataclasses import replace
from unittest import mock

import duckdb
import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.data.partition import SUPPRESSED, Partition
from dbanon.errors import InvalidParameter
from dbanon.job.policy import Policy
from dbanon.methods import find_method
from dbanon.methods.mdav import mdav
from dbanon.partitioning import classes, refine
from dbanon.partitioning.blocks import Blocks, partition_blocks
from dbanon.partitioning.classes import find_classes
from dbanon.spaces.numeric import Space
from dbanon.stores.frame.microdata import microdata_from_frame


def space_of(points):
    return Space(np.ascontiguousarray(points), ("a",) * points.shape[1])


def cut(points, size, direction=0, least=1):
    return Blocks(size, least).cut(space_of(points), np.arange(len(points)), direction)


def cut_classes(points, partition, size, direction=0):
    return Blocks(size, 1).cut_classes(
        space_of(points), partition, np.arange(len(points)), direction
    )


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
    single_threaded = partition_blocks(blocks, _run_on(points), lambda share: None, threads=1)
    four = partition_blocks(blocks, _run_on(points), lambda share: None, threads=4)
    assert (single_threaded.labels == four.labels).all()
    assert single_threaded.sizes.min() >= 5
    owner = np.empty(3000, int)
    for number, block in enumerate(blocks):
        owner[block] = number
    for members in np.split(single_threaded.members, single_threaded.starts[1:]):
        assert len(set(owner[members])) == 1


def test_what_tick_raises_stops_all_blocks():
    points = np.random.default_rng(1).normal(size=(20000, 4))

    def tick(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        partition_blocks(cut(points, 1000), _run_on(points), tick, threads=2)


def test_loss_in_blocks_is_near_the_loss_of_the_whole():
    points = np.random.default_rng(2).normal(size=(20000, 3))
    loss_without_blocks = dbanon.information_loss(points, dbanon.partition(points, 5))
    blocks = partition_blocks(cut(points, 5000), _run_on(points), lambda share: None)
    assert (
        loss_without_blocks < dbanon.information_loss(points, blocks) < 1.15 * loss_without_blocks
    )


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
    labels_by_block = [set(labels[block].tolist()) for block in blocks]
    assert sum(map(len, labels_by_block)) == len(set().union(*labels_by_block))
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
@pytest.mark.parametrize("iterations", [None, 0, 800])
def test_refinement_in_blocks_does_not_depend_on_threads(iterations, monkeypatch):
    frame = _people(600)
    options = {"method": "gaa_cp", "block_size": 100}
    refined = {"refine": "fast", "refine_iterations": iterations}
    plain = dbanon.partition(frame, 5, **options)
    partitions = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        partitions.append(dbanon.partition(frame, 5, **options, **refined))
    assert (partitions[0].labels == partitions[1].labels).all()
    assert partitions[0].sizes.min() >= 5
    before, after = (dbanon.generalization_loss(frame, p) for p in (plain, partitions[0]))
    # Without rounds, by swaps only.
    assert after < before


@pytest.mark.slow
def test_refinement_in_blocks_loses_little_more_than_on_the_whole():
    frame = _people(1_000)
    without_blocks = dbanon.partition(frame, 5, method="gaa_cp", refine="fast")
    blocks = dbanon.partition(frame, 5, method="gaa_cp", refine="fast", block_size=250)
    unrefined = dbanon.partition(frame, 5, method="gaa_cp", block_size=250)
    losses = [dbanon.generalization_loss(frame, p) for p in (without_blocks, blocks, unrefined)]
    assert losses[1] < 1.1 * losses[0] < losses[2]


def test_the_smallest_block_has_room_for_two_classes():
    assert Policy(k=5, block_size=10).block_size == 10
    with pytest.raises(InvalidParameter):
        Policy(k=5, block_size=9)


@pytest.mark.slow
def test_what_tick_raises_ends_refinement_in_blocks():
    def tick(share):
        if share > 0.8:
            raise KeyboardInterrupt

    frame = _people(1000)
    policy = Policy(k=5, method="gaa_cp", refine="fast", block_size=250)
    with pytest.raises(KeyboardInterrupt):
        find_classes(microdata_from_frame(frame, list(frame)), policy, tick)


def _plain_passes(points, k, size, how):
    """MDAV in blocks, then the refinement in blocks of classes, one block after the other."""
    n = len(points)
    keys = np.arange(n)
    cuts = Blocks(size, max(k, size // 20))
    labels = np.empty(n, np.int64)
    for number, block in enumerate(cuts.cut(space_of(points), keys)):
        labels[block] = 10**6 * number + _run_on(points)(number, block, lambda share: None).labels
    for turn, direction in enumerate((1, 0)):
        before = Partition(np.unique(labels, return_inverse=True)[1])
        for number, block in enumerate(cuts.cut_classes(space_of(points), before, keys, direction)):
            block_space = Space(np.ascontiguousarray(points[block]), ("a",) * points.shape[1])
            part = Partition(np.unique(before.labels[block], return_inverse=True)[1])
            seed = np.random.SeedSequence([3, turn, number]).generate_state(1, np.uint64)[0]
            refined = refine.refine_points(
                block_space, part, k, how, tick=lambda share: None, seed=int(seed), share=0.5
            )
            labels[block] = 10**6 * number + refined.labels
    return Partition(np.unique(labels, return_inverse=True)[1])


@pytest.mark.slow
@pytest.mark.parametrize("how", ["pass", "fast"])
@pytest.mark.parametrize("kind", ["normal", "whole"])
def test_refinement_of_points_in_blocks_is_that_of_a_plain_loop(how, kind, monkeypatch):
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    rng = np.random.default_rng(8)
    points = rng.normal(size=(700, 3))
    if kind == "whole":
        points = rng.integers(0, 6, (700, 3)).astype(float)
    expected = _plain_passes(points, 5, 250, how)
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        options = {"standardize": "none", "block_size": 250, "refine": how, "seed": 3}
        partition = dbanon.partition(points, 5, **options)
        together = np.unique(np.column_stack([partition.labels, expected.labels]), axis=0)
        assert len(together) == partition.n_classes == expected.n_classes
    assert partition.sizes.min() >= 5
    assert partition.sizes.max() <= 9


def test_each_block_draws_with_its_own_seed():
    """With one seed for all blocks, blocks of equal records would get equal classes."""
    draws = []

    def draw(space, k, *, tick, rng):
        draws.append(int(rng.integers(2**63)))
        n = space.n_records
        return Partition(np.minimum(np.arange(n) // k, n // k - 1))

    def draws_of(seed):
        draws.clear()
        frame = _people(240)
        policy = Policy(k=5, method="kaca", block_size=60, seed=seed)
        find_classes(microdata_from_frame(frame, list(frame)), policy)
        return sorted(draws)

    method = replace(find_method("kaca"), run=draw)
    with mock.patch.object(classes, "find_method", return_value=method):
        once, again, other = (draws_of(seed) for seed in (7, 7, 8))
    assert len(once) == len(set(once)) >= 4
    assert once == again
    assert not set(once) & set(other)


def test_each_block_is_refined_with_its_own_seed():
    points = np.random.default_rng(4).normal(size=(240, 2))
    seeds = []

    def record(space, partition, k, how, *, seed, **more):
        seeds.append(seed)
        return partition

    def seeds_of(seed):
        seeds.clear()
        options = {"block_size": 60, "refine": "fast", "seed": seed}
        dbanon.partition(points, 5, **options)
        return sorted(seeds)

    with mock.patch.dict(refine._REFINEMENTS, {"points": record}):
        once, again, other = (seeds_of(seed) for seed in (7, 7, 8))
    # For each of two turns.
    assert len(once) == len(set(once)) >= 8
    assert once == again
    assert not set(once) & set(other)


def test_a_pass_mends_what_borders_cost():
    points = np.random.default_rng(2).normal(size=(20000, 3))
    options_by_name = {"": {}, "whole": {"refine": "pass"}, "cut": {"block_size": 4000}}
    options_by_name["both"] = options_by_name["whole"] | options_by_name["cut"]
    loss = {
        name: dbanon.information_loss(points, dbanon.partition(points, 5, **options))
        for name, options in options_by_name.items()
    }
    assert loss["whole"] < loss["both"] < 1.03 * loss["whole"] < loss[""] < loss["cut"]


def test_a_table_of_one_block_is_anonymized_as_without_blocks():
    points = np.random.default_rng(3).normal(size=(300, 2))
    for options in ({}, {"refine": "fast"}, {"method": "genetic", "generations": 20}):
        without_blocks = dbanon.partition(points[:60], 5, **options)
        blocks = dbanon.partition(points[:60], 5, block_size=60, **options)
        np.testing.assert_array_equal(without_blocks.labels, blocks.labels)


def test_the_order_and_the_pieces_of_rows_change_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("dbanon.partitioning.cuts._MIN_SAMPLED", 0)
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(4000, 3)).round(1), columns=["a", "b", "c"])
    frame["id"] = rng.permutation(10**6)[:4000]
    releases = []
    for rows, chunk_rows in ((frame, 4000), (frame.sample(frac=1, random_state=1), 77)):
        with duckdb.connect() as connection:
            connection.register("given", rows)
            connection.execute(
                "CREATE TABLE people (id BIGINT PRIMARY KEY, a REAL, b REAL, c REAL)"
            )
            connection.execute("INSERT INTO people SELECT id, a, b, c FROM given")
            connection.unregister("given")
            dbanon.anonymize(
                connection,
                table="people",
                quasi_identifiers=["a", "b", "c"],
                keep=["id"],
                k=5,
                output="released",
                block_size=1500,
                refine="pass",
                chunk_rows=chunk_rows,
            )
            releases.append(connection.execute("FROM released ORDER BY id").fetchall())
    assert releases[0] == releases[1]
