"""The outcome of Iceberg commits when answers are lost or runs overtake each other."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

import dbanon
from dbanon.errors import (
    CommitConfirmed,
    DbanonError,
    ExportPending,
    InvalidParameter,
    OutcomeUnknown,
)
from dbanon.extensions.lakes import iceberg_table
from dbanon.run import export as exporting
from dbanon.stores import objects
from dbanon.stores.exports import destinations, formats
from tests.stores.catalogs import load_catalog
from tests.stores.conftest import PLANTED
from tests.stores.databases import DuckdbDatabase
from tests.stores.test_lake_exports import EXPORT, OPTIONS, TABLE, files, released, rows

pytestmark = pytest.mark.usefixtures("no_temporary_file")

REPLACED: dict[str, Any] = {"if_exists": "replace"}


def release_of(path: Path | str = EXPORT) -> str:
    """The release that has a place."""
    return formats.metadata_of(destinations.resolve_destination(str(path), ""))["release_id"]


def require_whole(warehouse: Path) -> None:
    """Each snapshot is readable, no file has two, and no file is beside them."""
    table = load_catalog("here").load_table(TABLE)
    added = []
    for snapshot in table.snapshots():
        assert rows(snapshot_id=snapshot.snapshot_id).num_rows == 100
        entries = table.inspect.entries(snapshot.snapshot_id).to_pylist()
        added += [
            entry["data_file"]["file_path"].rpartition("/")[2]
            for entry in entries
            if entry["status"] == 1
        ]
    assert sorted(added) == files(warehouse, ".parquet")
    assert files(warehouse, ".pending") == []


def patch_commit(patch: pytest.MonkeyPatch, how: str, late: list[Callable[[], Any]]) -> None:
    """A catalog that does not say what became of a commit."""
    real = SqlCatalog.commit_table

    def commit(catalog: SqlCatalog, *args: Any, **more: Any) -> Any:
        def commit_and_close() -> Any:
            with catalog:
                return real(catalog, *args, **more)

        late.append(commit_and_close)
        if how != "late":
            published = late.pop()()
        if how == "signal":
            os.kill(os.getpid(), signal.SIGINT)
            return published
        if how == "silent":
            patch.setattr(SqlCatalog, "load_table", commit)
        raise CommitStateUnknownException("nobody knows")

    patch.setattr(SqlCatalog, "commit_table", commit)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("is_persistent", [False, True])
@pytest.mark.parametrize("how", ["lost", "signal", "silent", "late"])
def test_an_answer_that_is_lost_takes_no_file_from_a_table(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, how: str, is_persistent: bool
) -> None:
    if is_persistent:
        url = f"sqlite:///{warehouse.parent}/d.sqlite"
    else:
        source = warehouse.parent / "people.csv"
        source.write_text("age,site\n" + "".join(f"{20 + i % 30},s{i % 3}\n" for i in range(100)))
        url = f"file:{source}"
    late: list[Callable[[], Any]] = []
    with monkeypatch.context() as patch:
        patch_commit(patch, how, late)
        if how == "lost":
            dbanon.anonymize(url, **OPTIONS)
        elif how == "signal":
            with pytest.warns(CommitConfirmed):
                dbanon.anonymize(url, **OPTIONS)
        elif is_persistent:
            with pytest.warns(ExportPending, match="was not confirmed"):
                dbanon.anonymize(url, **OPTIONS)
        else:
            with pytest.raises(OutcomeUnknown, match="unknown whether") as raised:
                dbanon.anonymize(url, **OPTIONS)
            assert raised.value.exit_code == 10
            assert "nobody" not in f"{raised.value} {raised.value.detail}"
    # The catalog may do at any later time what it was asked for.
    for commit_late in late:
        commit_late()
    assert rows().num_rows == 100
    dbanon.anonymize(url, **OPTIONS, **REPLACED)
    require_whole(warehouse)


@pytest.mark.parametrize(
    ("kind", "moment"),
    # Disks and object stores have no way to ask and put in one.
    [
        ("table", "before"),
        ("table", "between"),
        ("table", "left"),
        ("disk", "before"),
        ("disk", "left"),
        ("objects", "before"),
        ("objects", "left"),
    ],
)
def test_an_older_release_never_follows_a_newer_one(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    """One that stalls after COMMIT, until another has its place, or is left behind there."""
    monkeypatch.setitem(objects.SCHEMES, "memory", "fsspec")
    folder = {"table": "", "disk": str(warehouse), "objects": f"memory://older/{moment}"}[kind]
    export = f"{folder}/people.parquet" if folder else EXPORT
    options = {**REPLACED, "exports": [export]}
    released(warehouse, **options)
    newer: list[str] = []
    owner, name = (
        (destinations, "move_to_destination")
        if moment == "between"
        else (exporting.Exporter, "finish")
    )
    real = getattr(owner, name)

    def stalled(*all_: Any, **more: Any) -> None:
        monkeypatch.setattr(owner, name, real)
        with monkeypatch.context() as patch:
            if moment != "before":
                patch.setattr(destinations, "leftover_files", lambda *args: iter(()))
            if moment == "left":
                all_[0].leave_pending()
            newer.append(released(warehouse, **options, k=7).release_id)
        real(*all_, **more)

    monkeypatch.setattr(owner, name, stalled)
    if moment == "between":
        with pytest.warns(ExportPending, match="Another commit"):
            released(warehouse, **options)
    else:
        released(warehouse, **options)
    # Only leftover files are considered: this run is refused.
    with pytest.raises(DbanonError):
        released(warehouse, **options, k=101)
    assert [release_of(export)] == newer
    if kind == "table":
        require_whole(warehouse)
    elif kind == "disk":
        assert os.listdir(warehouse) == ["people.parquet"]
    else:
        paths = objects.ObjectPath("memory", folder.removeprefix("memory://")).list_below()
        assert [path.name for path in paths] == ["people.parquet"]


def test_a_file_is_committed_once(warehouse: Path) -> None:
    released(warehouse)
    table = destinations.resolve_destination(EXPORT, "")
    [name] = files(warehouse, ".parquet")
    before = table.lstat()
    file = iceberg_table.TableFile(table, f"file://{warehouse}/clinic/people/data/{name}")
    table.commit(file, replaceable_status=before)
    file.unlink()
    assert table.lstat() == before
    require_whole(warehouse)


def crashed(monkeypatch: pytest.MonkeyPatch, warehouse: Path, **overrides: Any) -> dbanon.Report:
    """A release whose run ended right after COMMIT."""
    with monkeypatch.context() as patch:
        patch.setattr(exporting.Exporter, "finish", exporting.Exporter.leave_pending)
        return released(warehouse, **overrides)


@pytest.mark.parametrize("takes", [True, False])
def test_catalogs_that_give_each_table_a_directory_of_its_own(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch, takes: bool
) -> None:
    def resolve(self: Any, location: str | None, space: str, name: str) -> str:
        fixed_location = location if takes else None
        return fixed_location or f"file://{warehouse}/{space}/{name}-{uuid.uuid4().hex}"

    monkeypatch.setattr(SqlCatalog, "_resolve_table_location", resolve)
    if not takes:
        with pytest.raises(InvalidParameter, match="suggests a different directory"):
            released(warehouse)
        assert files(warehouse) == []
        return
    first = crashed(monkeypatch, warehouse)
    with pytest.raises(DbanonError):
        released(warehouse, k=101, **REPLACED)
    assert release_of() == first.release_id
    require_whole(warehouse)


def test_a_name_with_a_quote_after_a_crash(
    warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = 'iceberg:here/clinic."a""b"'
    table = destinations.resolve_destination(path, "")
    assert destinations.resolve_destination(str(table), "") == table
    options = {**REPLACED, "exports": [path]}
    first = crashed(monkeypatch, warehouse, **options)
    with pytest.raises(DbanonError):
        released(warehouse, k=101, **options)
    assert release_of(path) == first.release_id
    # An unreadable path in the ledger does not fail a run.
    with monkeypatch.context() as patch:
        patch.setattr(iceberg_table.IcebergTable, "__str__", lambda self: 'iceberg:here/clinic.a"b')
        crashed(monkeypatch, warehouse, **options)
    with pytest.warns(ExportPending, match="not valid"):
        last = released(warehouse, **options)
    assert release_of(path) == last.release_id


def test_older_snapshots_keep_columns_whose_type_changed(
    warehouse: Path, duckdb_file: DuckdbDatabase
) -> None:
    duckdb_file.load(
        "people",
        {"id": "bigint", "age": "bigint", "site": "integer"},
        [(i, 20 + i % 30, 7) for i in range(100)],
    )
    options = {**OPTIONS, **REPLACED}
    for kind, value in (("VARCHAR", f"'{PLANTED}'"), ("INTEGER", "7"), ("VARCHAR", f"'{PLANTED}'")):
        duckdb_file.execute(f"ALTER TABLE people ALTER site TYPE {kind} USING {value}")
        dbanon.anonymize(duckdb_file.url, **options)
    # A release without the column, and one that has it again.
    for keep in ([], ["site"]):
        dbanon.anonymize(duckdb_file.url, **{**options, "keep": keep})
    snapshots = load_catalog("here").load_table(TABLE).snapshots()
    tables = [rows(snapshot_id=snapshot.snapshot_id) for snapshot in snapshots]
    assert [
        set(table["site"].to_pylist()) if "site" in table.column_names else None for table in tables
    ] == [{PLANTED}, {7}, {PLANTED}, None, {PLANTED}]
    require_whole(warehouse)
