"""Properties of every generalization method, tested through the public interface."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon import methods
from dbanon.errors import (
    HierarchyBroken,
    InvalidParameter,
    SuppressionOverBudget,
    TooFewRecords,
    UnsupportedType,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.spaces.mixed import ROOT_COST, MixedSpace
from tests.generalization_data import spaces, with_levels
from tests.reference import generalization as reference

METHODS = [name for name, method in methods.METHODS.items() if method.takes_categories]
PLACES = Hierarchy.from_levels(
    [["Ulm", "south", "*"], ["Bonn", "west", "*"], ["Essen", "west", "*"], ["Kiel", "north", "*"]]
)


def run(name, space, k, seed=0, **options):
    method = methods.METHODS[name]
    shares = []
    partition = method.run(
        with_levels(space) if name in ("full_domain", "global_recoding") else space,
        k,
        tick=shares.append,
        rng=np.random.Generator(np.random.PCG64(seed)),
        **method.check_options(options),
    )
    assert all(0 <= share <= 1 for share in shares)
    return partition


@pytest.mark.parametrize("name", METHODS)
@given(case=spaces(largest=120), seed=st.integers(0, 9))
@settings(max_examples=40)
def test_contract(name, case, seed):
    space, k = case
    n = space.n_records
    before = space.codes.copy()
    partition = run(name, space, k, seed)
    assert len(partition.labels) == n
    assert partition.labels.min() >= 0
    largest = methods.METHODS[name].max_size
    partition.require(k, largest(k) if largest else None)
    np.testing.assert_array_equal(partition.labels, run(name, space, k, seed).labels)
    np.testing.assert_array_equal(space.codes, before)
    if n < 2 * k:
        assert partition.n_classes == 1
    same = MixedSpace(
        space.codes[:1].repeat(n, axis=0).copy(), space.root_costs, space.trees, space.names
    )
    partition_of_same = run(name, same, k, seed)
    records = reference.Records(same)
    assert not any(
        records.loss(np.flatnonzero(partition_of_same.labels == c))
        for c in range(partition_of_same.n_classes)
    )


@given(case=spaces(largest=120))
@settings(max_examples=40)
def test_relaxed_cuts_give_small_classes(case):
    space, k = case
    partition = run("mondrian", space, k, cut="relaxed").require(k)
    for label in np.flatnonzero(partition.sizes >= 2 * k):
        assert len(np.unique(space.codes[partition.labels == label], axis=0)) == 1


def one_number(values):
    """A space of one number, in whole steps of its range."""
    codes = np.array(values)[:, None] * (ROOT_COST // max(values))
    return MixedSpace(codes.astype(np.int32), np.array([ROOT_COST]), (None,), ("number",))


def one_place(values):
    codes = np.array([[PLACES.positions[value]] for value in values], np.int32)
    return MixedSpace(codes, np.array([ROOT_COST]), (PLACES,), ("place",))


SIX = ["Ulm", "Bonn", "Essen", "Kiel", "Kiel", "Bonn"]


@pytest.mark.parametrize(
    ("name", "space", "k", "options", "expected"),
    [
        # {0, 1, 2}; farthest from its seed 0: 13, with 12 and 11; 10 raises the loss of the first
        # by 4 * 10 - 3 * 2 = 34, that of the second by 4 * 3 - 3 * 2 = 6.
        ("kmember", one_number([0, 1, 2, 10, 11, 12, 13]), 3, {}, [0, 0, 0, 1, 1, 1, 1]),
        # 5 and 6 are alone: together they lose 2 * 1; with the zeros 3 * 5 or 3 * 6, with the
        # twenties more. So in either order of chance.
        ("kaca", one_number([0, 0, 5, 6, 20, 20]), 2, {}, [0, 0, 1, 1, 2, 2]),
        # 5 and 6 are within 0.5 * 20 of the zeros, 20 is not; the four are cut in halves.
        ("ebkc", one_number([0, 0, 5, 6, 20, 20]), 2, {}, [0, 0, 1, 1, 2, 2]),
        # The median lies among the ones; the cut after 4 records leaves one, after 3 two.
        ("mondrian", one_number([1, 1, 1, 2, 9]), 2, {}, [0, 0, 0, 1, 1]),
        ("mondrian", one_number([1, 1, 1, 2, 9]), 2, {"cut": "relaxed"}, [0, 0, 1, 1, 1]),
        # In the order of leaves: Ulm, Bonn, Bonn | Essen, Kiel, Kiel.
        ("mondrian", one_place(SIX), 2, {}, [0, 0, 1, 1, 1, 0]),
        # Between branches: after Ulm (too few) or before Kiel.
        ("mondrian", one_place(SIX), 2, {"cut": "tree"}, [0, 0, 0, 1, 1, 0]),
        # Ulm is alone as a place and as the south: all become *.
        ("full_domain", one_place(SIX), 2, {}, [0] * 6),
        # One may be withheld: Ulm, on the level of regions. On that of places Essen would be too.
        ("full_domain", one_place(SIX), 2, {"suppression": 0.2}, [-1, 0, 0, 1, 1, 0]),
    ],
)
def test_worked_examples(name, space, k, options, expected):
    for seed in range(5):
        assert run(name, space, k, seed, **options).labels.tolist() == expected


@given(case=spaces(largest=40), suppression=st.sampled_from([0.0, 0.2]))
@settings(max_examples=60)
def test_full_domain_is_the_best_of_all_combinations(case, suppression):
    """Against all combinations, one by one, on hierarchies alone."""
    space, k = case
    generalized = [a for a, tree in enumerate(space.trees) if tree is not None][:3]
    if not generalized:
        return
    space = MixedSpace(
        np.ascontiguousarray(space.codes[:, generalized]),
        space.root_costs[generalized],
        tuple(space.trees[a] for a in generalized),
        tuple(space.names[a] for a in generalized),
    )
    n = space.n_records
    partition = run("full_domain", space, k, suppression=suppression)
    best = None
    shape = [tree.height + 1 for tree in space.trees]
    for levels in np.ndindex(*shape):
        rows, loss = [], Fraction(0)
        for a, level in enumerate(levels):
            nodes = space.trees[a].nodes_at_level(level)[space.codes[:, a]]
            depths = space.trees[a].leaf_depths[space.codes[:, a]].tolist()
            for depth, reached in zip(depths, space.trees[a].depths[nodes].tolist(), strict=True):
                loss += Fraction(int(space.root_costs[a]) * (depth - reached), depth or 1)
            rows.append(nodes)
        _, group, size = np.unique(
            np.column_stack(rows), axis=0, return_inverse=True, return_counts=True
        )
        withheld = size[size < k].sum()
        if withheld <= int(suppression * n) and withheld < n:
            share = Fraction(int(withheld), n)
            loss = loss * (1 - share) + share * n * int(space.root_costs.sum())
            if best is None or loss < best:
                best, expected = loss, np.where(size[group.reshape(-1)] < k, -1, 0)
    partition.require(k)
    assert partition.n_suppressed == (expected < 0).sum()


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_frames(name):
    rng = np.random.default_rng(3)
    n = 200
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 90, n),
            "place": rng.choice(["Ulm", "Bonn", "Essen", "Kiel"], n),
            "sex": rng.choice(["f", "m"], n),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    # A method that suppresses cells releases no labels of hierarchies.
    trees = {} if methods.METHODS[name].suppresses_cells else {"place": PLACES}
    partition = dbanon.partition(frame, 4, method=name, hierarchies=trees)
    loss = dbanon.generalization_loss(frame, partition, hierarchies=trees)
    assert 0 < loss < 4 * n
    weighted = dbanon.partition(frame, 4, method=name, hierarchies=trees, weights={"age": 50.0})
    assert weighted.n_classes > 1
    if methods.METHODS[name].refine:
        for level, rounds in (("fast", None), ("thorough", 2000)):
            refined = dbanon.partition(
                frame,
                4,
                method=name,
                hierarchies=trees,
                refine=level,
                refine_iterations=rounds,
            )
            assert refined.sizes.min() >= 4
            assert dbanon.generalization_loss(frame, refined, hierarchies=trees) <= loss + 1e-9
    with pytest.raises(TooFewRecords):
        dbanon.partition(frame.head(3), 4, method=name)


def test_nulls():
    frame = pd.DataFrame(
        {"a": ["x", "y", None, None, "x", "z"], "b": [1.0, 2, 3, 4, np.nan, np.nan]}
    )
    with pytest.raises(dbanon.DbanonError, match="NULL"):
        dbanon.partition(frame, 2, method="gaa_cp")
    partition = dbanon.partition(frame, 2, method="gaa_cp", nulls="category", refine="fast")
    assert sorted(map(sorted, (np.flatnonzero(partition.labels == c) for c in range(3)))) == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]
    assert dbanon.generalization_loss(frame, partition) == pytest.approx(2 + 2 * 1 / 3 * 2 + 2)
    assert (
        dbanon.partition(
            frame, 2, method="gaa_cp", nulls="suppress", max_suppression=1
        ).n_suppressed
        == 4
    )


def test_refusals(tmp_path):
    frame = pd.DataFrame({"place": ["Ulm", "Bonn", "Rome", "Kiel"], "age": [1, 2, 3, 4]})
    path = tmp_path / "place.csv"
    path.write_text(PLACES.to_csv(), encoding="utf-8")
    with pytest.raises(HierarchyBroken, match='"place"') as caught:
        dbanon.partition(frame, 2, method="gaa_cp", hierarchies={"place": path})
    assert "Rome" not in str(caught.value)
    assert [problem.label for problem in caught.value.problems] == ["Rome"]
    frame["place"] = ["Ulm", "Bonn", "Bonn", "Kiel"]
    with pytest.raises(InvalidParameter, match='"town"'):
        dbanon.partition(frame, 2, method="gaa_cp", hierarchies={"town": path})
    with pytest.raises(InvalidParameter, match="takes no hierarchies"):
        dbanon.partition(frame[["age"]], 2, hierarchies={"age": path})
    with pytest.raises(InvalidParameter, match="could be refined"):
        dbanon.partition(frame, 2, method="full_domain", refine="fast")
    with pytest.raises(InvalidParameter, match="refine must be"):
        dbanon.partition(frame, 2, method="gaa_cp", refine="slow")
    with pytest.raises(UnsupportedType, match="gaa_cp"):
        dbanon.partition(frame, 2)
    with pytest.raises(SuppressionOverBudget):
        dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["place", "age"],
            k=2,
            max_suppression=0.1,
            method="full_domain",
            options={"suppression": 0.5},
        )


def test_numbers_by_hierarchy():
    ages = Hierarchy.from_levels([[str(i), f"{i // 10}x", "*"] for i in range(100)])
    frame = pd.DataFrame({"age": [1, 2, 31, 35, 39]})
    partition = dbanon.partition(frame, 2, method="gaa_cp", hierarchies={"age": ages})
    assert dbanon.generalization_loss(frame, partition, hierarchies={"age": ages}) == 2.5


@pytest.mark.slow
def test_refinement_works_on_large_classes_of_distinct_records():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 1000, (600, 3)), columns=list("abc"))
    plain = dbanon.partition(frame, 40, method="mondrian")
    refined = dbanon.partition(frame, 40, method="mondrian", refine="fast")
    assert refined.sizes.min() >= 40
    losses = [dbanon.generalization_loss(frame, partition) for partition in (plain, refined)]
    assert losses[1] < 0.95 * losses[0]
