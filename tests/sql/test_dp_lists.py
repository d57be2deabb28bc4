"""CALL dbanon.dp_ranks for text, enumerated types and booleans."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest

import dbanon
from tests.prerequisites import import_or_skip
from tests.sql.mallory import MOOD, PLAIN_MOOD, TRAP, cast, sprung
from tests.sql.private_calls import Connect, Run, spent, state_of

import_or_skip("opendp")

JOBS = ("nurse", "baker", "clerk", "retired")
TREE = {"*": {"at work": JOBS[:3], "at home": JOBS[3:]}}
PEOPLE = """CREATE TABLE app.people AS SELECT
    CASE WHEN g % 10 = 0 THEN 'strange ' || g WHEN g % 7 = 0 THEN NULL
         ELSE ('{nurse,nurse,baker,clerk,retired}'::text[])[1 + g % 5] END AS job,
    ('{low,middle,high}'::text[])[1 + g % 3]::app.level AS level,
    CASE WHEN g % 9 <> 0 THEN g % 4 = 0 END AS ill,
    ('{nurse,clerk}'::text[])[1 + g % 2]::char(8) AS padded
    FROM generate_series(1, 3000) AS g"""


@pytest.fixture
def sql_url(private_url: str) -> str:
    """A database with OpenDP next to dbanon."""
    return private_url


@pytest.fixture
def people(run_sql: Run, sql_url: str) -> None:
    run_sql("CREATE TYPE app.level AS ENUM ('low', 'middle', 'high')")
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO PUBLIC")
    dbanon.create_budget(sql_url, "people", source="app.people", epsilon=30)


def call(options: object, null_as: object = None, columns: str = "{job,level,ill}") -> str:
    other_values = {"job": "other", "level": "low", "ill": False, "padded": "other"}
    named = {name: other_values[name] for name in columns[1:-1].split(",")}
    return (
        f"CALL dbanon.dp_ranks('app.people', 'release.people', '{columns}', epsilon => 10,"
        f" bounds => '{{}}', budget => 'people', null_as => '{json.dumps(null_as or named)}',"
        f" if_exists => 'replace', options => '{json.dumps(options)}')"
    )


def test_a_call_of_listed_values(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], sql_url: str, people: None
) -> None:
    dbanon.store_hierarchy(sql_url, "jobs", dbanon.Hierarchy.from_json(TREE))
    anna = connect(sql_role("anna"))
    for options in (
        {"orders": {"job": JOBS}},
        {"hierarchies": {"job": {"tree": TREE}}},
        {"hierarchies": {"job": {"name": "jobs"}, "level": {"enum": True}}},
    ):
        anna.execute(call(options).encode())
        counts = dict(run_sql("SELECT job, count(*) FROM release.people GROUP BY job"))
        assert set(counts) <= {*JOBS, "other"}
        # 300 values in no list, and 386 NULLs.
        assert abs(counts["other"] - 686) < 60
        assert run_sql(
            "SELECT count(*), count(level), count(ill), pg_typeof(min(job))::text,"
            " pg_typeof(min(level))::text FROM release.people"
        ) == [(3000, 3000, 3000, "text", "app.level")]
        [(rows, unchanged)] = run_sql("SELECT rows, unchanged FROM dbanon.verify('release.people')")
        assert (rows, unchanged) == (3000, True)
        assert dbanon.verify(sql_url, "release.people").unchanged
    assert spent(run_sql, "people") == (30.0, 3)
    for change in ("job = 'nurses' WHERE job = 'nurse'", "level = NULL"):
        anna.execute(f"UPDATE release.people SET {change}".encode())
        with pytest.raises(psycopg.Error, match="bounds or list") as failure:
            run_sql("SELECT * FROM dbanon.verify('release.people')")
        assert state_of(failure) == "ZK001"


def test_blanks_that_a_type_adds_are_none(run_sql: Run, connect: Connect, people: None) -> None:
    connect().execute(call({"orders": {"padded": JOBS}}, columns="{padded}").encode())
    counts = dict(run_sql("SELECT padded, count(*) FROM release.people GROUP BY padded"))
    assert abs(counts["nurse"] - 1500) < 30
    assert abs(counts["clerk"] - 1500) < 30


def test_what_public_figures_refuse(run_sql: Run, connect: Connect, people: None) -> None:
    connection = connect()
    for options, null_as in (
        ({}, None),
        ({"orders": {"job": "nurse"}}, None),
        ({"hierarchies": {"job": {"mask": True}}}, None),
        ({"hierarchies": {"job": {"table": "app.people"}}}, None),
        ({"hierarchies": {"job": "/etc/passwd"}}, None),
        ({"orders": {"job": JOBS}}, {"job": "other", "ill": False}),
        ({"orders": {"job": JOBS}}, {"job": "smith", "level": "low", "ill": False}),
        ({"orders": {"job": JOBS}}, {"job": "other", "level": "other", "ill": False}),
    ):
        with pytest.raises(psycopg.Error) as failure:
            connection.execute(call(options, null_as).encode())
        assert state_of(failure) == "22023", options
        assert "strange" not in str(failure.value)
    assert spent(run_sql, "people") == (0.0, 0)


def test_types_of_others_run_no_code(
    run_sql: Run, connect: Connect, sql_role: Callable[..., str], sql_url: str
) -> None:
    """An enumerated type of mallory's with casts: its labels are read as text."""
    mallory = connect(sql_role("mallory", runner=False))
    run_sql("CREATE SCHEMA evil AUTHORIZATION mallory")
    mallory.execute((TRAP + MOOD + cast("evil.mood", "text", "'sad'", "AS IMPLICIT")).encode())
    run_sql("GRANT USAGE ON SCHEMA evil TO PUBLIC")
    run_sql(
        f"CREATE TABLE app.moods AS SELECT {PLAIN_MOOD} AS mood FROM generate_series(1, 600) AS g"
    )
    run_sql("ALTER TABLE app.moods ALTER mood SET NOT NULL")
    run_sql("GRANT SELECT ON app.moods TO PUBLIC")
    dbanon.create_budget(sql_url, "moods", source="app.moods", epsilon=9)
    sprung(run_sql)
    connect(sql_role("anna")).execute(
        b"CALL dbanon.dp_ranks('app.moods', 'release.moods', '{mood}', epsilon => 9,"
        b" bounds => '{}', budget => 'moods')"
    )
    assert dbanon.verify(sql_url, "release.moods").unchanged
    run_sql("SELECT * FROM dbanon.verify('release.moods')")
    assert not sprung(run_sql)
    groups = run_sql("SELECT pg_typeof(mood)::text, mood, count(*) FROM release.moods GROUP BY 2")
    assert {kind for kind, _, _ in groups} == {"text"}
    assert {mood for _, mood, _ in groups} == {"sad", "calm", "glad"}
    assert all(abs(rows - 200) < 20 for _, _, rows in groups)
