"""Rows of one person in different classes, in SQL: counted, with a warning."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

VISITS = (
    "CREATE TABLE app.visits (id int PRIMARY KEY, who int, age int, day int)",
    "INSERT INTO app.visits SELECT i, i % 30, 20 + i % 30, i * 37 % 700"
    " FROM generate_series(1, 240) AS i",
)
CALL = (
    "SELECT * FROM dbanon.mdav('app.visits', 'release.{}', '{{age,day}}', 4, entity => 'who',"
    " keep => '{{id}}', if_exists => 'replace', options => %s)"
)
FEWEST = (
    "SELECT min(persons), count(*) FROM (SELECT count(DISTINCT who) AS persons FROM release.v AS r"
    " JOIN app.visits USING (id) GROUP BY r.age, r.day) AS classes"
)


def test_k_persons_per_class_and_a_warning_about_joins(
    run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    for statement in VISITS:
        run_sql(statement)
    messages: list[tuple[str | None, str | None]] = []
    connection = connect()
    connection.add_notice_handler(lambda d: messages.append((d.severity, d.message_primary)))
    options = json.dumps({"persons": "rows"})
    connection.execute(CALL.format("v"), (options,))  # type: ignore[call-overload]
    connection.commit()
    [(fewest, classes)] = run_sql(FEWEST)
    assert fewest >= 4
    assert classes > 30
    [(arguments, k)] = run_sql("SELECT arguments, k_achieved FROM dbanon.release")
    counted = arguments["joint_rows"]
    assert (arguments["person_rows"], k, counted["persons"]) == ("rows", fewest, 30)
    warned = [str(text) for severity, text in messages if severity == "WARNING"]
    assert any(
        text.startswith("dbanon: Rows of one person may lie in different classes")
        and f"{counted['below']} of 30" in text
        for text in warned
    )
    independent = json.dumps({"releases": "independent"})
    run_sql(CALL.format("v"), independent)
    [(fewest, classes)] = run_sql(FEWEST)
    assert fewest >= 4
    assert classes <= 30 // 4
