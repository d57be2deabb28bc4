"""Object stores: read, exported to, and nothing there that was not counted and committed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

import dbanon
from dbanon.errors import (
    DatabaseFailure,
    DbanonError,
    ExportPending,
    FileMalformed,
    InvalidParameter,
    MissingDependency,
    OutputExists,
    RecountFailed,
)
from dbanon.job.export import Export
from dbanon.run import export as exporting
from dbanon.stores import objects
from dbanon.stores.exports import destinations
from dbanon.stores.objects import ObjectPath
from tests.object_server import BUCKET, KEYS, served
from tests.stores.databases import SqliteDatabase
from tests.stores.test_folders import ROWS, put

pytestmark = pytest.mark.usefixtures("no_temporary_file")

AGES: dict[str, Any] = {"table": "people", "quasi_identifiers": ["age"], "k": 5, "keep": ["site"]}


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with served() as url:
        yield url


@pytest.fixture
def bucket(store: str) -> Iterator[str]:
    """A folder in the store that is empty before and after."""
    yield f"{store}/in"
    for path in ObjectPath.parse(f"{store}/in").list_below():
        path.unlink()


def names() -> list[str]:
    return [
        path.key.removeprefix(f"{BUCKET}/in/")
        for path in ObjectPath("s3", f"{BUCKET}/in").list_below()
    ]


def put_rows(path: Path, key: str, rows: int = 100) -> None:
    put(path, ROWS.format(rows))
    with path.open("rb") as file:
        ObjectPath("s3", f"{BUCKET}/in/{key}").put(file, path.stat().st_size)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_objects_are_read_as_files_are(bucket: str, tmp_path: Path, kind: str) -> None:
    for year in (2024, 2025):
        put_rows(tmp_path / f"a.{kind}", f"year={year}/a.{kind}")
    options = {**AGES, "quasi_identifiers": ["age", "year"], "exports": [tmp_path / "o.parquet"]}
    for url in (f"{bucket}/", f"{bucket}/*/*.{kind}"):
        report = dbanon.anonymize(url, **options, output="o", if_exists="replace")
        assert report.rows_out == 200
    options["quasi_identifiers"] = ["age"]
    url = f"{bucket}/year=2024/a.{kind}"
    assert dbanon.anonymize(url, **options, output="o", if_exists="replace").rows_out == 100
    assert dbanon.plan(url, **AGES, output="o").rows == 100


def released(folder: Path, **overrides: Any) -> dbanon.Report:
    """A release in the database that answers soonest."""
    database = SqliteDatabase(folder / "d.sqlite")
    if database.relations() == set():
        rows = [(20 + i % 30, f"s{i % 4}") for i in range(100)]
        database.load("people", {"age": "INTEGER", "site": "TEXT"}, rows)
    return dbanon.anonymize(database.url, **{**AGES, "output": "release.people", **overrides})


def test_an_export_has_its_place_once_the_release_is_committed(bucket: str, tmp_path: Path) -> None:
    names_over_time: list[list[str]] = []
    released(
        tmp_path,
        exports=[f"{bucket}/people.parquet", f"{bucket}/p.csv"],
        progress=lambda phase, share: names_over_time.append(names()),
    )
    # Before the commit: no file at first, then names that no reader uses.
    assert [] in names_over_time
    assert not [
        name for seen in names_over_time for name in seen if not name.startswith(".dbanon-")
    ]
    assert names() == ["p.csv", "people.parquet"]
    with ObjectPath.parse(f"{bucket}/people.parquet").open() as file:
        assert parquet.read_table(file).num_rows == 100
    shown_release = dbanon.show(f"sqlite:///{tmp_path / 'd.sqlite'}", "release.people")
    exports = shown_release["arguments"]["exports"]
    assert exports[0]["path"] == f"{bucket}/people.parquet"
    assert exports[0]["sha256"] == destinations.sha256(ObjectPath.parse(f"{bucket}/people.parquet"))
    # Again: only what dbanon made is replaced, and only if that was asked for.
    with pytest.raises(OutputExists, match="already exists"):
        released(tmp_path, exports=[f"{bucket}/p.csv"], output="o2")
    released(tmp_path, exports=[f"{bucket}/p.csv"], if_exists="replace")
    put_rows(tmp_path / "foreign.csv", "p.csv")
    with pytest.raises(OutputExists, match="is not a file that dbanon made"):
        released(tmp_path, exports=[f"{bucket}/p.csv"], if_exists="replace")
    assert names() == ["p.csv", "people.parquet"]


def test_as_many_as_are_kept(bucket: str, tmp_path: Path) -> None:
    export = Export(f"{bucket}/{{release}}.parquet", keep_last=2)
    release_ids = [
        released(tmp_path, exports=[export], if_exists="replace").release_id for _ in range(3)
    ]
    assert names() == sorted(f"{release_id}.parquet" for release_id in release_ids[1:])


def test_nothing_of_a_refused_release_is_uploaded(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **more: Any) -> None:
        assert names() == []
        raise RecountFailed("no")

    monkeypatch.setattr(exporting, "_require_same_counts", refuse)
    with pytest.raises(RecountFailed):
        released(tmp_path, exports=[f"{bucket}/people.parquet"])
    assert names() == []


def test_a_store_that_fails_midway(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(name: str) -> None:
        def fail(self: Any, *args: Any) -> None:
            with objects.translate_client_errors():
                raise ValueError("signed-address-and-key")

        monkeypatch.setattr(ObjectPath, name, fail)

    options: dict[str, Any] = {"exports": [f"{bucket}/{{release}}.parquet"]}
    with monkeypatch.context() as patch:
        failing("put")
        with pytest.raises(
            DatabaseFailure, match=r"the object store does not answer \(ValueError\)"
        ) as raised:
            released(tmp_path, **options)
        assert "signed" not in str(raised.value)
        patch.undo()
    monkeypatch.undo()
    assert names() == []
    assert [name for _, name in SqliteDatabase(tmp_path / "d.sqlite").relations()] == ["people"]
    # After COMMIT: the message says where the file is, and the next run moves it into place.
    failing("copy_to")
    with pytest.warns(ExportPending, match=r"its file s3://clinic/in/\.dbanon-"):
        first = released(tmp_path, **options)
    monkeypatch.undo()
    assert [name.startswith(".dbanon-") for name in names()] == [True]
    second = released(tmp_path, **options, if_exists="replace")
    assert names() == sorted(f"{release.release_id}.parquet" for release in (first, second))


def test_what_nobody_knows_of_goes_after_a_day(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tag = destinations.tag_of(f"sqlite:///{tmp_path / 'd.sqlite'}", "release.people")
    left = f".dbanon-{tag}-{'0' * 8}-0000-0000-0000-{'0' * 12}-0.tmp"
    put_rows(tmp_path / "a.parquet", left)
    export = {"exports": [f"{bucket}/p.parquet"], "if_exists": "replace"}
    released(tmp_path, **export)
    assert names() == [left, "p.parquet"]
    monkeypatch.setattr(ObjectPath, "age", lambda self, now: 90_000.0)
    released(tmp_path, **export)
    assert names() == ["p.parquet"]


def test_credentials_are_never_told(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_rows(tmp_path / "a.csv", "a.csv")
    for name in KEYS:
        monkeypatch.delenv(name)
    # Neither credential files of the account nor the cloud's credential service are used.
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    objects._file_system.cache_clear()
    try:
        for act in (
            lambda: dbanon.plan(f"{bucket}/a.csv", **AGES, output="o"),
            lambda: released(tmp_path, exports=[f"{bucket}/p.parquet"]),
        ):
            with pytest.raises(DbanonError) as raised:
                act()
            assert raised.value.code == "insufficient_rights"
            assert "Credentials" in str(raised.value.detail)
            assert not [secret for secret in KEYS.values() if secret in str(raised.value)]
    finally:
        objects._file_system.cache_clear()


def test_urls_that_say_too_much_or_too_little(bucket: str) -> None:
    for url in ("s3://AKID:secret@clinic/a.csv", "s3://", "s3://clinic", "s3:///a.csv"):
        with pytest.raises(InvalidParameter) as raised:
            dbanon.plan(url, **AGES, output="o")
        assert "secret" not in str(raised.value)
    for url, code in (
        (f"{bucket}/none.csv", "database_not_found"),
        ("s3://no-such-bucket/a.csv", "database_not_found"),
    ):
        with pytest.raises(DbanonError) as raised:
            dbanon.plan(url, **AGES, output="o")
        assert raised.value.code == code
    with pytest.raises(MissingDependency, match="gcsfs"):
        dbanon.plan("gs://clinic/a.csv", **AGES, output="o")


def test_other_stores_by_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces gs:

    and az:

    , which need their clouds, by fsspec's file system in memory.
    """
    monkeypatch.setitem(objects.SCHEMES, "memory", "fsspec")
    put(tmp_path / "a.parquet", ROWS.format(100))
    with (tmp_path / "a.parquet").open("rb") as file:
        ObjectPath("memory", "clinic/in/year=1/a.parquet").put(file, file.seek(0, 2))
    options = {**AGES, "exports": ["memory://clinic/out/p.parquet"]}
    for _ in range(2):
        report = dbanon.anonymize("memory://clinic/in/", **options, output="o", if_exists="replace")
        assert report.rows_out == 100
    assert [path.name for path in ObjectPath("memory", "clinic/out").list_below()] == ["p.parquet"]


@pytest.mark.parametrize("step", ["put", "copy_to", "unlink"])
def test_a_signal_while_the_store_stalls(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It ends the wait: before COMMIT the run, afterwards what the next run does as well."""
    released(tmp_path, exports=[f"{bucket}/other.parquet"], output="other")
    stalled: list[str] = []
    resumed: list[str] = []
    real = getattr(ObjectPath, step)

    def sleep(*_: Any, **__: Any) -> None:
        time.sleep(60)
        resumed.append(step)

    def stall(self: ObjectPath, *args: Any, **more: Any) -> None:
        if step == "put":
            # It is there, and its answer does not come.
            real(self, *args)
            monkeypatch.setattr(ObjectPath, "unlink", sleep)
        stalled.append(step)
        os.kill(os.getpid(), signal.SIGINT)
        sleep()

    export = f"{bucket}/people.parquet"
    with monkeypatch.context() as patch:
        patch.setattr(ObjectPath, step, stall)
        if step == "put":
            with pytest.raises(KeyboardInterrupt):
                released(tmp_path, exports=[export])
        else:
            with pytest.warns(ExportPending, match="interrupted"):
                released(tmp_path, exports=[export])
        assert stalled == [step]
        monkeypatch.undo()
    assert resumed == [], "the run waited for an answer"
    # The next run finds it; if the ledger does not list it, it is unknown whether its run has
    # ended.
    released(tmp_path, exports=[export], if_exists="replace")
    left = [name for name in names() if name.startswith(".dbanon")]
    assert "people.parquet" in names()
    assert len(left) == (step == "put")


@pytest.mark.parametrize("pattern", ["/", "/*", "/**"])
def test_markers_of_folders_are_passed_over(bucket: str, tmp_path: Path, pattern: str) -> None:
    """Consoles and Hadoop make them; an object of such a name that holds bytes is none."""
    import boto3

    put_rows(tmp_path / "a.csv", "a.csv")
    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    markers = ["in/", "in/mk/", "in/old_$folder$"]
    try:
        for key in markers:
            client.put_object(Bucket=BUCKET, Key=key, Body=b"")
        report = dbanon.anonymize(
            f"{bucket}{pattern}", **AGES, output="o", exports=[tmp_path / "o.parquet"]
        )
        assert report.rows_out == 100
        client.put_object(Bucket=BUCKET, Key=markers[2], Body=b"rows")
        with pytest.raises(FileMalformed, match="old_"):
            dbanon.plan(f"{bucket}{pattern}", **AGES, output="o")
    finally:
        for key in markers:
            client.delete_object(Bucket=BUCKET, Key=key)


@pytest.mark.parametrize(("scheme", "supported"), [("s3a", "s3"), ("S3N", "s3"), ("gcs", "gs")])
def test_schemes_of_others_are_refused_with_ours(
    scheme: str, supported: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidParameter, match=f"{scheme}://") as read:
        dbanon.plan(f"{scheme}://clinic/a.csv", **AGES, output="o")
    with pytest.raises(InvalidParameter) as written:
        released(tmp_path, exports=[f"{scheme}://clinic/o.parquet"])
    for refused in (read, written):
        assert f"Write {supported}://" in str(refused.value.hint)
    with pytest.raises(InvalidParameter, match=f"{scheme}://"):
        dbanon.plan(f"delta:{scheme}://clinic/table", **AGES, output="o", kept_columns="client")
