"""Mallory's relations are refused under any settings of the database owner.

Owners set defaults for sessions by ALTER DATABASE, roles for their own by ALTER ROLE. With
`standard_conforming_strings` off, plain literals lose their backslashes, and their regular
expressions match nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import make_url

import dbanon
from dbanon.doors.jobfile.init import render_job_file
from dbanon.errors import ForeignCode
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from dbanon.stores.postgresql.settings import PINNED_SETTINGS
from tests.conftest import CAMPAIGN
from tests.postgres.warm import close_warm
from tests.postgres_server import Server
from tests.sql.mallory import TRAP, calls_not_refused, sprung
from tests.sql.settings_table import MEANINGS, other_values, unknown_settings
from tests.sql.test_attacks_relations import PEOPLE, READS, RELATIONS
from tests.sql.test_attacks_types import SURFACES, TYPES, make_table

pytestmark = [pytest.mark.one_database, pytest.mark.own_backends]

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

OFF = "standard_conforming_strings"
# A form for each part of the query: functions, types, operators, and what an index evaluates.
SAMPLE = (
    "function in a view",
    "domain in a view",
    "columns of a record",
    "cast to json",
    "constant call within an index",
    "constant operator in an index",
)
# One SQL function per code path to the check; the other functions call these.
SQL_DOORS = (
    *READS,
    "SELECT * FROM dbanon.advise('{v}')",
    "SELECT * FROM dbanon.disclosure_risk('{v}', '{{n}}')",
    "SELECT dbanon._require_own_code('{v}'::regclass)",
)


@pytest.fixture
def traps(run_sql: Run, mallory: psycopg.Connection[Any]) -> dict[str, str]:
    """Each form in its own schema: relations that would run Mallory's code, by form."""
    relations = {}
    for number, (form, attack) in enumerate(RELATIONS.items()):
        schema = f"evil{number}"
        run_sql(f"CREATE SCHEMA {schema} AUTHORIZATION mallory")
        # In all forms the function that records calls uses one sequence.
        functions = TRAP.partition("TO PUBLIC;")[2]
        script = "".join((functions, PEOPLE, ";", attack)).replace("evil.", f"{schema}.")
        script = script.replace("'evil'", f"'{schema}'").replace(f"{schema}.sprung", "evil.sprung")
        mallory.execute(script.encode())
        relations[form] = f"{schema}.v"
    sprung(run_sql)
    return relations


def not_refused(
    admin: psycopg.Connection[Any], run_sql: Run, statements: Sequence[str]
) -> list[tuple[str, object]]:
    """Statements that the check does not refuse; the last one checks whether foreign code ran."""
    wrong: list[tuple[str, object]] = []
    for statement in statements:
        try:
            with admin.transaction(force_rollback=True):
                admin.execute(statement.encode())
                wrong.append((statement, "not refused"))
        except psycopg.Error as error:
            if error.sqlstate != "42501" or "role mallory" not in str(error):
                wrong.append((statement, error))
    if sprung(run_sql):
        wrong.append((statements[-1], "it, or one before it, ran foreign code"))
    return wrong


def client_doors(url: str, relation: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """The client's calls that read a relation."""
    where: dict[str, Any] = {"table": relation, "key": ["id"], "quasi_identifiers": ["n"], "k": 5}
    yield "anonymize", lambda: dbanon.anonymize(url, output="release.o", **where)
    yield "verify", lambda: verify(open_store(url), parse_relation(relation), ["n"], 2)
    yield "advise", lambda: dbanon.advise(url, table=relation)
    yield (
        "disclosure_risk",
        lambda: dbanon.disclosure_risk(url, relation, quasi_identifiers=["n"], key=["id"]),
    )
    yield "init", lambda: render_job_file(url, relation, key=["id"])
    yield "plan", lambda: dbanon.plan(url, output="release.o", **where)


def test_every_form_at_every_sql_door(
    run_sql: Run, connect: Connect, traps: dict[str, str]
) -> None:
    admin = connect()
    admin.execute(f"SET {OFF} = off".encode())
    wrong = []
    for number, relation in enumerate(traps.values()):
        # Each call meets forms of every kind; each form meets a fifth of the calls.
        doors = SQL_DOORS if CAMPAIGN or not number else SQL_DOORS[number % 5 :: 5]
        statements = [door.format(v=relation).replace("evil.", f"evil{number}.") for door in doors]
        wrong += not_refused(admin, run_sql, statements)
    assert wrong == []


def test_every_form_at_every_door_of_the_client(
    run_sql: Run, traps: dict[str, str], sql_url: str
) -> None:
    url = with_setting(sql_url, OFF, "off")
    wrong = [
        (form, *case)
        for form in (traps if CAMPAIGN else SAMPLE)
        for case in calls_not_refused(run_sql, client_doors(url, traps[form]))
    ]
    assert wrong == []


@pytest.mark.parametrize(
    "kind", TYPES if CAMPAIGN else ("domain", "enum to text, implicit", "array of an enum")
)
def test_no_code_of_a_columns_type_runs(
    run_sql: Run, connect: Connect, mallory: psycopg.Connection[Any], kind: str
) -> None:
    """Nor does code of types, which are read without it and not refused."""
    make_table(mallory, kind)
    admin = connect()
    for setting in (f"{OFF} = off", "quote_all_identifiers = on", "search_path = evil, pg_catalog"):
        admin.execute(f"SET {setting}".encode())
    wrong: list[object] = []
    for number, (surface, statement) in enumerate(SURFACES.items()):
        if CAMPAIGN or number % 3 == 0:
            try:
                with admin.transaction(force_rollback=True):
                    admin.execute(statement.format(o=f"o{number}").encode())
            except psycopg.Error as error:
                if error.sqlstate in ("42725", "42883", "58000", "XX000"):
                    wrong.append((surface, error))
    assert wrong == []
    assert not sprung(run_sql)


@pytest.mark.parametrize("scope", ["DATABASE", "ROLE"])
def test_settings_of_database_and_role(
    run_sql: Run, sql_server: Server, traps: dict[str, str], sql_url: str, scope: str
) -> None:
    """Set by ALTER DATABASE or ALTER ROLE, for every later session."""
    name = make_url(sql_url).database if scope == "DATABASE" else "administrator"
    url = sql_server.create_role("administrator", url=sql_url, options="SUPERUSER")
    run_sql(f'ALTER {scope} "{name}" SET {OFF} = off')
    relation = traps["constant call within an index"]
    with psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(False), autocommit=True
    ) as admin:
        assert admin.execute(f"SHOW {OFF}".encode()).fetchall() == [("off",)]
        statement = f"SELECT dbanon.k_anonymity('{relation}', ARRAY['n'])"
        assert not_refused(admin, run_sql, [statement]) == []
    assert calls_not_refused(run_sql, client_doors(url, relation)) == []


def test_each_value_of_each_setting(run_sql: Run, connect: Connect, traps: dict[str, str]) -> None:
    """Checked through the SQL functions, whatever is set."""
    shared = connect()
    forms = list(traps.values()) if CAMPAIGN else [traps[form] for form in SAMPLE]
    wrong, values = [], other_values(run_sql)
    assert len(values) > 60
    for turn, (setting, value) in enumerate(values):
        # A setting that changes the meaning of SQL is set in a session that has parsed nothing of
        # dbanon yet. Each setting meets one form in turn; the one for literals meets all.
        matters = setting in MEANINGS
        admin = connect() if matters else shared
        chosen = forms if CAMPAIGN or setting == OFF else [forms[turn % len(forms)]]
        admin.execute(b"SELECT pg_catalog.set_config(%s, %s, false)", (setting, value))
        statements = [f"SELECT dbanon.k_anonymity('{relation}', '{{n}}')" for relation in chosen]
        wrong += [(setting, value, *case) for case in not_refused(admin, run_sql, statements)]
        if matters:
            admin.close()
        else:
            admin.execute(f"RESET {setting}".encode())
    assert wrong == []


def test_no_setting_is_unknown(run_sql: Run) -> None:
    """If a PostgreSQL version adds a setting, its effect has to be checked by hand."""
    assert unknown_settings(run_sql) == []


def test_the_pins_are_those_of_the_table(run_sql: Run) -> None:
    assert [name for name, _ in PINNED_SETTINGS] == [name.lower() for name in MEANINGS]
    # A dumped function is restored on later versions, which must know all its settings.
    server_settings = {name.lower() for (name,) in run_sql("SELECT name FROM pg_settings")}
    assert {name for name, _ in PINNED_SETTINGS} <= server_settings


def test_every_function_has_every_pin(run_sql: Run) -> None:
    """Except procedures, which commit, and set theirs in their first statements."""
    functions = run_sql(
        "SELECT proname, proconfig FROM pg_proc WHERE pronamespace = 'dbanon'::regnamespace"
        " AND prokind = 'f'"
    )
    pins = {
        name
        if name not in ("datestyle", "intervalstyle", "timezone")
        else {"datestyle": "DateStyle", "intervalstyle": "IntervalStyle", "timezone": "TimeZone"}[
            name
        ]: value
        for name, value in PINNED_SETTINGS
    }
    wrong = [
        (name, setting)
        for name, configured in functions
        for setting, value in pins.items()
        if f"{setting}={value}" not in (configured or ())
    ]
    assert len(functions) > 60
    assert wrong == []


def test_each_value_of_each_setting_for_the_client(
    run_sql: Run, traps: dict[str, str], sql_url: str
) -> None:
    wrong = []
    for turn, (setting, value) in enumerate(other_values(run_sql)):
        if CAMPAIGN or setting in MEANINGS:
            url, form = with_setting(sql_url, setting, value), SAMPLE[turn % len(SAMPLE)]
            try:
                verify(open_store(url), parse_relation(traps[form]), ["n"], 2)
                wrong.append((setting, value, form, "not refused"))
            except ForeignCode:
                pass
            # Each URL would keep its own backend open.
            close_warm()
            if sprung(run_sql):
                wrong.append((setting, value, form, "ran foreign code"))
    assert wrong == []


def with_setting(url: str, setting: str, value: str) -> str:
    """A URL whose sessions start with a value of a setting."""
    escaped = value.replace("\\", "\\\\").replace(" ", "\\ ")
    return f"{url}?options={quote(f'-c {setting}={escaped}', safe='')}"
