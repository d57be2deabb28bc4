"""Types of PostgreSQL and DuckDB in files: each has one, or is text."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dbanon.errors import UnsupportedType
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from dbanon.stores.exports.arrow import regroup_batches
from tests.stores.databases import DuckdbDatabase, PostgresqlDatabase


@pytest.mark.postgresql
def test_types_of_postgresql(postgresql: PostgresqlDatabase, tmp_path: Path) -> None:
    postgresql.execute(
        "CREATE TYPE size AS ENUM ('small', 'large')",
        "CREATE TABLE people AS SELECT g AS age, (g % 3)::smallint AS small,"
        " (g / 3.0)::real AS single,"
        " g::double precision / 7 AS double, g % 2 = 0 AS truth,"
        " (g / 3.0)::numeric(12,4) AS amount,"
        " (ARRAY['small', 'large'])[1 + g % 2]::size AS size, gen_random_uuid() AS uuid,"
        " timestamptz '2020-01-01 10:00:00+02' + g * interval '1 hour' AS instant,"
        " date '2020-01-01' + g AS day, int4range(g, g + 5) AS span, ARRAY[g, g] AS list,"
        " jsonb_build_object('a', g) AS object, g::text::char(8) AS padded,"
        " CASE WHEN g > 5 THEN 'x' END AS hole FROM generate_series(1, 30) g",
    )
    columns = [
        "small",
        "single",
        "double",
        "truth",
        "amount",
        "size",
        "uuid",
        "instant",
        "day",
        "span",
        "list",
        "object",
        "padded",
        "hole",
    ]
    exports = [tmp_path / "p.parquet", tmp_path / "p.csv"]
    postgresql.anonymize(quasi_identifiers=["age"], keep=columns, exports=exports)
    table = parquet.read_table(exports[0])
    types = {field.name: field.type for field in table.schema}
    assert types == {
        "age": pa.int32(),
        "small": pa.int16(),
        "single": pa.float32(),
        "double": pa.float64(),
        "truth": pa.bool_(),
        "amount": pa.decimal128(12, 4),
        "size": pa.string(),
        "uuid": pa.string(),
        "instant": pa.timestamp("us", "UTC"),
        "day": pa.date32(),
        "span": pa.string(),
        "list": pa.string(),
        "object": pa.string(),
        "padded": pa.string(),
        "hole": pa.string(),
    }
    first = datetime(2020, 1, 1, 8, tzinfo=timezone.utc)
    instants = [moment - first for moment in table["instant"].to_pylist()]
    assert sorted(instants) == [timedelta(hours=g) for g in range(1, 31)]
    assert table["hole"].null_count == 5
    with open_store(f"file:{exports[1]}").session(write=False) as session:
        kinds = dict(session.catalog.list_columns(parse_relation("p")))
        rows = session.rows("SELECT amount, double FROM p ORDER BY age, amount")
    assert (kinds["amount"], kinds["day"], kinds["truth"]) == ("DECIMAL(15,4)", "DATE", "BOOLEAN")
    assert {amount for amount, _ in rows} == set(table["amount"].to_pylist())


def test_types_of_duckdb(duckdb_file: DuckdbDatabase, tmp_path: Path) -> None:
    duckdb_file.execute(
        "CREATE TABLE people AS SELECT range AS age, range::HUGEINT AS huge, range::UTINYINT AS"
        " tiny, (range / 3)::DECIMAL(18, 3) AS amount, range::VARCHAR::ENUM('0', '1', '2', '3',"
        " '4', '5', '6', '7', '8', '9', '10', '11') AS listed, uuid() AS uuid, [range, 1] AS list,"
        " {'a': range} AS object, make_timestamp(range * 1000000) AS moment FROM range(12)"
    )
    path = tmp_path / "p.parquet"
    columns = ["huge", "tiny", "amount", "listed", "uuid", "list", "object", "moment"]
    duckdb_file.anonymize(quasi_identifiers=["age"], keep=columns, exports=[path])
    types = {field.name: field.type for field in parquet.read_schema(path)}
    assert types["listed"] == types["list"] == types["object"] == pa.string()
    assert types["moment"] == pa.timestamp("us")
    assert sorted(parquet.read_table(path)["amount"].to_pylist()) == [
        (Decimal(i) / 3).quantize(Decimal("0.001")) for i in range(12)
    ]


@pytest.mark.postgresql
def test_what_no_file_holds_is_refused(postgresql: PostgresqlDatabase, tmp_path: Path) -> None:
    postgresql.execute(
        "CREATE TABLE people AS SELECT g AS age, (10::numeric ^ 50 + g)::numeric(60, 5) AS wide,"
        " CASE g WHEN 1 THEN 'NaN'::numeric ELSE g END AS odd FROM generate_series(1, 30) g"
    )
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "exports": [tmp_path / "p.parquet"]}
    for column in ("wide", "odd"):
        with pytest.raises(UnsupportedType):
            postgresql.anonymize(**options, keep=[column])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value",
    [
        "'infinity'::DATE",
        "'-infinity'::TIMESTAMP",
        "'infinity'::TIMESTAMPTZ",
        "'0044-03-15 (BC)'::DATE",
        "'20000-01-01'::TIMESTAMP",
        "170141183460469231731687303715884105727::HUGEINT",
    ],
)
def test_values_that_no_file_holds(duckdb_file: DuckdbDatabase, tmp_path: Path, value: str) -> None:
    duckdb_file.execute(
        f"CREATE TABLE people AS SELECT range AS age, CASE WHEN range > 8 THEN {value} END AS odd"
        " FROM range(12)"
    )
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "keep": ["odd"]}
    with pytest.raises(UnsupportedType):
        duckdb_file.anonymize(**options, exports=[tmp_path / "p.parquet"])
    assert list(tmp_path.glob("*.parquet")) == []


def test_columns_and_rows_become_the_same_file(duckdb_file: DuckdbDatabase) -> None:
    """DuckDB yields entire columns, other databases rows: the resulting files do not differ."""
    duckdb_file.execute(
        "CREATE TABLE t AS SELECT CASE WHEN range > 3 THEN range END AS n, range::HUGEINT AS huge,"
        " range::UBIGINT AS wide, range::UTINYINT AS tiny, range::FLOAT / 3 AS single,"
        " CASE range WHEN 1 THEN 'nan'::DOUBLE WHEN 2 THEN -0.0 ELSE range / 7 END AS double,"
        " (range / 3)::DECIMAL(38, 3) AS amount, range % 2 = 0 AS truth,"
        " CASE WHEN range > 2 THEN date '0001-01-01' + range::INT END AS day,"
        " make_timestamp(range * 1000001) AS moment, '9999-12-31 23:59:59.999999'::TIMESTAMP AS"
        " last, make_timestamp_ns(range * 1000000000) AS ns, '2020-06-01 12:00+02'::TIMESTAMPTZ +"
        " INTERVAL (range) HOUR AS instant, NULL::DATE AS never, uuid() AS uuid, 'ä' || range AS"
        " text, ''::VARCHAR AS none, range::VARCHAR::ENUM('0', '1', '2', '3', '4', '5', '6') AS"
        " listed, [range] AS list, '1 day'::INTERVAL AS span, 'a'::BLOB AS bytes FROM range(7)"
    )
    with open_store(duckdb_file.url).session(write=False) as session:
        relation = session.catalog.find_source(parse_relation("t"))
        source = session.catalog.with_row_locator(relation, ())
        names = [attribute.name for attribute in source.schema.attributes]
        attributes = session.complete_attributes_from_values(source, source.schema.attributes)
        columns = list(session.read_batches(source, names, 3))
        rows = [piece for _, piece in session.read_rows(source, names, 3)]
    assert isinstance(columns[0], pa.RecordBatch)
    from_rows, expected = (
        pa.Table.from_batches(regroup_batches(attributes, pieces, 4)) for pieces in (columns, rows)
    )
    assert len(names) == 21
    for name in names:
        assert from_rows[name].type == expected[name].type
        assert repr(from_rows[name].to_pylist()) == repr(expected[name].to_pylist())
    assert [len(batch) for batch in regroup_batches(attributes, columns, 4)] == [4, 3]
