"""Several rows per person inside PostgreSQL: same results as the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

VISITS = """
CREATE TABLE app.visits AS
SELECT g AS id, 'patient ' || g * 7919 % 61 AS patient, 20 + g * 31 % 50 AS age,
       (ARRAY['north', 'south', 'east'])[1 + g * 17 % 3] AS place, g * 13 % 2 AS site
FROM generate_series(1, 300) AS g"""
CALL = (
    "SELECT k_achieved, rows_out FROM dbanon.gaa_cp('app.visits', 'release.sql', '{age,place}', 4,"
    " entity => 'patient', keep => '{id}', options => %s)"
)


@pytest.mark.parametrize(
    "options",
    ['{"releases": "independent"}', '{"by": ["site"], "releases": "independent"}'],
)
def test_the_release_is_the_clients(run_sql: Run, sql_url: str, options: str) -> None:
    run_sql(VISITS)
    by = ["site"] if "site" in options else []
    engine = create_engine(sql_url, poolclass=NullPool)
    report = dbanon.anonymize(
        engine,
        table="app.visits",
        output="release.client",
        quasi_identifiers=["age", "place"],
        k=4,
        method="gaa_cp",
        keep=["id"],
        by=by,
        entity="patient",
    )
    assert run_sql(CALL, options) == [(report.k_achieved, 300)]
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert client
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    columns = ", ".join(["age", "place", *by])
    [(fewest,)] = run_sql(
        "SELECT min(persons) FROM (SELECT count(DISTINCT patient) AS persons FROM release.sql AS r"
        f" JOIN (SELECT id, patient FROM app.visits) AS v USING (id) GROUP BY {columns}) AS c"
    )
    assert fewest == report.k_achieved >= 4
    persons = run_sql(
        "SELECT DISTINCT arguments->>'entity', arguments->>'persons' FROM dbanon.release"
    )
    assert persons == [("patient", "61")]
    columns = run_sql("SELECT * FROM release.sql LIMIT 1")[0]
    assert not any("patient" in str(value) for value in columns)
    assert run_sql("SELECT count(*) FROM pg_class WHERE relname LIKE 'dbanon\\_%%'") == [(0,)]


def test_exact_means_need_a_table_of_labels(run_sql: Run) -> None:
    run_sql(VISITS)
    run_sql("ALTER TABLE app.visits ADD COLUMN wide bigint")
    run_sql("UPDATE app.visits SET wide = 9007199254740992 + age")
    run_sql("SELECT dbanon.mdav('app.visits', 'release.sql', '{wide}', 4, entity => 'patient')")
    [(k, smallest)] = run_sql("SELECT k_achieved, smallest_class FROM dbanon.release")
    assert 4 <= k < smallest


def test_verify_reports_that_it_counts_rows(run_sql: Run, connect: Any) -> None:
    run_sql(VISITS)
    run_sql(CALL, "{}")
    connection = connect()
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    [(k, smallest)] = connection.execute(
        "SELECT k_achieved, smallest_class FROM dbanon.verify('release.sql')"
    ).fetchall()
    assert k == smallest
    assert notices == [
        "The release counted persons by patient, which it does not hold: rows are counted now."
    ]


@pytest.mark.parametrize(
    "model",
    [
        {"attribute": "ill", "kind": "distinct_l", "level": 3},
        {"attribute": "ill", "kind": "alpha_k", "level": 0.5},
        {"attribute": "ill", "kind": "t_closeness", "level": 0.5, "distance": "ordered"},
    ],
    ids=lambda model: model["kind"],
)
def test_models_count_persons(
    run_sql: Run, sql_url: str, connect: Any, model: dict[str, Any]
) -> None:
    run_sql(
        "CREATE TABLE app.visits AS SELECT row_number() OVER () AS id, 'patient ' || p AS patient,"
        " 20 + p % 9 * 3 AS age, CASE WHEN v = 0 AND p % 9 < 4 THEN 'flu'"
        " ELSE (ARRAY['a', 'b', 'c', 'd', 'e', 'f', 'g'])[1 + (p * 5 + v * 3) % 7] END AS ill"
        " FROM generate_series(0, 89) AS p, generate_series(0, 1) AS v"
    )
    call = (
        "SELECT k_achieved FROM dbanon.gaa_cp('app.visits', 'release.sql', '{age}', 4,"
        " entity => 'patient', keep => '{id}', sensitive => '{ill}', options => %s)"
    )
    run_sql(call, json.dumps({"models": [model]}))
    engine = create_engine(sql_url, poolclass=NullPool)
    report = dbanon.anonymize(
        engine,
        table="app.visits",
        output="release.client",
        quasi_identifiers=["age"],
        k=4,
        method="gaa_cp",
        keep=["id"],
        sensitive=["ill"],
        entity="patient",
        models=[dbanon.Model(**model)],
        releases="independent",
    )
    client = run_sql("SELECT t::text FROM release.client t ORDER BY t::text")
    assert run_sql("SELECT t::text FROM release.sql t ORDER BY t::text") == client
    recorded = run_sql("SELECT DISTINCT arguments->'models'->0 FROM dbanon.release")
    assert [model["counted"] for (model,) in recorded] == [report.models[0].achieved]
    assert recorded[0][0]["counted_in"] == "persons"
    [(most,)] = run_sql(
        "WITH held AS (SELECT age, v.patient, r.ill FROM release.sql AS r JOIN"
        " (SELECT id, patient FROM app.visits) AS v USING (id)), n AS (SELECT age,"
        " count(DISTINCT patient) AS n FROM held GROUP BY age) SELECT max(c * 1.0 / n) FROM (SELECT"
        " age, count(DISTINCT patient) AS c FROM held GROUP BY age, ill) AS c JOIN n USING (age)"
    )
    if model["kind"] != "t_closeness":
        assert float(most) <= 0.5 if model["kind"] == "alpha_k" else float(most) < 1
    connection = connect()
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
    assert connection.execute("SELECT unchanged FROM dbanon.verify('release.sql')").fetchone() == (
        True,
    )
    assert notices[0] == (
        "Privacy models of sensitive columns were counted in persons, and the release does not"
        " show which rows belong to one person: nobody can count them in it."
    )


def test_classes_hold_persons(run_sql: Run) -> None:
    run_sql(VISITS)
    [(fewest, most)] = run_sql(
        "WITH c AS (SELECT v.patient, c.class FROM dbanon.classes('app.visits', 'mdav', '{age}', 5,"
        ' \'{"entity": "patient", "key": ["id"]}\') AS c'
        " JOIN app.visits AS v ON v.id = (c.row_key->>'id')::integer)"
        " SELECT (SELECT min(n) FROM (SELECT count(DISTINCT patient) AS n FROM c GROUP BY class)"
        " AS x), (SELECT max(n) FROM (SELECT count(DISTINCT class) AS n FROM c GROUP BY patient)"
        " AS y)"
    )
    assert (fewest, most) == (5, 1)


def test_null_is_no_person(run_sql: Run) -> None:
    run_sql(VISITS)
    run_sql("UPDATE app.visits SET patient = NULL WHERE id = 7")
    with pytest.raises(psycopg.Error, match='"patient" holds NULL in 1 of 300 rows') as failure:
        run_sql(CALL, "{}")
    assert failure.value.sqlstate == "22004"
