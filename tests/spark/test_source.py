"""Reading on a cluster: each row once, from one state, whatever happens to the source."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import make_url

from dbanon.data.option import build_options
from dbanon.errors import (
    ColumnNotFound,
    ConnectionLost,
    DbanonError,
    ForeignFile,
    InvalidParameter,
    NonFiniteValue,
    SourceChanged,
    TableNotFound,
    UnsupportedType,
)
from dbanon.extensions.spark import source
from dbanon.extensions.spark.tasks import translate_spark_errors
from dbanon.job.job import Job
from tests.spark.statements import execute

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECRET = "hush-917263"
FOUR = [(1, "i1"), (2, "i2"), (3, "i3"), (4, "i4")]
Rows = Callable[[Any], list[tuple[Any, ...]]]


def job(**more: Any) -> Job:
    options = {"table": "people", "output": "released", "quasi_identifiers": ["age"], "k": 5}
    return build_options(Job, options | more)


def everything(frame: Any, rows_of: Rows) -> list[tuple[Any, ...]]:
    with translate_spark_errors("reading rows"):
        return rows_of(frame)


@pytest.fixture
def people(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of 3,000 rows on some forty pages, read in pieces of five."""
    monkeypatch.setattr("dbanon.stores.postgresql.pieces.MIN_PAGES", 5)
    execute(
        pg_url,
        "CREATE TABLE people AS SELECT i AS id, 18 + i % 70 AS age, repeat('x', 80) AS filler"
        " FROM generate_series(1, 3000) AS i; ALTER TABLE people ADD PRIMARY KEY (id)",
    )
    return pg_url


def test_every_type_arrives_unchanged(spark: SparkSession, pg_url: str, rows_of: Rows) -> None:
    execute(
        pg_url,
        """SET timezone = 'Asia/Tokyo'; SET datestyle = 'German';
        CREATE TYPE size AS ENUM ('big', 'small');
        CREATE TABLE people (age integer, tiny smallint, wide bigint, x real, y double precision,
            money numeric(12, 2), open numeric, day date, at timestamp, moment timestamptz,
            yes boolean, word text, kind size, short char(3));
        INSERT INTO people VALUES
            (1, -7, 9223372036854775807, 0.1, 0.1, -12.50, 1.125, '2020-02-29',
             '1999-12-31 23:59:59.123456', '2020-01-01 00:00+00', true, '', 'big', 'a'),
            (2, NULL, -9223372036854775808, 'NaN', '-Infinity', NULL, 3, NULL, NULL, NULL,
             false, E'a "quoted",\nline\\\\.', 'small', NULL),
            (3, 1, 0, NULL, 5e-324, 0, NULL, '0001-01-01', NULL, '1900-01-01 00:00+00', NULL,
             NULL, NULL, 'abc')""",
    )
    keep = [
        "tiny",
        "wide",
        "x",
        "y",
        "money",
        "open",
        "day",
        "at",
        "moment",
        "yes",
        "word",
        "kind",
        "short",
    ]
    with source.pin_postgresql(spark, make_url(pg_url), job(keep=keep), 4) as pinned:
        # As numbers: Python with a local time zone converts dates before 1900 differently.
        frame = pinned.frame.selectExpr(
            "* except (moment)", "unix_micros(moment) AS moment"
        ).orderBy("age")
        first, second, third = everything(frame, lambda rows: rows.collect())
        assert pinned.count_rows() == 3
        assert pinned.key == ()
    utc = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
    assert tuple(first) == (
        1,
        -7,
        2**63 - 1,
        pytest.approx(0.1),
        0.1,
        Decimal("-12.50"),
        Decimal("1.125"),
        datetime.date(2020, 2, 29),
        datetime.datetime(1999, 12, 31, 23, 59, 59, 123456),
        True,
        "",
        "big",
        "a",
        int(utc.timestamp() * 1e6),
    )
    assert second["wide"] == -(2**63)
    assert second["y"] == float("-inf")
    assert second["x"] != second["x"]
    assert second["word"] == 'a "quoted",\nline\\.'
    assert [second[name] for name in ("tiny", "money", "day", "at", "moment", "short")] == [
        None
    ] * 6
    assert third["y"] == 5e-324
    assert third["day"] == datetime.date(1, 1, 1)
    assert third["yes"] is third["word"] is third["kind"] is third["x"] is None


def test_each_row_is_read_once_by_many_tasks(
    spark: SparkSession, people: str, rows_of: Rows
) -> None:
    with source.pin_postgresql(spark, make_url(people), job(), 4) as pinned:
        assert pinned.frame.rdd.getNumPartitions() == 4
        assert pinned.key == ("id",)
        expected = [(i, 18 + i % 70) for i in range(1, 3001)]
        assert sorted(everything(pinned.frame, rows_of)) == expected


@pytest.mark.parametrize("tasks", [1, 8])
def test_a_concurrent_writer_does_not_affect_the_snapshot(
    spark: SparkSession, people: str, rows_of: Rows, tasks: int
) -> None:
    with source.pin_postgresql(spark, make_url(people), job(), tasks) as pinned:
        before = everything(pinned.frame, rows_of)
        for turn in range(3):
            execute(
                people,
                f"UPDATE people SET age = age + 1000 WHERE id % 3 = {turn};"
                f" DELETE FROM people WHERE id % 50 = {turn};"
                f" INSERT INTO people SELECT {10_000 * (turn + 1)} + i, 7, 'new'"
                " FROM generate_series(1, 500) AS i",
            )
            assert everything(pinned.frame, rows_of) == before
        assert pinned.count_rows() == len(before) == 3000
        pinned.require_unchanged()


def test_a_lost_snapshot_holder_fails_the_run(
    spark: SparkSession, people: str, rows_of: Rows
) -> None:
    with (  # noqa: PT012
        pytest.raises(ConnectionLost),
        source.pin_postgresql(spark, make_url(people), job(), 4) as pinned,
    ):
        everything(pinned.frame, rows_of)
        execute(
            people,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND datname = current_database()",
        )
        with pytest.raises(SourceChanged, match="snapshot"):
            everything(pinned.frame, rows_of)
        pinned.require_unchanged()


def test_a_condition_and_a_view_choose_rows(
    spark: SparkSession, people: str, rows_of: Rows
) -> None:
    filtered_job = job(where="id % 2 = 0 OR id = 1")
    with source.pin_postgresql(spark, make_url(people), filtered_job, 4) as pinned:
        rows = everything(pinned.frame, rows_of)
        assert pinned.frame.rdd.getNumPartitions() == 4
        assert pinned.count_rows() == len(rows) == 1501
    execute(people, "CREATE VIEW first AS SELECT * FROM people WHERE id <= 100")
    with source.pin_postgresql(
        spark, make_url(people), job(table="first", key=["id"]), 4
    ) as pinned:
        assert pinned.frame.rdd.getNumPartitions() == 1
        assert len(everything(pinned.frame, rows_of)) == 100


def test_what_cannot_be_read_is_refused_before(spark: SparkSession, people: str) -> None:
    execute(people, "ALTER TABLE people ADD COLUMN place point")
    for changed, error in (
        ({"table": "nobody"}, TableNotFound),
        ({"quasi_identifiers": ["agee"]}, ColumnNotFound),
        ({"keep": ["place"]}, UnsupportedType),
        ({"where": "nonsense >"}, InvalidParameter),
    ):
        with (
            pytest.raises(error),
            source.pin_postgresql(spark, make_url(people), job(**changed), 2),
        ):
            pass


def test_a_value_unsupported_by_spark_is_reported_without_it(
    spark: SparkSession, people: str, rows_of: Rows
) -> None:
    execute(
        people,
        "ALTER TABLE people ADD COLUMN born date; UPDATE people SET born = 'infinity' WHERE id = 9",
    )
    with (
        pytest.raises(NonFiniteValue) as caught,
        source.pin_postgresql(spark, make_url(people), job(keep=["born"]), 2) as pinned,
    ):
        everything(pinned.frame, rows_of)
    # Nor in the cause, which a traceback shows, too.
    assert "infinity" not in f"{caught.value}"
    assert caught.value.__suppress_context__


def test_a_workers_error_contains_no_value(spark: SparkSession) -> None:
    def fails(batches: Any) -> Any:
        from dbanon.extensions.spark.tasks import hide_values_in_errors

        for _ in batches:
            with hide_values_in_errors("Block 3"):
                raise ValueError(f"bad value {SECRET}")
            yield pa.RecordBatch.from_pylist([{"id": 1}])

    with pytest.raises(DbanonError) as caught, translate_spark_errors("running a test"):
        spark.range(2).mapInArrow(fails, "id long").collect()
    assert caught.value.message == "Block 3 failed on a worker; nothing was published."
    assert caught.value.detail == "ValueError"
    assert SECRET not in f"{caught.value} {caught.value.to_dict()}"


def write(path: Path, ages: list[int]) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"age": ages, "id": [f"i{age}" for age in ages]}), path)


def test_only_files_of_the_snapshot_are_read(
    spark: SparkSession, tmp_path: Path, rows_of: Rows
) -> None:
    folder = tmp_path / "people"
    write(folder / "b.parquet", [3, 4])
    write(folder / "a.parquet", [1, 2])
    write(folder / "_temporary" / "c.parquet", [5])
    write(folder / ".d.parquet", [6])
    (folder / "readme.txt").write_text("no rows")
    pinned = source.pin_parquet(spark, str(folder), job())
    assert everything(pinned.frame, rows_of) == FOUR
    write(folder / "e.parquet", [7])
    assert everything(pinned.frame, rows_of) == FOUR
    pinned.require_unchanged()
    write(folder / "a.parquet", [1, 2, 8])
    with pytest.raises(SourceChanged):
        pinned.require_unchanged()
    (folder / "a.parquet").unlink()
    with pytest.raises(SourceChanged):
        pinned.require_unchanged()


def test_columns_in_names_of_directories_are_columns(
    spark: SparkSession, tmp_path: Path, rows_of: Rows
) -> None:
    for part in ("n", "s"):
        (tmp_path / "people" / f"part={part}").mkdir(parents=True)
        write(tmp_path / "people" / f"part={part}" / "x.parquet", [1])
    pinned = source.pin_parquet(spark, str(tmp_path / "people"), job(by=["part"], key=["id"]))
    assert everything(pinned.frame, rows_of) == [(1, "i1", "n"), (1, "i1", "s")]
    assert pinned.key == ("id",)


def test_files_that_are_none(spark: SparkSession, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(TableNotFound):
            source.pin_parquet(spark, str(folder), job())
    write(tmp_path / "people" / "a.parquet", [1])
    folder = str(tmp_path / "people")
    with pytest.raises(ColumnNotFound):
        source.pin_parquet(spark, folder, job(keep=["idd"]))
    with pytest.raises(InvalidParameter):
        source.pin_parquet(spark, folder, job(where="age > 1"))
    pq.write_table(pa.table({"age": [1], "l": [[1]]}), tmp_path / "people" / "a.parquet")
    with pytest.raises(UnsupportedType):
        source.pin_parquet(spark, folder, job(keep=["l"]))


def test_links_in_a_directory_are_not_followed(
    spark: SparkSession, tmp_path: Path, rows_of: Rows
) -> None:
    """Anyone who may write there could have a private file of the driver's account released."""
    folder = tmp_path / "people"
    write(folder / "a.parquet", [1, 2])
    write(tmp_path / "private" / "p.parquet", [3, 4])
    pinned = source.pin_parquet(spark, str(folder), job())
    (folder / "b.parquet").symlink_to(tmp_path / "private" / "p.parquet")
    with pytest.raises(ForeignFile):
        source.pin_parquet(spark, str(folder), job())
    with pytest.raises(ForeignFile):
        pinned.require_unchanged()
    followed = source.pin_parquet(spark, str(folder), job(foreign_files="links"))
    assert everything(followed.frame, rows_of) == FOUR
    (folder / "b.parquet").unlink()
    (folder / "part=b").symlink_to(tmp_path / "private")
    with pytest.raises(ForeignFile):
        source.pin_parquet(spark, str(folder), job())
