"""A job's condition: only rows that meet it are used, whatever the other options."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dbanon
from dbanon.errors import InvalidParameter, NullInQuasiIdentifier, TooFewRecords
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.people import COLUMNS, load_people, rows_of_people

DATABASES = ALL_NAMES

AGES = {"quasi_identifiers": ["age"], "keep": ["site"]}


def old(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return [row for row in rows if row[2] >= 50]


@pytest.mark.parametrize("key", [True, False], ids=["key", "address"])
def test_only_chosen_rows_are_released_and_the_ledger_has_the_condition(
    database: Database, key: bool
) -> None:
    rows = load_people(database, key=key)
    where = "age >= 50 AND site <> 'a;b -- c (' "
    report = database.anonymize(**AGES, where=where)
    sites = {row[7] for row in old(rows)}
    assert 3 <= len(sites) < len(rows)
    assert report.rows_in == report.rows_out == len(sites)
    assert report.suppressed == 0
    rows_of_sites = database.rows(f"SELECT site FROM {database.relation('release.people')}")
    assert {site for (site,) in rows_of_sites} == sites
    [(arguments,)] = database.rows(f"SELECT arguments FROM {database.ledger()}")
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert arguments["where"] == where
    rows_of_sites = verify(open_store(database.url), parse_relation("release.people"))
    assert rows_of_sites.unchanged is True


def test_the_rows_that_are_left_out_shape_nothing(database: Database) -> None:
    """The same release, to the last value, as of a table that has only the chosen rows."""
    rows = load_people(database)
    wild = [
        (900 + i, "x", 1, 9_999_999, 999.5, row[5], row[6], "out") for i, row in enumerate(rows[:3])
    ]
    load_people(database, rows + wild, "more")
    options: dict[str, Any] = {
        "quasi_identifiers": ["age", "income", "height", "born", "seen", "name"],
        "method": "kmember",
        "keep": ["id"],
    }
    database.anonymize(**options, output="release.one")
    database.anonymize(**options, table="more", output="release.two", where="site <> 'out'")
    first, two = (
        sorted(database.rows(f"SELECT * FROM {database.relation(f'release.{name}')}"), key=str)
        for name in ("one", "two")
    )
    assert first == two


def test_nulls_outside_of_the_condition_refuse_nothing(database: Database) -> None:
    rows = rows_of_people()
    rows[0] = (*rows[0][:2], None, *rows[0][3:])
    load_people(database, rows)
    with pytest.raises(NullInQuasiIdentifier):
        database.anonymize(**AGES)
    assert database.anonymize(**AGES, where="age IS NOT NULL").rows_in == len(rows) - 1
    report = database.anonymize(
        **AGES, where="id <= 20", nulls="suppress", max_suppression=0.5, output="release.two"
    )
    assert (report.rows_in, report.suppressed) == (20, 1)


def test_persons_models_strata_and_stated_keys_are_of_chosen_rows(database: Database) -> None:
    rows = [
        (i, f"p{i // 2}", 20 + i % 7, 10 + i, 1.5, None, None, "ab"[i // 2 % 2]) for i in range(40)
    ]
    database.load("people", {n: database.types[t] for n, t in COLUMNS.items()}, rows)
    report = database.anonymize(
        quasi_identifiers=["age"],
        entity="name",
        sensitive=["site"],
        by=["born"],
        key=["name", "income"],
        models=[{"kind": "distinct_l", "attribute": "site", "level": 2}],
        where="income < 40",
    )
    assert (report.rows_out, report.persons) == (30, 15)


def test_a_view_with_a_stated_key(database: Database) -> None:
    rows = load_people(database)
    database.execute("CREATE VIEW seen_people AS SELECT id, age, site FROM people")
    report = database.anonymize(table="seen_people", key=["id"], **AGES, where="age >= 50")
    assert report.rows_out == len(old(rows))


def test_plans_count_the_chosen_rows(database: Database) -> None:
    rows = load_people(database)
    planned = dbanon.plan(
        database.url, table="people", output="release.people", k=3, **AGES, where="age >= 50"
    )
    assert planned.rows == len(old(rows))
    with pytest.raises(TooFewRecords):
        database.anonymize(**AGES, where="age > 500")


@pytest.mark.parametrize(
    "where",
    [
        "",
        " ",
        "age > 1; DROP TABLE people",
        "age > 1 -- and",
        "age > 1 /* x",
        "age > 1)",
        "(age > 1",
        "age > 1) OR (1 = 1",
        "site = 'a",
        'site = "a',
        "age = $1",
        "a[1)",
    ],
)
def test_what_is_no_condition_is_refused_before_a_database_sees_it(where: str) -> None:
    with pytest.raises(InvalidParameter, match=r"^where"):
        dbanon.anonymize(
            "duckdb:////nowhere.duckdb", table="t", output="o", k=3, **AGES, where=where
        )


def test_what_the_database_does_not_take_is_refused(database: Database) -> None:
    load_people(database)
    before = database.state()
    for where in ("agee > 1", "age >", "1 = 1 UNION SELECT 1", "age = ?"):
        with pytest.raises(InvalidParameter, match="does not accept the condition"):
            database.anonymize(**AGES, where=where)
        assert database.state() == before, where
