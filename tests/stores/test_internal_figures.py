"""Exact figures of a release: recorded for whoever ran it, and nowhere else that anybody reads."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from tests.figures import leading_digits, unpublished_digits
from tests.postgres_server import Server
from tests.stores import chain_cases
from tests.stores.databases import Database, MariadbDatabase, PostgresqlDatabase, make_ledger_older
from tests.stores.people import load_people, rows_of_people
from tests.stores.test_mariadb_logs import general_log

NUMERIC = ["age", "height"]
NOTE = "internal: contains the extremes of the originals"


def released(database: Database, **options: object) -> dbanon.Report:
    load_people(database)
    return database.anonymize(quasi_identifiers=NUMERIC, evaluate=True, **options)


def test_whoever_ran_a_release_asks_for_its_exact_figures(database: Database) -> None:
    report = released(database)
    internal = dbanon.show(database.url, "release.people", internal=True)["internal"]
    exact = report.internal
    assert internal["note"] == NOTE
    assert internal["information_loss"] == pytest.approx(exact.information_loss, rel=1e-12)
    for name, loss in exact.column_losses.items():
        assert internal["column_losses"][name]["released"] == pytest.approx(
            loss.released, rel=1e-12
        )
    recorded = internal["evaluation"]["losses"]
    for name, value in exact.evaluation["losses"].items():
        assert recorded[name] == (value if value is None else pytest.approx(value, rel=1e-12))
    assert "internal" not in dbanon.show(database.url, "release.people")


def test_the_command_prints_them_on_request_alone(database: Database, tmp_path: Path) -> None:
    numbers = unpublished_digits(released(database))
    runner, page = CliRunner(), tmp_path / "report.html"
    commands = {
        "releases": ["releases", database.url],
        "show": ["show", database.url, "release.people", "--format", "json"],
        "verify": ["verify", database.url, "release.people", "--format", "json"],
        "report": ["report", database.url, "release.people", "-o", str(page)],
    }
    for name, words in commands.items():
        done = runner.invoke(main, words, env={"COLUMNS": "400"})
        assert done.exit_code == 0, (name, done.output)
        assert not [number for number in numbers if number in done.output], name
    assert not [number for number in numbers if number in page.read_text("utf-8")]
    printed = runner.invoke(
        main, ["show", database.url, "release.people", "--internal"], env={"COLUMNS": "400"}
    )
    assert NOTE in printed.output
    assert [number for number in numbers if number in printed.output]


def test_no_other_table_of_the_ledger_has_them(database: Database) -> None:
    numbers = unpublished_digits(released(database))
    for schema, name in database.relations():
        if "release_internal" in name or schema == "information_schema" or not name:
            continue
        relation = f"{schema}.{name}" if schema else name
        text = json.dumps(
            database.rows(f"SELECT * FROM {database.relation(relation)}"), default=str
        )
        assert not [number for number in numbers if number in text], relation


def test_a_database_without_the_originals_records_none(tmp_path: Path, database: Database) -> None:
    """A file that is handed over with its release has its ledger in it."""
    load_people(database)
    url = f"duckdb:///{tmp_path / 'handed.duckdb'}"
    report = database.anonymize(quasi_identifiers=NUMERIC, target=url)
    assert report.internal is not None
    assert dbanon.show(url, "release.people", internal=True)["internal"] is None
    done = CliRunner().invoke(main, ["show", url, "release.people", "--internal"])
    assert "none: not recorded, or another role" in done.output


def test_releases_of_earlier_ledgers_have_none(database: Database) -> None:
    load_people(database, rows_of_people(30))
    database.anonymize(quasi_identifiers=NUMERIC)
    make_ledger_older(database)
    assert dbanon.show(database.url, "release.people", internal=True)["internal"] is None
    database.anonymize(quasi_identifiers=NUMERIC, output="release.second", releases="independent")
    assert dbanon.show(database.url, "release.people", internal=True)["internal"] is None
    assert dbanon.show(database.url, "release.second", internal=True)["internal"] is not None


def test_statements_of_mariadb_do_not_show_them(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    with general_log(mariadb) as statements:
        report = mariadb.anonymize(quasi_identifiers=NUMERIC, evaluate=True)
        logged = "\n".join(statements())
    assert "release_internal" in logged
    assert not [number for number in unpublished_digits(report) if number in logged]
    internal = dbanon.show(mariadb.url, "release.people", internal=True)["internal"]
    assert internal["information_loss"] == pytest.approx(
        report.internal.information_loss, rel=1e-12
    )


def test_a_reader_on_mariadb_reads_no_exact_figure(mariadb: MariadbDatabase) -> None:
    numbers = unpublished_digits(released(mariadb))
    mariadb.execute(
        "CREATE OR REPLACE USER reader@localhost",
        "GRANT SELECT ON `release`.people TO reader@localhost",
        "GRANT SELECT ON dbanon.`release` TO reader@localhost",
        "GRANT SELECT ON dbanon.release_column TO reader@localhost",
    )
    queries = (
        "SELECT * FROM `release`.people",
        "SELECT * FROM dbanon.`release`",
        "SELECT * FROM dbanon.release_column",
        "SELECT * FROM information_schema.tables",
        "SELECT * FROM information_schema.columns",
        "SELECT * FROM information_schema.statistics",
        "SHOW CREATE TABLE `release`.people",
        "SHOW TABLE STATUS FROM `release`",
    )
    try:
        with closing(mariadb.server.connect("release", "reader")) as connection:
            cursor = connection.cursor()
            text = ""
            for query in queries:
                cursor.execute(query)
                text += str(cursor.fetchall())
            assert not [number for number in numbers if number in text]
            with pytest.raises(Exception, match="denied"):
                cursor.execute("SELECT * FROM dbanon.release_internal")
        url = mariadb.server.url("release", "reader")
        assert dbanon.show(url, "release.people", internal=True)["internal"] is None
    finally:
        mariadb.execute("DROP USER reader@localhost")


@pytest.mark.postgresql
def test_default_privileges_let_no_reader_read_them(
    pg_server: Server, pg_url: str, pg_role
) -> None:
    """Whoever grants on all tables to come grants on the ledger, too, when a client makes it."""
    reader = pg_role("reader")
    for statement in (
        "ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO reader WITH GRANT OPTION",
        "ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO reader",
    ):
        pg_server.execute(statement, url=pg_url)
    database = PostgresqlDatabase(pg_url)
    numbers = unpublished_digits(released(database))
    text = str(pg_server.execute("SELECT to_jsonb(r) FROM dbanon.release AS r", url=reader))
    assert "information_loss" in text
    assert not [number for number in numbers if number in text]
    with pytest.raises(Exception, match="permission denied for table release_internal"):
        pg_server.execute("SELECT * FROM dbanon.release_internal", url=reader)


def test_a_chain_shows_the_published_loss(database: Database, tmp_path: Path) -> None:
    chain_cases.load(database, chain_cases.Months(n=40).now)
    chained = chain_cases.Chained.create(database, tmp_path)
    report = chained.release(method="mdav")
    exact = report.internal
    assert exact is not None
    assert exact.information_loss != report.information_loss
    [release] = chained.show().releases
    assert release["loss"] == report.information_loss
    words = ["chain", "show", database.url, "patients", "--format", "json"]
    output = CliRunner().invoke(main, words).output
    for figure in (exact.information_loss, exact.information_loss_before_rounding):
        assert leading_digits(figure) not in output
