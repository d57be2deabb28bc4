"""Tables of Delta and Iceberg as sources: one version, drawn with leave, without deleted rows."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import (
    ColumnNotFound,
    DatabaseFailure,
    DatabaseNotFound,
    ForeignFile,
    InvalidParameter,
    MissingDependency,
    SourceChanged,
    TableNotFound,
)
from dbanon.errors.extras import quote_requirements
from dbanon.extensions.lakes import origins as lake_origins
from dbanon.extensions.lakes.catalog import get_catalog
from dbanon.stores.shared_clients import keep_clients_open
from tests.stores.catalogs import load_catalog

TABLE = "clinic.people"
OPTIONS: dict[str, Any] = {
    "table": TABLE,
    "quasi_identifiers": ["age", "income"],
    "k": 5,
    "keep": ["ill", "id", "born"],
    "output": "release.people",
}
CLIENT_OPTIONS = {**OPTIONS, "kept_columns": "client"}
ROWS = pa.table(
    {
        "id": list(range(60)),
        "age": [20 + i % 30 for i in range(60)],
        "income": [Decimal(f"{100 * i}.25") for i in range(60)],
        "ill": ["flu", "gout", None] * 20,
        "born": [date(1950 + i, 1, 2) for i in range(60)],
        "diary": ["word"] * 60,
    }
)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"duckdb:///{tmp_path / 'released.duckdb'}"


def delta(folder: Path) -> str:
    """A table of 60 rows, which has had more; its URL."""
    folder_of_table = folder / "lake" / "people"
    folder_of_table.parent.mkdir()
    deltalake.write_deltalake(folder_of_table, ROWS)
    more = ROWS.slice(0, 7).set_column(0, "id", [list(range(100, 107))])
    deltalake.write_deltalake(folder_of_table, more, mode="append")
    deltalake.DeltaTable(folder_of_table).delete("id >= 100")
    return f"delta:{folder_of_table}"


def iceberg(folder: Path) -> str:
    """The same in a catalog of a SQLite file, as its settings name it."""
    catalog = load_catalog("here")
    catalog.create_namespace("clinic")
    table = catalog.create_table(TABLE, schema=ROWS.schema)
    table.append(ROWS)
    table.append(ROWS.slice(0, 7).set_column(0, "id", [list(range(100, 107))]))
    table.delete("id >= 100")
    return "iceberg:here"


@pytest.fixture(params=[delta, iceberg])
def lake(request: pytest.FixtureRequest, tmp_path: Path, catalog_files: Path) -> str:
    make_lake: Callable[[Path], str] = request.param
    return make_lake(tmp_path)


def test_what_stands_there_now_is_released(lake: str, target: str) -> None:
    report = dbanon.anonymize(lake, **CLIENT_OPTIONS, target=target)
    assert (report.rows_in, report.rows_out) == (60, 60)
    how = report.arguments["drawn"]["how"]
    assert "of the table, rows counted before and after" in how
    assert how.startswith("version 2" if lake.startswith("delta") else "snapshot ")
    # For columns that are not requested, only the names.
    assert set(report.not_copied) == {"diary"}
    with duckdb.connect(target.removeprefix("duckdb:///"), read_only=True) as connection:
        rows = connection.execute("SELECT id, ill, born FROM release.people ORDER BY id").fetchall()
        [(smallest,)] = connection.execute(
            "SELECT min(n) FROM (SELECT count(*) n FROM release.people GROUP BY age, income)"
        ).fetchall()
    assert rows == list(zip(*ROWS.select(["id", "ill", "born"]).to_pydict().values(), strict=True))
    assert smallest >= 5


def test_the_command(lake: str, target: str) -> None:
    command = [
        "anonymize",
        lake,
        "--table",
        TABLE,
        "--quasi-identifiers",
        "age,income",
        "--k",
        "5",
        "--output",
        "release.people",
        "--target",
        target,
    ]
    refused = CliRunner().invoke(main, command)
    assert refused.exit_code == 2
    assert "--kept-columns client" in refused.output or 'kept_columns="client"' in refused.output
    done = CliRunner().invoke(main, [*command, "--kept-columns", "client"])
    assert done.exit_code == 0, done.output
    assert "60 left their database" in done.output


def test_a_missing_table_is_reported(
    lake: str, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ColumnNotFound, match="weight"):
        dbanon.anonymize(lake, **{**CLIENT_OPTIONS, "keep": ["weight"]}, target=target)
    if lake.startswith("iceberg"):
        with pytest.raises(TableNotFound, match=r"clinic\.nobody"):
            dbanon.anonymize(lake, **{**CLIENT_OPTIONS, "table": "clinic.nobody"}, target=target)
        with pytest.raises(InvalidParameter, match="name of a catalog"):
            dbanon.anonymize("iceberg:s3://a/b", **CLIENT_OPTIONS, target=target)
        with pytest.raises(InvalidParameter, match='catalog "elsewhere"') as unknown:
            dbanon.anonymize("iceberg:elsewhere", **CLIENT_OPTIONS, target=target)
        assert "PYICEBERG_CATALOG__ELSEWHERE__URI" in str(unknown.value.hint)
        # Invalid settings raise an error of pyiceberg, of which only the class is reported.
        monkeypatch.setenv("PYICEBERG_CATALOG__ELSEWHERE__TYPE", "none-of-them")
        with pytest.raises(DatabaseFailure, match="catalog cannot be read"):
            dbanon.anonymize("iceberg:elsewhere", **CLIENT_OPTIONS, target=target)
    else:
        with pytest.raises(DatabaseNotFound, match="no Delta table"):
            dbanon.anonymize(f"delta:{tmp_path}", **CLIENT_OPTIONS, target=target)
        with pytest.raises(InvalidParameter, match="more than a bucket"):
            dbanon.anonymize("delta:s3://key:secret@bucket/people", **CLIENT_OPTIONS, target=target)
        folder = lake.removeprefix("delta:")
        with pytest.raises(InvalidParameter, match="deleted rows") as refused:
            dbanon.anonymize(f"file:{folder}", **OPTIONS, target=target)
        assert "delta:DIRECTORY" in str(refused.value.hint)


def test_a_reader_that_loses_rows_ends_the_run(
    lake: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = lake_origins.select_columns
    monkeypatch.setattr(
        lake_origins, "select_columns", lambda *args: (batch.slice(1) for batch in real(*args))
    )
    with pytest.raises(SourceChanged):
        dbanon.anonymize(lake, **CLIENT_OPTIONS, target=target)


def test_rows_are_counted_again_once_all_were_read(
    lake: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = iter([60, 61])
    real = deltalake.DeltaTable.to_pyarrow_dataset

    class RecountResult:
        def __init__(self, dataset: Any) -> None:
            self._found = dataset

        def __getattr__(self, name: str) -> Any:
            return getattr(self._found, name)

        def count_rows(self) -> int:
            return next(counts)

    monkeypatch.setattr(
        deltalake.DeltaTable,
        "to_pyarrow_dataset",
        lambda delta_table: RecountResult(real(delta_table)),
    )
    monkeypatch.setattr("pyiceberg.table.DataScan.count", lambda scan: next(counts))
    with pytest.raises(SourceChanged, match="counted 60 rows before, gave 60, and counted 61"):
        dbanon.anonymize(lake, **CLIENT_OPTIONS, target=target)


def test_without_the_package(lake: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def import_without_package(name: str, *more: Any, **named: Any) -> Any:
        if name.partition(".")[0] in ("deltalake", "pyiceberg"):
            raise ModuleNotFoundError(name=name.partition(".")[0])
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", import_without_package)
    monkeypatch.setattr("dbanon.extensions.lakes.catalog.import_module", import_without_package)
    with pytest.raises(MissingDependency, match=r"needs the package") as refused:
        dbanon.anonymize(lake, **CLIENT_OPTIONS, target=target)
    assert quote_requirements(lake.partition(":")[0]) in str(refused.value.hint)


def test_blocks_share_a_catalog_and_the_last_one_closes_it(
    lake_catalog: list[str],
) -> None:
    with keep_clients_open():
        catalog = get_catalog("here")
        with suppress(KeyError), keep_clients_open():
            assert get_catalog("here") is catalog
            raise KeyError
        thread = threading.Thread(target=keep_clients_open()(get_catalog), args=("here",))
        thread.start()
        thread.join()
        assert get_catalog("here") is catalog
        assert lake_catalog == []
    assert lake_catalog == ["closed"]
    with keep_clients_open():
        assert get_catalog("here") is not catalog
    assert lake_catalog == ["closed"] * 2
    with pytest.raises(AssertionError, match="in a block"):
        get_catalog("here")


@pytest.fixture
def lake_catalog(catalog_files: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A word for each catalog that was closed."""
    closed: list[str] = []
    real = SqlCatalog.close

    def close(self: SqlCatalog) -> None:
        real(self)
        closed.append("closed")

    monkeypatch.setattr(SqlCatalog, "close", close)
    return closed


@pytest.mark.parametrize("attack", ["absolute", "upwards", "link"])
def test_a_delta_table_lists_no_private_file(attack: str, tmp_path: Path) -> None:
    """Writers of the log can list any file, including those that only the run's account may
    read.
    """
    table, private = tmp_path / "table", tmp_path / "private"
    deltalake.write_deltalake(str(table), ROWS)
    deltalake.write_deltalake(str(private), ROWS)
    [file] = table.glob("*.parquet")
    [secret] = private.glob("*.parquet")
    [log] = (table / "_delta_log").glob("*.json")
    file.unlink()
    if attack == "link":
        file.symlink_to(secret)
    else:
        relative_path = str(secret) if attack == "absolute" else f"../private/{secret.name}"
        log.write_text(log.read_text().replace(file.name, relative_path))
    target = f"duckdb:///{tmp_path / 'a.duckdb'}"
    with pytest.raises((ForeignFile, DatabaseFailure)) as refused:
        dbanon.anonymize(f"delta:{table}", target=target, **CLIENT_OPTIONS)
    assert isinstance(refused.value, ForeignFile) or attack != "link"
    if attack == "link":
        report = dbanon.anonymize(
            f"delta:{table}", target=target, foreign_files="links", **CLIENT_OPTIONS
        )
        assert report.arguments["reading"] == {"foreign_files": "links"}
