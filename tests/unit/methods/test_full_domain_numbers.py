"""Full domain on numbers without a hierarchy: the labels of a column are a partition."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.number_levels import NumberLevels
from dbanon.data.scales import Scale
from dbanon.release.evaluation import parse_intervals
from tests.number_columns import ATTRIBUTES, RANKS, column


def ends_of(labels, kind, numbers):
    low, high = parse_intervals(labels, ATTRIBUTES[kind], Scale.of(numbers))
    return dict(zip(labels, zip(low.tolist(), high.tolist(), strict=True), strict=True))


KINDS = st.lists(st.sampled_from(sorted(ATTRIBUTES)), min_size=1, max_size=3)


@given(KINDS, st.integers(0, 10**6), st.integers(12, 90), st.integers(2, 5), st.data())
@settings(max_examples=150, deadline=None)
def test_labels_are_disjoint_and_hold_their_values(kinds, seed, n, k, data):
    rng = np.random.default_rng(seed)
    columns = {f"c{i}": column(rng, kind, n) for i, kind in enumerate(kinds)}
    frame = pd.DataFrame({name: values for name, (values, _) in columns.items()})
    frame["row"], frame["side"] = range(n), np.arange(n) % 2
    more = data.draw(st.sampled_from(["plain", "local_range", "strata", "nulls", "steps", "few"]))
    arguments = {"local_range": more == "local_range"}
    if more == "strata":
        arguments["by"] = ["side"]
    if more == "nulls":
        frame["c0"] = frame["c0"].astype(object)
        frame.loc[frame.index[: n // 2], "c0"] = None
        arguments["nulls"] = "category"
    if more == "steps":
        low, high = columns["c0"][1].min(), columns["c0"][1].max()
        arguments["steps"] = {"c0": float(max(1, (high - low) // data.draw(st.integers(1, 60))))}
    if more == "few":
        arguments |= {"options": {"suppression": 0.2}, "max_suppression": 0.2}
    orders = {name: RANKS for name, kind in zip(columns, kinds, strict=True) if kind == "ordinal"}
    out, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=list(columns),
        keep=["row"],
        k=k,
        method="full_domain",
        orders=orders,
        **arguments,
    )
    assert report.k_achieved >= k
    for (name, (_, numbers)), kind in zip(columns.items(), kinds, strict=True):
        released = out[out[name].notna()]
        ends = ends_of(sorted(released[name].unique()), kind, numbers)
        for (_, below), (above, _) in pairwise(sorted(ends.values())):
            assert below <= above if kind == "float" else below < above
        for label, row in zip(released[name], released["row"], strict=True):
            low, high = ends[label]
            assert low - 1e-9 <= numbers[row] <= high + 1e-9


def test_classes_that_were_merged_have_nested_labels():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "a": rng.integers(0, 90, 300),
            "b": rng.integers(0, 90, 300),
            "ill": rng.integers(0, 9, 300),
        }
    )
    out, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["a", "b"],
        sensitive=["ill"],
        k=3,
        method="full_domain",
        models=[dbanon.Model("distinct_l", "ill", 4)],
    )
    assert report.models[0].achieved >= 4
    for name in ("a", "b"):
        numbers = frame[name].to_numpy(float)
        ends = sorted(ends_of(sorted(out[name].unique()), "integer", numbers).values())
        assert all(
            label[1] < other[0]
            or (label[0] <= other[0] and other[1] <= label[1])
            or label[0] == other[0]
            for i, label in enumerate(ends)
            for other in ends[i + 1 :]
        )


def test_grid_of_the_rows_that_are_left_keeps_the_partition():
    """Rows that a model withholds have widened the cells of the search, and no label."""
    rng = np.random.default_rng(1)
    ages = np.append(rng.integers(20, 80, 120), [4000, 4001, 4002])
    ill = np.append(rng.integers(0, 5, 120), [7, 7, 7])
    frame = pd.DataFrame({"age": ages, "ill": ill, "row": range(123)})
    out, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        sensitive=["ill"],
        keep=["row"],
        k=3,
        method="full_domain",
        models=[dbanon.Model("distinct_l", "ill", 2)],
        withhold_failing=True,
        max_suppression=0.1,
    )
    assert report.suppressed == 3
    ends = ends_of(sorted(out["age"].unique()), "integer", ages[:120].astype(float))
    assert all(low >= 0 and high < 200 for low, high in ends.values())
    for (_, below), (above, _) in pairwise(sorted(ends.values())):
        assert below < above
    for label, row in zip(out["age"], out["row"], strict=True):
        assert ends[label][0] <= ages[row] <= ends[label][1]


def test_persons_of_many_rows_share_the_cells_of_rows():
    """Persons have one value each in all their rows: the level is one of the rows' own grid."""
    rng = np.random.default_rng(8)
    ages = rng.integers(17, 90, 60)
    frame = pd.DataFrame({"age": np.repeat(ages, 3), "who": np.repeat(range(60), 3)})
    out, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=["age"], k=3, method="full_domain", entity="who"
    )
    level = report.levels["age"]
    scale = Scale.of(frame["age"].to_numpy(float))
    levels = NumberLevels.of(ATTRIBUTES["integer"], scale, None)
    low, high = levels.cell_borders(frame["age"].to_numpy(float), level)
    expected = {f"[{int(a)}, {int(b)})" for a, b in zip(low, high, strict=True)}
    assert set(out["age"]) == expected


def sorted_rows(frame):
    """The rows of a release, which come in random order."""
    return sorted(frame.itertuples(index=False, name=None))


def frames_of_whole_numbers():
    rng = np.random.default_rng(5)
    ages = rng.integers(17, 91, 200)
    town = rng.choice(["Ulm", "Hof"], 200)
    integers = pd.DataFrame({"age": ages, "place": town})
    return integers, integers.astype({"age": float})


@pytest.mark.parametrize("method", ["full_domain", "mondrian", "gaa_cp", "kaca"])
@pytest.mark.parametrize("intervals", ["text", "bounds", "midpoint"])
def test_floats_of_whole_numbers_lose_what_integers_lose(method, intervals):
    first, second = (
        dbanon.anonymize_frame(
            frame,
            quasi_identifiers=["age", "place"],
            k=4,
            method=method,
            intervals=intervals,
            evaluate=True,
        )
        for frame in frames_of_whole_numbers()
    )
    if intervals == "text":
        assert sorted_rows(first[0]) == sorted_rows(second[0])
    for name in ("information_loss", "information_loss_before_rounding", "column_losses"):
        assert getattr(first[1], name) == getattr(second[1], name), name
    assert 0 < first[1].internal.information_loss < 1


def test_refined_classes_of_whole_floats_are_those_of_integers():
    reports = [
        dbanon.anonymize_frame(
            frame, quasi_identifiers=["age", "place"], k=4, method="gaa_cp", refine="fast"
        )
        for frame in frames_of_whole_numbers()
    ]
    assert sorted_rows(reports[0][0]) == sorted_rows(reports[1][0])
    assert reports[0][1].internal.information_loss == reports[1][1].internal.information_loss


def test_one_null_changes_no_definition():
    """The same labels by a column with a NULL, which a frame holds as floats, and without."""
    integers, _ = frames_of_whole_numbers()
    missing = pd.concat([integers, pd.DataFrame({"age": [None], "place": ["Ulm"]})])
    missing = missing.astype({"age": float})
    out, report = dbanon.anonymize_frame(
        missing,
        quasi_identifiers=["age", "place"],
        k=4,
        method="mondrian",
        nulls="suppress",
        max_suppression=0.1,
    )
    expected, plain = dbanon.anonymize_frame(
        integers, quasi_identifiers=["age", "place"], k=4, method="mondrian"
    )
    assert sorted_rows(out) == sorted_rows(expected)
    assert report.internal.information_loss == plain.internal.information_loss
