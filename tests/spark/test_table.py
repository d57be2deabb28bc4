"""A table anonymized on a cluster: staged, recounted, and published in one step or not at all."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow.parquet as pq
import pytest

import dbanon
from dbanon.errors import (
    DbanonError,
    InvalidParameter,
    OutputExists,
    OutputNotOurs,
    RecountFailed,
    ShiftedDatesTell,
    SourceChanged,
    TellingColumnRefused,
    TooFewRecords,
)
from dbanon.extensions.spark import into_postgresql
from dbanon.extensions.spark.into_files import REPORT_FILE, ParquetTarget
from dbanon.sessions.names import RelationName
from dbanon.spark import anonymize_table
from tests.spark.statements import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ARGUMENTS: dict[str, Any] = {
    "quasi_identifiers": ["age", "pay"],
    "k": 5,
    "sensitive": ["ill"],
    "keep": ["id"],
    "by": ["part"],
    "block_size": 800,
}
TABLES = ARGUMENTS | {"table": "people", "output": "release.people"}


@pytest.fixture
def people(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of 3,000 rows, read by several tasks."""
    monkeypatch.setattr("dbanon.stores.postgresql.pieces.MIN_PAGES", 5)
    execute(
        pg_url,
        """CREATE TABLE people AS SELECT i AS id, 18 + i * 7 % 70 AS age,
        (1000 * sin(i))::numeric(12, 2) AS pay, chr(97 + i % 4)::varchar(3) AS ill,
        chr(110 + i % 2) AS part, 'secret-' || i AS name FROM generate_series(1, 3000) AS i;
        ALTER TABLE people ADD PRIMARY KEY (id)""",
    )
    return pg_url


@pytest.fixture
def files(people: str, tmp_path: Path) -> str:
    """The same rows in a directory of files."""
    import duckdb

    (tmp_path / "source").mkdir()
    rows = execute(people, "SELECT id, age, pay, ill, part, name FROM people")
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE people (id INTEGER, age INTEGER, pay DECIMAL(12, 2), ill VARCHAR,"
            " part VARCHAR, name VARCHAR)"
        )
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
        for half in (0, 1):
            connection.execute(
                f"COPY (FROM people WHERE id % 2 = {half})"
                f" TO '{tmp_path}/source/{half}.parquet' (FORMAT parquet)"
            )
    return str(tmp_path / "source")


RELEASED = "SELECT id, age, pay, ill, part FROM release.people ORDER BY id"
OTHERS = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'release'::regnamespace"
)


def test_a_database_released_to_itself_equals_no_spark(spark: SparkSession, people: str) -> None:
    dbanon.anonymize(people, **TABLES, key=["id"])
    expected = execute(people, RELEASED)
    report = anonymize_table(spark, people, people, **TABLES, if_exists="replace")
    assert execute(people, RELEASED) == expected
    # The row order is random: test_equal_pieces checks that it differs each time.
    order = [row[0] for row in execute(people, "SELECT id FROM release.people")]
    assert order != sorted(order)
    # No intermediate files are left, and the ledger has the release.
    assert execute(people, OTHERS) == [("people",)]
    assert report.rows_out == 3000
    assert report.k_achieved >= 5
    assert report.not_copied == ("name",)
    assert report.earlier_releases != "not checked against earlier releases"
    verification = dbanon.verify(people, "release.people")
    assert verification.digest == "unchanged"
    assert verification.release_id == report.release_id
    release = dbanon.show(people, "release.people")
    assert release["source"] == "public.people"
    assert [column["sql_type"] for column in release["columns"]][:5] == [
        "integer",
        "integer",
        "numeric(12,2)",
        "text",
        "text",
    ]
    [run] = execute(people, "SELECT state, door FROM dbanon.run ORDER BY finished_at DESC LIMIT 1")
    assert run == ("done", "python")


def test_nulls_in_strata_are_counted_as_without_spark(spark: SparkSession, people: str) -> None:
    execute(people, "UPDATE people SET part = NULL WHERE id % 2 = 0 AND id <= 900")
    local = dbanon.anonymize(people, **TABLES, key=["id"])
    report = anonymize_table(spark, people, people, **TABLES, if_exists="replace")
    assert report.null_rows == local.null_rows == 450


def test_a_view_a_condition_and_another_schema(spark: SparkSession, people: str) -> None:
    options = TABLES | {"output": 'new."Peo ple"', "output_kind": "view", "where": "id <= 1000"}
    for _ in range(2):
        report = anonymize_table(spark, people, people, **options, if_exists="replace")
    assert execute(people, 'SELECT count(*), max(id) FROM new."Peo ple"') == [(1000, 1000)]
    assert report.arguments["where"] == "id <= 1000"
    assert report.output_kind == "view"


def test_from_files_to_files(spark: SparkSession, files: str, tmp_path: Path, people: str) -> None:
    dbanon.anonymize(people, **TABLES, key=["id"])
    expected = execute(people, RELEASED)
    target = tmp_path / "released"
    report = anonymize_table(spark, files, str(target), **ARGUMENTS, key=["id"])
    rows = pq.read_table(target).to_pylist()
    names = ["id", "age", "pay", "ill", "part"]
    assert sorted(tuple(row[name] for name in names) for row in rows) == expected
    assert report.output == str(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    written = json.loads((target / REPORT_FILE).read_text())
    assert written["release_id"] == report.release_id
    assert sorted(path.name for path in tmp_path.iterdir()) == ["released", "source"]
    # An existing release is not overwritten.
    with pytest.raises(OutputExists):
        anonymize_table(spark, files, str(target), **ARGUMENTS, key=["id"])


def test_released_floats_are_written_without_a_dictionary(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(3000).selectExpr(
        "id", "sqrt(id) AS x", "CAST(id % 50 AS int) AS age", "CAST(id % 7 AS double) AS kept"
    )
    rows.write.parquet(f"{tmp_path}/source")
    columns = {"quasi_identifiers": ["x", "age"], "keep": ["kept"], "key": ["id"]}
    anonymize_table(spark, f"{tmp_path}/source", f"{tmp_path}/released", k=5, **columns)
    for file in (tmp_path / "released").glob("*.parquet"):
        group = pq.read_metadata(file).row_group(0)
        chunks = [group.column(i) for i in range(group.num_columns)]
        with_dictionary = {
            chunk.path_in_schema for chunk in chunks if "DICTIONARY" in str(chunk.encodings)
        }
        assert with_dictionary == {"age", "kept"}


def test_from_files_and_frames_to_a_database(spark: SparkSession, files: str, people: str) -> None:
    dbanon.anonymize(people, **TABLES, key=["id"])
    expected = execute(people, RELEASED)
    options = ARGUMENTS | {"output": "release.people", "if_exists": "replace", "key": ["id"]}
    for source in (files, spark.read.parquet(files).repartition(3, "age")):
        anonymize_table(spark, source, people, **options)
        assert execute(people, RELEASED) == expected


def test_a_frame_that_gives_other_rows_is_refused(spark: SparkSession, people: str) -> None:
    def some(batches: Any) -> Any:
        import secrets

        for batch in batches:
            yield batch.slice(0, batch.num_rows - secrets.randbelow(1000))

    frame = spark.range(0, 6000, 1, 3).selectExpr("id", "id % 50 AS age", "id % 70 AS pay")
    sampled = frame.mapInArrow(some, frame.schema)
    options = {"quasi_identifiers": ["age", "pay"], "k": 5, "output": "release.people"}
    with pytest.raises(SourceChanged):
        anonymize_table(spark, sampled, people, **options)
    assert execute(people, "SELECT to_regclass('release.people') IS NULL") == [(True,)]


def test_no_row_is_seen_before_it_was_counted(
    spark: SparkSession, people: str, pg_role: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = pg_role("reader")
    execute(
        people,
        "CREATE SCHEMA release; GRANT USAGE ON SCHEMA release TO reader;"
        " ALTER DEFAULT PRIVILEGES IN SCHEMA release GRANT SELECT ON TABLES TO reader, PUBLIC",
    )
    seen: list[str] = []
    lock = into_postgresql.pieces.lock

    def look(session: Any, piece_names: Any) -> None:
        for piece in piece_names:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                execute(reader, f"SELECT * FROM {piece.quoted}")
            seen.append(piece.name)
        lock(session, piece_names)

    monkeypatch.setattr(into_postgresql.pieces, "lock", look)
    anonymize_table(spark, people, people, **TABLES)
    assert seen
    assert execute(reader, "SELECT count(*) FROM release.people") == [(3000,)]


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM {} WHERE ctid = (SELECT min(ctid) FROM {})",
        "INSERT INTO {} SELECT * FROM {} LIMIT 1",
        "UPDATE {} SET age = age + 1 WHERE ctid = (SELECT min(ctid) FROM {})",
    ],
)
def test_a_recount_that_fails_publishes_nothing(
    spark: SparkSession, people: str, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    earlier = dbanon.anonymize(people, **TABLES, key=["id"])
    before = execute(people, RELEASED)
    lock = into_postgresql.pieces.lock

    def damage(session: Any, piece_names: list[RelationName]) -> None:
        counts = {p: execute(people, f"SELECT count(*) FROM {p.quoted}")[0][0] for p in piece_names}
        piece = max(piece_names, key=lambda name: int(counts[name])).quoted
        execute(people, harm.format(piece, piece))
        lock(session, piece_names)

    monkeypatch.setattr(into_postgresql.pieces, "lock", damage)
    with pytest.raises(RecountFailed):
        anonymize_table(spark, people, people, **TABLES, if_exists="replace")
    assert execute(people, RELEASED) == before
    assert execute(people, OTHERS) == [("people",)]
    assert dbanon.verify(people, "release.people").release_id == earlier.release_id
    state = "SELECT state, error_code FROM dbanon.run ORDER BY finished_at DESC LIMIT 1"
    assert execute(people, state) == [("failed", "recount_failed")]


def test_dates_that_were_shifted_before(spark: SparkSession, people: str) -> None:
    execute(people, "ALTER TABLE people ADD COLUMN seen date DEFAULT '2020-01-31'")
    copied = TABLES | {"keep": ["seen"], "if_exists": "replace"}
    with pytest.warns(ShiftedDatesTell):
        dbanon.anonymize(people, **copied, shift_dates={"days": 9, "columns": ["seen"]})
    with pytest.raises(TellingColumnRefused) as refused:
        anonymize_table(spark, people, people, **copied, strict=True)
    assert 'Column "seen" is released with its own dates' in str(refused.value.detail)
    assert execute(people, OTHERS) == [("people",)]


def test_values_that_a_model_looks_at_are_counted_again(
    spark: SparkSession, people: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = {"kind": "distinct_l", "attribute": "ill", "level": 2}
    options = TABLES | {"models": [model], "if_exists": "replace"}
    report = anonymize_table(spark, people, people, **options)
    columns = "age, pay, part"
    each = f"SELECT count(DISTINCT ill) AS n FROM release.people GROUP BY {columns}"
    least = f"SELECT min(n) FROM ({each}) AS c"
    assert execute(people, least)[0][0] == report.models[0].achieved >= 2
    lock = into_postgresql.pieces.lock

    def damage(session: Any, piece_names: list[RelationName]) -> None:
        for piece in piece_names:
            execute(people, f"UPDATE {piece.quoted} SET ill = 'a'")
        lock(session, piece_names)

    monkeypatch.setattr(into_postgresql.pieces, "lock", damage)
    with pytest.raises(RecountFailed):
        anonymize_table(spark, people, people, **options)
    assert dbanon.verify(people, "release.people").release_id == report.release_id


def test_files_with_a_failed_recount_are_removed(
    spark: SparkSession, files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = ParquetTarget._require_same_counts

    def damage(self: ParquetTarget, staged: str, *arguments: Any) -> None:
        # Until now only this account could read it.
        assert stat.S_IMODE(Path(staged).stat().st_mode) == 0o700
        part = max(Path(staged).glob("*.parquet"), key=lambda path: path.stat().st_size)
        table = pq.read_table(part)
        pq.write_table(table.slice(1), part)
        part.with_name(f".{part.name}.crc").unlink()
        same(self, staged, *arguments)

    monkeypatch.setattr(ParquetTarget, "_require_same_counts", damage)
    with pytest.raises(RecountFailed):
        anonymize_table(spark, files, str(tmp_path / "released"), **ARGUMENTS, key=["id"])
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_a_piece_that_is_written_again_is_written_once(spark: SparkSession, people: str) -> None:
    """Like a task whose commit was not acknowledged, or two concurrent attempts."""
    fill = into_postgresql.fill_piece
    import pyarrow as pa

    from dbanon.run.open import open_store
    from dbanon.stores.postgresql import pieces

    [piece] = pieces.names(RelationName("public", "out"), "0" * 36, 1, 63)
    with open_store(people).session(write=True) as session:
        pieces.make(session.connection, [piece], [("a", "integer"), ("t", "text")], "0" * 36)
    rows = [{"a": 1, "t": ""}, {"a": None, "t": 'say "hi",\n\\.'}, {"a": -5, "t": None}]
    batch = pa.RecordBatch.from_pylist(rows)
    for _ in range(3):
        fill(people, piece, iter([batch]))
    expected = [(1, ""), (None, 'say "hi",\n\\.'), (-5, None)]
    assert execute(people, f"SELECT * FROM {piece.quoted}") == expected
    # A task that comes after the cleanup finds no table and creates none.
    execute(people, f"DROP TABLE {piece.quoted}")
    with pytest.raises(DbanonError):
        fill(people, piece, iter([batch]))
    assert execute(people, f"SELECT to_regclass('{piece.quoted}') IS NULL") == [(True,)]
    with open_store(people).session(write=True) as session:
        pieces.make(session.connection, [piece], [("a", "integer"), ("t", "text")], "0" * 36)
    nul = pa.RecordBatch.from_pylist([{"a": 1, "t": "\0hush-917"}])
    with pytest.raises(DbanonError, match="NUL") as caught:
        fill(people, piece, iter([nul]))
    assert "917" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"k": 1501, "block_size": 5000}, TooFewRecords),
        ({"time_limit": 5.0}, InvalidParameter),
        ({"spill": "somewhere"}, InvalidParameter),
        ({"kept_columns": "client"}, InvalidParameter),
        ({"exports": [{"path": "x.parquet"}]}, DbanonError),
        ({"output": ""}, InvalidParameter),
        ({"if_exists": "other"}, InvalidParameter),
        ({"output": "public.name", "if_exists": "replace"}, OutputNotOurs),
    ],
)
def test_refused_inputs(
    spark: SparkSession, people: str, more: dict[str, Any], error: type[DbanonError]
) -> None:
    execute(people, "CREATE TABLE name (a integer)")
    with pytest.raises(error):
        anonymize_table(spark, people, people, **(TABLES | more))
    assert execute(people, "SELECT to_regclass('release.people') IS NULL") == [(True,)]


def test_places_that_are_none(spark: SparkSession, people: str, files: str) -> None:
    for source, target in ((files, "duckdb:///x.duckdb"), ("sqlite:///x.db", files), (5, files)):
        with pytest.raises(InvalidParameter, match="PostgreSQL"):
            anonymize_table(spark, source, target, **ARGUMENTS)
    with pytest.raises(InvalidParameter, match="names a table"):
        anonymize_table(spark, files, people, **ARGUMENTS)
    with pytest.raises(InvalidParameter, match="not be atomic"):
        anonymize_table(spark, files, files + "x", **ARGUMENTS, if_exists="replace")
