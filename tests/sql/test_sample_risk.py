"""``dbanon.disclosure_risk`` of a sample inside PostgreSQL: the figures of the client."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, 20 + g * 7 % 6 AS age, g * 977 % 5 AS region,"
    " CASE WHEN g % 9 > 0 THEN 'qz' || g % 4 END AS sex, g / 3 AS home, 10 + g % 3 AS w"
    " FROM generate_series(1, 120) AS g"
)
PERSONS = "CREATE TABLE app.persons AS SELECT * FROM app.people UNION ALL SELECT * FROM app.people"
RISK = "SELECT measure, attribute, value, note FROM dbanon.disclosure_risk(%s, %s, %s)"
NAMES = ["age", "region", "sex"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"weight": "w", "household": "home", "suda": True},
        {"weight": "w", "missing": "wildcard", "risk_method": "approximate", "suda_size": 2},
        {"population": "app.persons", "threshold": 0.5},
        {"sampling_fraction": 0.1, "log_linear": "two_way", "progress": True},
    ],
)
def test_it_gives_the_clients_figures(run_sql: Run, sql_url: str, options: dict[str, Any]) -> None:
    run_sql(PEOPLE)
    run_sql(PERSONS)
    rows = run_sql(RISK, "app.people", NAMES, json.dumps(options))
    options.pop("progress", None)
    result = dbanon.disclosure_risk(sql_url, "app.people", quasi_identifiers=NAMES, **options)
    assert rows == list(result.measure_rows())
    assert rows[-1][3] == "For the controller of the data, not for publication."
    assert "qz" not in str(rows)


def test_it_reads_only(run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]) -> None:
    run_sql(PEOPLE)
    with connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        query = "SELECT value FROM dbanon.disclosure_risk('app.people', '{age}') LIMIT 1"
        assert connection.execute(query).fetchall() == [(120,)]
    assert run_sql("SELECT count(*) FROM dbanon.run") == [(0,)]


def test_a_view_needs_a_key(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("CREATE VIEW app.seen AS SELECT * FROM app.people")
    with pytest.raises(psycopg.Error) as refused:
        run_sql(RISK, "app.seen", NAMES, "{}")
    assert '"key"' in str(refused.value.diag.message_hint)
    rows = run_sql(RISK, "app.seen", NAMES, '{"key": ["id"]}')
    assert rows == run_sql(RISK, "app.people", NAMES, "{}")


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (["age"], '{"weigth": "w"}', "22023"),
        (["age"], '{"weight": 3}', "22023"),
        (["age"], '{"sampling_fraction": 2}', "22023"),
        (["age"], '{"weight": "sex"}', None),
        (["age"], '{"weight": "nothing"}', "42703"),
        (["age"], '{"population": "app.nothing"}', "42P01"),
        (["age"], '{"released": "app.nothing"}', "42P01"),
        (["age"], "[]", "22023"),
        ([], "{}", None),
        (None, "{}", None),
    ],
)
def test_refused_inputs(run_sql: Run, names: Any, options: str, code: str | None) -> None:
    run_sql(PEOPLE)
    with pytest.raises(psycopg.Error) as refused:
        run_sql(RISK, "app.people", names, options)
    assert code is None or refused.value.sqlstate == code
    assert "qz" not in str(refused.value)


def test_it_reads_with_the_callers_rights(run_sql: Run, sql_role: Callable[..., str]) -> None:
    run_sql(PEOPLE)
    run_sql(PERSONS)
    url = sql_role("measured")
    run_sql("GRANT SELECT (id, age, region) ON app.people TO measured")
    [(count,)] = run_sql(
        "SELECT value FROM dbanon.disclosure_risk('app.people', '{age,region}',"
        ' \'{"key": ["id"]}\') LIMIT 1',
        url=url,
    )
    assert count == 120
    for names, options in (
        (["age", "sex"], "{}"),
        (["age"], '{"weight": "w"}'),
        (["age"], '{"population": "app.persons"}'),
        (["age"], '{"released": "app.persons"}'),
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run_sql(RISK, "app.people", names, options, url=url)
    run_sql("REVOKE dbanon_runner FROM measured")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql(RISK, "app.people", ["age"], "{}", url=url)


@pytest.mark.parametrize("options", [{}, {"weight": "w", "household": "home", "suda_size": 2}])
def test_it_measures_a_release_likewise(
    run_sql: Run, sql_url: str, options: dict[str, Any]
) -> None:
    run_sql(PEOPLE)
    # Intervals are values of a range type, and the weights were not kept.
    run_sql(
        "CREATE TABLE app.released AS SELECT int4range(20, 26) AS age, region,"
        " NULL::text AS sex, home FROM app.people"
    )
    options = {**options, "released": "app.released"}
    rows = run_sql(RISK, "app.people", NAMES, json.dumps(options))
    comparison = dbanon.disclosure_risk(sql_url, "app.people", quasi_identifiers=NAMES, **options)
    assert isinstance(comparison, dbanon.RiskComparison)
    assert rows == list(comparison.measure_rows())
    figures = {measure: value for measure, _, value, _ in rows}
    assert figures["sample_uniques"] > figures["after_sample_uniques"] == 0
    assert figures["after_classes"] == 5
    assert ("after_household_risk" in figures) == ("household" in options)
    assert [note for *_, note in rows].count(rows[-1][3]) == 1
    of_ranges = run_sql(RISK, "app.people", ["age"], '{"released": "app.released"}')
    assert ("after_classes", None, 1.0, None) in of_ranges


EVALUATE = "SELECT * FROM dbanon.evaluate(%s, %s, %s)"
RELEASE = (
    "SELECT rows_out FROM dbanon.gaa_cp('app.people', 'release.p', '{age,region}', 4,"
    """ options => '{"design_weight": "w"}')"""
)


@pytest.mark.parametrize("options", [{}, {"household": "home", "suda": True}])
def test_evaluate_measures_source_and_release(
    run_sql: Run, sql_url: str, options: dict[str, Any]
) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE)
    rows_without_risk = run_sql(EVALUATE, "release.p", "app.people", "{}")
    rows = run_sql(EVALUATE, "release.p", "app.people", json.dumps({"risk": options}))
    assert [row for row in rows if row in rows_without_risk] == rows_without_risk
    risk: Any = dbanon.evaluate_release(
        sql_url, "release.p", original="app.people", risk=options
    ).risk
    assert [row for row in rows if row not in rows_without_risk] == list(risk.measure_rows())
    assert any("For the controller of the data" in str(row[3]) for row in rows)
    # A view has no key, and its rows need none.
    run_sql("CREATE VIEW app.seen AS SELECT * FROM app.people")
    of_view = run_sql(EVALUATE, "release.p", "app.seen", json.dumps({"risk": options}))
    assert of_view == rows


def test_evaluate_measures_tables_of_any_origin(run_sql: Run) -> None:
    run_sql(PEOPLE)
    run_sql("CREATE TABLE app.released AS SELECT 7 AS age, region FROM app.people WHERE id > 20")
    options = {"quasi_identifiers": ["age", "region"], "risk": {"weight": "w"}}
    rows = run_sql(EVALUATE, "app.released", "app.people", json.dumps(options))
    figures = {measure: value for measure, _, value, _ in rows}
    assert (figures["records"], figures["after_records"]) == (120, 100)
    assert figures["after_classes"] == 5


@pytest.mark.parametrize(
    ("source", "risk", "words"),
    [
        (None, {}, "Name it: dbanon.evaluate(release, source, options)."),
        ("app.people", {"wieght": "w"}, 'Did you mean "weight"'),
        ("app.people", {"population": "app.people"}, "Known options: quasi_identifiers, weight"),
        ("app.people", {"weight": 3}, "risk.weight must be"),
        ("app.people", {"suda_size": 9}, "Leave out risk.suda_size"),
        ("app.people", [], "must be an object"),
        ("app.people", None, "must be an object"),
    ],
)
def test_evaluate_refuses_wrong_options(
    run_sql: Run, source: str | None, risk: object, words: str
) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE)
    with pytest.raises(psycopg.Error) as refused:
        run_sql(EVALUATE, "release.p", source, json.dumps({"risk": risk}))
    assert refused.value.sqlstate == "22023"
    assert words in f"{refused.value.diag.message_primary} {refused.value.diag.message_hint}"


@pytest.mark.parametrize(
    ("entity", "options"), [("home", {}), ("pid", {"entity_normalize": "casefold"})]
)
def test_evaluate_refuses_persons_with_several_rows(
    run_sql: Run, entity: str, options: dict[str, str]
) -> None:
    run_sql(PEOPLE)
    run_sql("ALTER TABLE app.people ADD pid text")
    run_sql("UPDATE app.people SET pid = CASE WHEN id = 2 THEN 'P-1' ELSE 'p-' || id END")
    call = (
        "SELECT rows_out FROM dbanon.gaa_cp('app.people', 'release.p', '{age}', 4,"
        " entity => %s, options => %s)"
    )
    run_sql(call, entity, json.dumps(options))
    with pytest.raises(psycopg.Error, match="persons have several rows"):
        run_sql(EVALUATE, "release.p", "app.people", '{"risk": {}}')


def test_evaluate_needs_python_in_the_server(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(PEOPLE)
    run_sql(RELEASE)
    with connect() as connection, connection.transaction(force_rollback=True):
        connection.execute("DROP FUNCTION dbanon._disclosure_risk(jsonb)")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            connection.execute(EVALUATE, ("release.p", "app.people", '{"risk": {}}'))
    assert "dbanon evaluate URL RELEASE" in str(refused.value.diag.message_hint)


def test_evaluate_measures_with_the_callers_rights(
    run_sql: Run, sql_role: Callable[..., str]
) -> None:
    """A role that may only read the release learns nothing about its source."""
    run_sql(PEOPLE)
    run_sql(RELEASE)
    url = sql_role("reader")
    run_sql("GRANT SELECT ON release.p TO reader")
    assert run_sql(EVALUATE, "release.p", None, "{}", url=url)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql(EVALUATE, "release.p", "app.people", '{"risk": {}}', url=url)
