"""An exported file is recognized by the SHA-256 that the ledger recorded of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from dbanon.stores.exports.destinations import sha256
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.people import load_people

DATABASES = ALL_NAMES


def release(database: Database, *paths: Path, k: int = 3) -> dbanon.Report:
    return database.anonymize(
        quasi_identifiers=["age", "height"], k=k, if_exists="replace", exports=paths
    )


def call(*words: Any) -> Any:
    return CliRunner().invoke(main, [*map(str, words), "--format", "json"])


@pytest.mark.in_turn(of="file")
def test_a_file_is_recognized_by_its_bytes(database: Database, tmp_path: Path) -> None:
    load_people(database)
    csv, parquet = tmp_path / "{release}.csv", tmp_path / "{release}.parquet"
    first, second = release(database, csv, parquet), release(database, csv, k=5)
    for report, path in ((first, csv), (first, parquet), (second, csv)):
        # Wherever it was copied to.
        file = tmp_path / ("received" + path.suffix)
        file.write_bytes(Path(str(path).format(release=report.release_id)).read_bytes())
        verification = dbanon.verify_file(file, ledger=database.url)
        assert isinstance(verification, dbanon.VerifiedExport)
        assert (verification.release_id, verification.entry.format) == (
            report.release_id,
            path.suffix[1:],
        )
        assert (verification.entry.superseded_at is None) == (report is second)
        assert (verification.entry.output, verification.entry.sha256) == (
            report.output,
            sha256(file),
        )
        done = call("verify", file, "--ledger", database.url)
        assert done.exit_code == 0, done.output
        assert json.loads(done.stdout) == {"file": str(file)} | {"published": True} | {
            name: value for name, value in verification.to_dict().items() if name != "file"
        }
    done = CliRunner().invoke(main, ["verify", str(file), f"--ledger={database.url}"])
    assert f"{second.release_id} of {second.output}" in " ".join(done.stdout.split())


@pytest.mark.in_turn(of="file")
def test_other_bytes_are_no_release(database: Database, tmp_path: Path) -> None:
    load_people(database)
    path = tmp_path / "people.csv"
    report = release(database, path)
    text = path.read_bytes()
    path.write_bytes(text + b" ")
    with pytest.raises(errors.ReleaseChanged, match="No release in the ledger") as changed:
        dbanon.verify_file(path, ledger=database.url)
    assert f"Release {report.release_id}" in str(changed.value.detail)
    assert f"{len(text)} bytes" in str(changed.value.detail)
    assert call("verify", path, "--ledger", database.url).exit_code == 6
    # A file of any ending.
    other = tmp_path / "other.dat"
    other.write_bytes(b"else")
    with pytest.raises(errors.ReleaseNotFound, match="No release in the ledger"):
        dbanon.verify_file(other, ledger=database.url)
    assert call("verify", other, "--ledger", database.url).exit_code == 2
    other.write_bytes(text)
    assert call("verify", other, "--ledger", database.url).exit_code == 0


def test_a_database_without_a_ledger_has_no_release_of_a_file(
    database: Database, tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("a\n1\n")
    with pytest.raises(errors.ReleaseNotFound, match="No release in the ledger"):
        dbanon.verify_file(tmp_path / "people.csv", ledger=database.url)
    with pytest.raises(errors.InvalidParameter, match="by its bytes"):
        dbanon.verify_file(tmp_path / "people.csv", ledger=database.url, k=3)
    with pytest.raises(errors.TableNotFound, match="There is no file"):
        dbanon.verify_file(tmp_path / "none.csv", ledger=database.url)
    with pytest.raises(errors.InvalidParameter, match="CSV file") as no_ledger:
        dbanon.verify_file(tmp_path / "people.csv")
    assert "name its database as ledger" in str(no_ledger.value.hint)


@pytest.mark.postgresql
def test_sql_finds_the_release_of_a_digest(postgresql: Database, tmp_path: Path) -> None:
    load_people(postgresql)
    postgresql.make_schema("release")
    report = release(postgresql, tmp_path / "people.csv")
    digest = sha256(tmp_path / "people.csv")
    contained = json.dumps({"exports": [{"sha256": digest}]})
    assert postgresql.rows(
        f"SELECT release_id::text FROM dbanon.release WHERE arguments @> '{contained}'"
    ) == [(report.release_id,)]
