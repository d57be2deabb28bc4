"""The SQL functions count values as readers see them, like the client: 7.50 differs from 7.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import dbanon
from tests.stores.equal_values import POSTGRESQL

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]

# For all types: values that the type can represent in two ways, if any.
SPELLINGS = {"numeric(9,2)": ("7.50", "7.5"), "date": ("'2000-01-01'", "'2000-1-1'")}


@pytest.fixture
def path(sql_url: str) -> str:
    """A database where unqualified names resolve to app."""
    return f"{sql_url}{'&' if '?' in sql_url else '?'}options=-csearch_path%3Dapp"


@pytest.mark.parametrize("name", list(POSTGRESQL))
def test_functions_distinguish_the_values_readers_see(run_sql: Run, path: str, name: str) -> None:
    values = POSTGRESQL[name]
    for statement in values.before:
        run_sql(statement, url=path)
    run_sql(f"CREATE TABLE app.equal (id integer, x {values.sql_type})", url=path)
    run_sql(
        f"INSERT INTO app.equal SELECT g, CASE g WHEN 0 THEN {values.rare}::{values.sql_type}"
        f" ELSE {values.common}::{values.sql_type} END FROM generate_series(0, 39) AS g",
        url=path,
    )
    assert run_sql("SELECT dbanon.k_anonymity('app.equal', '{x}')") == [(1,)]
    sizes = run_sql("SELECT smallest, classes FROM dbanon.equivalence_classes('app.equal', '{x}')")
    assert sizes == [(1, 1), (39, 1)]
    with pytest.raises(psycopg.Error, match="holds 1 rows") as caught:
        run_sql("SELECT dbanon.verify('app.equal', '{x}', 5)")
    assert caught.value.sqlstate == "ZK001"


@pytest.mark.parametrize("kind", list(SPELLINGS))
def test_values_displayed_equally_are_equal(run_sql: Run, kind: str) -> None:
    rare, common = SPELLINGS[kind]
    run_sql(
        f"CREATE TABLE app.equal AS SELECT CASE g WHEN 0 THEN {rare}::{kind}"
        f" ELSE {common}::{kind} END AS x FROM generate_series(0, 39) AS g"
    )
    assert run_sql("SELECT dbanon.k_anonymity('app.equal', '{x}')") == [(40,)]


def test_column_sets_are_checked_on_the_values_readers_see(run_sql: Run, sql_url: str) -> None:
    run_sql(
        "CREATE TABLE app.equal AS SELECT g AS id, 20 + g % 10 AS age,"
        " CASE g WHEN 0 THEN 7.50 ELSE 7.5 END AS x FROM generate_series(0, 39) AS g"
    )
    options = '{"also_k": [{"columns": ["x"], "k": 5}]}'
    run_sql(
        "SELECT dbanon.mdav('app.equal', 'release.equal', '{age}', 3, keep => '{x}',"
        f" max_suppression => 0.2, options => '{options}')"
    )
    assert run_sql("SELECT x::text, count(*) FROM release.equal GROUP BY 1") == [("7.5", 39)]
    verdict = dbanon.verify(sql_url, "release.equal")
    assert [requirement.counted for requirement in verdict.also_k] == [39]
    run_sql("SELECT dbanon.verify('release.equal')")
