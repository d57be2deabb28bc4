"""Weighted means, weighted losses and released weights, against figures computed by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter, UnsupportedType
from dbanon.stores.frame.conversion import frame_of

# Two classes of three rows each.
FRAME = pd.DataFrame(
    {
        "x": [1.0, 2.0, 4.0, 101.0, 102.0, 106.0],
        "w": [3, 2, 1, 10, 20, 10],
        "g": ["a", "a", "a", "b", "b", "b"],
        "person": [1, 2, 3, 4, 5, 6],
    }
)


def release(frame: pd.DataFrame = FRAME, **options: Any) -> tuple[pd.DataFrame, Any]:
    arguments: dict[str, Any] = {"quasi_identifiers": ["x"], "k": 3, "design_weight": "w"}
    released, report = dbanon.anonymize_frame(frame, **(arguments | options))
    assert isinstance(released, pd.DataFrame)
    return released.sort_values(["x", "w"], ignore_index=True), report


def test_means_by_hand() -> None:
    released, report = release()
    assert released["w"].tolist() == [2.0] * 3 + [40 / 3] * 3
    # (3 + 4 + 4) / 6 and (1010 + 2040 + 1060) / 40. No person has more than half of the weight.
    assert released["x"].tolist() == pytest.approx([11 / 6] * 3 + [102.75] * 3, rel=1e-15)
    shares = FRAME["w"] / FRAME["w"].sum()
    mean = shares @ FRAME["x"]
    centers = np.repeat([11 / 6, 102.75], 3)
    loss = shares @ (FRAME["x"] - centers) ** 2 / (shares @ (FRAME["x"] - mean) ** 2)
    assert report.internal.weighting["information_loss"] == pytest.approx(loss, rel=1e-12)
    assert report.internal.weighting["dominated_classes"] == 0
    assert report.internal.to_ledger()["weighting"] == report.internal.weighting
    assert report.internal.information_loss != pytest.approx(loss, rel=1e-6)
    # Readers of the report do not see it.
    assert "weighting" not in str(report.to_dict())


def test_no_mean_is_the_value_of_one_person() -> None:
    frame = FRAME.assign(w=[1, 1, 9, 10, 20, 10])
    released, report = release(frame)
    # 9 of 11 are the weight of one row, whose value a weighted mean would nearly be.
    assert released["x"].tolist() == pytest.approx([7 / 3] * 3 + [102.75] * 3)
    assert report.internal.weighting["dominated_classes"] == 1


def test_the_rows_of_a_person_count_together() -> None:
    # One person has three of four rows, with 6 of 9 of the weight.
    frame = pd.DataFrame(
        {"x": [1.0, 2.0, 3.0, 9.0, 5.0], "w": [2, 2, 2, 2, 1], "person": [1, 1, 1, 2, 3]}
    )
    _, report = release(frame, entity="person")
    assert report.internal.weighting["dominated_classes"] == 1
    _, report = release(frame)
    assert report.internal.weighting["dominated_classes"] == 0


def test_classes_that_are_released_alike_share_a_weight() -> None:
    frame = pd.DataFrame({"x": [5] * 12, "y": [1, 1, 1, 2, 2, 2] * 2, "w": range(1, 13)})
    released, _ = release(
        frame, quasi_identifiers=["x", "y"], method="gaa_cp", steps={"x": 10, "y": 10}
    )
    by_labels = released.groupby(["x", "y"])["w"].nunique()
    assert (by_labels == 1).all()
    assert released["w"].sum() == pytest.approx(78)


def test_weighted_loss_of_labels() -> None:
    released, report = release(method="gaa_cp", steps={"x": 10})
    loss = report.internal.weighting["information_loss"]
    assert 0 < loss < 1
    assert released["w"].sum() == pytest.approx(46)
    _, report = release(recoding="representative", quasi_identifiers=["x", "g"])
    assert report.internal.weighting["information_loss"] is None


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float32", "float64", "Float64"])
def test_types_of_frames(dtype: str) -> None:
    frame = FRAME.assign(w=FRAME["w"].astype(dtype))
    released, _ = release(frame)
    assert released["w"].dtype == np.float64
    assert released["w"].sum() == pytest.approx(46, rel=1e-12)


def test_other_frames() -> None:
    table = {name: FRAME[name].tolist() for name in ("x", "w")}
    released, _ = dbanon.anonymize_frame(
        table, quasi_identifiers=["x"], k=3, design_weight="w", weight_as="mean"
    )
    assert sum(frame_of(released)[0]["w"]) == pytest.approx(46)


def test_numbers_beyond_float64() -> None:
    frame = FRAME.assign(x=np.array([1, 2, 4, 101, 102, 106]) + 2**60)
    with pytest.raises(UnsupportedType, match="weighted means would not be exact"):
        release(frame)
    # Recodings without means take them.
    frame = FRAME.assign(w=[1e308] * 6)
    with pytest.raises(InvalidParameter, match="too large to be added up"):
        release(frame)


def test_secure_means_are_not_weighted() -> None:
    frame = pd.DataFrame({"x": np.arange(12.0), "w": np.arange(1, 13)})
    options: dict[str, Any] = {"quasi_identifiers": ["x"], "method": "secure_kward"}
    weighted, _ = release(frame, **options)
    usual, _ = dbanon.anonymize_frame(frame, k=3, **options)
    assert sorted(weighted["x"]) == sorted(usual["x"])


def people(n: int = 300) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": draw.integers(0, 120, n),
            "age": draw.integers(18, 90, n).astype(float),
            "height": draw.normal(170, 9, n).round(1),
            "sex": draw.choice(list("mf"), n),
            "w": draw.lognormal(4, 0.7, n).round(3),
        }
    )
    frame.loc[::17, "height"] = np.nan
    return frame


@pytest.mark.parametrize(
    "options",
    [
        {"nulls": "merge", "method": "gaa_cp"},
        {"nulls": "merge"},
        {"entity": "person", "persons": "rows"},
        {"entity": "person", "method": "gaa_cp", "intervals": "bounds"},
        {"sensitive": ["sex"], "models": [dbanon.Model("entropy_l", "sex", 1.5)]},
        {"keep": ["sex"], "also_k": [["age", "sex"]], "method": "mondrian"},
        {"refine": "fast", "evaluate": True, "certificate": 0.2},
        {"block_size": 60, "recoding": "medoid"},
        {"weights": {"age": 2}, "by": ["sex"]},
    ],
    ids=lambda options: "+".join(options),
)
def test_with_other_options(options: dict[str, Any]) -> None:
    frame = people()
    arguments: dict[str, Any] = {"nulls": "category", "max_suppression": 0.2, **options}
    released, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=["age", "height"], k=4, design_weight="w", **arguments
    )
    assert isinstance(released, pd.DataFrame)
    assert released["w"].sum() == pytest.approx(frame["w"].sum(), rel=1e-12)
    assert released["w"].value_counts().min() >= 4
    labels = [name for name in released.columns if name.startswith(("age", "height"))]
    groups = released.groupby([*labels, *arguments.get("by", ())], dropna=False)["w"]
    assert (groups.nunique() == 1).all()
    assert report.internal is not None
    assert 0 <= report.internal.weighting["information_loss"] < 1
