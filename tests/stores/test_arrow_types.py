"""Arrow types through every interface: each value arrives unchanged, or its column is refused by
name.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

import dbanon
from dbanon.errors import UnsupportedType

N = 20
NUMBERS = list(range(N))
TEXTS = [f"t{i % 4}" for i in NUMBERS]
MOMENTS = [i * 86_400_000_001 for i in NUMBERS]
DAYS = [dt.date(2020, 1, 1 + i) for i in NUMBERS]
DECIMALS = [Decimal(i).scaleb(-2) for i in NUMBERS]


# Values by the name of their column, which is that of their type.
Columns = dict[str, list[Any]]


def extended(kind: Any, storage: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, storage)


ARRAYS: dict[str, pa.Array] = {
    **{
        str(kind): pa.array(NUMBERS, kind)
        for kind in (
            pa.int8(),
            pa.int16(),
            pa.int32(),
            pa.int64(),
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.float32(),
            pa.float64(),
        )
    },
    "uint64": pa.array([2**64 - 1 - i for i in NUMBERS], pa.uint64()),
    "float16": pa.array(NUMBERS, pa.float32()).cast(pa.float16()),
    "decimal32": pa.array(DECIMALS, pa.decimal32(9, 2)),
    "decimal64": pa.array(DECIMALS, pa.decimal64(18, 2)),
    "decimal128": pa.array(DECIMALS, pa.decimal128(12, 2)),
    "decimal256": pa.array(DECIMALS, pa.decimal256(30, 2)),
    "decimal256, wide": pa.array([value * 10**47 for value in DECIMALS], pa.decimal256(60, 2)),
    "numeric": extended(
        pa.opaque(pa.string(), "numeric", "PostgreSQL"), pa.array(map(str, DECIMALS))
    ),
    "inet": extended(
        pa.opaque(pa.binary(), "inet", "PostgreSQL"), pa.array([bytes([i] * 4) for i in NUMBERS])
    ),
    "bool": pa.array([i % 2 == 0 for i in NUMBERS]),
    "bool8": extended(pa.bool8(), pa.array([i % 2 for i in NUMBERS], pa.int8())),
    "string": pa.array(TEXTS),
    "large_string": pa.array(TEXTS, pa.large_string()),
    "string_view": pa.array(TEXTS, pa.string_view()),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "binary": pa.array([text.encode() for text in TEXTS]),
    "date32": pa.array(DAYS, pa.date32()),
    "date64": pa.array(DAYS, pa.date64()),
    "seconds": pa.array(NUMBERS, pa.timestamp("s")),
    "milliseconds": pa.array(MOMENTS, pa.timestamp("ms")),
    "microseconds": pa.array(MOMENTS, pa.timestamp("us")),
    "nanoseconds": pa.array([i * 1001 for i in MOMENTS], pa.timestamp("ns")),
    "whole nanoseconds": pa.array([i * 1000 for i in MOMENTS], pa.timestamp("ns")),
    "zoned": pa.array(MOMENTS, pa.timestamp("us", "UTC")),
    "zoned nanoseconds": pa.array([i * 1001 for i in MOMENTS], pa.timestamp("ns", "UTC")),
    "time": pa.array(NUMBERS, pa.time64("us")),
    "fine time": pa.array(NUMBERS, pa.time64("ns")),
    "duration": pa.array(NUMBERS, pa.duration("us")),
    "interval": pa.array([pa.MonthDayNano([1, i, 0]) for i in NUMBERS]),
    "list": pa.array([[i] for i in NUMBERS]),
    "struct": pa.array([{"a": i} for i in NUMBERS]),
    "null": pa.nulls(N),
}
PLAIN = {
    str(kind)
    for kind in (
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.uint8(),
        pa.uint16(),
        pa.uint32(),
    )
}
PLAIN |= {"float", "double", "uint64", "decimal32", "decimal64", "decimal128"}
PLAIN |= {"date32", "date64", "seconds", "milliseconds", "microseconds", "whole nanoseconds"}
# The types each interface releases; it refuses the others by name. Means have no nanoseconds.
AVERAGED = {
    "frame": PLAIN
    | {"decimal256", "decimal256, wide", "numeric", "nanoseconds", "zoned", "zoned nanoseconds"},
    "stream": PLAIN | {"float16", "decimal256", "numeric", "nanoseconds", "zoned"},
}
AVERAGED["export"] = AVERAGED["stream"]
COPIED = {
    "frame": set(ARRAYS) - {"fine time"},
    "stream": PLAIN
    | {
        "float16",
        "decimal256",
        "numeric",
        "bool",
        "bool8",
        "string",
        "large_string",
        "string_view",
        "dictionary",
        "zoned",
    },
}
# A file has text for the rest.
AS_TEXT = {"inet", "binary", "time", "fine time", "duration", "interval", "list", "struct"}
COPIED["export"] = COPIED["stream"] | AS_TEXT


def of_frame(table: pa.Table, tmp_path: Path, **options: Any) -> Columns:
    released, _ = dbanon.anonymize_frame(table, **options)
    return {name: released[name].to_pylist() for name in table.column_names}


def of_stream(table: pa.Table, tmp_path: Path, **options: Any) -> Columns:
    """Drawn, and copied into a database of another engine's file."""
    target_path = tmp_path / "released.duckdb"
    dbanon.anonymize(
        table,
        table="people",
        output="out",
        target=f"duckdb:///{target_path}",
        kept_columns="client",
        **options,
    )
    with duckdb.connect(str(target_path)) as connection:
        released = connection.execute("SELECT * FROM out")
        names = [column[0] for column in released.description]
        return dict(zip(names, map(list, zip(*released.fetchall(), strict=True)), strict=True))


def of_export(table: pa.Table, tmp_path: Path, **options: Any) -> Columns:
    export_path = tmp_path / "released.parquet"
    dbanon.anonymize(
        table, table="people", output="out", exports=[export_path], kept_columns="client", **options
    )
    columns: Columns = parquet.read_table(export_path).to_pydict()
    return columns


DOORS: dict[str, Callable[..., Columns]] = {
    "frame": of_frame,
    "stream": of_stream,
    "export": of_export,
}


# How many types one run has: a frame's costs little, and those of a database cost the same for one
# column and for several.
TOGETHER = {"frame": 1, "stream": 9, "export": 9}


def released_cases(accepted: dict[str, set[str]]) -> list[Any]:
    """Each interface with the types that it releases, as many as one run has."""
    cases = []
    for door, size in TOGETHER.items():
        names = [name for name in ARRAYS if name in accepted[door]]
        for start in range(0, len(names), size):
            some = names[start : start + size]
            cases.append(pytest.param(door, some, id=f"{door}-{', '.join(some)}"))
    return cases


def refused_cases(accepted: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Each interface with each type that it refuses."""
    return [(door, name) for door in DOORS for name in ARRAYS if name not in accepted[door]]


def with_numbers(names: list[str]) -> pa.Table:
    """Columns of these types, after one that a release may average."""
    # The first column has no rows that the release tells apart.
    columns = {"a": pa.array([i * 7 % 13 for i in NUMBERS])}
    return pa.table(columns | {name: ARRAYS[name] for name in names})


def refused_by_name(name: str, call: Callable[[], Any]) -> None:
    with pytest.raises(UnsupportedType, match=f'Column "{name}"') as refused:
        call()
    assert refused.value.hint


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize(("door", "names"), released_cases(COPIED))
def test_kept_columns(door: str, names: list[str], tmp_path: Path) -> None:
    columns = DOORS[door](with_numbers(names), tmp_path, quasi_identifiers=["a"], k=5, keep=names)
    for name in names:
        values, expected = columns[name], ARRAYS[name].to_pylist()
        if name == "numeric":
            expected = DECIMALS
        if door == "export" and name in AS_TEXT:
            assert len(values) == N, name
            continue
        assert sorted(map(comparable, values)) == sorted(map(comparable, expected)), name


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize(("door", "name"), refused_cases(COPIED))
def test_kept_columns_that_are_refused(door: str, name: str, tmp_path: Path) -> None:
    table = with_numbers([name])
    refused_by_name(
        name, lambda: DOORS[door](table, tmp_path, quasi_identifiers=["a"], k=5, keep=[name])
    )


def comparable(value: Any) -> str:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.timezone.utc)
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        return str(Decimal(value).normalize())
    return str(value)


@pytest.mark.parametrize(("door", "names"), released_cases(AVERAGED))
def test_quasi_identifiers(door: str, names: list[str], tmp_path: Path) -> None:
    table = pa.table({name: ARRAYS[name] for name in names})
    columns = DOORS[door](table, tmp_path, quasi_identifiers=names, k=5)
    # With equal steps each class has five consecutive values, whatever they are.
    for name in names:
        values = sorted(map(str, columns[name]))
        assert [values.count(value) for value in sorted(set(values))] == [5] * 4, name


@pytest.mark.parametrize(("door", "name"), refused_cases(AVERAGED))
def test_quasi_identifiers_that_are_refused(door: str, name: str, tmp_path: Path) -> None:
    table = pa.table({name: ARRAYS[name]})
    refused_by_name(name, lambda: DOORS[door](table, tmp_path, quasi_identifiers=[name], k=5))


@pytest.mark.filterwarnings("ignore::dbanon.errors.PrivacyWarning")
@pytest.mark.parametrize("scheme", ["sqlite"])
def test_a_column_that_another_database_does_not_hold_is_named(scheme: str, tmp_path: Path) -> None:
    table = pa.table({"a": pa.array(NUMBERS), "x": ARRAYS["uint64"]})
    with pytest.raises(UnsupportedType, match='Column "x" cannot be stored'):
        dbanon.anonymize(
            table,
            table="people",
            output="out",
            target=f"{scheme}:///{tmp_path}/out.db",
            kept_columns="client",
            quasi_identifiers=["a"],
            k=5,
            keep=["x"],
        )
