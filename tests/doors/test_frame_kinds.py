"""Every method accepts every kind of frame, and returns its kind, columns and types unchanged.

How a frame is read and written does not depend on the method, only on the form of its result. One
method of each form gets all kinds, the others take turns with one kind each; in campaigns all get
all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dbanon
from dbanon.methods import METHODS
from tests.prerequisites import import_or_skip

N = 24
ORDER = pd.CategoricalDtype(["low", "mid", "high"], ordered=True)


def people() -> pd.DataFrame:
    """Numbers whose means are numbers, copied columns, and a named index."""
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, N),
            "income": rng.gamma(4, 900, N),
            "grade": pd.Series(rng.choice(["low", "mid", "high"], N), dtype=ORDER).to_numpy(object),
            "note": rng.choice(["a", "b"], N),
            "seen": pd.date_range("2026-01-01", periods=N, unit="s"),
        },
        index=pd.Index([f"row {i}" for i in range(N)], name="who"),
    )


def _categories(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"grade": ORDER, "note": "category"})


def _polars(frame: pd.DataFrame) -> Any:
    # Imported lazily: every test process collects this file, only one runs it.
    pl = import_or_skip("polars")
    return pl.from_pandas(frame.reset_index(drop=True)).with_columns(
        pl.col("note").cast(pl.Categorical), pl.col("grade").cast(pl.Enum(["low", "mid", "high"]))
    )


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "numpy": lambda frame: frame,
    "small": lambda frame: frame.astype({"age": "int16", "income": "float32"}),
    "nullable": lambda frame: frame.astype(
        {"age": "Int64", "income": "Float64", "note": "string", "grade": "string"}
    ),
    "categories": _categories,
    "arrow types": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "arrow": lambda frame: pa.Table.from_pandas(_categories(frame), preserve_index=False),
    "polars": _polars,
}


def types_of(frame: Any) -> dict[str, str]:
    """The types by column; those of categories without the categories, some of which may be
    missing.
    """
    if type(frame).__module__.startswith("polars."):
        return {name: str(kind.base_type()) for name, kind in frame.schema.items()}
    if isinstance(frame, pa.Table):
        return {field.name: str(field.type) for field in frame.schema}
    return {
        name: f"category, ordered: {kind.ordered}"
        if isinstance(kind, pd.CategoricalDtype)
        else str(kind)
        for name, kind in frame.dtypes.items()
    }


def methods_and_kinds() -> list[Any]:
    """All methods with all kinds; the later ones of a form with one kind, or in campaigns."""
    forms: dict[tuple[object, ...], str] = {}
    for name, method in METHODS.items():
        form = (method.recoding, method.result_type.has_row_classes, method.max_attributes)
        forms.setdefault(form, name)
    return [
        pytest.param(
            method,
            kind,
            id=f"{method}-{kind}",
            marks=() if method in forms.values() or i == n % len(KINDS) else pytest.mark.campaign,
        )
        for n, method in enumerate(METHODS)
        for i, kind in enumerate(KINDS)
    ]


@pytest.mark.parametrize(("method", "kind"), methods_and_kinds())
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_kind_and_types_stay(method: Any, kind: str) -> None:
    registered = METHODS[method]
    frame = KINDS[kind](people())
    arguments: dict[str, Any] = {"quasi_identifiers": ["age", "income"], "k": 3, "method": method}
    if registered.max_attributes == 1:
        arguments["quasi_identifiers"] = ["income"]
    if not registered.result_type.has_row_classes:
        arguments["guarantee"] = "per_attribute"
    if registered.recoding != "generalization":
        # test_frame_types covers the types of labels.
        arguments |= {"max_suppression": 0.0}
    else:
        arguments |= {"intervals": "midpoint", "max_suppression": None}
    released, report = dbanon.anonymize_frame(
        frame, sensitive=["grade"], keep=["note", "seen"], **arguments
    )
    assert type(released) is type(frame)
    names = [
        name
        for name in people().columns
        if name in {*arguments["quasi_identifiers"], "grade", "note", "seen"}
    ]
    assert list(types_of(released)) == names
    before, after = types_of(frame), types_of(released)
    numbers = arguments["quasi_identifiers"] if registered.recoding == "generalization" else []
    for name in names:
        if name in numbers:
            continue
        if registered.suppresses_cells and name in arguments["quasi_identifiers"]:
            # Integers of NumPy have no NULL, so those of pandas take their place.
            assert after[name].lower() == before[name].lower(), name
            continue
        assert after[name] == before[name], name
    for name in numbers:
        # Midpoints of whole numbers may be halves; they are numbers in every kind of frame.
        assert after[name].lower().startswith(("int", "float", "double")), (name, after[name])
    assert len(released) == report.rows_out == N - report.suppressed


@pytest.mark.parametrize("kind", [*KINDS][:5])
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_index_and_order_on_demand(kind: str) -> None:
    frame = KINDS[kind](people())
    arguments: Any = {"quasi_identifiers": ["age", "income"], "k": 3, "keep": ["seen"]}
    in_order, _ = dbanon.anonymize_frame(frame, rows="input", **arguments)
    assert in_order.index.equals(frame.index)
    assert in_order.index.name == "who"
    assert in_order["seen"].equals(frame["seen"])
    fresh, report = dbanon.anonymize_frame(frame, **arguments)
    assert list(fresh.index) == list(range(N))
    assert fresh.index.name is None
    assert report.evaluate(frame).rows == N


@pytest.mark.parametrize("kind", ["arrow", "polars"])
@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
def test_order_on_demand_without_an_index(kind: str) -> None:
    frame = KINDS[kind](people())
    arguments: Any = {"quasi_identifiers": ["age", "income"], "k": 3, "keep": ["seen"]}
    in_order, report = dbanon.anonymize_frame(frame, rows="input", **arguments)
    assert in_order["seen"].equals(frame["seen"])
    assert report.evaluate(frame).rows == N
