"""Attacks, one per test: rights, names, settings, shadowed functions, injection, leaks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.postgres_server import Server

pytestmark = pytest.mark.one_database

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]
Role = Callable[..., str]

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, sin(g) AS a, 'n ' || g AS name"
    " FROM generate_series(1, 60) AS g"
)
CALL = b"SELECT (dbanon.mdav('app.people', 'release.p', '{a}', 5, keep => '{id}')).rows_out"
READS = (
    "SELECT dbanon.k_anonymity('app.people', '{a}')",
    "SELECT * FROM dbanon.equivalence_classes('app.people', '{a}')",
    "SELECT dbanon.verify('app.people', '{a}', 2)",
    "SELECT dbanon.information_loss('app.people', 'app.people', '{a}')",
    "SELECT dbanon.evaluate('app.people', 'app.people', '{\"quasi_identifiers\": [\"a\"]}')",
    "SELECT dbanon.evaluate('app.people', NULL, '{\"quasi_identifiers\": [\"a\"]}')",
    "SELECT dbanon.evaluate('app.people', 'app.people',"
    ' \'{"quasi_identifiers": ["a"], "risk": {}}\')',
    "SELECT * FROM dbanon.classes('app.people', 'mdav', '{a}', 5)",
)


def test_without_rights_on_the_source_nothing_is_read(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    for attempt in (CALL, *(query.encode() for query in READS)):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            anna.execute(attempt)
    # A grant on some columns covers only those; row addresses need the whole table.
    run_sql("GRANT SELECT (a) ON app.people TO anna")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        anna.execute(CALL)
    run_sql("GRANT SELECT ON app.people TO anna")
    assert anna.execute(CALL).fetchall() == [(60,)]
    assert run_sql("SELECT published_by FROM dbanon.release") == [("anna",)]


def test_only_the_granted_roles_may_call(run_sql: Run, connect: Connect, sql_role: Role) -> None:
    run_sql(PEOPLE)
    outsider = connect(sql_role("outsider", runner=False))
    run_sql("GRANT SELECT ON app.people TO outsider")
    for attempt in (CALL, *(query.encode() for query in READS), b"TABLE dbanon.release"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            outsider.execute(attempt)
    reader = connect(sql_role("reader", runner=False))
    run_sql("GRANT dbanon_reader TO reader")
    run_sql("GRANT SELECT ON app.people TO reader")
    assert reader.execute(READS[0].encode()).fetchall() == [(1,)]
    for attempt in (CALL, READS[-1].encode(), b"TABLE dbanon.release"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute(attempt)


def test_a_runner_cannot_change_the_installation(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    for attempt in (
        "CREATE FUNCTION dbanon.trap() RETURNS integer RETURN 1",
        "CREATE OR REPLACE FUNCTION dbanon.version() RETURNS text LANGUAGE sql AS 'SELECT 1'",
        "ALTER FUNCTION dbanon._anonymize(jsonb) SECURITY DEFINER",
        "CREATE TABLE dbanon.trap (a integer)",
        "CREATE TRIGGER trap BEFORE INSERT ON dbanon.release EXECUTE FUNCTION app.trap()",
        "UPDATE dbanon.release SET k_achieved = 99",
        "DELETE FROM dbanon.release",
        "DELETE FROM dbanon.run",
        "INSERT INTO dbanon.hierarchy VALUES ('x', 'y', NULL, now(), NULL)",
        "UPDATE dbanon.alembic_version SET version_num = '0'",
        "CREATE FUNCTION release.shell() RETURNS text LANGUAGE plpython3u AS 'return 1'",
    ):
        with pytest.raises(psycopg.Error) as failure:
            anna.execute(attempt.encode())
        assert failure.value.sqlstate == "42501", attempt


def test_a_table_of_somebody_else_is_not_replaced(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    """A forged mark does not make a table dbanon's, nor grant the right to drop it."""
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("CREATE TABLE release.treasure (a integer)")
    replace = (
        b"SELECT dbanon.mdav('app.people', 'release.treasure', '{a}', 5, if_exists => 'replace')"
    )
    with pytest.raises(psycopg.errors.DuplicateTable, match="not made by dbanon"):
        anna.execute(replace)
    anna.execute(CALL)
    [(mark,)] = run_sql("SELECT 'dbanon release ' || release_id FROM dbanon.release")
    run_sql(f"COMMENT ON TABLE release.treasure IS '{mark}'")
    with pytest.raises(psycopg.errors.DuplicateTable, match="not made by dbanon"):
        anna.execute(replace)
    with pytest.raises(psycopg.errors.DuplicateTable, match="not made by dbanon"):
        run_sql(replace.decode())
    assert run_sql("SELECT to_regclass('release.treasure') IS NOT NULL") == [(True,)]


def test_settings_give_no_way_to_the_interpreter(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        trap, sprung = Path(folder) / "dbanon", Path(folder) / "sprung"
        trap.mkdir()
        (trap / "__init__.py").write_text(f"open({str(sprung)!r}, 'w')")
        for name in ("path", "python_path", "pythonpath", "import_path", "module"):
            anna.execute(f"SET dbanon.{name} = '{folder}'".encode())
        for name in ("dynamic_library_path", "session_preload_libraries"):
            with pytest.raises(psycopg.Error):
                anna.execute(f"SET {name} = '{folder}'".encode())
        anna.execute(CALL)
        assert not sprung.exists()
    for options in ('{"method": "os.system"}', '{"python": "1"}', '{"module": "os"}'):
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="There is no option"):
            anna.execute(
                "SELECT dbanon.mdav('app.people', 'release.q', '{a}', 5, options => %s)", (options,)
            )


def test_shadowed_functions_operators_and_catalogs_are_not_used(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("CREATE SCHEMA evil AUTHORIZATION anna")
    anna.execute(
        "CREATE FUNCTION evil.spring() RETURNS integer LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'sprung' USING ERRCODE = 'P0999'; END $$"
    )
    shadows = run_sql(
        "SELECT DISTINCT proname, pg_get_function_identity_arguments(oid),"
        " format_type(prorettype, NULL) FROM pg_proc"
        " WHERE pronamespace = 'pg_catalog'::regnamespace AND prokind = 'f' AND NOT proretset"
        " AND proname = ANY (%s) AND NOT prorettype = ANY (%s::regtype[])"
        " AND NOT EXISTS (SELECT 1 FROM unnest(proargtypes) AS t"
        "                 JOIN pg_type ON pg_type.oid = t WHERE typtype = 'p')",
        [
            "float8send",
            "int8send",
            "int4send",
            "tidsend",
            "oidsend",
            "byteacat",
            "set_config",
            "current_setting",
            "has_table_privilege",
            "has_column_privilege",
            "obj_description",
            "has_schema_privilege",
            "has_database_privilege",
            "pg_relation_size",
            "format_type",
            "row_security_active",
            "quote_ident",
            "split_part",
            "pg_my_temp_schema",
            "date_send",
            "to_regclass",
            "textcat",
            "int4eq",
            "oideq",
            "nameeq",
            "pg_get_function_arguments",
        ],
        ["internal", "cstring"],
    )
    assert len(shadows) > 30
    for name, arguments, result in shadows:
        anna.execute(
            f'CREATE FUNCTION evil."{name}"({arguments}) RETURNS {result} LANGUAGE sql AS'
            f" $$ SELECT evil.spring()::text::{result} $$".encode()
        )
    for number, (left, operator, right) in enumerate(
        (
            ("tid", "=", "tid"),
            ("integer", "=", "integer"),
            ("oid", "=", "oid"),
            ("name", "=", "name"),
            ("text", "=", "text"),
            ("bigint", ">=", "integer"),
            ("bytea", "||", "bytea"),
            ("text", "||", "text"),
            ("jsonb", "->", "text"),
        )
    ):
        anna.execute(
            f"CREATE FUNCTION evil.op{number}(a {left}, b {right}) RETURNS boolean LANGUAGE sql AS"
            " $$ SELECT evil.spring() = 1 $$;"
            f"CREATE OPERATOR evil.{operator} (LEFTARG = {left}, RIGHTARG = {right},"
            f" FUNCTION = evil.op{number})".encode()
        )
    for catalog in ("pg_class", "pg_attribute", "pg_namespace", "pg_roles", "release"):
        anna.execute(f"CREATE TEMPORARY TABLE {catalog} (oid oid, relname name)".encode())
    anna.execute("CREATE TABLE evil.release (a integer)")
    anna.execute("CREATE TABLE evil.people (a integer)")
    anna.execute("SET search_path = evil, pg_temp, pg_catalog")
    with pytest.raises(psycopg.Error, match="sprung"):
        anna.execute("SELECT pg_relation_size('app.people'::regclass, 'main')")
    assert anna.execute(CALL).fetchall() == [(60,)]
    for query in READS[:-1]:
        anna.execute(query.replace("2)", "1)").encode())
    assert len(anna.execute(READS[-1].encode()).fetchall()) == 60
    anna.execute("SELECT dbanon.verify('release.p'), dbanon.help('mdav')")
    anna.execute("SELECT * FROM dbanon.releases()")
    anna.execute("SELECT * FROM dbanon.check()")


INJECTED = (
    "'; DROP TABLE app.people; --",
    '"; DROP TABLE app.people; --',
    'a"; DROP TABLE app.people',
    "\\'; DROP TABLE app.people; --",
    "$$; DROP TABLE app.people; $$",
    "release.x; SELECT 1",
    "%s %(a)s %%",
    "? $1 :a",
    "pg_catalog.pg_class",
    "{a}",
    "\n--\n/*",
    "x'41'",
    "E'\\000'",
    "__import__('os').system('id')",
    "../../etc/passwd",
    "é" * 40,
    "",
)


@pytest.mark.parametrize(
    "argument",
    [
        "output",
        "quasi_identifiers",
        "entity",
        "keep",
        "sensitive",
        "hierarchies",
        "nulls",
        "if_exists",
        "options key",
        "options value",
        "option key",
        "weights",
    ],
)
def test_injected_strings_do_nothing(run_sql: Run, connect: Connect, argument: str) -> None:
    run_sql(PEOPLE)
    connection = connect()
    relations = "SELECT count(*) FROM pg_class WHERE NOT relname ~ '^(pg_toast|p_|p$)'"
    before = run_sql(relations)
    for text in INJECTED:
        options: dict[str, Any] = {
            "output": "release.p",
            "quasi_identifiers": ["a"],
            "entity": None,
            "keep": [],
            "sensitive": [],
            "hierarchies": "{}",
            "nulls": "error",
            "if_exists": "error",
            "options": "{}",
        }
        if argument in ("quasi_identifiers", "keep", "sensitive"):
            options[argument] = [text]
        elif argument == "hierarchies":
            options[argument] = json.dumps({text: {"table": text}})
        elif argument == "options key":
            options["options"] = json.dumps({text: 1})
        elif argument == "options value":
            options["options"] = json.dumps({"recoding": text})
        elif argument == "option key":
            options["options"] = json.dumps({"key": [text]})
        elif argument == "weights":
            options["options"] = json.dumps({"weights": {text: 2}})
        else:
            options[argument] = text
        if argument == "output" and "." in text:
            # Such names of schemas and tables are valid: they are created, with no side effect.
            continue
        with pytest.raises(psycopg.Error) as failure:
            connection.execute(
                "SELECT dbanon.mdav('app.people', %(output)s, %(quasi_identifiers)s, 5,"
                " entity => %(entity)s, keep => %(keep)s, sensitive => %(sensitive)s,"
                " hierarchies => %(hierarchies)s, nulls => %(nulls)s,"
                " if_exists => %(if_exists)s, options => %(options)s)",
                options,
            )
        # dbanon's own error. A syntax error would mean that the text was parsed as SQL.
        assert failure.value.sqlstate in (
            "22023",
            "42703",
            "0A000",
            "42602",
            "42622",
            "3F000",
            "42501",
        ), (text, failure.value.sqlstate, str(failure.value))
        assert "Traceback" not in str(failure.value)
    assert run_sql(relations) == before
    run_sql("SELECT dbanon.mdav('app.people', '\"''; DROP TABLE app.people; --\".x', '{a}', 5)")
    assert run_sql("SELECT count(*) FROM app.people") == [(60,)]


NASTY = (
    'x"; DROP TABLE app.people; --',
    "Zip Code",
    "select",
    "a?b",
    "50%",
    "$1",
    "back\\slash",
    "it's",
    "Ünï ☃",
    "n" * 63,
    "c.v0",
    "%s",
    "dbanon_key",
    "class",
    "position",
    "tab\tnew\nline",
)


def test_nasty_names_of_tables_and_columns(run_sql: Run, connect: Connect) -> None:
    run_sql(PEOPLE)
    connection = connect()
    quoted = ['"' + name.replace('"', '""') + '"' for name in NASTY]
    columns = ", ".join(f"sin(g + {i}) AS {name}" for i, name in enumerate(quoted))
    for table in quoted[:8]:
        connection.execute(
            f'CREATE TABLE app.{table} AS SELECT {columns}, g AS "k""ept"'
            " FROM generate_series(1, 30) AS g".encode()
        )
        for key in ("", f"ALTER TABLE app.{table} ADD PRIMARY KEY ({quoted[0]})"):
            connection.execute(key.encode()) if key else None
            output = f"release.{table}"
            connection.execute(
                "SELECT dbanon.mdav(%s::regclass, %s, %s, 3, keep => %s, if_exists => 'replace')",
                (f"app.{table}", output, list(NASTY), ['k"ept']),
            )
            assert connection.execute(
                "SELECT dbanon.k_anonymity(%s, %s), (dbanon.verify(%s)).unchanged",
                (output, list(NASTY), output),
            ).fetchall() == [(3, True)]
    assert run_sql("SELECT count(*) FROM app.people") == [(60,)]


def test_row_level_security_is_an_error_not_a_filter(
    run_sql: Run, connect: Connect, sql_role: Role
) -> None:
    run_sql(PEOPLE)
    anna = connect(sql_role("anna"))
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("ALTER TABLE app.people ENABLE ROW LEVEL SECURITY")
    run_sql("CREATE POLICY early ON app.people USING (id <= 30)")
    for setting in ("on", "off"):
        anna.execute(f"SET row_security = {setting}".encode())
        for attempt in (CALL, *(query.encode() for query in READS)):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                anna.execute(attempt)
    # The server checks the rights below a view.
    run_sql("CREATE VIEW app.seen AS SELECT * FROM app.people")
    run_sql("ALTER VIEW app.seen OWNER TO anna")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        anna.execute(
            "SELECT dbanon.mdav('app.seen', 'release.p', '{a}', 5, options => %s)",
            ('{"key": ["id"]}',),
        )
    run_sql("ALTER ROLE anna BYPASSRLS")
    assert anna.execute(CALL).fetchall() == [(60,)]


SECRETS = ("SECRET-123-45-6789", "987654321", "77665544")


def test_no_value_reaches_errors_notices_or_the_log(
    run_sql: Run, connect: Connect, sql_server: Server
) -> None:
    run_sql(
        "CREATE TABLE app.secret (id integer, a float8, n numeric, t text, d date, c text"
        " CHECK (c <> 'x'))"
    )
    run_sql(
        "INSERT INTO app.secret SELECT g, 987654321 + g, 77665544, 'SECRET-123-45-6789',"
        " '2000-01-01', 'SECRET-123-45-6789' FROM generate_series(1, 20) AS g"
    )
    texts: list[str] = []
    connection = connect()
    connection.add_notice_handler(
        lambda notice: texts.append(f"{notice.message_primary}{notice.message_detail}")
    )
    attempts = (
        ("", "'{a}', 5, sensitive => '{t}'"),
        ("UPDATE app.secret SET a = 'NaN' WHERE id = 3", "'{a}', 5"),
        ("UPDATE app.secret SET a = NULL WHERE id = 3", "'{a}', 5"),
        ("UPDATE app.secret SET n = 77665544e400 WHERE id = 4", "'{n}', 5"),
        ("UPDATE app.secret SET n = 'NaN' WHERE id = 4", "'{n}', 5"),
        ("UPDATE app.secret SET d = 'infinity' WHERE id = 4", "'{d}', 5"),
        ("", "'{t}', 5"),
        ("", "'{id}', 50"),
        ("", "'{id}', 5, options => '{\"key\": [\"t\"]}'"),
        ("", '\'{id}\', 5, options => \'{"key": ["c", "t"]}\''),
    )
    states: list[str | None] = []
    with sql_server.capture_log() as log:
        for round_, (change, arguments) in enumerate(attempts):
            if change:
                run_sql(change)
            try:
                connection.execute(
                    f"SELECT dbanon.mdav('app.secret', 'release.s{round_}', {arguments})".encode()
                )
            except psycopg.Error as error:
                parts = error.diag
                texts += [
                    str(part)
                    for part in (
                        error,
                        parts.message_detail,
                        parts.message_hint,
                        parts.context,
                        parts.internal_query,
                    )
                ]
                states.append(error.sqlstate)
        logged = log.text
    assert len(states) == len(attempts) - 1
    assert "XX000" not in states
    for secret in SECRETS:
        assert not any(secret in text for text in texts)
        assert secret not in logged
    assert not any("Traceback" in text for text in texts)
    assert "Traceback" not in logged
