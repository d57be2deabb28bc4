"""Releases that another one superseded are verified by the name of their table, and by their id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from dbanon.sessions.names import parse_relation
from tests.prerequisites import skip_case
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.people import load_people

DATABASES = ALL_NAMES


# It releases no views.
NO_VIEWS = "mariadb"


def require_views(database: Database) -> None:
    if database.name == NO_VIEWS:
        skip_case("MariaDB releases tables only")


def release(database: Database, k: int, kind: str = "view", **more: Any) -> dbanon.Report:
    return database.anonymize(
        quasi_identifiers=["age", "height"], k=k, output_kind=kind, if_exists="replace", **more
    )


@pytest.mark.in_turn(of="file")
def test_a_superseded_release_is_verified(database: Database) -> None:
    require_views(database)
    load_people(database)
    first = release(database, 3)
    second = release(database, 5)
    for release_name in (first.relation, first.release_id, first.release_id.upper()):
        verification = dbanon.verify(database.url, release_name)
        assert isinstance(verification, dbanon.Verification)
        assert (verification.release_id, verification.k_requested, verification.unchanged) == (
            first.release_id,
            3,
            True,
        )
        assert (verification.output, verification.superseded_at is None) == (second.output, False)
        assert parse_relation(verification.relation) == parse_relation(first.relation)
        assert verification.k_achieved == first.k_achieved
    for release_name in (second.output, second.release_id, second.relation):
        current = dbanon.verify(database.url, release_name)
        assert (current.release_id, current.superseded_at) == (second.release_id, None)
    done = CliRunner().invoke(main, ["verify", database.url, first.release_id])
    assert done.exit_code == 0
    assert "superseded at" in " ".join(done.stdout.split())
    with pytest.raises(errors.RecountFailed, match=r"fewer than\s+k = 9"):
        dbanon.verify(database.url, first.release_id, k=9)
    with pytest.raises(errors.InvalidParameter, match="own quasi-identifiers"):
        dbanon.verify(database.url, first.release_id, quasi_identifiers=["age"], k=2)


def test_a_changed_table_of_a_superseded_release_is_refused(database: Database) -> None:
    require_views(database)
    load_people(database)
    first = release(database, 3)
    release(database, 5)
    database.execute(f"UPDATE {database.relation(first.relation)} SET age = age + 1")
    for release_name in (first.relation, first.release_id):
        with pytest.raises(errors.ReleaseChanged, match="changed since it was released"):
            dbanon.verify(database.url, release_name)


@pytest.mark.in_turn(of="file")
def test_a_dropped_table_of_a_superseded_release_is_named(database: Database) -> None:
    require_views(database)
    load_people(database)
    first = release(database, 3)
    release(database, 5)
    done = CliRunner().invoke(main, ["gc", database.url, "--keep-last", "0", "--format", "json"])
    assert done.exit_code == 0
    for release_name in (first.relation, first.release_id):
        with pytest.raises(errors.TableNotFound, match="was dropped") as dropped:
            dbanon.verify(database.url, release_name)
        assert first.release_id in str(dropped.value)
        assert "superseded at" in str(dropped.value)
        assert "dbanon verify FILE --ledger" in str(dropped.value.hint)


@pytest.mark.in_turn(of="file")
def test_a_replaced_table_is_named(database: Database) -> None:
    load_people(database)
    first = release(database, 3, "table")
    release(database, 5, "table")
    with pytest.raises(errors.TableNotFound, match="was replaced or dropped"):
        dbanon.verify(database.url, first.release_id)


@pytest.mark.in_turn(of="file")
def test_dated_outputs_are_verified_by_id(database: Database) -> None:
    load_people(database)
    reports = [release(database, k, "table", output=f"release.people_0{k}") for k in (3, 4)]
    for report in reports:
        verification = dbanon.verify(database.url, report.release_id)
        assert (verification.relation, verification.unchanged) == (report.output, True)
    with pytest.raises(errors.ReleaseNotFound, match="has no release"):
        dbanon.verify(database.url, "00000000-0000-4000-8000-000000000000")


def test_a_table_under_the_name_of_a_kept_one_is_no_release(database: Database) -> None:
    require_views(database)
    load_people(database)
    first = release(database, 3)
    release(database, 5)
    table = database.relation(first.relation)
    database.execute(f"DROP TABLE {table}", f"CREATE TABLE {table} AS SELECT * FROM people")
    for release_name in (first.relation, first.release_id):
        with pytest.raises(errors.ReleaseNotFound):
            dbanon.verify(database.url, release_name)


@pytest.mark.in_turn(of="file")
def test_a_job_keeps_superseded_releases(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_views(database)
    load_people(database)
    database.make_schema("release")
    job = tmp_path / "job.yaml"
    others = ("id", "name", "income", "site", "born", "seen")
    job.write_text(
        'version: 1\nsource: {url: "${PEOPLE}"}\njobs:\n'
        "  - name: people\n    table: people\n    k: 3\n    columns:\n"
        "      age: {role: quasi_identifier}\n      height: {role: quasi_identifier}\n"
        + "".join(f"      {column}: {{role: drop}}\n" for column in others)
        + "    output: {view: release.people, keep_last: 2}\n"
    )
    monkeypatch.setenv("PEOPLE", database.url)
    ids = []
    for _ in range(2):
        done = CliRunner().invoke(main, ["run", str(job), "--format", "json"])
        assert done.exit_code == 0, done.output
        ids.append(dbanon.releases(database.url)[0].release_id)
    verification = dbanon.verify(database.url, ids[0])
    assert verification.superseded_at is not None
