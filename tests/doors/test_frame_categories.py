"""A category without released rows appears neither in a data frame nor in a file written
from it.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dbanon

GRADES = ["none", "low", "middle", "high"]
SECRET = "Zebedee the only blacksmith"
N = 24


def people() -> pd.DataFrame:
    """N persons and one more, whose age is NULL and whose values are unique."""
    frame = pd.DataFrame(
        {
            "age": [*(20.0 + i % 7 for i in range(N)), np.nan],
            "grade": [*("none", "high") * (N // 2), "low"],
            "job": [*("smith", "baker", None) * (N // 3), SECRET],
            "site": [*("a", "b") * (N // 2), SECRET],
            "ill": [*("flu", "gout") * (N // 2), SECRET],
            "arrow": [*("x", "y", None) * (N // 3), SECRET],
            "span": pd.cut([*(1, 5) * (N // 2), 99], [0, 2, 7, 100]),
        }
    )
    frame["grade"] = pd.Categorical(frame.grade, GRADES, ordered=True)
    frame["job"] = pd.Categorical(frame.job, [SECRET, "smith", "never", "baker"])
    frame["site"] = frame.site.astype("category")
    frame["ill"] = frame.ill.astype("category")
    frame["arrow"] = frame.arrow.astype(pd.ArrowDtype(pa.dictionary(pa.int8(), pa.string())))
    frame.attrs = {"note": SECRET}
    frame["job"].attrs = {"note": SECRET}
    frame.columns.name = SECRET
    return frame


def released(**options: Any) -> pd.DataFrame:
    out, report = dbanon.anonymize_frame(
        people(), k=3, nulls="suppress", max_suppression=0.1, **options
    )
    assert (report.rows_out, report.suppressed) == (N, 1)
    return out


CASES: dict[str, dict[str, Any]] = {
    "points": {
        "quasi_identifiers": ["age", "grade"],
        "sensitive": ["ill"],
        "by": ["site"],
        "keep": ["job", "arrow", "span"],
    },
    "trees": {
        "method": "gaa_cp",
        "quasi_identifiers": ["age", "site", "grade"],
        "hierarchies": {"site": {"mask": True}},
        "sensitive": ["ill"],
        "models": [dbanon.Model("t_closeness", "ill", 0.6)],
        "keep": ["job", "arrow", "span"],
    },
}


@pytest.mark.parametrize("case", CASES)
def test_categories_are_those_of_released_rows(case: str) -> None:
    out = released(**CASES[case])
    for name in out.columns:
        dtype = out[name].dtype
        if isinstance(dtype, pd.CategoricalDtype):
            assert set(dtype.categories) == set(out[name].dropna().unique()), name
        assert out[name].attrs == out.attrs
    # None of the original's.
    assert out.attrs == {"dbanon": {"rows": "shuffled"}}
    assert out.columns.name is None
    original = people()
    for name in ("job", "span"):
        dtype = out[name].dtype
        assert isinstance(dtype, pd.CategoricalDtype)
        assert dtype.categories.dtype == original[name].cat.categories.dtype
        assert dtype.ordered == original[name].cat.ordered
    # In the random order of the release; the original order is not revealed.
    assert list(out["job"].cat.categories) == list(out["job"].dropna().unique())
    assert list(out["span"].cat.categories) == sorted(out["span"].unique())
    arrow = pa.chunked_array(out["arrow"].array.__arrow_array__()).unify_dictionaries()
    assert set(arrow.chunk(0).dictionary.to_pylist()) == {"x", "y"}
    assert out["arrow"].dtype == original["arrow"].dtype
    assert out["arrow"].isna().sum() == N // 3


def test_an_ordered_quasi_identifier_keeps_its_order() -> None:
    out = released(**CASES["points"])
    assert list(out["grade"].cat.categories) == [g for g in GRADES if g in set(out["grade"])]
    assert out["grade"].cat.ordered
    assert set(out["grade"].cat.categories) <= {"none", "high"}


@pytest.mark.parametrize("kind", ["parquet", "feather", "pickle"])
@pytest.mark.parametrize("case", CASES)
def test_no_byte_of_a_file_reveals_them(case: str, kind: str) -> None:
    out = released(**CASES[case])
    for name in [n for n in out.columns if str(out[n].dtype).startswith(("cat", "interval"))]:
        if isinstance(out[name].cat.categories.dtype, pd.IntervalDtype):
            out[name] = out[name].astype(str)
    file = io.BytesIO()
    plain = {"pickle": {}, "parquet": {"compression": None}}.get(
        kind, {"compression": "uncompressed"}
    )
    getattr(out, f"to_{kind}")(file, **plain)
    content = file.getvalue()
    assert b"gout" in content
    for value in (SECRET, "never", "middle"):
        assert value.encode() not in content


def test_models_take_the_same_order_before_and_after() -> None:
    # An order of categories that differs from that of the values.
    frame = people().assign(ill=pd.Categorical(people()["age"] % 3 + 1.0, [3.0, 1.0, 2.0]))
    model = dbanon.Model("t_closeness", "ill", 0.3, distance="ordered")
    out, report = dbanon.anonymize_frame(
        frame.dropna(subset="age"),
        quasi_identifiers=["age"],
        sensitive=["ill"],
        k=3,
        models=[model],
        method="gaa_cp",
    )
    plain, other = dbanon.anonymize_frame(
        frame.dropna(subset="age").astype({"ill": float}),
        quasi_identifiers=["age"],
        sensitive=["ill"],
        k=3,
        models=[model],
        method="gaa_cp",
    )
    assert report.models[0].achieved == other.models[0].achieved
    assert sorted(out["age"]) == sorted(plain["age"])
