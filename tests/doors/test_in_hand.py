"""Data in common forms: accepted as it is, or refused with a helpful message."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections import Counter
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import dbanon
from dbanon import errors

JOB: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age"],
    "k": 5,
    "output": "released",
    "sensitive": ["ill"],
}
FRAME = pd.DataFrame({"age": range(20, 40), "ill": ["flu", "none", "gout", "flu"] * 5})
OF_FRAME: dict[str, Any] = {"quasi_identifiers": ["age"], "sensitive": ["ill"], "k": 5}


def people(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (age INTEGER, ill TEXT)")
    rows = FRAME.itertuples(index=False, name=None)
    connection.executemany("INSERT INTO people VALUES (?, ?)", rows)
    connection.commit()
    return connection


# -- databases ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [":memory:", "people.db"])
def test_a_sqlite_connection_is_accepted_and_left_unchanged(path: str, tmp_path: Path) -> None:
    connection = people(path if path == ":memory:" else str(tmp_path / path))
    connection.row_factory = sqlite3.Row
    connection.text_factory = bytes
    level = connection.isolation_level
    report = dbanon.anonymize(connection, **JOB)
    assert report.k_achieved == 5
    assert (connection.row_factory, connection.text_factory) == (sqlite3.Row, bytes)
    assert connection.isolation_level == level
    assert not connection.in_transaction
    assert [tuple(row) for row in connection.execute("SELECT count(*) FROM released")] == [(20,)]
    # As target it is the same database.
    again = dbanon.anonymize(connection, **(JOB | {"output": "again"}), target=connection)
    assert again.rows_out == 20
    connection.close()


def test_a_sqlite_connection_with_a_transaction_open_is_refused() -> None:
    connection = people(":memory:")
    connection.execute("INSERT INTO people VALUES (1, 'flu')")
    with pytest.raises(errors.InvalidParameter, match="open transaction") as refused:
        dbanon.anonymize(connection, **JOB)
    assert "Commit or roll back" in str(refused.value.hint)
    assert connection.in_transaction
    connection.close()


def test_a_sqlalchemy_connection_stands_for_its_engine(tmp_path: Path) -> None:
    people(str(tmp_path / "people.db")).close()
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path}/people.db")
    with engine.connect() as connection:
        assert dbanon.anonymize(connection, **JOB).rows_out == 20
        connection.exec_driver_sql("SELECT 1 FROM people")
        with pytest.raises(errors.InvalidParameter, match="open transaction") as refused:
            dbanon.anonymize(connection, **(JOB | {"output": "again"}))
        assert "connection.engine" in str(refused.value.hint)
        connection.rollback()
        with Session(engine) as session, pytest.raises(errors.InvalidParameter) as refused:
            dbanon.anonymize(session, **JOB)
        assert "get_bind" in str(refused.value.hint)
    engine.dispose()


def test_objects_that_are_no_database_are_refused_with_a_hint(tmp_path: Path) -> None:
    clinic = duckdb.connect()
    for source, hint in (
        (FRAME, "dbanon.anonymize_frame"),
        (pa.table({"age": [1]}), "dbanon.anonymize_frame"),
        (clinic.sql("SELECT 1 AS age"), "dbanon.anonymize_frame"),
        (tmp_path / "people.db", "sqlite:///"),
    ):
        with pytest.raises(errors.InvalidParameter) as refused:
            dbanon.anonymize(source, **JOB)
        assert hint in str(refused.value.hint)


def test_a_registered_frame_is_distinguished_from_a_missing_table() -> None:
    clinic = duckdb.connect()
    clinic.register("people", FRAME)
    with pytest.raises(errors.TableNotFound, match="registered data frame") as refused:
        dbanon.anonymize(clinic, **JOB)
    assert "anonymize_frame" in str(refused.value.hint)
    clinic.execute("CREATE TABLE kept AS FROM people")
    assert dbanon.anonymize(clinic, **(JOB | {"table": "kept"})).rows_out == 20


# -- tables -------------------------------------------------------------------------------------


def arrow() -> pa.Table:
    days = [date(2020, 1, 1 + i) for i in range(15)]
    return pa.table(
        {
            "age": pa.array([*range(15), *[None] * 5], pa.int32()),
            "height": pa.array([150.5 + i for i in range(20)]),
            "born": pa.array([*days, *[None] * 5], pa.date32()),
            "seen": pa.array([datetime(2020, 1, 1 + i) for i in range(20)], pa.timestamp("us")),
            "pay": pa.array([Decimal(100 + i) / 4 for i in range(20)], pa.decimal128(12, 2)),
            "big": pa.array([2**60 + i for i in range(20)], pa.int64()),
            "well": pa.array([True, False, None, True] * 5),
            "ill": pa.array(["flu", "none", None, "gout"] * 5).dictionary_encode(),
            "notes": pa.array([[i, None] for i in range(20)]),
        }
    )


def test_an_arrow_table_keeps_its_kind_and_types() -> None:
    table = arrow()
    names = ["age", "height", "born", "seen", "pay", "big"]
    arguments = {"quasi_identifiers": names, "keep": ["well", "ill", "notes"], "k": 5}
    released, report = dbanon.anonymize_frame(table, nulls="category", **arguments)
    assert isinstance(released, pa.Table)
    assert released.schema.types == table.schema.types
    assert released.schema.names == table.schema.names
    assert report.rows_out == released.num_rows == 20
    assert released["born"].null_count == released["age"].null_count == 5
    for name in ("well", "ill", "notes"):
        both = (Counter(map(repr, side[name].to_pylist())) for side in (released, table))
        assert next(both) == next(both)
    # Sums are exact, for numbers beyond 2**53 and for decimals.
    assert abs(sum(released["big"].to_pylist()) - sum(table["big"].to_pylist())) <= 20
    # Ranges of numbers with so many digits are refused.
    names.remove("big")
    ranges, _ = dbanon.anonymize_frame(table, method="gaa_cp", nulls="category", **arguments)
    assert {ranges.schema.field(name).type for name in names} <= {pa.string(), pa.large_string()}


def test_arrow_exporters_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = duckdb.connect().from_arrow(pa.table({"age": list(range(20)), "ill": ["a"] * 20}))
    released, _ = dbanon.anonymize_frame(relation, **OF_FRAME)
    assert isinstance(released, pa.Table)

    polars = ModuleType("polars")

    class DataFrame:
        """As polars exports Arrow, with string views."""

        schema: ClassVar[dict[str, object]] = {}

        def __init__(self, table: pa.Table) -> None:
            self.table = table

        def __arrow_c_stream__(self, requested: object = None) -> object:
            return self.table.__arrow_c_stream__(requested)

    DataFrame.__module__ = "polars.dataframe.frame"
    polars.from_arrow = DataFrame  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "polars", polars)
    ill = pa.array(["a", "b"] * 10).cast(pa.string_view())
    released, report = dbanon.anonymize_frame(
        DataFrame(pa.table({"age": list(range(20)), "ill": ill})), **OF_FRAME
    )
    assert type(released) is DataFrame
    assert report.rows_out == released.table.num_rows
    assert Counter(released.table["ill"].to_pylist()) == {"a": 10, "b": 10}


def test_dicts_of_columns_and_lists_of_dicts_are_accepted() -> None:
    columns = {name: FRAME[name].tolist() for name in FRAME}
    for data in (columns, FRAME.to_dict("records")):
        released, report = dbanon.anonymize_frame(data, **OF_FRAME)
        assert isinstance(released, pd.DataFrame)
        assert report.k_achieved == 5
        assert dbanon.partition({"age": columns["age"]}, 5).n_classes == 4
    for wrong, hint in (
        ({"age": [1, 2], "ill": ["a"]}, "the same length"),
        (FRAME["age"], "to_frame"),
        ([{"age": 1, "ill": "a"}, 5], "the same length"),
        ([(1, "a"), (2, "b")], "list of dicts"),
        (7, "list of dicts"),
    ):
        with pytest.raises(errors.InvalidParameter) as refused:
            dbanon.anonymize_frame(wrong, **OF_FRAME)
        assert hint in str(refused.value.hint)


# -- columns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["object", "date32[pyarrow]"])
def test_dates_are_dates(dtype: str) -> None:
    days = [date(2020, 1, day) for day in (1, 2, 4, 20, 21, 23)]
    frame = pd.DataFrame({"born": pd.Series(days, dtype=dtype)})
    released, _ = dbanon.anonymize_frame(frame, quasi_identifiers=["born"], k=3)
    assert released["born"].dtype == frame["born"].dtype
    assert Counter(released["born"]) == {date(2020, 1, 2): 3, date(2020, 1, 21): 3}
    ranges, _ = dbanon.anonymize_frame(frame, quasi_identifiers=["born"], k=3, method="mondrian")
    assert set(ranges["born"]) == {"[2020-01-01, 2020-01-08)", "[2020-01-15, 2020-01-29)"} or all(
        text.startswith("[20") for text in ranges["born"]
    )


@pytest.mark.parametrize("dtype", ["object", "decimal128(20, 2)[pyarrow]"])
def test_decimals_are_exact(dtype: str) -> None:
    kind: Any = pd.ArrowDtype(pa.decimal128(20, 2)) if dtype != "object" else object
    values = [Decimal(text) for text in ("0.10", "0.10", "0.13", "12345678901234567.89")]
    frame = pd.DataFrame({"pay": pd.Series([*values, *values[-1:] * 2, None], dtype=kind)})
    released, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=["pay"], k=3, nulls="suppress", max_suppression=1
    )
    assert Counter(released["pay"]) == {Decimal("0.11"): 3, values[-1]: 3}
    assert {str(value) for value in released["pay"]} == {"0.11", "12345678901234567.89"}
    assert report.suppressed == 1
    assert released["pay"].dtype == frame["pay"].dtype


@pytest.mark.parametrize("method", ["mdav", "gaa_cp"])
def test_columns_of_arrow_are_released_as_those_of_numpy(method: str) -> None:
    """With their time zone, and numbers in the precision of their type."""
    zone = "Europe/Berlin"
    numpy_columns = pd.DataFrame(
        {
            "dose": np.sqrt(np.arange(40, dtype=np.float32)),
            "seen": pd.date_range("2024-01-01", periods=40, freq="7h", tz=zone),
        }
    )
    arrow_columns = numpy_columns.astype(
        {
            "dose": pd.ArrowDtype(pa.float32()),
            "seen": pd.ArrowDtype(pa.timestamp("us", zone)),
        }
    )
    rows = []
    for frame in (numpy_columns, arrow_columns):
        released, _ = dbanon.anonymize_frame(
            frame, quasi_identifiers=["dose", "seen"], k=5, method=method
        )
        rows.append(Counter(zip(released["dose"], released["seen"], strict=True)))
    assert rows[0] == rows[1]


@pytest.mark.parametrize("nested", [[1, 2], {"a": 1}, (1, 2), {1}])
def test_lists_and_dicts_in_a_column_are_refused_by_name(nested: Any) -> None:
    frame = pd.DataFrame({"tags": pd.Series([nested] * 6, dtype=object), "age": range(6)})
    for method in ("mdav", "gaa_cp"):
        with pytest.raises(errors.UnsupportedType, match='"tags" holds lists or dicts') as refused:
            dbanon.anonymize_frame(frame, quasi_identifiers=["tags"], k=3, method=method)
        assert "explode" in str(refused.value.hint)
    # Unchanged, they may be copied.
    released, _ = dbanon.anonymize_frame(frame, quasi_identifiers=["age"], keep=["tags"], k=3)
    assert released["tags"].tolist() == [nested] * 6


BYTES: dict[str, Any] = {
    "site": [bytes([200 + i % 2]) for i in range(12)],
    "age": [20 + i % 3 for i in range(12)],
}


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame(BYTES),
        pd.DataFrame({"site": pd.Series(BYTES["site"], dtype=pd.ArrowDtype(pa.binary()))}),
        pl.DataFrame(BYTES),
        pa.table(BYTES),
    ],
    ids=["pandas", "pandas of Arrow", "polars", "Arrow"],
)
@pytest.mark.parametrize("options", [{"method": "gaa_cp"}, {"recoding": "representative"}])
def test_bytes_are_refused_by_name(frame: Any, options: dict[str, Any]) -> None:
    with pytest.raises(errors.UnsupportedType, match='"site" holds bytes') as refused:
        dbanon.anonymize_frame(frame, quasi_identifiers=["site"], k=3, **options)
    hint = str(refused.value.hint)
    if isinstance(frame, pd.DataFrame):
        [code] = re.findall(r"them text: (.*) in pandas", hint)
        texts = eval(code, {"frame": frame})
        released, _ = dbanon.anonymize_frame(
            frame.assign(site=texts), quasi_identifiers=["site"], k=3, **options
        )
        assert set(released["site"]) == {"c8", "c9"}
    elif isinstance(frame, pl.DataFrame):
        [code] = re.findall(r"in pandas, (.*) in polars", hint)
        texts = frame.with_columns(eval(code, {"pl": pl}))
        released, _ = dbanon.anonymize_frame(texts, quasi_identifiers=["site"], k=3, **options)
        assert set(released["site"]) == {"c8", "c9"}


def test_complex_numbers_are_refused() -> None:
    numbers = np.arange(6) * (1 + 2j)
    for method in ("mdav", "gaa_cp"):
        for dtype in (None, object):
            frame = pd.DataFrame({"z": pd.Series(numbers, dtype=dtype)})
            with pytest.raises(errors.UnsupportedType, match='"z" holds complex'):
                dbanon.anonymize_frame(frame, quasi_identifiers=["z"], k=3, method=method)
    for array in (numbers.reshape(-1, 1), [[1j], [2j]]):
        with pytest.raises(errors.InvalidParameter, match="complex"):
            dbanon.partition(array, 2)


# -- models and labels --------------------------------------------------------------------------


def test_models_are_accepted_as_in_sql() -> None:
    model = {"attribute": "ill", "kind": "distinct_l", "level": 2}
    _, report = dbanon.anonymize_frame(FRAME, **OF_FRAME, models=[model])
    _, same = dbanon.anonymize_frame(
        FRAME, **OF_FRAME, models=[dbanon.Model("distinct_l", "ill", 2)]
    )
    assert report.arguments["models"] == same.arguments["models"]
    near = model | {"kind": "t_closeness", "level": np.float64(0.9), "distance": "ordered"}
    assert dbanon.Policy(k=3, models=[near]).models[0].distance == "ordered"
    for wrong, message in (
        ({"attribute": "ill"}, "an object with attribute, kind and level"),
        (model | {"l": 2}, "no such key"),
        (model | {"level": "2"}, '"level" of a privacy model must be a number'),
        (model | {"kind": "l_diversity"}, "no privacy model"),
    ):
        with pytest.raises(errors.InvalidParameter, match=message):
            dbanon.anonymize_frame(FRAME, **OF_FRAME, models=[wrong])


def test_losses_take_labels() -> None:
    data = np.random.default_rng(0).normal(size=(30, 2))
    classes = dbanon.partition(data, 3)
    loss = dbanon.information_loss(data, classes)
    full = dbanon.generalization_loss(data, classes)
    # From zero without gaps, as a list, as another tool numbers them.
    for labels in (classes.labels, classes.labels.tolist(), pd.Series(classes.labels) * 7 + 1):
        assert dbanon.information_loss(data, labels) == loss
        assert dbanon.generalization_loss(data, labels) == full
    some = np.where(classes.labels == 0, -1, classes.labels)
    loss_of_labels = dbanon.information_loss(data, some)
    assert 0 < loss_of_labels < 1
    assert loss_of_labels != loss
    for wrong in (data, ["a"] * 30, classes.labels - 2, 7, [[1], [1, 2]], [0.5] * 30):
        with pytest.raises(errors.InvalidParameter, match="classes must be"):
            dbanon.information_loss(data, wrong)
    with pytest.raises(errors.InvalidParameter, match="29 records"):
        dbanon.information_loss(data, classes.labels[1:] * 0)
