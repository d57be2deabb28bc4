"""DuckDB names a database after its file, and resolves schemas and databases in one namespace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from tests.stores import kept_duckdb

JOB: dict[str, Any] = {
    "table": "app.people",
    "quasi_identifiers": ["age"],
    "sensitive": ["ill"],
    "k": 5,
    "output": "release.people",
}


def fill(connection: duckdb.DuckDBPyConnection, database: str) -> None:
    connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{database}".app')
    connection.execute(
        f'CREATE TABLE "{database}".app.people AS SELECT range AS id, range AS age,'
        " 'ill' || range % 3 AS ill FROM range(40)"
    )


@pytest.mark.parametrize("name", ["release", "dbanon", "APP"])
def test_a_file_may_be_called_as_a_schema_is(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.duckdb"
    # A file that is open is opened again in no time.
    with kept_duckdb.connection_to(path) as connection:
        [(database,)] = connection.execute("SELECT current_database()").fetchall()
        fill(connection, database)
    url = f"duckdb:///{path}"
    assert dbanon.plan(url, **JOB).rows == 40
    assert dbanon.anonymize(url, **JOB).rows_out == 40
    assert dbanon.anonymize(url, **JOB, if_exists="replace").rows_out == 40
    view = JOB | {"output": "release.seen", "output_kind": "view", "where": "age >= 0"}
    for _ in range(2):
        assert dbanon.anonymize(url, **view, if_exists="replace").k_achieved >= 5
    with kept_duckdb.connection_to(path) as connection:
        read = f'SELECT count(*), count(ill) FROM "{database}".release.seen'
        assert connection.execute(read).fetchall() == [(40, 40)]
    for output in ("release.people", "release.seen"):
        assert dbanon.verify(url, output).k_achieved >= 5
    assert dbanon.evaluate_release(url, "release.people", original="app.people").figures
    assert len(dbanon.releases(url)) == 4
    done = CliRunner().invoke(main, ["gc", url, "--keep-last", "0"])
    assert done.exit_code == 0, done.output
    assert "release.seen_r" in done.output
    dbanon.create_budget(url, "yearly", source="app.people", epsilon=1.0)
    dbanon.store_hierarchy(url, "ills", {"tree": {"*": ["ill0", "ill1", "ill2"]}})
    assert dbanon.load_hierarchy(url, "name:ills").n_leaves == 3
    dbanon.create_chain(
        url, "monthly", table="app.people", entity="id", changes="show", key_out=tmp_path / "key"
    )
    chained = dict(JOB, output="release.monthly", sensitive=[], quasi_identifiers=["age"])
    chain = dbanon.Chain("monthly", f"file:{tmp_path / 'key'}")
    assert dbanon.anonymize(url, **chained, entity="id", chain=chain).rows_out == 40
    assert dbanon.drop(url, "release.seen")
    assert dbanon.drop(url, "release.people")


def test_a_database_beside_it_may_be_called_as_a_schema_is() -> None:
    connection = duckdb.connect()
    fill(connection, "memory")
    connection.execute("ATTACH ':memory:' AS release; ATTACH ':memory:' AS app")
    connection.execute("CREATE TABLE app.main.people AS SELECT 1 AS age, 'x' AS ill")
    assert dbanon.anonymize(connection, **JOB, output_kind="view").rows_out == 40
    assert dbanon.verify(connection, "release.people").k_achieved >= 5
    # The caller's own place is the caller's still.
    assert connection.execute("SELECT current_schema()").fetchall() == [("main",)]


def test_a_temporary_table_stands_before_no_table() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT range AS age, 'x' AS ill FROM range(40)")
    connection.execute("CREATE TABLE seen AS SELECT range AS age, 'x' AS ill FROM range(40)")
    connection.execute("CREATE TEMP TABLE people AS SELECT 99 AS age, 'y' AS ill FROM range(20)")
    connection.register("seen", pd.DataFrame({"age": [7] * 10, "ill": ["y"] * 10}))
    for table in ("people", "main.people", "seen"):
        options = JOB | {"table": table, "output": f"release.{table[-6:]}", "if_exists": "replace"}
        report = dbanon.anonymize(connection, **options)
        assert report.rows_out == 40
        with pytest.raises(errors.RecountFailed):
            dbanon.verify(connection, table, quasi_identifiers=["age"], k=5)
    # A temporary table with the name of a release is not verified in its place.
    dbanon.anonymize(connection, **(JOB | {"table": "main.people", "output": "shown"}))
    connection.execute("CREATE TEMP TABLE shown AS SELECT range AS age FROM range(3)")
    assert dbanon.verify(connection, "shown").k_achieved >= 5


def test_a_table_of_another_schema_is_proposed() -> None:
    with duckdb.connect() as connection:
        fill(connection, "memory")
        with pytest.raises(errors.TableNotFound) as refused:
            dbanon.anonymize(connection, **JOB | {"table": "people"})
        assert refused.value.hint == 'Did you mean "app.people"?'
        # If the name has a schema, no table of another schema is proposed.
        with pytest.raises(errors.TableNotFound) as refused:
            dbanon.anonymize(connection, **JOB | {"table": "main.people"})
        assert refused.value.hint is None
        assert dbanon.anonymize(connection, **JOB).rows_out == 40
