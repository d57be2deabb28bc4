"""Settings of a session or of a caller's connection change no result of a store.

PostgreSQL's settings are in tests/sql/test_settings.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import NullPool, create_engine

import dbanon
from dbanon.errors import InvalidParameter, RecountFailed
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.conftest import CAMPAIGN
from tests.stores.databases import MariadbDatabase

# Text, numbers and days; NULLs, and texts that another collation takes for one.
ROWS = [
    (
        g,
        g % 7 + g / 97,
        g % 11,
        None if g % 5 == 0 else "Sad" if g % 2 else "sad",
        f"p\\{g % 3}",
        f"2024-01-{g % 28 + 1:02d}",
    )
    for g in range(1, 91)
]
TABLE = (
    "CREATE TABLE {} ({} integer primary key, a {}, b decimal(6, 2), mood varchar(9),"
    " name varchar(9), day date)"
)

DUCKDB = {
    "default_collation": "nocase",
    "default_null_order": "nulls_first",
    "default_order": "desc",
    "ieee_floating_point_ops": "false",
    "integer_division": "true",
    "TimeZone": "Asia/Tokyo",
    "Calendar": "japanese",
    "order_by_non_integer_literal": "true",
    "scalar_subquery_error_on_multiple_rows": "false",
    "disable_timestamptz_casts": "true",
    "preserve_insertion_order": "false",
    "preserve_identifier_case": "uppercase",
    "immediate_transaction_mode": "true",
    "arrow_large_buffer_size": "true",
    "arrow_lossless_conversion": "true",
    "arrow_output_list_view": "true",
    "enable_fsst_vectors": "true",
    "errors_as_json": "true",
    "binary_as_string": "true",
    "enable_optimizer": "false",
    "python_enable_replacements": "false",
}

# query_only refuses writes, and changes nothing else.
SQLITE = (
    "case_sensitive_like = ON",
    "reverse_unordered_selects = ON",
    "recursive_triggers = ON",
    "foreign_keys = ON",
    "defer_foreign_keys = ON",
    "ignore_check_constraints = ON",
    "full_column_names = ON",
    "short_column_names = OFF",
    "count_changes = ON",
    "empty_result_callbacks = ON",
    "trusted_schema = OFF",
    "writable_schema = ON",
    "legacy_alter_table = ON",
    "temp_store = MEMORY",
    "automatic_index = OFF",
    "cell_size_check = ON",
    "read_uncommitted = ON",
    "analysis_limit = 1",
)

# tx_read_only refuses writes, and changes nothing else. completion_type = RELEASE ends the
# connection at the first ROLLBACK, which SQLAlchemy sends before it calls dbanon.
MARIADB = {
    "sql_mode": "'NO_BACKSLASH_ESCAPES,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,PAD_CHAR_TO_FULL_LENGTH'",
    "completion_type": "'CHAIN'",
    "sql_safe_updates": "1",
    "sql_auto_is_null": "1",
    "max_join_size": "1",
    "sql_select_limit": "1",
    "unique_checks": "0",
    "foreign_key_checks": "0",
    "check_constraint_checks": "0",
    "div_precision_increment": "0",
    "default_week_format": "3",
    "lc_time_names": "'de_DE'",
    "system_versioning_asof": "'2001-01-01'",
    "time_zone": "'+09:00'",
    "collation_connection": "'latin1_bin'",
    "group_concat_max_len": "4",
    "max_sort_length": "64",
    "tmp_table_size": "1024",
    "autocommit": "0",
    "old_mode": "'ZERO_DATE_TIME_CAST'",
}

Answers = dict[str, object]


def ask(database: Any, rows: Callable[[str], list[tuple[Any, ...]]], schema: str = "") -> Answers:
    """A release of numbers, one of categories, and their statistics, by name."""
    answers: Answers = {}
    for method, columns in (("mdav", ["a", "b"]), ("gaa_cp", ["a", "mood", "day"])):
        output = f"{schema}out_{method}"
        report = dbanon.anonymize(
            database,
            table=f"{schema}p",
            output=output,
            quasi_identifiers=columns,
            k=5,
            method=method,
            nulls="category",
            keep=["name"],
        )
        answers[method] = report.rows_out, report.k_achieved, round(report.information_loss or 0, 9)
        answers[f"rows of {method}"] = sorted(map(repr, rows(f"SELECT * FROM {output}")))
        verification = verify(open_store(database), parse_relation(output))
        answers[f"{method} verified"] = verification.unchanged
        dbanon.drop(database, output)
    with pytest.raises(RecountFailed) as caught:
        verify(open_store(database), parse_relation(f"{schema}p"), ["mood"], 40)
    answers["recount"] = str(caught.value)
    advice = dbanon.advise(database, table=f"{schema}p", methods=["mondrian"], k=[5])
    answers["advise"] = [(column.column.attribute.name, column.role) for column in advice.columns]
    return answers


def duckdb_with(settings: dict[str, str]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(TABLE.format("p", "id", "double"))
    connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    for name, value in settings.items():
        connection.execute(f"SET {name} = '{value}'")
    return connection


def in_duckdb(settings: dict[str, str]) -> Answers:
    with duckdb_with(settings) as connection:
        names = ", ".join(f"current_setting('{name}')::VARCHAR" for name in settings) or "1"
        before = connection.execute(f"SELECT {names}").fetchall()
        # By names: where an order is not stated, SELECT * follows the setting.
        answers = ask(connection, lambda sql: connection.execute(sql).fetchall())
        # They are the caller's again.
        assert connection.execute(f"SELECT {names}").fetchall() == before
    return answers


def test_duckdbs_settings() -> None:
    expected = in_duckdb({})
    # The order of columns as `SELECT *` has it is the reader's own.
    assert in_duckdb(DUCKDB | {"default_order": "asc"}) == expected
    ordered = in_duckdb({"default_order": "desc"})
    without_rows = {name for name in expected if not name.startswith("rows of")}
    assert {name: ordered[name] for name in without_rows} == {
        name: expected[name] for name in without_rows
    }
    for name, value in DUCKDB.items() if CAMPAIGN else ():
        answers = in_duckdb({name: value})
        wrong = [call for call in without_rows if answers[call] != expected[call]]
        assert wrong == [], name


def test_texts_that_duckdb_takes_for_one_are_counted_apart() -> None:
    with duckdb_with({"default_collation": "nocase"}) as connection:
        connection.execute("CREATE TABLE q AS SELECT coalesce(mood, 'sad') AS mood FROM p")
        assert connection.execute("SELECT count(DISTINCT mood) FROM q").fetchall() == [(1,)]
        with pytest.raises(RecountFailed, match="holds 36 rows"):
            verify(open_store(connection), parse_relation("q"), ["mood"], 80)


def test_a_connection_that_its_caller_drops_closes_the_file(tmp_path: Path) -> None:
    """Sessions and their parts refer to each other in no circle, which would keep it open."""
    connection = duckdb.connect(tmp_path / "people.duckdb")
    connection.execute("CREATE TABLE people AS SELECT range AS age FROM range(20)")
    dbanon.anonymize(connection, table="people", quasi_identifiers=["age"], k=5, output="released")
    del connection
    # DuckDB refuses other settings for a file that is still open.
    with duckdb.connect(tmp_path / "people.duckdb", read_only=True) as reopened:
        assert reopened.execute("SELECT count(*) FROM released").fetchall() == [(20,)]


def test_settings_of_duckdb_that_are_locked() -> None:
    with duckdb_with({}) as connection:
        connection.execute("SET lock_configuration = true")
        ask(connection, lambda sql: connection.execute(sql).fetchall())
    with (
        duckdb_with({"default_collation": "nocase", "lock_configuration": "true"}) as connection,
        pytest.raises(InvalidParameter, match="default_collation changes"),
    ):
        verify(open_store(connection), parse_relation("p"), ["mood"], 2)


def test_a_file_that_is_open_elsewhere_has_its_settings(tmp_path: Any) -> None:
    """Connections of a process to one file share them."""
    file = str(tmp_path / "a.duckdb")
    with duckdb.connect(file) as open_file:
        open_file.execute(
            "CREATE TABLE p AS SELECT CASE WHEN g % 2 = 0 THEN 'a' ELSE 'A' END AS m"
            " FROM range(10) AS t(g)"
        )
        open_file.execute("SET default_collation = 'nocase'")
        store = open_store(f"duckdb:///{file}")
        with store.session(write=True) as session:
            assert session.rows("SELECT count(DISTINCT m) FROM p") == [(2,)]
        assert open_file.execute("SELECT current_setting('default_collation')").fetchall() == [
            ("nocase",)
        ]


def in_sqlite(pragmas: tuple[str, ...], **how: Any) -> Answers:
    connection = sqlite3.connect(":memory:", **how)
    connection.execute(TABLE.format("p", "id", "real"))
    connection.executemany("INSERT INTO p VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    connection.commit()
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}").fetchall()
    try:
        counts = connection.execute("PRAGMA count_changes").fetchall()
        answers = ask(connection, lambda sql: connection.execute(sql).fetchall())
        assert connection.execute("PRAGMA count_changes").fetchall() == counts
        return answers
    finally:
        connection.close()


@pytest.mark.filterwarnings("ignore:The default .* is deprecated:DeprecationWarning")
def test_pragmas_of_sqlite() -> None:
    """None changes an answer; nor do the driver's own conversions."""
    expected = in_sqlite(())
    for pragmas in (SQLITE,) if not CAMPAIGN else (SQLITE, *((pragma,) for pragma in SQLITE)):
        assert in_sqlite(pragmas) == expected, pragmas
    assert in_sqlite((), detect_types=sqlite3.PARSE_DECLTYPES) == expected


def in_mariadb(database: MariadbDatabase, settings: dict[str, str]) -> Answers:
    assignments = ", ".join(f"{name} = {value}" for name, value in settings.items())
    engine = create_engine(
        database.url,
        poolclass=NullPool,
        connect_args={"init_command": f"SET SESSION {assignments}"} if assignments else {},
    )
    # The test reads all rows itself, whatever is set for all.
    unlimited = "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1"
    return ask(engine, lambda sql: database.server.execute(unlimited, sql, database="app"), "app.")


def load_mariadb(database: MariadbDatabase) -> None:
    values = ", ".join(
        "(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")"
        for row in ROWS
    )
    # Python's repr of a text is MariaDB's literal, backslashes included.
    database.execute(TABLE.format("p", "id", "double"), f"INSERT INTO p VALUES {values}")


def test_variables_of_mariadb(mariadb: MariadbDatabase) -> None:
    load_mariadb(mariadb)
    expected = in_mariadb(mariadb, {})
    assert in_mariadb(mariadb, MARIADB) == expected
    for name, value in MARIADB.items() if CAMPAIGN else ():
        assert in_mariadb(mariadb, {name: value}) == expected, name


def test_what_mariadbs_administrator_has_set_for_all(mariadb: MariadbDatabase) -> None:
    """DEFAULT would be that, and not the value that the server is shipped with."""
    load_mariadb(mariadb)
    expected = in_mariadb(mariadb, {})
    chosen = {
        name: MARIADB[name]
        for name in (
            "sql_select_limit",
            "completion_type",
            "sql_mode",
            "sql_safe_updates",
            "max_join_size",
        )
    }
    before = {name: mariadb.rows(f"SELECT @@GLOBAL.{name}")[0][0] for name in chosen}
    try:
        mariadb.execute(*(f"SET GLOBAL {name} = {value}" for name, value in chosen.items()))
        answers = in_mariadb(mariadb, {})
    finally:
        mariadb.execute(*(f"SET GLOBAL {name} = {value!r}" for name, value in before.items()))
    assert answers == expected


def test_rows_of_a_versioned_table_are_those_of_now(mariadb: MariadbDatabase) -> None:
    mariadb.execute(
        "CREATE TABLE v (a int) WITH SYSTEM VERSIONING", "INSERT INTO v VALUES (1), (1)"
    )
    engine = create_engine(
        mariadb.url,
        poolclass=NullPool,
        connect_args={"init_command": "SET SESSION system_versioning_asof = '2001-01-01'"},
    )
    assert verify(open_store(engine), parse_relation("app.v"), ["a"], 2).smallest_class == 2
