"""Columns of Mallory's types read by a superuser: none of his code may run.

Covers checks of domains, casts of enums and row types, functions of range types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest

import dbanon
from dbanon.errors import DbanonError
from dbanon.run.hierarchies import read_column_values
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.conftest import CAMPAIGN
from tests.postgres_server import Server
from tests.sql.mallory import MOOD, PLAIN_MOOD, cast, sprung

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

# Column types: the statements that create the type, its name, and SQL for the value in row g.
TYPES: dict[str, tuple[str, str, str]] = {
    "domain": ("CREATE DOMAIN evil.d AS integer CHECK (evil.spring());", "evil.d", "g % 7"),
    "nested domain": (
        "CREATE DOMAIN evil.d0 AS numeric(8,2) CHECK (evil.spring());"
        "CREATE DOMAIN evil.d AS evil.d0;",
        "evil.d",
        "g % 7",
    ),
    "domain over text": (
        "CREATE DOMAIN evil.d AS text CHECK (evil.spring() OR VALUE = '');",
        "evil.d",
        "'v' || g % 4",
    ),
    "domain over dates": (
        "CREATE DOMAIN evil.d AS date CHECK (evil.spring());",
        "evil.d",
        "date '2020-01-01' + g % 7",
    ),
    "unique domain": (
        "CREATE DOMAIN evil.d AS text CHECK (evil.spring());",
        "evil.d",
        "'v' || g",
    ),
    "superuser's domain, my check": ("", "app.d", "g % 7"),
    "enum to text": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "enum to text, assigned": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text", "AS ASSIGNMENT"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "enum to text, implicit": (
        MOOD + cast("evil.mood", "text", "enum_out(a)::text", "AS IMPLICIT"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "text to enum": (
        MOOD + cast("text", "evil.mood", "'sad'"),
        "evil.mood",
        "format('%s', 'calm')::evil.mood",
    ),
    "enum to number": (
        MOOD + cast("evil.mood", "double precision", "1.0", "AS IMPLICIT"),
        "evil.mood",
        PLAIN_MOOD,
    ),
    "enum to json": (MOOD + cast("evil.mood", "json", "'1'::json"), "evil.mood", PLAIN_MOOD),
    "enum to jsonb": (MOOD + cast("evil.mood", "jsonb", "'1'::jsonb"), "evil.mood", PLAIN_MOOD),
    "domain over enum": (
        MOOD
        + cast("evil.mood", "text", "enum_out(a)::text")
        + "CREATE DOMAIN evil.d AS evil.mood CHECK (evil.spring());",
        "evil.d",
        PLAIN_MOOD,
    ),
    "enum called int4": (
        "CREATE TYPE evil.int4 AS ENUM ('1', '2', '3');"
        + cast("evil.int4", "double precision", "1.0")
        + cast("evil.int4", "bigint", "1"),
        "evil.int4",
        "format('%s', 1 + g % 3)::text::evil.int4",
    ),
    "enum called date": (
        "CREATE TYPE evil.date AS ENUM ('1', '2', '3');"
        + cast("evil.date", "pg_catalog.date", "date '2020-01-01'"),
        "evil.date",
        "(ARRAY['1', '2', '3'])[1 + g % 3]::evil.date",
    ),
    "enum called text": (
        "CREATE TYPE evil.text AS ENUM ('1', '2', '3');"
        + cast("evil.text", "pg_catalog.text", "'a'::pg_catalog.text"),
        "evil.text",
        "(ARRAY['1', '2', '3'])[1 + g % 3]::evil.text",
    ),
    "row": (
        "CREATE TYPE evil.pair AS (a integer, b pg_catalog.text);"
        + cast("evil.pair", "text", "'p'")
        + cast("evil.pair", "json", "'1'::json"),
        "evil.pair",
        "ROW(g % 3, 'b')::evil.pair",
    ),
    "range": (
        "CREATE FUNCTION evil.apart(a integer, b integer) RETURNS double precision LANGUAGE plpgsql"
        " IMMUTABLE AS $$ BEGIN PERFORM evil.note(); RETURN a - b; END $$;"
        "CREATE TYPE evil.span AS RANGE (subtype = integer, subtype_diff = evil.apart);",
        "evil.span",
        "evil.span(g % 5, g % 5 + 2)",
    ),
    "array of a domain": (
        "CREATE DOMAIN evil.d AS integer CHECK (evil.spring());",
        "evil.d[]",
        "ARRAY[g % 3]::evil.d[]",
    ),
    "array of an enum": (
        MOOD + cast("evil.mood[]", "text", "'a'"),
        "evil.mood[]",
        f"ARRAY[{PLAIN_MOOD}]",
    ),
}

# All statements that read the column x or pass it on.
SURFACES = {
    "quasi-identifier": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{x}}', 5)",
    "two quasi-identifiers": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n,x}}', 5)",
    "generalized": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{n,x}}', 5)",
    "ranges": "SELECT dbanon.mondrian('evil.t', 'release.{o}', '{{x}}', 5,"
    ' options => \'{{"intervals": "range"}}\')',
    "medoid": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{x}}', 5,"
    ' options => \'{{"recoding": "medoid"}}\')',
    "stratum": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 2,"
    ' options => \'{{"by": ["x"]}}\')',
    "sensitive": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, sensitive => '{{x}}')",
    "kept": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, keep => '{{x}}')",
    "kept, as a view": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, keep => '{{x}}',"
    ' options => \'{{"output_kind": "view"}}\')',
    "model": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5, sensitive => '{{x}}',"
    ' options => \'{{"distinct_l": {{"x": 2}}}}\')',
    "model with order": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    " sensitive => '{{x}}',"
    ' options => \'{{"t_closeness": {{"x": {{"level": 0.9, "distance": "ordered"}}}}}}\')',
    "entity": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 2, entity => 'x')",
    "key": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    ' options => \'{{"key": ["x"]}}\')',
    "key of two": "SELECT dbanon.mdav('evil.t', 'release.{o}', '{{n}}', 5,"
    ' options => \'{{"key": ["x", "id"]}}\')',
    "classes": "SELECT * FROM dbanon.classes('evil.t', 'gaa_cp', '{{x}}', 5)",
    "classes by key": "SELECT * FROM dbanon.classes('evil.t', 'mdav', '{{n}}', 5,"
    ' \'{{"key": ["id", "x"]}}\')',
    "classes of entities": "SELECT * FROM dbanon.classes('evil.t', 'mdav', '{{n}}', 2,"
    ' \'{{"entity": "x"}}\')',
    "suggest_hierarchy": "SELECT dbanon.suggest_hierarchy('evil.t', 'x')",
    "check_hierarchy": "SELECT * FROM dbanon.check_hierarchy("
    '\'{{"tree": {{"*": ["a", "b"]}}}}\', \'evil.t\', \'x\')',
    "hierarchy": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{label}}', 5,"
    ' hierarchies => \'{{"label": {{"table": "evil.tree"}}}}\')',
    "hierarchy of ways": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{label}}', 5,"
    ' hierarchies => \'{{"label": {{"table": "evil.ways"}}}}\')',
    "store_hierarchy": "SELECT dbanon.store_hierarchy('{o}', '{{\"table\": \"evil.tree\"}}')",
    "enum hierarchy": "SELECT dbanon.gaa_cp('evil.t', 'release.{o}', '{{x}}', 5,"
    ' hierarchies => \'{{"x": {{"enum": true}}}}\')',
    "k_anonymity": "SELECT dbanon.k_anonymity('evil.t', '{{x}}')",
    "equivalence_classes": "SELECT * FROM dbanon.equivalence_classes('evil.t', '{{x,n}}')",
    "verify": "SELECT dbanon.verify('evil.t', '{{x}}', 2)",
    "information_loss": "SELECT dbanon.information_loss('evil.t', 'evil.t', '{{x}}')",
    "evaluate": "SELECT dbanon.evaluate('evil.t', 'evil.t',"
    ' \'{{"quasi_identifiers": ["x", "n", "label"]}}\')',
}


def make_table(mallory: psycopg.Connection[Any], kind: str) -> None:
    """Create Mallory's tables with a column x of his type."""
    definition, sql_type, value = TYPES[kind]
    mallory.execute(definition.encode())
    for statement in (
        f"CREATE TABLE evil.t AS SELECT g AS id, sin(g) AS n, ({value})::{sql_type} AS x,"
        " 'l' || g % 3 AS label FROM generate_series(1, 60) AS g",
        "CREATE TABLE evil.tree AS SELECT x AS child, x AS parent FROM evil.t",
        "CREATE TABLE evil.ways AS SELECT x AS leaf, label AS level1, 'all' AS level2 FROM evil.t",
        "SELECT setval('evil.sprung', 1, false)",
    ):
        mallory.execute(statement.encode())


@pytest.mark.parametrize("kind", TYPES)
def test_no_code_of_a_columns_type_runs(
    run_sql: Run, mallory: psycopg.Connection[Any], kind: str
) -> None:
    make_table(mallory, kind)
    caught: list[str] = []
    wrong: list[object] = []
    turn = list(TYPES).index(kind)
    for number, (surface, statement) in enumerate(SURFACES.items()):
        # Each type at a third of the statements, and each statement with a third of the types.
        if not CAMPAIGN and kind != "domain" and (number + turn) % 3:
            continue
        try:
            run_sql(statement.format(o=f"o{number}"))
        except psycopg.Error as error:
            # Refused because of the type, and never by a server error in the middle.
            if error.sqlstate in ("42725", "42883", "58000", "XX000"):
                wrong.append((surface, error))
        if sprung(run_sql):
            caught.append(surface)
    assert (caught, wrong) == ([], [])


AT_THE_CLIENT = (
    "domain",
    "superuser's domain, my check",
    "enum to text, implicit",
    "text to enum",
    "enum to number",
    "domain over enum",
    "enum called int4",
    "row",
    "range",
    "array of an enum",
)


@pytest.mark.parametrize("kind", AT_THE_CLIENT)
def test_no_code_of_a_columns_type_runs_for_a_client(
    run_sql: Run, mallory: psycopg.Connection[Any], sql_url: str, sql_server: Server, kind: str
) -> None:
    make_table(mallory, kind)
    argument_sets: list[dict[str, Any]] = [
        {"quasi_identifiers": ["x"]},
        {"quasi_identifiers": ["n", "x"], "method": "gaa_cp"},
        {"quasi_identifiers": ["n"], "by": ["x"]},
        {
            "quasi_identifiers": ["n"],
            "sensitive": ["x"],
            "models": [dbanon.Model("distinct_l", "x", 2)],
        },
        {"quasi_identifiers": ["n"], "entity": "x"},
        {"quasi_identifiers": ["n"], "key": ["x", "id"]},
        {
            "quasi_identifiers": ["label"],
            "method": "gaa_cp",
            "hierarchies": {"label": {"table": "evil.tree"}},
        },
        {"quasi_identifiers": ["n"], "keep": ["x"]},
    ]
    caught: list[str] = []
    wrong: list[object] = []

    def attempt(label: str, call: Callable[[], object]) -> None:
        try:
            call()
        except DbanonError as error:
            if error.exit_code == 4:
                wrong.append((label, error))
        if sprung(run_sql):
            caught.append(label)

    def release(index: int, target: str | None) -> object:
        return dbanon.anonymize(
            sql_url,
            table="evil.t",
            output=f"release.o{index}",
            k=2,
            target=target,
            **argument_sets[index],
        )

    # The first type at every position; the others at every second one in turn.
    turn = AT_THE_CLIENT.index(kind)
    places = [p for p in range(len(argument_sets)) if CAMPAIGN or not turn or (p + turn) % 2]
    for index in places:
        attempt(str(argument_sets[index]), partial(release, index, None))
    with sql_server.database() as other:
        for index in {1, 2, len(argument_sets) - 1} & {*places}:
            attempt(f"{argument_sets[index]} elsewhere", partial(release, index, other))
    store, relation = open_store(sql_url), parse_relation("evil.t")
    attempt("verify", lambda: verify(store, relation, ["x"], 2))
    attempt("column_values", lambda: read_column_values(store, relation, "x"))
    assert (caught, wrong) == ([], [])


RELEASED = {
    # The type of the released column, computed and copied.
    "domain": ("integer", "integer"),
    "nested domain": ("numeric(8,2)", "numeric(8,2)"),
    "domain over text": (None, "text"),
    "domain over dates": ("date", "date"),
    "superuser's domain, my check": ("integer", "integer"),
    "enum to text, implicit": ("text", "text"),
    "text to enum": ("text", "text"),
    "domain over enum": ("text", "text"),
    "enum called int4": ("text", "text"),
}


@pytest.mark.parametrize("kind", RELEASED)
def test_a_release_has_no_type_of_another_role(
    run_sql: Run, mallory: psycopg.Connection[Any], connect: Connect, kind: str
) -> None:
    """Otherwise its owner could add a check that runs over the release, or drop the column."""
    make_table(mallory, kind)
    admin = connect()
    computed, kept_type = RELEASED[kind]
    admin.execute(b"SELECT dbanon.mdav('evil.t', 'release.kept', '{n}', 5, keep => '{x,id}')")
    expected = {"kept": kept_type}
    if computed is not None:
        admin.execute(b"SELECT dbanon.mdav('evil.t', 'release.made', '{x}', 5)")
        expected["made"] = computed
    actual = run_sql(
        "SELECT c.relname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
        " JOIN pg_class c ON c.oid = a.attrelid WHERE a.attname = 'x' AND c.relnamespace ="
        " 'release'::regnamespace AND c.relname IN ('kept', 'made')"
    )
    assert dict(actual) == expected
    same = run_sql(
        "SELECT count(*) FROM release.kept AS r JOIN evil.t AS t USING (id)"
        " WHERE format('%s', r.x) = format('%s', t.x)"
    )
    assert same == [(60,)]
    run_sql("SELECT setval('evil.sprung', 1, false)")
    mallory.execute(b"DROP SCHEMA evil CASCADE" if kind != "superuser's domain, my check" else b"")
    assert run_sql("SELECT count(x) FROM release.kept") == [(60,)]
