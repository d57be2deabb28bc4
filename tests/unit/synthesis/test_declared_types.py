"""dp_ranks of arrays and frames depends on declared types only."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import dbanon
from dbanon.errors import InvalidParameter
from dbanon.extensions.synthesis.declared_types import TYPES, wrap_data
from tests.reference.private_calls import JOBS

N = 400
DECLARED = {"age": "integer", "income": "number", "ill": "boolean", "job": "text", "born": "date"}


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(0, 99, N),
            "income": rng.uniform(0, 9, N),
            "ill": rng.random(N) < 0.5,
            "job": rng.choice(JOBS, N),
            "born": pd.Series(rng.integers(0, 9000, N)).astype("datetime64[s]"),
        }
    )


class Angry:
    """A value that raises on every operation."""

    def __float__(self) -> float:
        raise RuntimeError("secret")

    tzinfo = property(lambda self: 1 / 0)


@pytest.mark.parametrize("name", list(DECLARED))
@pytest.mark.parametrize(
    "value", [None, float("nan"), "x", "2020-01-01T00:00+09:00", 3, 3.5, True, b"x", [], Angry()]
)
def test_one_value_changes_nothing_that_is_public(name, value, recwarn):
    """One value changes the dtype in memory, but neither the other rows nor the declared types."""
    original, modified = frame(), frame().astype({name: object})
    modified.at[7, name] = value
    before, after = (wrap_data(data, None, DECLARED) for data in (original, modified))
    index = before.names.index(name)
    for part in ("n", "names", "dtypes", "nullable"):
        assert getattr(before, part) == getattr(after, part)
    unchanged_rows = np.arange(N) != 7
    (values, nulls), (changed, missing) = before.read(index), after.read(index)
    assert values.dtype == changed.dtype
    assert (values[unchanged_rows] == changed[unchanged_rows]).all()
    assert not nulls.any()
    assert not missing[unchanged_rows].any()
    assert not recwarn.list


def test_what_is_none_of_its_type_is_null():
    some = [1, 2.0, 2.5, "3", Decimal(4), True, None, pd.NA, np.int8(5), float("inf"), 2.0**60]
    column = pd.DataFrame({"x": pd.Series(some, dtype=object)})
    nulls = {
        kind: wrap_data(column, None, kind).read(0)[1].astype(int).tolist()
        for kind in ("integer", "number", "boolean", "text")
    }
    assert nulls == {
        "integer": [0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 1],
        "number": [0, 0, 0, 1, 0, 1, 1, 1, 0, 0, 0],
        "boolean": [0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1],
        "text": [1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1],
    }
    assert wrap_data(column, None, "integer").read(0)[0][[0, 1, 4, 8]].tolist() == [1, 2, 4, 5]
    tokyo = dt.timezone(dt.timedelta(hours=9))
    moments = [dt.date(2020, 1, 2), "2020-01-02", dt.datetime(2020, 1, 2, 3, tzinfo=tokyo), 5, "x"]
    at = pd.DataFrame({"x": pd.Series(moments, dtype=object)})
    days, missing = wrap_data(at, None, "date").read(0)
    assert days[:3].astype(str).tolist() == ["2020-01-02", "2020-01-02", "2020-01-01"]
    assert missing.tolist() == [False, False, False, True, True]


@pytest.mark.parametrize("dtype", ["datetime64[s]", "datetime64[ms]", "datetime64[D]", object])
@pytest.mark.parametrize("far", ["300000-01-01", "-300000-01-01"])
def test_a_date_that_the_unit_does_not_reach_is_null(dtype, far, recwarn):
    texts = ["2020-01-01", far, "1900-01-01", None]
    column = np.array(texts, dtype)
    values, nulls = wrap_data(column.reshape(-1, 1), None, "timestamp").read(0)
    assert nulls.tolist() == [False, True, False, True]
    assert values[[0, 2]].astype("datetime64[D]").astype(str).tolist() == [texts[0], texts[2]]
    assert not recwarn.list


@pytest.mark.parametrize("kind", ["date", "timestamp"])
def test_instants_of_arrow_may_be_null(kind, recwarn):
    instants = pd.Series(pd.to_datetime(["2020-01-01T23:30", None])).dt.tz_localize("UTC")
    column = instants.astype("timestamp[s, tz=UTC][pyarrow]")
    values, nulls = wrap_data(pd.DataFrame({"x": column}), None, kind).read(0)
    assert nulls.tolist() == [False, True]
    assert str(values[0].astype("datetime64[D]")) == "2020-01-01"
    assert not recwarn.list


@pytest.mark.parametrize("bound", ["", "NaT", None, "300000-01-01", np.datetime64("NaT", "s")])
def test_a_bound_that_is_no_date_is_refused(bound):
    with pytest.raises(InvalidParameter, match='bounds of "born" must be finite'):
        dbanon.synthesize(
            frame()[["born"]],
            method="dp_ranks",
            types="timestamp",
            epsilon=1.0,
            budget=dbanon.Budget(1.0),
            bounds={"born": ("1970-01-01", bound)},
            null_as={"born": "1970-01-01"},
        )


def test_a_release_has_the_declared_types():
    people = frame()
    people["age"] = people["age"].astype(object)
    people.at[3, "age"] = "x"
    people.at[4, "ill"] = False
    released = dbanon.synthesize(
        people,
        method="dp_ranks",
        types=DECLARED,
        epsilon=20.0,
        budget=dbanon.Budget(20.0),
        bounds={"age": (0, 99), "income": (0, 9), "born": ("1970-01-01", "1995-01-01")},
        orders={"job": JOBS},
        null_as={"job": "other", "born": "1970-01-01"},
    ).columns
    assert {name: part.dtype for name, part in released.items()} == {
        name: TYPES[kind][0] for name, kind in DECLARED.items()
    }


def test_types_that_are_not_said_are_refused():
    for types in (None, {"age": "integer"}, {**DECLARED, "age": "int"}, {**DECLARED, "x": "text"}):
        with pytest.raises(InvalidParameter) as refused:
            wrap_data(frame(), None, types)
        assert "types" in f"{refused.value} {refused.value.hint}"
    with pytest.raises(InvalidParameter, match="dcmdp"):
        dbanon.synthesize(
            np.ones((9, 2)),
            method="dcmdp",
            k=2,
            epsilon=1.0,
            types="number",
            guarantee="as_published",
        )


@pytest.mark.parametrize("to_column", [np.array, pd.Series])
def test_numbers_that_are_no_booleans_are_null_and_stay_the_callers(to_column):
    column = to_column([0.0, 1.0, 7.0])
    _, nulls = wrap_data(pd.DataFrame({"x": column}, copy=False), None, "boolean").read(0)
    assert nulls.tolist() == [False, False, True]
    data = np.array([[0.0], [1.0], [7.0]])
    wrap_data(data, None, "boolean").read(0)
    assert data[:, 0].tolist() == list(column) == [0.0, 1.0, 7.0]
