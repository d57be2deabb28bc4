"""dp_ranks of text, enumerated types, booleans, dates and logarithms: releases."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dbanon.extensions.synthesis.domains import BOOLEAN_HIERARCHY, CategoricalDomain, NumericDomain
from dbanon.extensions.synthesis.ranks import dp_ranks
from dbanon.extensions.synthesis.shares import GRID, divide_epsilon
from tests.reference.private_calls import JOB_TREE as TREE
from tests.reference.private_calls import JOBS as LABELS
from tests.reference.private_calls import people, synthesize
from tests.reference.synthesis import Seeded


def test_what_is_in_no_list_is_other_and_null_is_what_it_is_told():
    frame = people()
    frame.loc[frame.index[:1000], "job"] = [f"secret {i}" for i in range(1000)]
    frame.loc[frame.index[1000:1500], "job"] = None
    released = synthesize(
        frame, orders={"job": LABELS}, bounds={"age": (0, 100)}, null_as={"job": "child"}
    ).columns["job"]
    shares_ = {label: (released == label).mean() for label in (*LABELS, "other")}
    assert set(released.tolist()) <= {*LABELS, "other"}
    truth = (frame["job"].to_numpy()[:, None] == np.array(LABELS)).mean(axis=0)
    expected = dict(zip(LABELS, truth, strict=True)) | {"other": 1 / 3}
    expected["child"] += 1 / 6
    # Noise and 3,000 draws: a standard deviation of 0.005, so 0.03 is once in a thousand million.
    assert shares_ == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    "values",
    [
        [None] * 3000,
        [float("nan")] * 3000,
        ["other"] * 3000,
        ["*"] * 3000,
        ["\ud800", [], {}, 3, b"nurse", ""] * 500,
        [object()] * 3000,
    ],
)
def test_no_content_of_a_row_ends_the_run(values):
    frame = pd.DataFrame({"job": pd.Series(values, dtype=object), "ill": [True, False] * 1500})
    released = synthesize(frame, hierarchies={"job": TREE}, null_as={"job": "other"})
    assert set(released.columns["job"].tolist()) <= {*LABELS, "other"}
    assert (released.columns["job"] == "other").mean() > 0.9
    array = np.array(frame[["job"]])
    assert (
        synthesize(array, hierarchies={"column 0": TREE}, null_as={"column 0": "other"}).n_rows
        == 3000
    )


def test_types_of_text_and_truths():
    n = 3000
    base = people(n)["job"]
    frame = pd.DataFrame(
        {
            "plain": base.astype(object),
            "string": base.astype("string"),
            "listed": base.astype("category"),
            "truth": base == "nurse",
            "maybe": (base == "nurse").astype("boolean"),
        }
    )
    frame.loc[frame.index[::10], "maybe"] = None
    text = ["plain", "string", "listed"]
    released = synthesize(
        frame,
        orders=dict.fromkeys(text, LABELS),
        null_as=dict.fromkeys(text, "other") | {"maybe": True},
        epsilon=20.0,
    ).columns
    for name in text:
        assert released[name].dtype == object
        assert (released[name] == "nurse").mean() == pytest.approx(0.4, abs=0.03)
    assert released["truth"].dtype == released["maybe"].dtype == np.bool_
    assert released["truth"].mean() == pytest.approx(0.4, abs=0.03)
    assert released["maybe"].mean() == pytest.approx(0.46, abs=0.03)
    wide = np.column_stack([base.to_numpy("U")] * 2)
    listed = dict.fromkeys(("column 0", "column 1"), (*LABELS, "a longer one than all"))
    array = synthesize(wide, orders=listed, null_as=dict.fromkeys(listed, "other"))
    assert array.columns["column 0"].dtype == object


def test_moments_with_a_zone_are_released_in_utc():
    # A day in Tokyo, nine hours of which are 1125 of these steps.
    step = np.timedelta64(28_800, "ms")
    moments = pd.Series(pd.date_range("2024-01-01", periods=3000, freq="28800ms", tz="Asia/Tokyo"))
    days = pd.Series(pd.date_range("2024-01-01", periods=3000, freq="h")).dt.floor("D")
    released = synthesize(
        pd.DataFrame({"at": moments, "day": days}),
        bounds={"at": ("2023-12-31T15", "2024-01-01T15"), "day": ("2024-01-01", "2024-05-05")},
        null_as={"at": "2024-01-01", "day": "2024-01-01"},
        epsilon=50.0,
    ).columns
    assert released["at"].dtype.kind == released["day"].dtype.kind == "M"
    middle = np.sort(released["at"])[1500]
    expected_middle = moments.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy()[1500]
    # Sums of 5 rows have noise of scale GRID / 10: their means are off by Laplace noise of scale
    # b = 60 steps. By the max-min formula isotonic regression is off by the slope over w classes,
    # 5 w, and a mean of more than w noises, which is above t b with a probability of less than
    # e^(-w f) / (1 - e^-f) for all such means together, f = sqrt(1 + t^2) - 1 + log(2 (sqrt(1 +
    # t^2) - 1) / t^2) (Chernoff). For t = 2.25 and w = 18 these are 90 + 135 steps on either side
    # up to 2.5e-7. The noise of counts is 17 rows at six standard deviations.
    assert abs(middle - expected_middle) < 300 * step


def test_dependence_of_text_and_numbers_survives():
    rng = np.random.default_rng(0)
    n = 20_000
    job = rng.integers(0, 6, n)
    grid = np.array([job, (job * 2 + rng.random(n)) / 13 * GRID, rng.integers(0, 2, n), job >= 3])
    divided = divide_epsilon(n, 4, 2.0, (TREE, None, BOOLEAN_HIERARCHY, BOOLEAN_HIERARCHY))
    released = dp_ranks(grid.astype(np.int64), divided, Seeded(0), rng)
    assert np.corrcoef(released[0], released[1])[0, 1] > 0.9
    assert abs(np.corrcoef(released[1], released[2])[0, 1]) < 0.1
    assert ((released[0] >= 3) == released[3]).mean() > 0.95


def test_logarithms_help_where_there_are_a_few_large_values():
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(8, 1.5, 5000)).clip(1, 1e7)
    frame = pd.DataFrame({"income": values, "whole": values.astype(np.int64)})
    bounds = {"income": (1, 1e7), "whole": (0, 10**7)}
    options = {"bounds": bounds, "epsilon": 1.0}
    plain, bent = (
        synthesize(frame, scale=scale, **options).columns
        for scale in ({}, {"income": "log", "whole": "log"})
    )
    deciles = np.quantile(values, np.arange(1, 10) / 10)
    for name in bounds:
        apart = [
            np.abs(np.log(np.quantile(part[name], np.arange(1, 10) / 10).clip(1) / deciles)).mean()
            for part in (bent, plain)
        ]
        assert apart[0] < 0.5
        assert apart[0] < apart[1] / 2
    assert bent["whole"].dtype == np.int64


def test_logarithms_go_there_and_back():
    for column in (
        NumericDomain("x", np.dtype(float), 0.01, 1e6, is_logarithmic=True),
        NumericDomain("x", np.dtype(np.int64), 0, 10**6, is_logarithmic=True),
        NumericDomain("x", np.dtype(np.int64), 5, 10**6, is_logarithmic=True),
    ):
        values = np.array([column.low, 7.0, 123.0, 98_765.0, column.high])
        back = column.from_grid(column.to_grid(column.encode(values, None)).astype(float))
        np.testing.assert_allclose(back, values, rtol=2e-5)
        assert column.contains_all(back)
        assert column.to_grid(np.array([column.low, column.high])).tolist() == [0, GRID]


def test_a_person_s_value_is_the_most_frequent():
    column = CategoricalDomain("job", np.dtype(object), TREE)
    person = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    values = np.array([4, 1, 4, 3, 2, 5, 5, 0, 0])
    assert column.aggregate_persons(values, person).tolist() == [4, 2, 0]
    rng = np.random.default_rng(0)
    frame = people(2000).assign(person=rng.integers(0, 400, 2000))
    released = synthesize(
        frame,
        orders={"job": LABELS},
        bounds={"age": (0, 100)},
        null_as={"job": "other"},
        entity="person",
        epsilon=20.0,
    )
    assert released.n_rows == frame["person"].nunique()
    assert "2000" not in f"{released.guarantee} {released.method_notes}"
