"""Classes that reveal a sensitive value: a NOTICE, the ledger and the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# Types without equality, and a column with a non-default collation.
PEOPLE = (
    "CREATE TABLE app.people AS SELECT 18 + g % 50 AS age, CASE WHEN g % 50 < 10 THEN 'flu'"
    " ELSE 'c' || g % 7 END COLLATE \"C\" AS ill, json_build_object('of', g % 50 < 10) AS note,"
    " CASE WHEN g % 50 < 5 THEN point(1, 2) END AS place FROM generate_series(1, 500) AS g"
)
CALL = (
    "SELECT * FROM dbanon.mdav('app.people', 'release.people', '{{age}}', 5,"
    " sensitive => '{{ill,note,place}}'{})"
)
COUNTED = {"ill": 10, "note": 50, "place": 50}


def said_by(connection: psycopg.Connection[Any], call: str) -> list[tuple[str | None, str]]:
    notices: list[tuple[str | None, str]] = []
    connection.add_notice_handler(lambda d: notices.append((d.severity, str(d.message_primary))))
    connection.execute(call)  # type: ignore[call-overload]
    connection.commit()
    return [(severity, text) for severity, text in notices if "all rows of a class" in text]


def test_notices_and_the_summary(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(PEOPLE)
    notices = said_by(connect(), CALL.format(""))
    assert [severity for severity, _ in notices] == ["NOTICE"] * len(COUNTED)
    for (_, text), (name, classes) in zip(notices, COUNTED.items(), strict=True):
        rows = 10 * classes
        assert f'column "{name}" has one value' in text
        assert f"in {classes} of 50 classes, {rows} of 500 rows:" in text
    expected = [
        {"name": name, "classes": n, "rows": 10 * n, "of_classes": 50, "of_rows": 500}
        for name, n in COUNTED.items()
    ]
    for table in ("dbanon.release", "release.people_summary"):
        [(recorded,)] = run_sql(f"SELECT arguments->'homogeneity' FROM {table}")
        assert recorded == expected


def test_a_model_ends_the_notice(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    run_sql(PEOPLE)
    model = '[{"attribute": "ill", "kind": "distinct_l", "level": 2}]'
    notices = said_by(connect(), CALL.format(f", options => '{{\"models\": {model}}}'"))
    assert ['"ill"' in text for _, text in notices] == [False, False]
