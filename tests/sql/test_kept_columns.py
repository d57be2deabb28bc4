"""Kept columns that reveal too much, in SQL calls: a NOTICE, the summary, and strict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.errors import KeptColumnTells
from dbanon.release.attribute_disclosure import PersonSpellings, RetainedIdentifier

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# "gen" shows the original defect; each value of "i" covers several rows.
PEOPLE = (
    "CREATE TABLE app.people (i int, z int, gen int GENERATED ALWAYS AS (i * 2) STORED,"
    " own text, part int, gap int)",
    "INSERT INTO app.people (i, z, own, part, gap) SELECT 18 + g * 7919 % 50, g * 104729 % 97,"
    " 'secret ' || g, g % 4, NULLIF(g % 3, 0) FROM generate_series(1, 500) AS g",
)
KEEP = "keep => '{gen,own,part,gap}'"
CALL = "SELECT * FROM dbanon.mdav('app.people', 'release.{}', '{{i,z}}', 5, {})"


def test_notices_summary_and_the_same_by_both_ways(
    run_sql: Run, sql_url: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    for statement in PEOPLE:
        run_sql(statement)
    messages: list[tuple[str | None, str | None]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    connection.execute(CALL.format("p", KEEP))  # type: ignore[call-overload]
    connection.commit()
    with pytest.warns(KeptColumnTells):
        report = dbanon.anonymize(
            create_engine(sql_url, poolclass=NullPool),
            table="app.people",
            output="release.client",
            quasi_identifiers=["i", "z"],
            k=5,
            keep=["gen", "own", "part", "gap"],
        )
    assert {column.name: column.determines for column in report.disclosive_columns} == {
        "gen": "i",
        "own": None,
    }
    notices = [f"dbanon: column {column.describe(5)}" for column in report.disclosive_columns]
    assert messages == [("NOTICE", text) for text in notices]
    assert "secret" not in str(messages)
    expected = [vars(column) for column in report.disclosive_columns]
    recorded = run_sql("SELECT arguments->'disclosive_columns' FROM dbanon.release")
    assert recorded == [(expected,)] * 2
    assert run_sql("SELECT arguments->'disclosive_columns' FROM release.p_summary") == [(expected,)]


def test_strict(run_sql: Run) -> None:
    for statement in PEOPLE:
        run_sql(statement)
    strict = "options => '{\"strict\": true}'"
    for column in ("gen", "own"):
        with pytest.raises(psycopg.Error) as caught:
            run_sql(CALL.format("p", f"keep => '{{{column}}}', {strict}"))
        assert caught.value.sqlstate == "ZK005"
        assert f'"{column}"' in str(caught.value.diag.message_detail)
        assert "secret" not in str(caught.value)
    assert run_sql("SELECT to_regclass('release.p'), count(*) FROM dbanon.release") == [(None, 0)]
    run_sql(CALL.format("p", f"keep => '{{part,gap}}', {strict}"))
    with pytest.raises(psycopg.Error) as caught:
        run_sql(CALL.format("q", 'options => \'{"strict": "yes"}\''))
    assert caught.value.sqlstate == "22023"


def test_identifiers_are_a_warning(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT 18 + g % 50 AS i, 'n' || g % 12 AS full_name, 'p' ||"
        " g % 12 || '@example.org' AS contact, gen_random_uuid() AS token, g % 4 AS part"
        " FROM generate_series(1, 300) AS g"
    )
    messages: list[tuple[str | None, str | None]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    roles = "keep => '{full_name,contact,part}', sensitive => '{token}'"
    call = CALL.replace("{{i,z}}", "{{i}}").format("p", roles)
    connection.execute(call)  # type: ignore[call-overload]
    connection.commit()
    expected_identifiers = [
        RetainedIdentifier("token", "type"),
        RetainedIdentifier("full_name", "name"),
        RetainedIdentifier("contact", "form"),
    ]
    warned = [text for severity, text in messages if severity == "WARNING"]
    assert warned == [f"dbanon: column {suspect.describe(5)}" for suspect in expected_identifiers]
    assert "@" not in str(warned)
    recorded = run_sql("SELECT arguments->'kept_identifiers' FROM dbanon.release")
    assert recorded == [([vars(suspect) for suspect in expected_identifiers],)]
    strict = "keep => '{full_name}', options => '{\"strict\": true}'"
    with pytest.raises(psycopg.Error, match="looks like an identifier") as caught:
        run_sql(CALL.replace("{{i,z}}", "{{i}}").format("q", strict))
    assert caught.value.sqlstate == "ZK005"


def test_spellings_of_one_person(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(
        "CREATE TABLE app.people AS SELECT g / 4 AS i, CASE g % 4 WHEN 0 THEN 'P' WHEN 1 THEN ' p'"
        " WHEN 2 THEN chr(9) || 'P' ELSE 'p' END || g / 4 AS patient FROM generate_series(0, 199) g"
    )
    messages: list[tuple[str | None, str | None]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    call = CALL.replace("{{i,z}}", "{{i}}")
    plain = call.format("p", "entity => 'patient'")
    connection.execute(plain)  # type: ignore[call-overload]
    connection.commit()
    spellings = PersonSpellings("patient", 0.75)
    assert ("NOTICE", f"dbanon: column {spellings.describe(5)}") in messages
    options = '{"entity_normalize": "casefold", "strict": true, "releases": "independent"}'
    other_call = f"entity => 'patient', options => '{options}'"
    run_sql(call.format("q", other_call))
    persons = run_sql("SELECT arguments->'persons' FROM dbanon.release ORDER BY created_at")
    assert persons == [(200,), (50,)]


def test_rows_that_are_withheld_do_not_count(run_sql: Run) -> None:
    for statement in PEOPLE:
        run_sql(statement)
    run_sql("ALTER TABLE app.people ALTER gen DROP EXPRESSION")
    run_sql("INSERT INTO app.people SELECT i + 1, NULL, gen, own, part, gap FROM app.people")
    run_sql(CALL.format("p", "keep => '{gen}', nulls => 'suppress', max_suppression => 1"))
    assert run_sql("SELECT rows_out, arguments->'disclosive_columns' FROM dbanon.release") == [
        (500, [{"name": "gen", "determines": "i", "share": 1.0}])
    ]
    # Twice in one transaction: staging tables must be gone.
    run_sql(CALL.format("q", "keep => '{gen}', nulls => 'suppress', max_suppression => 1"))


def test_no_code_of_another_role_runs(run_sql: Run) -> None:
    """A kept column's cast to text may belong to anybody: it is not used."""
    run_sql("CREATE TYPE app.pair AS (a int, b int)")
    run_sql(
        "CREATE FUNCTION app.evil(app.pair) RETURNS text LANGUAGE plpgsql IMMUTABLE AS"
        " $$BEGIN RAISE EXCEPTION 'ran'; END$$"
    )
    run_sql("CREATE CAST (app.pair AS text) WITH FUNCTION app.evil(app.pair)")
    run_sql(
        "CREATE TABLE app.people AS SELECT g * 7919 % 50 AS i, g * 104729 % 97 AS z,"
        " (g * 7919 % 50, 1)::app.pair AS kept, '{}'::json AS doc FROM generate_series(1, 500) AS g"
    )
    run_sql(CALL.format("p", "keep => '{kept,doc}'"))
    assert run_sql("SELECT arguments->'disclosive_columns' FROM dbanon.release") == [
        ([{"name": "kept", "determines": "i", "share": 1.0}],)
    ]


def test_they_never_leave_by_a_call(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """The client's ``kept_columns`` is not an option here, and not ignored either."""
    for statement in PEOPLE:
        run_sql(statement)
    with pytest.raises(psycopg.Error) as caught:
        connect().execute(
            CALL.format("p", 'options => \'{"kept_columns": "client"}\'')  # type: ignore[arg-type]
        )
    assert caught.value.sqlstate == "22023"
    assert "There is no option" in str(caught.value)
    assert "kept_columns" not in str(caught.value.diag.message_hint)
