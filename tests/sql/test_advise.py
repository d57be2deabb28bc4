"""``dbanon.advise`` inside PostgreSQL: same advice as the client, for a read-only caller."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, 20 + g * 7 % 60 AS age, g * 977 % 5000 AS income,"
    " 'illness ' || g % 4 AS diagnosis FROM generate_series(1, 120) AS g"
)
ADVISE = "SELECT part, item, found, detail FROM dbanon.advise(%s, %s, %s)"


def test_it_gives_the_clients_advice(run_sql: Run, sql_url: str) -> None:
    run_sql(PEOPLE)
    options = json.dumps({"k": [3, 4, 5], "methods": ["mdav", "mdav+fast"]})
    rows = run_sql(ADVISE, "app.people", ["age", "income"], options)
    advice = dbanon.advise(
        sql_url,
        "app.people",
        quasi_identifiers=["age", "income"],
        k=[3, 4, 5],
        methods=["mdav", "mdav+fast"],
    )

    def timeless(rows: Any) -> list[Any]:
        return [
            (part, item, text, {k: v for k, v in detail.items() if k != "seconds"})
            for part, item, text, detail in json.loads(json.dumps(list(rows)))
        ]

    assert timeless(rows[:-1]) == timeless(advice.table_rows())
    part, item, statement, detail = rows[-1]
    assert (part, item) == ("recommended", "start")
    assert detail["quasi_identifiers"] == ["age", "income"]
    # The proposed statement runs as printed.
    run_sql(statement)
    assert run_sql("SELECT k_requested FROM dbanon.releases()") == [(detail["k"],)]


def test_the_risk_of_the_table_is_estimated_by_its_design_weight(
    run_sql: Run, sql_url: str
) -> None:
    run_sql(PEOPLE)
    run_sql("ALTER TABLE app.people ADD COLUMN wgt float8")
    run_sql("UPDATE app.people SET wgt = 2 + id % 9")
    rows = run_sql(ADVISE, "app.people", ["age", "income"], '{"k": [3], "methods": ["mdav"]}')
    [(part, text, detail)] = [
        (part, text, detail) for part, item, text, detail in rows if item == "risk of the table"
    ]
    expected = dbanon.disclosure_risk(
        sql_url, "app.people", quasi_identifiers=["age", "income"], weight="wgt"
    ).total.expected_reidentifications
    assert (part, text) == ("recommended", detail["text"])
    assert detail["design_weight"] == "wgt"
    assert detail["expected_reidentifications"] == float(f"{expected:.3g}")
    assert "For the controller of the data, not for publication" in text


def test_it_reads_only(run_sql: Run, connect: Callable[..., psycopg.Connection[Any]]) -> None:
    run_sql(PEOPLE)
    with connect() as connection, connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        rows = connection.execute(ADVISE, ("app.people", None, '{"k": [5]}')).fetchall()
    roles = {item: detail["role"] for part, item, _, detail in rows if part == "role"}
    assert roles == {
        "id": "identifier",
        "age": "quasi_identifier",
        "income": "quasi_identifier",
        "diagnosis": "sensitive",
    }
    assert run_sql("SELECT count(*) FROM dbanon.run") == [(0,)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ('{"kk": 3}', "22023"),
        ('{"k": "3"}', "22023"),
        ('{"methods": ["mdave"]}', "22023"),
        ("[]", "22023"),
        ('{"max_risk": 0}', "22023"),
    ],
)
def test_refused_inputs(run_sql: Run, options: str, code: str) -> None:
    run_sql(PEOPLE)
    with pytest.raises(psycopg.Error) as refused:
        run_sql(ADVISE, "app.people", ["age"], options)
    assert refused.value.sqlstate == code


def test_roles_without_read_rights_learn_nothing(
    run_sql: Run, sql_role: Callable[..., str]
) -> None:
    run_sql(PEOPLE)
    url = sql_role("advised")
    run_sql("GRANT SELECT (age) ON app.people TO advised")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run_sql(ADVISE, "app.people", ["age"], "{}", url=url)


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (None, "{}"),
        (["region", "illness"], '{"k": [3]}'),
        (["note"], '{"k": [3], "methods": ["mdav"]}'),
        (["region"], '{"k": [3], "hierarchies": {"region": {"levels": [["a", "*"]]}}}'),
        (["region", "amount"], '{"k": [3], "max_risk": 0}'),
        (["region", "amount"], '{"k": [500]}'),
        (["region", "amount"], '{"memory_limit": 10}'),
    ],
)
def test_no_value_is_revealed(
    connect: Callable[..., psycopg.Connection[Any]], names: list[str] | None, options: str
) -> None:
    with connect() as connection:
        connection.execute(
            "CREATE TABLE app.people AS SELECT g AS id, 731731 + g % 30 * 7 AS amount,"
            " 'qz' || g % 5 AS region, 'qzill ' || g % 3 AS illness, 'qz note ' || g AS note"
            " FROM generate_series(1, 90) AS g"
        )
        connection.execute(
            "INSERT INTO app.people VALUES (91, 737373, 'qzrare', 'qzrare', 'qzrare')"
        )
        notices: list[str] = []
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        try:
            rows = connection.execute(ADVISE, ("app.people", names, options)).fetchall()
            text = json.dumps(rows, ensure_ascii=False)
        except psycopg.Error as error:
            diagnostics = error.diag
            details = (diagnostics.message_detail, diagnostics.message_hint, diagnostics.context)
            text = " ".join(map(str, (error, *details)))
        assert not re.search(r"73173|73737|qz", text + "".join(notices)), text


def test_identifiers_of_a_small_table(run_sql: Run) -> None:
    """Eighteen patients with ten visits each: their IDs are recognized by name and by form."""
    run_sql(
        "CREATE TABLE app.visits AS SELECT 'S' || g % 18 AS usubjid, (100 + g % 18) || '-45-' ||"
        " (6000 + g % 18) AS number_of_somebody, 'p' || g % 18 || '@example.org' AS contact,"
        " g % 18 AS age, 'town ' || g % 3 AS town FROM generate_series(1, 180) AS g"
    )
    rows = run_sql(ADVISE, "app.visits", None, '{"k": [3], "methods": ["gaa_cp"]}')
    roles = {
        item: (detail["role"], detail["reason"]) for part, item, _, detail in rows if part == "role"
    }
    assert roles == {
        "usubjid": ("identifier", "person_name"),
        "number_of_somebody": ("identifier", "form"),
        "contact": ("identifier", "form"),
        "age": ("quasi_identifier", "values"),
        "town": ("quasi_identifier", "values"),
    }
    [recommendation] = [
        text for part, item, text, _ in rows if (part, item) == ("recommended", "entity")
    ]
    assert '"usubjid"' in recommendation
