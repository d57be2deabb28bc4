"""Folders, patterns and Hive's folders as sources; what does not belong together is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import dbanon
from dbanon.errors import DatabaseNotFound, DbanonError, FileMalformed, InvalidParameter
from dbanon.run.open import open_store

ROWS = "SELECT i AS id, i % 40 AS age, 'x' || (i % 3) AS site FROM range({}) AS t(i)"


def put(path: Path, query: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = "csv, header" if path.suffix == ".csv" else "parquet"
    quoted = str(path).replace("'", "''")
    with duckdb.connect() as connection:
        connection.execute(f"COPY ({query}) TO '{quoted}' (FORMAT {kind})")
    return path


def read(url: Any, query: str = "SELECT * FROM t") -> list[tuple[Any, ...]]:
    with open_store(f"file:{url}", table="t").session(write=False) as session:
        return session.rows(query)


def refused(url: Any) -> DbanonError:
    with pytest.raises(DbanonError) as raised:
        read(url)
    return raised.value


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_folder_is_one_table_in_the_order_of_its_names(tmp_path: Path, kind: str) -> None:
    for name, rows in (
        ("b/2", "VALUES (3, 'c')"),
        ("a", "VALUES (1, 'a')"),
        ("b/1", "VALUES (2, 'b')"),
    ):
        put(tmp_path / f"in/{name}.{kind}", f"FROM ({rows}) AS t(x, y)")
    for hidden in ("_SUCCESS", ".crc", "_temporary/z.csv", ".hidden/z.parquet"):
        hidden_file = tmp_path / "in" / hidden
        hidden_file.parent.mkdir(exist_ok=True)
        hidden_file.write_text("no rows")
    expected = [(1, "a"), (2, "b"), (3, "c")]
    assert read(tmp_path / "in") == read(f"{tmp_path}/in/**/*.{kind}") == expected
    assert read(f"{tmp_path}/in/b/?.{kind}") == expected[1:]
    # A file of just this name is meant before a pattern.
    put(tmp_path / f"in/[1].{kind}", "FROM (VALUES (9, 'z')) AS t(x, y)")
    assert read(tmp_path / f"in/[1].{kind}") == [(9, "z")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_folders_of_hive_are_columns(tmp_path: Path, kind: str) -> None:
    for name in (
        "year=2024/ward=01/a",
        "year=2025/ward=a%2Fb/a",
        "year=__HIVE_DEFAULT_PARTITION__/ward='/a",
    ):
        put(tmp_path / f"in/{name}.{kind}", "SELECT 7 AS x")
    rows = read(tmp_path / "in", "SELECT x, year, ward, typeof(year) FROM t ORDER BY 2")
    assert rows == [
        (7, 2024, "01", "BIGINT"),
        (7, 2025, "a/b", "BIGINT"),
        (7, None, "'", "BIGINT"),
    ]
    # They have no meaning for a single folder; the root of a pattern is its fixed part.
    assert read(tmp_path / "in/year=2024/ward=01") == [(7,)]
    assert read(f"{tmp_path}/in/year=2024/*/*", "SELECT * FROM t") == [(7, "01")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_files_that_do_not_belong_together(tmp_path: Path, kind: str) -> None:
    first = put(tmp_path / f"in/a.{kind}", "SELECT 1 AS x, 'p' AS y")
    other = tmp_path / f"in/b.{kind}"
    put(other, "SELECT 1 AS x")
    error = refused(tmp_path / "in")
    assert isinstance(error, FileMalformed)
    assert error.message == f'The file {other} has no column "y", which {first} has.'
    put(other, "SELECT 1 AS x, 'p' AS y, 2 AS z")
    assert refused(tmp_path / "in").message.startswith(f'The file {other} has a column "z"')
    put(other, "SELECT 'p' AS y, 1 AS x")
    assert read(tmp_path / "in") == [(1, "p"), (1, "p")]
    put(tmp_path / f"in/y=2/b.{kind}", "SELECT 1 AS x, 'p' AS y")
    assert 'do not both name column "y"' in refused(tmp_path / "in").message
    put(tmp_path / f"hive/y=2/b.{kind}", "SELECT 1 AS x, 'p' AS Y")
    assert 'Column "y" is in the file' in refused(tmp_path / "hive").message
    (tmp_path / "in/notes.txt").write_text("")
    assert (
        "notes.txt is among the files to read, but is not a .csv, .tsv, .xlsx or .parquet file"
        in refused(tmp_path / "in").message
    )


def test_types_differ_by_file_and_column(tmp_path: Path) -> None:
    put(tmp_path / "in/a.parquet", "SELECT 4711 AS x")
    put(tmp_path / "in/b.parquet", "SELECT 'secret' AS x")
    error = refused(tmp_path / "in")
    assert error.message.startswith(f'Column "x" is VARCHAR in the file {tmp_path}/in/b.parquet')
    assert "secret" not in str(error)
    assert "4711" not in str(error)
    # For CSV, the type of a column is determined from all files.
    put(tmp_path / "csv/a.csv", "SELECT 4711 AS x")
    put(tmp_path / "csv/b.csv", "SELECT 'p' AS x")
    assert read(tmp_path / "csv") == [("4711",), ("p",)]
    with (tmp_path / "csv/b.csv").open("a") as file:
        file.write("a,b\n")
    assert refused(tmp_path / "csv").message.startswith(f"Line 3 of the file {tmp_path}/csv/b.csv")


def test_a_header_in_the_middle_is_found_in_its_file(tmp_path: Path) -> None:
    for name, text in (("a", "x,y\n1,2\n"), ("b", "x,y\n1,2\nx,y\n")):
        (tmp_path / f"{name}.csv").write_text(text)
    assert refused(tmp_path).message.startswith(
        f"Line 3 of the file {tmp_path}/b.csv repeats its header"
    )


def test_nothing_and_too_much(tmp_path: Path) -> None:
    assert isinstance(refused(tmp_path / "*.csv"), DatabaseNotFound)
    assert isinstance(refused(tmp_path), DatabaseNotFound)
    put(tmp_path / "in/a.csv", "SELECT 1 AS x")
    put(tmp_path / "in/b.parquet", "SELECT 1 AS x")
    assert "holds CSV files and Parquet files" in refused(tmp_path / "in").message
    with pytest.raises(InvalidParameter, match="CSV"):
        dbanon.plan(
            f"file:{tmp_path}/in/*.parquet",
            table="t",
            quasi_identifiers=["x"],
            k=2,
            output="o",
            dates="dmy",
        )


@pytest.mark.parametrize(
    ("log", "lake"), [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg")]
)
def test_files_of_lakes_hold_deleted_rows(tmp_path: Path, log: str, lake: str) -> None:
    put(tmp_path / "in/data/a.parquet", "SELECT 1 AS x")
    (tmp_path / "in" / log).parent.mkdir()
    (tmp_path / "in" / log).write_text("{}")
    for url in (tmp_path / "in/*/*.parquet", tmp_path / "in/data"):
        assert f"is a table of {lake}" in refused(url).message


def test_a_file_that_changes_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "in/a.parquet", "SELECT 1 AS x")
    from dbanon.stores.duckdb import file_source

    class Slow(file_source.FileRows):
        def load(self, *args: Any) -> Any:
            put(tmp_path / "in/b.parquet", "SELECT 2 AS x")
            return super().load(*args)

    monkeypatch.setattr(file_source, "FileRows", Slow)
    assert refused(tmp_path / "in").code == "source_changed"


def test_a_folder_is_released_into_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "in/year=2024/a.parquet", ROWS.format(100))
    put(tmp_path / "in/year=2025/a.parquet", ROWS.format(60))
    report = dbanon.anonymize(
        f"file:{tmp_path}/in/",
        table="people",
        quasi_identifiers=["age", "year"],
        k=5,
        keep=["site"],
        output="made",
        exports=[tmp_path / "out/people.parquet"],
    )
    assert report.rows_out == 160
    assert len(read(tmp_path / "out")) == 160
    with open_store(f"file:{tmp_path}/in").job_lock("people"):
        assert [path.name for path in tmp_path.glob(".in.*")] == [".in.people.lock"]


def test_a_relative_folder_of_a_lake_is_refused_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table may be the working directory, or lie above it."""
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("{}")
    folder = tmp_path / "year=2025"
    folder.mkdir()
    (folder / "people.csv").write_text("age\n" + "30\n" * 9)
    for directory, source in ((tmp_path, "file:year=2025/"), (folder, "file:./")):
        monkeypatch.chdir(directory)
        with pytest.raises(InvalidParameter, match="deleted rows"):
            dbanon.plan(
                source,
                table="people",
                quasi_identifiers=["age"],
                k=3,
                output="released",
                target=f"duckdb:///{tmp_path / 'released.duckdb'}",
            )
