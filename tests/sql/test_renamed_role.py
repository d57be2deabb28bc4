"""Releases of a role that was renamed afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.doors import install
from dbanon.errors import InsufficientRights
from dbanon.ledger import job_history, releases
from dbanon.run.open import open_store
from tests.postgres_server import Server

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Role = Callable[..., str]

REFRESH = "SELECT rows_in FROM dbanon.refresh('release.p')"
MORE = "INSERT INTO app.people SELECT g, g % 9 FROM generate_series(91, 100) AS g"


@pytest.fixture
def renamed_urls(run_sql: Run, sql_server: Server, sql_role: Role, sql_url: str) -> tuple[str, str]:
    """URLs of the publishing role under its new name, and of another role with the old name."""
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g % 9 AS a FROM generate_series(1, 90) AS g"
    )
    url = sql_role("anna")
    run_sql("GRANT USAGE ON SCHEMA app TO anna")
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("GRANT USAGE, CREATE ON SCHEMA release TO anna")
    run_sql("SELECT dbanon.mdav('app.people', 'release.p', '{a}', 5)", url=url)
    run_sql("ALTER ROLE anna RENAME TO anna_smith")
    run_sql("ALTER ROLE anna_smith PASSWORD 'secret'")
    new = make_url(url).set(username="anna_smith", password="secret")
    return new.render_as_string(hide_password=False), sql_role("anna")


def test_a_renamed_role_refreshes_its_releases(run_sql: Run, renamed_urls: tuple[str, str]) -> None:
    url, _ = renamed_urls
    assert run_sql("SELECT state FROM dbanon.releases()", url=url) == [("current",)]
    assert [release.state for release in dbanon.releases(url)] == ["current"]
    for rows in (100, 110):
        run_sql(MORE)
        assert run_sql(REFRESH, url=url) == [(rows,)]
    assert dbanon.refresh(url, "release.p").rows_in == 110
    published = run_sql("SELECT published_by FROM dbanon.release ORDER BY created_at")
    assert published == [("anna",), ("anna_smith",), ("anna_smith",), ("anna_smith",)]


def test_another_role_of_the_old_name_does_not(run_sql: Run, renamed_urls: tuple[str, str]) -> None:
    _, url = renamed_urls
    for grant in ("USAGE ON SCHEMA app", "SELECT ON app.people", "USAGE, CREATE ON SCHEMA release"):
        run_sql(f"GRANT {grant} TO anna")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="was published by role anna"):
        run_sql(REFRESH, url=url)
    with pytest.raises(InsufficientRights, match="was published by role anna"):
        dbanon.refresh(url, "release.p")


def test_the_number_is_recorded_where_a_client_writes_the_ledger(sql_server: Server) -> None:
    with sql_server.database() as url:
        people = "CREATE TABLE people AS SELECT g % 9 AS a FROM generate_series(1, 90) AS g"
        sql_server.execute(people, url=url)
        dbanon.anonymize(url, table="people", quasi_identifiers=["a"], k=5, output="release.p")
        rows = sql_server.execute(
            "SELECT (request ->> 'publisher')::oid = current_user::regrole FROM dbanon.release",
            url=url,
        )
        assert rows == [(True,)]
        sql_server.execute(
            "UPDATE dbanon.release SET output_oid = 1, request = request || '{\"publisher\": 1}'",
            url=url,
        )
        # As after a dump was restored into another server.
        install.upgrade(url)
        assert dbanon.refresh(url, "release.p").rows_in == 90


def test_a_renamed_role_keeps_its_jobs_and_exports(
    run_sql: Run, sql_role: Role, tmp_path: Path
) -> None:
    """A job's latest release and its files do not depend on the role's name."""
    run_sql(
        "CREATE TABLE app.people AS SELECT g AS id, g % 9 AS a FROM generate_series(1, 90) AS g"
    )
    url = sql_role("anna")
    run_sql("GRANT SELECT ON app.people TO anna")
    export_path = tmp_path / "people.parquet"

    def run(url: str) -> dbanon.Report:
        return dbanon.anonymize(
            url,
            table="app.people",
            quasi_identifiers=["a"],
            k=5,
            output="release.p",
            if_exists="replace",
            exports=[export_path],
            name="people",
            door="job",
        )

    report = run(url)
    run_sql("ALTER ROLE anna RENAME TO anna_smith")
    run_sql("ALTER ROLE anna_smith PASSWORD 'secret'")
    new = make_url(url).set(username="anna_smith", password="secret")
    with open_store(new).session(write=False) as session:
        last = job_history.last_release(session, "people")
        files = releases.list_exports(session, "release.p")
    assert last is not None
    assert last.release_id == report.release_id
    assert [release_id for release_id, _, _ in files] == [report.release_id]
    # Another role with the old name gets neither.
    with open_store(sql_role("anna")).session(write=False) as session:
        assert job_history.last_release(session, "people") is None
        assert releases.list_exports(session, "release.p") == []
    # The file belongs to the release and may be replaced.
    assert run(new.render_as_string(hide_password=False)).release_id != report.release_id
