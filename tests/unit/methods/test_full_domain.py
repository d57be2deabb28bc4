"""Full domain: every record of a column is released at the level that was found."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.tree import Hierarchy

PLACES = Hierarchy.from_nested(
    {"*": {"north": {"coast": ["Kiel", "Husum"], "plain": ["Celle"]}, "south": ["Ulm", "Hof"]}}
)
JOBS = Hierarchy.from_nested({"any": {"care": ["nurse", "medic"], "shop": ["clerk"]}})
TREES = {"place": PLACES, "job": JOBS}


def leaf(tree, value):
    return tree.positions[value]


def at_level(tree, level, value):
    return tree.labels[tree.nodes_at_level(level)[leaf(tree, value)]]


def persons(n, seed, ages=40):
    rng = np.random.default_rng(seed)
    places = [PLACES.labels[node] for node in PLACES.leaves]
    jobs = [JOBS.labels[node] for node in JOBS.leaves]
    return pd.DataFrame(
        {
            "place": rng.choice(places, n),
            "job": rng.choice(jobs, n),
            "age": rng.integers(20, 20 + ages, n),
            "row": range(n),
            "side": rng.integers(0, 2, n),
        }
    )


def release(frame, k, names=("place", "job"), **more):
    return dbanon.anonymize_frame(
        frame,
        quasi_identifiers=list(names),
        keep=["row"],
        k=k,
        method="full_domain",
        hierarchies={name: tree for name, tree in TREES.items() if name in names},
        **more,
    )


@given(st.integers(0, 10**6), st.integers(8, 60), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_every_record_is_at_its_level(seed, n, k):
    frame = persons(n, seed)
    out, report = release(frame, k)
    joined = out.merge(frame, on="row", suffixes=("", "_own"))
    for name, tree in TREES.items():
        expected = [
            at_level(tree, report.levels[name], original) for original in joined[f"{name}_own"]
        ]
        assert joined[name].tolist() == expected
    assert report.k_achieved >= k
    assert report.arguments["levels"] == report.levels
    # The reported loss is that of the levels: no smaller than that of the classes' own ranges.
    cells = [
        tree.loss(
            np.array([leaf(tree, original)]),
            tree.nodes_at_level(report.levels[name])[[leaf(tree, original)]],
        )
        for name, tree in TREES.items()
        for original in frame[name]
    ]
    assert report.internal.information_loss == pytest.approx(float(np.mean(cells)))
    assert (
        report.internal.information_loss >= report.internal.information_loss_before_rounding - 1e-12
    )


def test_a_class_of_one_value_is_not_told_below_the_level():
    """Two of Kiel, two of Celle, one each of Ulm and Hof."""
    frame = pd.DataFrame(
        {"place": ["Kiel", "Kiel", "Celle", "Celle", "Ulm", "Hof"], "row": range(6)}
    )
    out, report = release(frame, 2, ["place"])
    # As leaves Ulm and Hof are unique; one step up the south is a class, like coast and plain.
    assert report.levels == {"place": 1}
    assert out["place"].value_counts().to_dict() == {"coast": 2, "plain": 2, "south": 2}
    out, contracted = release(frame, 2, ["place"], options={"contract": True})
    assert out["place"].value_counts().to_dict() == {"Kiel": 2, "Celle": 2, "south": 2}
    assert contracted.levels == report.levels
    assert contracted.internal.information_loss < report.internal.information_loss


@pytest.mark.parametrize("more", [{}, {"local_range": True}])
def test_numbers_of_one_part_are_told_alike(more):
    frame = persons(200, 5)
    out, report = release(frame, 5, ("place", "age"), **more)
    joined = out.merge(frame, on="row", suffixes=("", "_own"))
    # At most as many labels as the level has parts, in the order of ages.
    parts = [200, 16, 8, 4, 2, 1][report.levels["age"]]
    ends = joined.groupby("age").age_own.agg(["min", "max"]).sort_values("min")
    assert len(ends) <= parts
    assert (ends["max"].to_numpy()[:-1] < ends["min"].to_numpy()[1:]).all()
    if not more:
        return
    for label, (low, high) in zip(ends.index, ends.to_numpy(), strict=True):
        assert label == (f"[{low}, {high}]" if low < high else str(low))


def test_one_level_for_all_strata():
    frame = persons(120, 7)
    out, report = release(frame, 4, by=["side"])
    joined = out.merge(frame, on="row", suffixes=("", "_own"))
    for name, tree in TREES.items():
        expected = [
            at_level(tree, report.levels[name], original) for original in joined[f"{name}_own"]
        ]
        assert joined[name].tolist() == expected
    assert out.groupby(["place", "job", "side"]).size().min() >= 4
    frame.loc[::3, "job"] = None
    out, report = release(frame, 4, by=["side"], nulls="category")
    assert out["job"].isna().sum() == 40
    expected = {at_level(PLACES, report.levels["place"], original) for original in frame["place"]}
    assert set(out["place"]) == expected


def test_suppression_is_of_the_whole_table():
    frame = persons(120, 9)
    out, report = release(frame, 6, by=["side"], options={"suppression": 0.2}, max_suppression=0.2)
    assert 0 < report.suppressed <= 24
    for name, tree in TREES.items():
        assert set(out[name]) <= {
            at_level(tree, report.levels[name], original) for original in frame[name]
        }


def test_merged_classes_have_labels_above_their_levels():
    frame = persons(60, 3)
    frame["ill"] = frame["row"] % 2
    plain = release(frame, 2, sensitive=["ill"])[1]
    models = [dbanon.Model("distinct_l", "ill", 2)]
    out, report = release(frame, 2, sensitive=["ill"], models=models)
    assert report.levels == plain.levels
    assert report.models[0].achieved == 2
    joined = out.merge(frame, on="row", suffixes=("", "_own"))
    for released_label, original in zip(joined["place"], joined["place_own"], strict=True):
        path = PLACES.path(original)
        assert path.index(released_label) >= path.index(
            at_level(PLACES, report.levels["place"], original)
        )


def test_persons_of_many_rows():
    frame = persons(80, 11)
    frame["who"] = frame["row"] // 2
    out, report = release(frame, 3, ("place", "job", "age"), entity="who")
    assert report.levels is not None
    assert len(out) == 80
    assert out.groupby(["place", "job", "age"]).size().min() >= 3


def test_in_partitions_and_what_is_refused():
    frame = persons(50, 1)[["place", "age"]]
    partition = dbanon.partition(frame, 3, method="full_domain", hierarchies={"place": PLACES})
    assert set(partition.levels) == {"place", "age"}
    assert partition.sizes.min() >= 3
    with pytest.raises(InvalidParameter, match="blocks"):
        dbanon.partition(frame, 3, method="full_domain", block_size=10)
    # Distances are not asked for: they are no reason to refuse.
    dbanon.partition(frame, 3, method="full_domain", standardize="mahalanobis")
