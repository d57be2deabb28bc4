"""Exports to Iceberg under attack: refusals, crashes, other people's tables and commits."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyiceberg.utils.config import Config

import dbanon
from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    ExportPending,
    InvalidName,
    InvalidParameter,
    OutputBusy,
    OutputExists,
    RecountFailed,
)
from dbanon.extensions.lakes import commits, iceberg_table
from dbanon.job.export import Export
from dbanon.job.job import Job
from dbanon.job.policy import Policy
from dbanon.run import export as exporting
from dbanon.run.open import open_store
from dbanon.stores.exports import destinations
from dbanon.stores.sql_target import SqlTarget
from tests.stores.catalogs import load_catalog
from tests.stores.conftest import PLANTED
from tests.stores.databases import SqliteDatabase

TABLE = "clinic.people"
EXPORT = f"iceberg:here/{TABLE}"
OPTIONS: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age"],
    "k": 5,
    "keep": ["site"],
    "output": "release.people",
    "exports": [EXPORT],
}

pytestmark = pytest.mark.usefixtures("no_temporary_file")


def released(warehouse: Path, **overrides: Any) -> dbanon.Report:
    return dbanon.anonymize(f"sqlite:///{warehouse.parent}/d.sqlite", **{**OPTIONS, **overrides})


def rows(**scan_options: Any) -> pa.Table:
    return load_catalog("here").load_table(TABLE).scan(**scan_options).to_arrow()


def files(warehouse: Path, suffix: str = "") -> list[str]:
    return sorted(path.name for path in warehouse.rglob(f"*{suffix}") if path.is_file())


def files_with_kept_values(folder: Path) -> list[str]:
    """Files that hold a kept value, as plain bytes or in a column of Parquet."""
    names = []
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".sqlite":
            plain = path.read_bytes()
            if plain[:4] == b"PAR1":
                plain = str(parquet.read_table(path).to_pydict()).encode()
            if PLANTED.encode() in plain:
                names.append(path.name)
    return names


def test_a_table_is_made_by_one_commit(warehouse: Path) -> None:
    seen: list[list[str]] = []
    report = released(
        warehouse, progress=lambda phase, share: seen.append(files(warehouse, ".json"))
    )
    # The table did not exist for readers until the release was committed.
    assert not any(seen)
    released_rows = rows()
    assert released_rows.num_rows == 100
    assert set(released_rows.column_names) == {"age", "site"}
    assert (
        min(released_rows.group_by("age").aggregate([([], "count_all")])["count_all"].to_pylist())
        >= 5
    )
    [entry] = report.arguments["exports"]
    assert (entry["path"], entry["older_versions"]) == (EXPORT, 0)
    assert entry["sha256"] == destinations.sha256(destinations.resolve_destination(EXPORT, ""))
    # Limits of columns that are no quasi-identifiers are not in manifests, which catalogs copy.
    [lower_bounds] = (
        load_catalog("here").load_table(TABLE).inspect.files()["lower_bounds"].to_pylist()
    )
    assert len(lower_bounds) == 1
    assert files_with_kept_values(warehouse) == files(warehouse, ".parquet")


def test_a_later_release_replaces_all_rows(warehouse: Path) -> None:
    first = released(warehouse)
    with pytest.raises(OutputExists):
        released(warehouse, output="release.other")
    report = released(warehouse, if_exists="replace", keep=["id"])
    released_rows = rows()
    assert (released_rows.num_rows, set(released_rows.column_names)) == (100, {"age", "id"})
    table = load_catalog("here").load_table(TABLE)
    assert [snapshot.summary.operation.value for snapshot in table.snapshots()] == [
        "append",
        "overwrite",
    ]
    # The older one is readable, and the report says so.
    before = table.snapshots()[0].snapshot_id
    assert rows(snapshot_id=before)["site"].to_pylist()[0].startswith(PLANTED)
    assert "older versions readable until their files are deleted: 1" in str(report)
    assert first.release_id != report.release_id
    # The same release again; no column changes.
    released(warehouse, if_exists="replace", keep=["id"])
    assert rows().num_rows == 100
    table = load_catalog("here").load_table(TABLE)
    table.maintenance.expire_snapshots().by_id(before).commit()
    assert released(warehouse, if_exists="replace").arguments["exports"][0]["older_versions"] == 2


def test_a_refused_release_leaves_no_byte(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **more: Any) -> None:
        raise RecountFailed("no")

    with monkeypatch.context() as patch:
        patch.setattr(exporting, "_require_same_counts", refuse)
        with pytest.raises(RecountFailed):
            released(warehouse)
    with pytest.raises(DbanonError):
        released(warehouse, k=101)
    assert files(warehouse) == []
    # After the upload, too.
    with monkeypatch.context() as patch:
        patch.setattr(iceberg_table.TableFile, "put", _half(iceberg_table.TableFile.put))
        with pytest.raises(DatabaseFailure):
            released(warehouse)
    assert files(warehouse) == []
    assert files_with_kept_values(warehouse.parent) == []
    # The database rejects the upload.
    with monkeypatch.context() as patch:
        patch.setattr(SqlTarget, "publish", refuse)
        with pytest.raises(RecountFailed):
            released(warehouse)
    assert files(warehouse) == []
    assert files_with_kept_values(warehouse.parent) == []


def test_a_refused_release_leaves_an_older_one_as_it_was(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that lacks a row fails its own count, and no byte of it reaches the store."""
    released(warehouse, keep=[])
    before = files(warehouse)
    assert files_with_kept_values(warehouse) == []
    real = exporting.regroup_batches

    def fewer(*args: Any) -> Any:
        for batch in real(*args):
            yield batch.slice(1)

    uploads: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(exporting, "regroup_batches", fewer)
        patch.setattr(iceberg_table.TableFile, "put", lambda *args: uploads.append(args))
        with pytest.raises(RecountFailed, match="class sizes"):
            released(warehouse, if_exists="replace")
    assert (files(warehouse), files_with_kept_values(warehouse.parent), uploads) == (before, [], [])
    # The search finds the value where it is.
    released(warehouse, if_exists="replace")
    assert len(files_with_kept_values(warehouse)) == 1


@pytest.mark.parametrize("how", ["dropped", "expired"])
def test_what_was_taken_away_stays_away(warehouse: Path, how: str) -> None:
    """The file is on the store still, and the ledger has it: it is not shown a second time."""
    released(warehouse)
    if how == "dropped":
        load_catalog("here").drop_table(TABLE)
    else:
        first = load_catalog("here").load_table(TABLE).current_snapshot().snapshot_id
        released(warehouse, if_exists="replace", keep=[])
        table = load_catalog("here").load_table(TABLE)
        table.maintenance.expire_snapshots().by_id(first).commit()
    assert len(files_with_kept_values(warehouse)) == 1
    # One that is refused, after which nothing else is shown.
    with pytest.raises(DbanonError):
        released(warehouse, k=101, if_exists="replace")
    if how == "dropped":
        assert not load_catalog("here").table_exists(TABLE)
    else:
        assert rows().column_names == ["age"]


def _half(real: Callable[..., None]) -> Callable[..., None]:
    def fail(self: Any, file: Any, size: int) -> None:
        real(self, file, size)
        raise OSError(5, "a store that fails once all is there")

    return fail


def test_tables_of_others_stay(warehouse: Path) -> None:
    catalog = load_catalog("here")
    catalog.create_namespace("clinic")
    theirs = pa.table({"age": [1, 2], "site": ["a", "b"]})
    table = catalog.create_table(TABLE, schema=theirs.schema)
    # Without rows, with some, and a release to which someone added rows.
    for _ in range(2):
        for act in ("error", "replace"):
            with pytest.raises(OutputExists):
                released(warehouse, if_exists=act)
        table.append(theirs)
    assert rows().num_rows == 4
    catalog.drop_table(TABLE)
    released(warehouse)
    load_catalog("here").load_table(TABLE).append(
        pa.table(
            {
                "age": pa.array([1.0], pa.float64()).cast(rows().schema.field("age").type),
                "site": ["theirs"],
            }
        )
    )
    with pytest.raises(OutputExists, match="not a table that dbanon made"):
        released(warehouse, if_exists="replace")
    assert rows().num_rows == 101


def _other_commit(**more: str) -> None:
    with load_catalog("here").load_table(TABLE).transaction() as change:
        change.set_properties(**(more or {"owner": "other"}))


def test_another_commit_meanwhile(warehouse: Path) -> None:
    released(warehouse)
    before = files(warehouse, ".parquet")
    seen: list[str] = []

    def progress(phase: str, share: float) -> None:
        if phase == "verify" and not seen:
            seen.append(phase)
            _other_commit()

    with pytest.raises(OutputBusy, match="Another commit"):
        released(warehouse, if_exists="replace", progress=progress)
    assert files(warehouse, ".parquet") == before
    database = SqliteDatabase(warehouse.parent / "d.sqlite")
    assert database.rows(f"SELECT count(*) FROM {database.ledger()}") == [(1,)]
    assert released(warehouse, if_exists="replace").rows_out == 100


def test_another_commit_at_the_last_moment(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between look and swap: neither tried again on top of it, nor mixed with it."""
    first = released(warehouse)
    real = commits._change_columns

    def other(change: Any, schema: Any) -> None:
        real(change, schema)
        _append()

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_change_columns", other)
        with pytest.warns(ExportPending, match="Another commit"):
            second = released(warehouse, if_exists="replace")
    assert first.release_id != second.release_id
    assert rows().num_rows == 101
    # It stays so until its owner decides.
    with pytest.warns(ExportPending), pytest.raises(OutputExists):
        released(warehouse, if_exists="replace")
    load_catalog("here").drop_table(TABLE)
    released(warehouse, if_exists="replace")
    assert rows().num_rows == 100


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("table_exists", [False, True])
def test_killed_between_upload_and_commit(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, committed: bool, table_exists: bool
) -> None:
    if table_exists:
        released(warehouse)
    before = files(warehouse, ".parquet")
    child = os.fork()
    if child == 0:
        # A child that returned into pytest, by an error too, would run all later tests again.
        try:

            def die(*args: Any, **more: Any) -> Any:
                os._exit(9)

            owner, name = (
                (iceberg_table.IcebergTable, "commit")
                if committed
                else (iceberg_table.TableFile, "put")
            )
            if not committed:
                real = iceberg_table.TableFile.put
                monkeypatch.setattr(owner, name, lambda *args: (real(*args), die()))
            else:
                monkeypatch.setattr(owner, name, die)
            released(warehouse, if_exists="replace")
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    # Of released values alone, and no reader is led to it.
    [left] = sorted(set(files(warehouse, ".parquet")) - set(before))
    [path] = warehouse.rglob(left)
    assert (
        min(
            parquet.read_table(path)
            .group_by("age")
            .aggregate([([], "count_all")])["count_all"]
            .to_pylist()
        )
        >= 5
    )
    job = Job(
        table="people",
        output="release.people",
        quasi_identifiers=("age",),
        policy=Policy(k=5),
        exports=(Export(EXPORT),),
        if_exists="replace",
    )
    exporter = exporting.Exporter(job, open_store(f"sqlite:///{warehouse.parent}/d.sqlite"))
    exporter.finish_earlier_runs()
    data_files = load_catalog("here").table_exists(TABLE) and [
        task.file.file_path for task in load_catalog("here").load_table(TABLE).scan().plan_files()
    ]
    if committed:
        assert [file.rpartition("/")[2] for file in data_files or []] == [left]
    else:
        # It is unknown whether its run has ended, so it is removed after a day.
        assert left in files(warehouse)
        monkeypatch.setattr(iceberg_table.TableFile, "age", lambda self, now: 90_000.0)
        exporter.finish_earlier_runs()
        assert files(warehouse, ".parquet") == before
    assert released(warehouse, if_exists="replace").rows_out == 100
    assert rows().num_rows == 100


@pytest.mark.parametrize(
    "path",
    [
        "iceberg:",
        "iceberg:here",
        "iceberg:here/people",
        "iceberg:here/../a.b",
        "iceberg:key:secret@here/a.b",
        "iceberg:here/a.b/c",
        'iceberg:here/"a.b".c',
        "iceberg:here/clinic.{release}",
        'iceberg:here/clinic."a?b"',
        'iceberg:here/"a#b".people',
        'iceberg:here/clinic."a\nb"',
    ],
)
def test_names_that_lead_elsewhere(warehouse: Path, path: str) -> None:
    with pytest.raises((InvalidParameter, InvalidName)) as raised:
        released(warehouse, exports=[path])
    assert "secret" not in str(raised.value)
    assert files(warehouse) == []


def test_odd_names(warehouse: Path) -> None:
    path = 'iceberg:here/"cli nic"."pe\'o""ple ü%20"'
    for _ in range(2):
        report = released(warehouse, exports=[path], if_exists="replace")
    assert report.arguments["exports"][0]["older_versions"] == 1
    with pytest.raises(InvalidParameter, match="Parquet"):
        released(warehouse, exports=[{"path": EXPORT, "format": "csv"}])


def test_credentials_are_never_told(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYICEBERG_CATALOG__HERE__URI", "postgresql+psycopg://anna:secret-word@127.0.0.1:1/none"
    )
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    with pytest.raises(DbanonError) as raised:
        released(warehouse)
    assert "secret-word" not in f"{raised.value} {raised.value.detail} {raised.value.hint}"
    assert raised.value.exit_code == 4


def test_a_file_of_rows_into_a_lake(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No database: the table alone lasts."""
    source = warehouse.parent / "people.csv"
    source.write_text("age,site\n" + "".join(f"{20 + i % 30},s{i % 3}\n" for i in range(100)))
    for _ in range(2):
        options = {**OPTIONS, "if_exists": "replace"}
        assert dbanon.anonymize(f"file:{source}", **options).rows_out == 100
    assert rows().num_rows == 100
    assert dbanon.plan(f"file:{source}", **options).rows == 100
    with monkeypatch.context() as patch:
        patch.setattr(commits, "_change_columns", lambda *args: _append())
        with pytest.raises(OutputBusy):
            dbanon.anonymize(f"file:{source}", **options)
    n_files = load_catalog("here").load_table(TABLE).inspect.all_files().num_rows
    assert len(files(warehouse, ".parquet")) == n_files


def _append() -> None:
    load_catalog("here").load_table(TABLE).append(rows().slice(0, 1))
