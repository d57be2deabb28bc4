"""Attacks through the texts of ledger entries: terminal escapes, and excessive length."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from dbanon.data.words import LabelledText
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidName
from tests.sql.ledger_entries import MAKE, RECORD, anonymize, entry, expect_refusal, mark, oid

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

# Sets a window title; one-byte CSI; overwrites earlier output; adds a line; right-to-left text.
FORGED = "app.people\x1b]0;pwned\x07 \x9b2J\r\x08 \nk counted 50 ‮evil"
ESCAPES = "\x1b\x07\x9b\r\x08‮"


class EscapedText(LabelledText):
    """Displays forged text in a notebook."""

    def pairs(self) -> list[tuple[str, str]]:
        return [(FORGED, FORGED)]


def entries(connection: psycopg.Connection[Any], name: str, **changes: Any) -> str:
    """Record a release by hand as mallory, with her own texts; returns its id."""
    release_id = str(uuid.uuid4())
    connection.execute(MAKE.format(name).encode())
    mark(connection, name, release_id)
    connection.execute(RECORD, entry(release_id, oid(connection, name), **changes))
    connection.commit()
    return release_id


@pytest.mark.parametrize(
    "key",
    [
        "source",
        "method",
        "guarantee",
        "seed_policy",
        "earlier_releases",
        "dbanon_version",
        "digest",
        "neighbours",
    ],
)
def test_control_characters_are_refused(forger: psycopg.Connection[Any], key: str) -> None:
    release_id = str(uuid.uuid4())
    forger.execute(MAKE.format("release.mine").encode())
    mark(forger, "release.mine", release_id)
    mine = oid(forger, "release.mine")
    for forged in ("\x1b[2J", "a\nb", "\x9b2J", "\x7f", "a\rb"):
        expect_refusal(forger, entry(release_id, mine, **{key: "mdav" + forged}), "22023")
    expect_refusal(forger, entry(release_id, mine, **{key: "x" * 400_000}), "22023", "54000")


def test_a_column_and_a_run_hold_no_control_characters(forger: psycopg.Connection[Any]) -> None:
    release_id = str(uuid.uuid4())
    forger.execute(MAKE.format("release.mine").encode())
    mark(forger, "release.mine", release_id)
    release, columns, run = entry(release_id, oid(forger, "release.mine"))
    forged = [json.loads(columns)[0] | {"role": "a\x1b[2J"}]
    expect_refusal(forger, [release, json.dumps(forged), run], "22023")
    failed = {
        "door": "cli",
        "method": "mdav",
        "error_code": "database_failed",
        "source": "app.people",
        "output_name": "p",
    }
    for key in ("source", "output_name", "output_schema"):
        with pytest.raises(psycopg.errors.InvalidParameterValue), forger.transaction():
            forger.execute(
                "SELECT dbanon._record_run(%s::jsonb)", (json.dumps(failed | {key: "\x1b[2J"}),)
            )


def test_readers_escape_the_texts_of_an_older_ledger(
    forger: psycopg.Connection[Any], run_sql: Run, sql_url: str, tmp_path: Path
) -> None:
    release_id = entries(forger, "release.mine")
    run_sql(
        "UPDATE dbanon.release SET source = %s, method = %s, guarantee = %s, seed_policy = %s",
        *[FORGED] * 4,
    )
    run_sql("UPDATE dbanon.run SET run_by = %s, job = 'people'", FORGED)
    page = tmp_path / "page.html"
    for words in (
        ["releases", sql_url],
        ["show", sql_url, release_id],
        ["report", sql_url, "release.mine", "-o", str(page)],
        ["sql", "UPDATE dbanon.release_column SET name = %s"],
        ["releases", sql_url, "--job", "people"],
        ["verify", sql_url, "release.mine"],
        *[
            [command, sql_url, *more, "--format", "json"]
            for command, *more in (["releases"], ["show", release_id])
        ],
    ):
        if words[0] == "sql":
            # A release with other columns has no page.
            run_sql(words[1], FORGED)
            continue
        done = CliRunner().invoke(main, words)
        output = done.stdout + done.stderr
        assert output
        assert not set(ESCAPES) & set(output), (words, output)
        assert "\nk counted" not in output
    # A page isolates text directions.
    assert set(ESCAPES) & set(page.read_text()) <= set(ESCAPES[-1:])
    text = EscapedText()
    assert not set(ESCAPES) & set(str(text) + text._repr_html_())


def test_a_role_writes_so_many_entries_a_day(
    connect: Connect, sql_role: Role, run_sql: Run, sql_url: str, forger: psycopg.Connection[Any]
) -> None:
    failed = {
        "door": "cli",
        "method": "mdav",
        "error_code": "database_failed",
        "source": "app.people",
        "output_name": "p",
    }
    run_sql(f'ALTER DATABASE "{sql_url.rpartition("/")[2]}" SET dbanon.entries_a_day = 3')
    mallory = connect(sql_role("carol"))
    # Values that she sets herself are ignored.
    mallory.execute("SET dbanon.entries_a_day = 1000000")
    parameters = (json.dumps(failed),)
    for _ in range(3):
        mallory.execute("SELECT dbanon._record_run(%s::jsonb)", parameters)
    for statement in ("_record_run(%s::jsonb)", "_hold_job(%s)"):
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            mallory.execute(f"SELECT dbanon.{statement}".encode(), parameters)
    used = run_sql("SELECT role, entries_today, quota, bytes > 0 FROM dbanon.usage()")
    assert sorted(used) == [("anna", 1, 3, True), ("carol", 3, 3, True)]
    connect(sql_role("bert")).execute("SELECT dbanon._record_run(%s::jsonb)", parameters)


def test_a_name_with_a_control_character_is_refused_by_name(run_sql: Run, sql_url: str) -> None:
    run_sql('CREATE TABLE app."a\x1bb" AS SELECT g AS a FROM generate_series(1, 60) AS g')
    with pytest.raises(InvalidName, match="source of the ledger"):
        anonymize(sql_url, table='app."a\x1bb"')
    assert run_sql("SELECT count(*) FROM dbanon.release") == [(0,)]


def test_jobs_with_letters_of_any_script_are_written_into_the_ledger(
    run_sql: Run, sql_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", sql_url)
    monkeypatch.chdir(tmp_path)
    run_sql("CREATE TABLE app.t AS SELECT g AS age FROM generate_series(1, 20) AS g")
    written = """version: 1
source: {url: "${PLACE}"}
jobs:
"""
    for name, k in (("Fälle_1", 5), ("病例-2", 50)):
        written += f"""  - {{name: {name}, table: app.t, k: {k},
    columns: {{age: {{role: quasi_identifier}}}}, output: {{table: release.t{k}}}}}
"""
    Path("job.yaml").write_text(written, encoding="utf-8")
    done = CliRunner().invoke(main, ["run", "job.yaml"])
    assert done.exit_code == 8, done.output
    assert run_sql("SELECT job, state FROM dbanon.run ORDER BY 2") == [
        ("Fälle_1", "done"),
        ("病例-2", "failed"),
    ]


@pytest.mark.parametrize("job", ["a b", "-a", "_a", "a\x1b", "a\u202e", "a;b", "", "ä" * 64])
def test_other_job_names_are_refused(connect: Connect, sql_role: Role, job: str) -> None:
    record = {"door": "job", "error_code": "x", "method": "mdav", "source": "s", "output_name": "o"}
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connect(sql_role("anna")).execute(
            "SELECT dbanon._record_run(%s::jsonb)", [json.dumps({**record, "job": job})]
        )
