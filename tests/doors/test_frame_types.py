"""Generalized columns of a data frame keep their types if these can represent the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dbanon

LETTERS = np.repeat(list("abcd"), 10)
ORDER = pd.CategoricalDtype(list("dcba"), ordered=True)
TENS = np.repeat([10, 20, 30, 40], 10)
TREE = dbanon.Hierarchy.from_parents(
    [
        *((str(ten), "few" if ten < 30 else "many") for ten in (10, 20, 30, 40)),
        ("few", "*"),
        ("many", "*"),
        ("*", None),
    ]
)


def released(column: pd.Series[Any], k: int, **options: Any) -> pd.Series[Any]:
    frame = pd.DataFrame({"x": column})
    output, _ = dbanon.anonymize_frame(
        frame, quasi_identifiers=["x"], k=k, method="gaa_cp", **options
    )
    series: pd.Series[Any] = output["x"]
    return series


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pd.Series(LETTERS, dtype="category"), set("abcd")),
        (pd.Series(LETTERS, dtype=ORDER), set("abcd")),
        (pd.Series(TENS, dtype="category"), {10, 20, 30, 40}),
        (pd.Series(LETTERS, dtype="string"), set("abcd")),
        (pd.Series(LETTERS), set("abcd")),
        (pd.Series(LETTERS, dtype=object), set("abcd")),
        (pd.Series(TENS > 20), {True, False}),
        (pd.Series(TENS > 20, dtype="boolean"), {True, False}),
    ],
    ids=lambda case: str(getattr(case, "dtype", "")),
)
def test_values_that_stay_have_the_type_they_had(column: pd.Series[Any], values: set[Any]) -> None:
    series = released(column, 5)
    assert set(series) == values
    if not isinstance(column.dtype, pd.CategoricalDtype):
        # Objects become text: a withheld row may be the only non-text value.
        assert series.dtype == (column.dtype if column.dtype != object else pd.Series(["a"]).dtype)
        return
    assert isinstance(series.dtype, pd.CategoricalDtype)
    assert series.dtype.categories.dtype == column.dtype.categories.dtype
    assert series.dtype.ordered == column.dtype.ordered
    if column.dtype.ordered:
        assert list(series.dtype.categories) == list("dcba")


@pytest.mark.parametrize("kind", ["int64", "int16", "Int64"])
def test_integers_stay_integers_if_all_labels_are_single_values(kind: str) -> None:
    column = pd.Series(TENS, dtype=kind)
    series = released(column, 5, hierarchies={"x": TREE})
    assert series.dtype == kind
    assert set(series) == {10, 20, 30, 40}
    grouped = released(column, 20, hierarchies={"x": TREE})
    assert grouped.dtype == object
    assert set(grouped) == {"few", "many"}


def test_labels_of_groups_are_categories_of_their_own() -> None:
    series = released(pd.Series(LETTERS, dtype="category"), 40)
    assert list(series.dtype.categories) == ["*"]
    ordered = released(pd.Series(LETTERS, dtype=ORDER), 20)
    assert set(ordered.dtype.categories) == {"[d, c]", "[b, a]"}
    assert not ordered.dtype.ordered


def test_nulls_stay_nulls_of_their_type() -> None:
    column = pd.Series([*(TENS[:-5] > 20), *[None] * 5], dtype="boolean")
    series = released(column, 5, nulls="category")
    assert series.dtype == "boolean"
    assert series.isna().sum() == 5
    letters = pd.Series([*LETTERS[:-5], *[None] * 5], dtype="category")
    series = released(letters, 5, nulls="category")
    assert set(series.dtype.categories) == set("abcd")
    assert series.isna().sum() == 5


def test_a_withheld_row_is_not_revealed_by_a_type() -> None:
    """Labels are compared with released values: categories without rows are not passed on."""
    frame = pd.DataFrame(
        {"x": pd.Series([*LETTERS, "e"], dtype="category"), "y": [*np.zeros(40), np.nan]}
    )
    arguments: Any = {"quasi_identifiers": ["x", "y"], "nulls": "suppress", "max_suppression": 0.1}
    release, _ = dbanon.anonymize_frame(frame, k=5, method="gaa_cp", **arguments)
    assert sorted(release["x"].dtype.categories) == list("abcd")


BROKEN = [*LETTERS.tolist(), "ab\ud800cd"]


@pytest.mark.parametrize(
    "form",
    [
        lambda texts: pd.DataFrame({"x": pd.Series(texts, dtype=object), "n": range(41)}),
        lambda texts: {"x": texts, "n": range(41)},
        lambda texts: [{"x": text, "n": number} for number, text in enumerate(texts)],
    ],
    ids=["frame", "dict", "rows"],
)
@pytest.mark.parametrize(
    "roles",
    [
        {"quasi_identifiers": ["x"], "method": "gaa_cp"},
        {"quasi_identifiers": ["n"], "by": ["x"]},
        {
            "quasi_identifiers": ["n"],
            "sensitive": ["x"],
            "models": [dbanon.Model("distinct_l", "x", 2)],
        },
    ],
    ids=["quasi-identifier", "by", "sensitive"],
)
def test_half_a_character_is_refused_without_its_value(form: Any, roles: Any) -> None:
    with pytest.raises(dbanon.errors.UnsupportedType, match="not valid text") as failure:
        dbanon.anonymize_frame(form(BROKEN), k=11, **roles)
    assert 'Column "x"' in str(failure.value)
    # Python's own error contains the value.
    assert failure.value.__cause__ is None
    assert failure.value.__context__ is None


def test_suppressed_cells_are_null_in_types_that_have_it() -> None:
    """NumPy has no NULL for integers and booleans, so pandas' own types hold such columns."""
    frame = pd.DataFrame(
        {
            "small": np.array([1, 1, 1, 1, 2], np.uint8),
            "flag": [True, True, True, True, False],
            "word": pd.Categorical(["a", "a", "a", "a", "b"]),
            "day": pd.to_datetime(["2020-01-01"] * 4 + ["2021-01-01"]),
            "size": [0.5, 0.5, 0.5, 0.5, 1.5],
        }
    )
    for name in frame.columns:
        rows, report = dbanon.anonymize_frame(
            frame, quasi_identifiers=[name], k=2, method="local_suppression"
        )
        assert report.suppressed_cells == {name: 2}
        assert rows[name].isna().sum() == 2
        assert set(rows[name].dropna()) == {frame[name][0]}
    types = dbanon.anonymize_frame(
        frame, quasi_identifiers=list(frame.columns), k=2, method="local_suppression"
    )[0].dtypes.astype(str)
    assert types.to_dict() == {
        "small": "UInt8",
        "flag": "boolean",
        "word": "category",
        "day": str(frame["day"].dtype),
        "size": "float64",
    }
