"""Classes with one person, in SQL: a NOTICE, the summary, strict, and rights by column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# Fifty patients with ten stays each, all with the same birth date and postcode.
STAYS = (
    "CREATE TABLE app.stays AS SELECT g AS stay_no, 9000 + g % 50 AS patient_id,"
    " date '1950-01-01' + 37 * (g % 50) AS born, 10000 + 7 * (g % 50) AS zip"
    " FROM generate_series(1, 500) AS g"
)
CALL = "SELECT * FROM dbanon.mdav('app.stays', 'release.stays', '{born,zip}', 5%s)"


def test_notices_and_the_summary(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(STAYS)
    messages: list[tuple[str | None, str]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, str(d.message_primary))))
    connection.execute(CALL % "")  # type: ignore[call-overload]
    [(severity, text), *notices] = messages
    assert (severity, text.partition(",")[0]) == (
        "NOTICE",
        'dbanon: column "patient_id" looks like a person identifier',
    )
    assert "100% of the classes hold fewer than 5 of its values" in text
    assert not any("patient_id" in text and "looks like" in text for _, text in notices)
    expected = [{"name": "patient_id", "share": 1.0}]
    assert run_sql("SELECT arguments->'few_persons' FROM dbanon.release") == [(expected,)]
    assert run_sql("SELECT arguments->'few_persons' FROM release.stays_summary") == [(expected,)]


def test_strict(run_sql: Run) -> None:
    run_sql(STAYS)
    strict = ", options => '{\"strict\": true}'"
    with pytest.raises(psycopg.Error) as caught:
        run_sql(CALL % strict)
    assert caught.value.sqlstate == "ZK005"
    assert '"patient_id"' in str(caught.value.diag.message_detail)
    assert "entity" in str(caught.value.diag.message_hint)
    assert run_sql("SELECT to_regclass('release.stays'), count(*) FROM dbanon.release") == [
        (None, 0)
    ]
    run_sql(CALL % (strict + ", entity => 'patient_id'"))


def test_a_role_that_may_not_read_the_number(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    """Columns that a release does not name need no right: the person identifier is skipped."""
    run_sql(STAYS)
    run_sql("ALTER TABLE app.stays ADD PRIMARY KEY (stay_no)")
    run_sql("CREATE ROLE persons_runner")
    try:
        run_sql("GRANT USAGE ON SCHEMA app, dbanon TO persons_runner")
        run_sql("GRANT USAGE, CREATE ON SCHEMA release TO persons_runner")
        run_sql("GRANT SELECT (stay_no, born, zip) ON app.stays TO persons_runner")
        run_sql("GRANT dbanon_runner TO persons_runner")
        connection = connect()
        connection.execute("SET ROLE persons_runner")
        connection.execute(CALL % "")  # type: ignore[call-overload]
        assert run_sql("SELECT arguments->'few_persons' FROM dbanon.release") == [(None,)]
    finally:
        run_sql("DROP OWNED BY persons_runner")
        run_sql("DROP ROLE persons_runner")
