"""A connection of the caller's with an open transaction is refused, and the transaction kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
import sqlalchemy
from sqlalchemy.pool import Pool, SingletonThreadPool, StaticPool

import dbanon
from dbanon import errors

JOB: dict[str, Any] = {
    "table": "people",
    "quasi_identifiers": ["age"],
    "k": 5,
    "output": "released",
    "sensitive": ["ill"],
}
DOORS: dict[str, Callable[[Any, Path], Any]] = {
    "anonymize": lambda on, _: dbanon.anonymize(on, **JOB),
    "anonymize, a person": lambda on, _: dbanon.anonymize(
        on, **(JOB | {"sensitive": []}), entity="ill"
    ),
    "anonymize, private": lambda on, _: dbanon.anonymize(
        on,
        table="people",
        quasi_identifiers=["age"],
        output="released",
        method="dp_ranks",
        epsilon=1.0,
        bounds={"age": (0, 100)},
        budget="yearly",
    ),
    "anonymize, exported": lambda on, at: dbanon.anonymize(
        on, **JOB, exports=[{"path": str(at / "people.csv"), "format": "csv"}]
    ),
    "from it to a file": lambda on, at: dbanon.anonymize(
        on, **JOB, target=f"duckdb:///{at}/made.duckdb"
    ),
    "from a file to it": lambda on, at: dbanon.anonymize(_file(at), **JOB, target=on),
    "plan": lambda on, _: dbanon.plan(on, **JOB),
    "plan, classes found": lambda on, _: dbanon.plan(on, **JOB, cluster=True),
    "advise": lambda on, _: dbanon.advise(on, "people"),
    "certificate": lambda on, _: dbanon.certificate(
        on, table="people", quasi_identifiers=["age"], k=5
    ),
    "verify": lambda on, _: dbanon.verify(on, "people", quasi_identifiers=["age"], k=5),
    "evaluate_release": lambda on, _: dbanon.evaluate_release(on, "people", original="people"),
    "releases": lambda on, _: dbanon.releases(on),
    "attempts": lambda on, _: dbanon.attempts(on, "people"),
    "show": lambda on, _: dbanon.show(on, "people"),
    "drop": lambda on, _: dbanon.drop(on, "people"),
    "create_budget": lambda on, _: dbanon.create_budget(on, "yearly", source="people", epsilon=1.0),
    "budgets": lambda on, _: dbanon.budgets(on),
    "show_budget": lambda on, _: dbanon.show_budget(on, "yearly"),
    "create_chain": lambda on, at: dbanon.create_chain(
        on, "monthly", table="people", entity="age", changes="show", key_out=at / "key"
    ),
    "measure_chain": lambda on, _: dbanon.measure_chain(on, "monthly", key="env:CHAIN_KEY"),
    "withdraw": lambda on, _: dbanon.withdraw(on, "monthly", ["20"], key="env:CHAIN_KEY"),
    "anonymize, in a chain": lambda on, _: dbanon.anonymize(
        on,
        **(JOB | {"quasi_identifiers": ["ill"], "sensitive": []}),
        entity="age",
        chain=dbanon.Chain("monthly", "env:CHAIN_KEY"),
    ),
    "chains": lambda on, _: dbanon.chains(on),
    "show_chain": lambda on, _: dbanon.show_chain(on, "monthly"),
    "close_chain": lambda on, _: dbanon.close_chain(on, "monthly"),
    "store_hierarchy": lambda on, _: dbanon.store_hierarchy(on, "ills", {"tree": {"*": ["flu"]}}),
    "load_hierarchy": lambda on, _: dbanon.load_hierarchy(on, "name:ills"),
    "list_hierarchies": lambda on, _: dbanon.list_hierarchies(on),
    "drop_hierarchy": lambda on, _: dbanon.drop_hierarchy(on, "ills"),
}
_TABLE = "CREATE TABLE people (age INTEGER, ill VARCHAR(9))"
_ROWS = "INSERT INTO people VALUES " + ", ".join(f"({20 + i}, 'flu')" for i in range(20))


@pytest.fixture(autouse=True)
def chain_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAIN_KEY", "0" * 64)


def _file(at: Path) -> str:
    path = at / "source.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(_TABLE)
        connection.execute(_ROWS)
    return f"duckdb:///{path}"


def _in_duckdb() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(_TABLE)
    connection.execute(_ROWS)
    return connection


@pytest.mark.parametrize("door", DOORS)
def test_a_duckdb_transaction_is_refused_at_every_door_and_kept(door: str, tmp_path: Path) -> None:
    connection = _in_duckdb()
    before = connection.execute("SELECT * FROM duckdb_tables()").fetchall()
    connection.begin()
    connection.execute("INSERT INTO people VALUES (99, 'gout')")
    with pytest.raises(errors.InvalidParameter, match="open transaction") as refused:
        DOORS[door](connection, tmp_path)
    assert "Commit or roll back" in str(refused.value.hint)
    assert sorted(file.name for file in tmp_path.iterdir()) in ([], ["source.duckdb"])
    # Still open, still there, and the caller's to end.
    assert connection.execute("SELECT count(*) FROM people").fetchall() == [(21,)]
    connection.commit()
    assert connection.execute("SELECT count(*) FROM people").fetchall() == [(21,)]
    assert len(connection.execute("SELECT * FROM duckdb_tables()").fetchall()) == len(before)
    # Now dbanon accepts the connection. Only one case makes a release, which takes much longer.
    assert dbanon.releases(connection) == []
    if door == "anonymize":
        assert dbanon.anonymize(connection, **JOB).rows_out == 21


def test_a_duckdb_transaction_is_refused_before_the_first_statement() -> None:
    connection, seen = _in_duckdb(), list[str]()
    connection.begin()
    with pytest.raises(errors.InvalidParameter, match="open transaction"):
        dbanon.anonymize(connection, **JOB, on_sql=seen.append)
    assert seen == []
    connection.rollback()
    # An autocommitted statement or an unread result is no open transaction.
    connection.execute("SELECT * FROM people")
    assert dbanon.anonymize(connection, **JOB, on_sql=seen.append).rows_out == 20
    assert seen


def test_a_duckdb_transaction_that_failed_is_the_callers_to_roll_back() -> None:
    connection = _in_duckdb()
    connection.execute("CREATE TABLE one (a INTEGER PRIMARY KEY)")
    connection.begin()
    connection.execute("INSERT INTO one VALUES (1)")
    with pytest.raises(duckdb.ConstraintException):
        connection.execute("INSERT INTO one VALUES (1)")
    with pytest.raises(errors.InvalidParameter, match="open transaction"):
        dbanon.anonymize(connection, **JOB)
    connection.rollback()
    assert dbanon.anonymize(connection, **JOB).rows_out == 20


def test_whoever_made_the_file_does_not_answer_whether_a_transaction_is_open() -> None:
    connection = _in_duckdb()
    connection.execute("CREATE MACRO txid_current() AS (random() * 1e9)::BIGINT")
    connection.begin()
    connection.execute("INSERT INTO people VALUES (99, 'gout')")
    with pytest.raises(errors.InvalidParameter, match="open transaction"):
        dbanon.anonymize(connection, **JOB)
    connection.commit()
    connection.execute("DROP MACRO txid_current; CREATE MACRO txid_current() AS 1")
    assert dbanon.anonymize(connection, **JOB).rows_out == 21


def test_another_cursor_of_the_same_database_may_have_a_transaction_open() -> None:
    connection = _in_duckdb()
    other = connection.cursor()
    other.begin()
    other.execute("CREATE TABLE elsewhere (a INTEGER)")
    assert dbanon.anonymize(connection, **JOB).rows_out == 20
    with pytest.raises(errors.InvalidParameter, match="open transaction"):
        dbanon.anonymize(other, **JOB)
    other.commit()


def test_a_relation_of_a_transaction_is_read_in_it() -> None:
    connection = _in_duckdb()
    connection.begin()
    connection.execute("INSERT INTO people VALUES (99, 'gout')")
    relation = connection.table("people")
    options: dict[str, Any] = {"quasi_identifiers": ["age"], "sensitive": ["ill"], "k": 5}
    released, _ = dbanon.anonymize_frame(relation, **options)
    assert len(released) == 21
    connection.rollback()
    assert connection.execute("SELECT count(*) FROM people").fetchall() == [(20,)]


@contextmanager
def _engine(pool: type[Pool], database: str) -> Iterator[tuple[sqlalchemy.Engine, Any]]:
    """An engine that has one connection, and that connection, with an open transaction."""
    kind = {"postgresql": "postgresql+psycopg"}.get(database.partition("://")[0])
    url = sqlalchemy.make_url(database)
    engine = sqlalchemy.create_engine(url.set(drivername=kind) if kind else url, poolclass=pool)
    with engine.connect() as connection:
        for statement in (_TABLE, _ROWS):
            connection.exec_driver_sql(statement)
        connection.commit()
        connection.exec_driver_sql("INSERT INTO people VALUES (99, 'gout')")
        yield engine, connection
    engine.dispose()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("pool", [StaticPool, SingletonThreadPool])
def test_an_engine_whose_one_connection_has_a_transaction_open_is_refused(
    pool: type[Pool], door: str, tmp_path: Path
) -> None:
    with _engine(pool, "sqlite://") as (engine, connection):
        driver: sqlite3.Connection = connection.connection.driver_connection
        level = driver.isolation_level
        with pytest.raises(errors.InvalidParameter, match="open transaction") as refused:
            DOORS[door](engine, tmp_path)
        assert "Commit or roll back" in str(refused.value.hint)
        assert driver.in_transaction
        assert driver.isolation_level == level
        assert connection.exec_driver_sql("SELECT count(*) FROM people").scalar() == 21
        connection.rollback()
        assert connection.exec_driver_sql("SELECT count(*) FROM people").scalar() == 20


@pytest.mark.parametrize("pool", [StaticPool, SingletonThreadPool])
@pytest.mark.parametrize("door", ["anonymize", "from a file to it", "plan", "releases", "verify"])
def test_an_engine_of_postgresql_with_one_connection_is_refused_too(
    pool: type[Pool], door: str, postgresql: Any, tmp_path: Path
) -> None:
    postgresql.clear()
    with _engine(pool, postgresql.url) as (engine, connection):
        with pytest.raises(errors.InvalidParameter, match="open transaction"):
            DOORS[door](engine, tmp_path)
        driver: psycopg.Connection[Any] = connection.connection.driver_connection
        assert driver.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
        assert connection.exec_driver_sql("SELECT count(*) FROM people").scalar() == 21
        connection.commit()
    assert postgresql.rows("SELECT count(*) FROM people") == [(21,)]


@pytest.mark.parametrize("door", DOORS)
def test_a_sqlite_transaction_is_refused_at_every_door_and_kept(door: str, tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(_TABLE)
        connection.execute(_ROWS)
        connection.commit()
        connection.execute("INSERT INTO people VALUES (99, 'gout')")
        with pytest.raises(errors.InvalidParameter, match="open transaction"):
            DOORS[door](connection, tmp_path)
        assert connection.in_transaction
        assert connection.execute("SELECT count(*) FROM people").fetchall() == [(21,)]
