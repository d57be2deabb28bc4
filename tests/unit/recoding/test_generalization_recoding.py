"""Released labels, their intervals, and the loss computed from them."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.data.grid import Grid, GridCells, grid_for
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import average_class_size, discernibility

JOBS = Hierarchy.from_levels(
    [["nurse", "health", "*"], ["doctor", "health", "*"], ["cook", "food", "*"]]
)


def people():
    return pd.DataFrame(
        {
            "age": [31, 38, 44, 47, 30, 47],
            "job": ["nurse", "doctor", "cook", "cook", "nurse", "cook"],
            "town": ["A", "A", "B", "C", "A", "C"],
            "ill": list("uvwxyz"),
        }
    )


def release(frame=None, k=2, **more):
    frame = people() if frame is None else frame
    return dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age", "job", "town"],
        sensitive=["ill"],
        k=k,
        method="gaa_cp",
        hierarchies={"job": JOBS},
        **more,
    )


def of(out, ill):
    return out[out.ill == ill].iloc[0]


def test_text_on_a_grid():
    """Range 17: the grid has step 1. Classes {31, 30}, {47, 47}, {38, 44}."""
    out, report = release()
    assert list(out.columns) == ["age", "job", "town", "ill"]
    assert tuple(of(out, "u"))[:3] == ("[30, 32)", "nurse", "A")
    assert tuple(of(out, "z"))[:3] == ("[47, 48)", "cook", "C")
    assert tuple(of(out, "v"))[:3] == ("[38, 45)", "*", "*")
    assert report.loss_measure == "iloss"
    losses = report.internal.column_losses
    assert losses["age"].before_rounding == pytest.approx((2 * 1 + 0 + 2 * 6) / 17 / 6)
    # [30, 32) holds the whole numbers 30 and 31.
    assert losses["age"].released == pytest.approx((2 * 1 + 0 + 2 * 6) / 17 / 6)
    assert losses["job"].released == losses["town"].released == pytest.approx(2 / 6)
    assert report.internal.information_loss == pytest.approx(
        np.mean([column.released for column in losses.values()])
    )
    assert report.k_achieved == 2


def test_own_ranges_bounds_and_midpoints():
    out, report = release(local_range=True)
    assert of(out, "u").age == "[30, 31]"
    assert of(out, "z").age == "47"
    assert report.internal.information_loss == pytest.approx(
        report.internal.information_loss_before_rounding
    )
    assert report.arguments["local_range"] is True
    out, _ = release(intervals="bounds")
    assert list(out.columns) == ["age_low", "age_high", "job", "town", "ill"]
    assert (of(out, "v").age_low, of(out, "v").age_high) == (38, 45)
    assert out.age_low.dtype == np.int64
    out, _ = release(intervals="midpoint", steps={"age": 10})
    assert sorted(out.age) == [35, 35, 40, 40, 45, 45]
    clash = people().assign(age_low=1)
    with pytest.raises(InvalidParameter, match="age_low"):
        release(clash, intervals="bounds")


def test_steps():
    out, report = release(steps={"age": 25})
    assert set(out.age) == {"[25, 50)"}
    assert next(iter(report.internal.column_losses.values())).released == 1.0
    for steps in ({"age": 0}, {"job": 2}, {"age": float("nan")}):
        with pytest.raises(InvalidParameter, match="step"):
            release(steps=steps)


def test_nulls_and_dates():
    frame = people()
    frame["age"] = pd.to_datetime("2020-01-01") + pd.to_timedelta(frame.age * 40, unit="D")
    frame.loc[[0, 4], "town"] = None
    frame.loc[[3, 5], "age"] = pd.NaT
    out, report = release(frame, nulls="category")
    assert pd.isna(of(out, "u").town)
    assert of(out, "x").age is None
    assert re.fullmatch(r"\[20\d\d-\d\d-01 00:00:00, 20\d\d-\d\d-01 00:00:00\)", of(out, "u").age)
    assert report.null_rows == 4
    assert report.k_achieved == 2


def test_categories_need_generalization():
    with pytest.raises(UnsupportedType, match="generalization"):
        release(recoding="mean")
    numbers = people()[["age"]]
    out, report = dbanon.anonymize_frame(
        numbers, quasi_identifiers=["age"], k=2, method="gaa_cp", recoding="mean"
    )
    assert report.loss_measure == "sse"
    out, report = dbanon.anonymize_frame(
        numbers, quasi_identifiers=["age"], k=2, recoding="generalization"
    )
    assert out.age.str.startswith("[").all()


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=40),
    st.sampled_from(["FLOAT", "INTEGER"]),
    st.floats(1e-3, 1e5),
)
@settings(max_examples=200)
def test_grids_hold_their_classes(values, kind, step):
    numbers = np.array(values)
    attribute = Attribute("x", Kind[kind])
    if kind == "INTEGER":
        numbers = np.rint(numbers)
    # Closer ones are refused.
    assume(np.ptp(numbers) == 0 or np.ptp(numbers) >= 1e-300)
    for grid in (grid_for(attribute, Scale.of(numbers), None), Grid(GridCells(step))):
        low, high = grid.borders_around(numbers, numbers)
        assert (low <= numbers).all()
        assert (numbers < high).all()
        # Borders are compared as text, so they must not carry rounding errors.
        assert [float(f"{border:.15g}") for border in (*low, *high)] == [*low, *high]
        width = grid.finest.width
        np.testing.assert_allclose(np.rint(low / width) * width, low, atol=1e-9 * 1e6)


def test_a_member_on_a_border_that_floats_miss():
    """Three times 0.1 exceeds 0.3 in floats, but 0.3 is the border of the next interval."""
    low, high = Grid(GridCells(0.1)).borders_around(np.array([0.3]), np.array([0.3]))
    assert (low[0], high[0]) == (0.3, 0.4)


@pytest.mark.parametrize(
    ("days", "months", "step"),
    [
        (10, 0, 1),
        (100, 0, 7),
        (400, 1, None),
        (2000, 3, None),
        (10000, 12, None),
        (40000, 60, None),
    ],
)
def test_grids_of_dates(days, months, step):
    grid = grid_for(Attribute("d", Kind.DATE), Scale.of(np.array([0.0, days])), None)
    assert grid.finest.months == months
    if step:
        assert grid.finest.width == step
    low, high = grid.borders_around(np.array([-1.0, 0.0, days]), np.array([-1.0, 0.0, days]))
    assert (low <= [-1, 0, days]).all()
    assert ([-1, 0, days] < high).all()
    if months == 60:
        assert str(np.datetime64(int(low[1]), "D")) == "1970-01-01"
        range_ends = grid.borders_around(np.array([0.0]), np.array([days]))
        assert [str(np.datetime64(int(ends[0]), "D")) for ends in range_ends] == [
            "1970-01-01",
            "2080-01-01",
        ]


def test_class_sizes():
    partition = Partition([0, 0, 0, 1, 1, -1])
    assert average_class_size(partition, 2) == 5 / 2 / 2
    assert discernibility(partition) == 9 + 4 + 6
    assert average_class_size(Partition([-1]), 2) == 0


def test_local_ranges_are_released_with_all_digits():
    """Borders are members' values: 16 digits of microseconds, 17 of a double."""
    rng = np.random.default_rng(0)
    moments = pd.Timestamp("2024-10-01") + pd.to_timedelta(
        rng.integers(0, 86_400 * 10**6, 30), "us"
    )
    sums = np.array([0.1 + 0.2, 0.3, 0.1 + 0.2, 1.1 + 2.2, 3.3, 1.1 + 2.2] * 5)
    for name, values in (("moment", moments), ("sum", sums)):
        frame = pd.DataFrame({name: values})
        out, _ = dbanon.anonymize_frame(
            frame, quasi_identifiers=[name], k=3, method="gaa_cp", local_range=True
        )
        ends = {end for text in out[name] for end in text.strip("[]").split(", ")}
        assert ends <= set(frame[name].astype(str))
