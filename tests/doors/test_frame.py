"""Data frames: types, missing values, names, order."""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon import errors

K = 3


def released(values: Any, dtype: Any = None, k: int = K, **options: Any) -> pd.Series[Any]:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype), "row": range(len(values))})
    release, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=["x"], keep=["row"], k=k, **options
    )
    assert report.rows_out == len(release)
    assert report.not_copied == ()
    assert isinstance(release.index, pd.RangeIndex)
    sizes = release.groupby("x", dropna=False).size()
    assert sizes.min() == report.k_achieved >= k
    series: pd.Series[Any] = release.sort_values("row")["x"]
    assert series.dtype == frame["x"].dtype
    return series


@pytest.mark.parametrize(
    "dtype",
    [
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "Int8",
        "Int64",
        "UInt64",
        "float32",
        "float64",
        "Float32",
        "Float64",
        "int64[pyarrow]",
        "double[pyarrow]",
    ],
)
def test_numbers_keep_their_type(dtype: str) -> None:
    values = released([0, 1, 1, 100, 101, 103], dtype)
    expected = (
        [2 / 3] * 3 + [304 / 3] * 3
        if "float" in dtype.lower() or "double" in dtype
        else [
            1,
            1,
            1,
            101,
            101,
            101,
        ]
    )
    if "float32" in dtype.lower():
        expected = [float(np.float32(value)) for value in expected]
    assert values.astype("float64").tolist() == expected


@pytest.mark.parametrize(
    ("dtype", "values", "expected"),
    [
        (
            "int64",
            [-(2**63)] * 2 + [1 - 2**63] + [2**63 - 1] * 2 + [2**63 - 2],
            [-(2**63)] * 3 + [2**63 - 1] * 3,
        ),
        ("Int64", [2**53 + 1, 2**53 + 3, 2**53 + 3, 0, 0, 0], [2**53 + 2] * 3 + [0] * 3),
        ("uint64", [2**64 - 1, 2**64 - 1, 2**64 - 2, 0, 0, 1], [2**64 - 1] * 3 + [0] * 3),
        ("UInt64", [2**64 - 1, 2**64 - 1, 2**64 - 2, 0, 0, 1], [2**64 - 1] * 3 + [0] * 3),
    ],
)
def test_large_integers_are_exact(dtype: str, values: list[int], expected: list[int]) -> None:
    # 2**53 + 7/3 is nearest to 2**53 + 2.
    assert [int(value) for value in released(values, dtype)] == expected


@pytest.mark.parametrize(
    ("dtype", "micros"),
    [
        ("datetime64[ns]", 1),
        ("datetime64[us]", 1),
        ("datetime64[ms]", 1000),
        ("datetime64[s]", 1_000_000),
        ("datetime64[us, Europe/Zurich]", 1),
        ("datetime64[ns, UTC]", 1),
        ("datetime64[s, UTC]", 1_000_000),
    ],
)
def test_timestamps_are_rounded_to_their_unit(dtype: str, micros: int) -> None:
    start = datetime(2020, 6, 1, 12)
    values = [start + pd.Timedelta(microseconds=m * micros) for m in (0, 2, 3, 10, 10, 11)]
    series = pd.Series(values)
    if "," in dtype:
        series = series.dt.tz_localize("UTC").dt.tz_convert(dtype.rpartition(", ")[2][:-1])
    moments = released(series.astype(dtype))
    if "," in dtype:
        moments = moments.dt.tz_convert("UTC").dt.tz_localize(None)
    # 5/3 goes to 2, 31/3 to 10.
    expected = [start + pd.Timedelta(microseconds=m * micros) for m in (2, 2, 2, 10, 10, 10)]
    assert [value.to_pydatetime() for value in moments] == expected


@pytest.mark.parametrize(
    ("dtype", "hole"),
    [
        ("float64", np.nan),
        ("float32", np.nan),
        ("Int64", pd.NA),
        ("Float64", pd.NA),
        ("int64[pyarrow]", pd.NA),
        ("datetime64[ns]", pd.NaT),
        ("datetime64[us, UTC]", pd.NaT),
    ],
)
def test_missing_values_are_nulls(dtype: str, hole: Any) -> None:
    values = pd.Series([1, 2, 3, hole, hole, hole], dtype=object)
    series = pd.Series(values, dtype=dtype)
    with pytest.raises(errors.NullInQuasiIdentifier, match='"x" in 3 rows'):
        released(series)
    assert released(series, nulls="category").isna().tolist() == [False] * 3 + [True] * 3
    assert len(released(series, nulls="suppress", max_suppression=1)) == 3


def test_infinity_and_a_nan_that_is_not_missing() -> None:
    with pytest.raises(errors.NonFiniteValue):
        released([1.0, 2.0, np.inf])
    arrow = pd.array([0.0, 1.0, 2.0], dtype="Float64")
    with np.errstate(invalid="ignore"):
        arrow = arrow / pd.array([0.0, 1.0, 1.0], dtype="Float64")
    with pytest.raises((errors.NonFiniteValue, errors.NullInQuasiIdentifier)):
        released(pd.Series(arrow))


@pytest.mark.parametrize("dtype", ["datetime64[s]", "datetime64[ms]", "datetime64[s, UTC]"])
@pytest.mark.parametrize("year", ["300000", "-300000"])
def test_a_date_that_microseconds_do_not_reach_is_refused(dtype: str, year: str) -> None:
    dates = np.array([f"{year}-01-01", *["2020-01-01"] * 5], "datetime64[s]")
    series = pd.Series(dates)
    if "UTC" in dtype:
        series = series.dt.tz_localize("UTC")
    with pytest.raises(errors.NonFiniteValue, match="in 1 of 6 rows"):
        released(series.astype(dtype))
    series[0] = pd.NaT
    assert released(series.astype(dtype), nulls="suppress", max_suppression=1).notna().all()


def test_dates_with_nulls_are_released_without_a_warning() -> None:
    values = pd.Series(pd.date_range("2020-01-01", periods=20))
    values[:5] = pd.NaT
    assert released(values, nulls="category").isna().sum() == 5


def test_the_index_is_not_looked_at_and_not_released() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3, 4], "name": list("abcd")}, index=[7, 7, 3, "q"])
    before = frame.copy()
    release, report = dbanon.anonymize_frame(frame, quasi_identifiers=["x"], k=2)
    pd.testing.assert_frame_equal(frame, before)
    assert list(release.columns) == ["x"]
    assert list(release.index) == [0, 1, 2, 3]
    assert report.not_copied == ("name",)


def test_columns_need_names_of_text() -> None:
    frame = pd.DataFrame(np.arange(24.0).reshape(8, 3))
    with pytest.raises(errors.InvalidParameter, match="not text"):
        dbanon.anonymize_frame(frame, quasi_identifiers=[0, 2], k=4)  # type: ignore[list-item]
    assert dbanon.partition(frame, 4).n_classes == 2


def test_rows_come_in_random_order() -> None:
    frame = pd.DataFrame({"x": np.arange(1000.0), "row": range(1000)})
    orders = [
        dbanon.anonymize_frame(frame, quasi_identifiers=["x"], keep=["row"], k=5)[0]["row"].array
        for _ in range(2)
    ]
    for order in orders:
        # By chance one row keeps its position; more than 16 do in less than one run in 1e14.
        assert (order == np.arange(1000)).sum() <= 16
        assert sorted(order) == list(range(1000))
    assert (orders[0] == orders[1]).sum() <= 16


@pytest.mark.parametrize(
    ("frame", "names", "error"),
    [
        (pd.DataFrame({"x": [1, 2, 3]}), ["y"], errors.ColumnNotFound),
        (pd.DataFrame([[1, 2]] * 5, columns=["x", "x"]), ["x"], errors.InvalidParameter),
        (pd.DataFrame({"x": [1, 2, 3]}), ["x", "x"], errors.InvalidParameter),
        (pd.DataFrame({"x": [1, 2, 3]}), [], errors.InvalidParameter),
        (pd.DataFrame({"x": []}, dtype="float64"), ["x"], errors.TooFewRecords),
        (pd.DataFrame({"x": [1, 2]}), ["x"], errors.TooFewRecords),
        (pd.DataFrame({"x": [1j, 2j, 3j]}), ["x"], errors.UnsupportedType),
        (pd.DataFrame({"x": pd.to_timedelta([1, 2, 3])}), ["x"], errors.UnsupportedType),
        (pd.DataFrame({"x": np.array([1, 2, 3], "float16")}), ["x"], errors.UnsupportedType),
        (pd.DataFrame({"x": [{}, {}, {}]}), ["x"], errors.UnsupportedType),
    ],
)
def test_bad_frames(frame: pd.DataFrame, names: list[str], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        dbanon.anonymize_frame(frame, quasi_identifiers=names, k=3)
    assert type(caught.value) is error


def test_columns_of_any_type_can_be_kept() -> None:
    frame = pd.DataFrame(
        {
            "x": range(6),
            "text": list("abcdef"),
            "kind": pd.Categorical(list("ababab")),
            "object": [{i} for i in range(6)],
        }
    )
    release, _ = dbanon.anonymize_frame(
        frame, quasi_identifiers=["x"], keep=["text", "object"], sensitive=["kind"], k=3
    )
    assert release["kind"].dtype == frame["kind"].dtype
    assert Counter(map(repr, release["object"])) == Counter(map(repr, frame["object"]))


def test_labels_that_name_values_must_be_wanted() -> None:
    frame = pd.DataFrame({"income": range(1000, 1060)})
    arguments: dict[str, Any] = {
        "quasi_identifiers": ["income"],
        "k": 5,
        "method": "gaa_cp",
        "hierarchies": {"income": {"ordered": True, "fanout": 4}},
    }
    with pytest.raises(errors.InvalidParameter, match="own order name values"):
        dbanon.anonymize_frame(frame, **arguments)
    release, _ = dbanon.anonymize_frame(frame, **arguments, local_range=True)
    assert release["income"].str.contains(" to ").any()


@pytest.mark.parametrize("argument", ["quasi_identifiers", "sensitive", "keep", "by", "models"])
@pytest.mark.parametrize("value", ["age", b"age", 3])
def test_one_text_is_no_list(argument: str, value: Any) -> None:
    # A column for each letter: they would be released, and age would be, too.
    frame = pd.DataFrame({name: range(12) for name in ("age", "a", "g", "e", "x")})
    arguments: dict[str, Any] = {"quasi_identifiers": ["x"], argument: value}
    with pytest.raises(errors.InvalidParameter, match=f"{argument} must be a list"):
        dbanon.anonymize_frame(frame, k=3, **arguments)
    if argument != "quasi_identifiers":
        return
    with pytest.raises(errors.InvalidParameter, match="entity must be the name"):
        dbanon.anonymize_frame(frame, k=3, quasi_identifiers=["x"], entity=["age"])  # type: ignore[arg-type]


@pytest.mark.parametrize(("nulls", "n"), [(29, 100), (30, 90), (1, 7)])
def test_the_share_that_a_refusal_names_is_enough(nulls: int, n: int) -> None:
    """0.29 * 100 is below 29, and 1/3 has no finite decimal form."""
    frame = pd.DataFrame({"age": [math.nan] * nulls + list(range(n - nulls)), "x": range(n)})
    arguments: dict[str, Any] = {"quasi_identifiers": ["age"], "k": 3, "nulls": "suppress"}
    with pytest.raises(errors.SuppressionOverBudget) as refused:
        dbanon.anonymize_frame(frame, **arguments)
    [share] = re.findall(r"max_suppression=([0-9.]+)", str(refused.value.hint))
    released, _ = dbanon.anonymize_frame(frame, **arguments, max_suppression=float(share))
    assert len(released) == n - nulls
