"""Which relation an entry of the ledger is, on every database; runs that fail; upgrades."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from dbanon import errors
from dbanon.doors import install
from dbanon.doors.cli.main import main
from dbanon.ledger import entries
from dbanon.ledger.source_history import earlier_releases
from dbanon.run import run_with_ledger as runs
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database, SqliteDatabase, make_ledger_older
from tests.stores.people import load_people, rows_of_people

NUMERIC = ["age", "income"]


def copy_with_mark(database: Database, name: str, release_id: str, kind: str) -> None:
    """A relation that dbanon did not make, with the mark of a release."""
    relation, words = database.relation(name), f"dbanon release {release_id}"
    select = "SELECT 1 AS age, 2 AS income"
    if database.name == "sqlite":
        database.execute(
            f"CREATE VIEW {relation} AS /* {words} */ {select}"
            if kind == "view"
            else f"CREATE TABLE {relation} (/* {words} */ age INTEGER, income INTEGER)"
        )
        return
    database.execute(
        f"CREATE {kind} {relation} AS {select}", f"COMMENT ON {kind} {relation} IS '{words}'"
    )


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_copied_mark_is_no_release(database: Database, kind: str) -> None:
    load_people(database, rows_of_people(30))
    options: dict[str, Any] = {"quasi_identifiers": NUMERIC, "output_kind": kind}
    report = database.anonymize(**options)
    copy_with_mark(database, "release.treasure", report.release_id, kind)
    with pytest.raises(errors.OutputNotOurs):
        database.anonymize(**options, output="release.treasure", if_exists="replace")
    assert database.rows(f"SELECT age FROM {database.relation('release.treasure')}") in (
        [(1,)],
        [],
    )
    store = open_store(database.url)
    with pytest.raises(errors.ReleaseNotFound, match="has the mark"):
        verify(store, parse_relation("release.treasure"))
    # The same name as the release had, and its mark: where relations have numbers, that tells.
    database.execute(f"DROP {kind} {database.relation('release.people')}")
    with pytest.raises(errors.TableNotFound, match="dropped or renamed"):
        verify(store, parse_relation("release.people"))
    if database.name == "postgresql":
        copy_with_mark(database, "release.people", report.release_id, kind)
        with pytest.raises(errors.ReleaseNotFound, match="dbanon upgrade"):
            verify(store, parse_relation("release.people"))
        with pytest.raises(errors.OutputNotOurs):
            database.anonymize(**options, if_exists="replace")
    # A mark of no release at all, and one that is no release's id.
    for number, words in enumerate(("00000000-0000-0000-0000-000000000000", "x' OR 1=1 --"[:1])):
        copy_with_mark(database, f"release.other{number}", words, kind)
        with pytest.raises(errors.OutputNotOurs):
            database.anonymize(**options, output=f"release.other{number}", if_exists="replace")


def test_a_table_that_is_not_of_the_entry_s_kind(database: Database) -> None:
    """A table at the place of a view's release, with the mark of both."""
    load_people(database, rows_of_people(30))
    report = database.anonymize(quasi_identifiers=NUMERIC, output_kind="view")
    database.execute(f"DROP VIEW {database.relation('release.people')}")
    copy_with_mark(database, "release.people", report.release_id, "table")
    for kind in ("table", "view"):
        with pytest.raises(errors.OutputNotOurs):
            database.anonymize(quasi_identifiers=NUMERIC, output_kind=kind, if_exists="replace")


def test_a_name_in_other_letters_is_the_same_relation_where_it_is(database: Database) -> None:
    load_people(database, rows_of_people(30))
    database.anonymize(quasi_identifiers=NUMERIC)
    database.anonymize(quasi_identifiers=NUMERIC, output="release.PEOPLE", if_exists="replace")
    left = [name for _, name in database.relations() if name.lower().endswith("people")]
    # The source and one release; on PostgreSQL two, whose names differ.
    assert len(left) == (3 if database.name == "postgresql" else 2)


def test_gc_passes_over_what_an_entry_does_not_name(database: Database) -> None:
    load_people(database, rows_of_people(30))
    options: dict[str, Any] = {
        "quasi_identifiers": NUMERIC,
        "output_kind": "view",
        "if_exists": "replace",
    }
    reports = [database.anonymize(**options) for _ in range(3)]
    # The live one is hidden; the oldest was dropped and made again with its mark, and as a view.
    database.execute(f"UPDATE {database.ledger()} SET superseded_at = created_at")
    oldest = parse_relation(reports[0].relation)
    name = f"{oldest.schema}.{oldest.name}" if oldest.schema else oldest.name
    database.execute(f"DROP TABLE {database.relation(name)}")
    copy_with_mark(database, name, reports[0].release_id, "view")
    dropped = collect_garbage(open_store(database.url), 0)
    assert dropped == [reports[1].relation]
    assert verify(open_store(database.url), parse_relation("release.people")).unchanged


def test_gc_forgets_runs_that_failed(database: Database) -> None:
    load_people(database, rows_of_people(30))
    database.anonymize(quasi_identifiers=NUMERIC)
    for _ in range(2):
        with pytest.raises(errors.TooFewRecords):
            database.anonymize(quasi_identifiers=NUMERIC, k=31, output="release.other")
    run = database.ledger("run")
    [(newest,)] = database.rows(
        f"SELECT max(CAST(run_id AS VARCHAR(36))) FROM {run} WHERE state = 'failed'"
    )
    old = "'2020-01-01 00:00:00+00:00'"
    database.execute(f"UPDATE {run} SET started_at = {old} WHERE run_id <> '{newest}'")
    for words, left in ((["1e9"], 3), (["-1"], 3), (["30"], 2), (["30"], 2), (["0"], 1)):
        done = CliRunner().invoke(
            main, ["gc", database.url, "--runs-older-than", *words, "--format", "json"]
        )
        assert done.exit_code == (2 if words[0] in ("1e9", "-1") else 0), done.stdout
        assert len(database.ledger_rows("run")) == left
    assert database.rows(f"SELECT state FROM {run}") == [("done",)]


# --- runs -----------------------------------------------------------------------------------------

RUN = "SELECT door, state, error_code, method, source, output_name, release_id IS NULL FROM "


def test_a_run_that_fails_leaves_a_row_where_there_is_a_ledger(database: Database) -> None:
    load_people(database, rows_of_people(30))
    before = database.relations()
    with pytest.raises(errors.TooFewRecords):
        database.anonymize(quasi_identifiers=NUMERIC, k=31)
    # No ledger, no row: a run that fails makes nothing.
    assert database.relations() == before
    report = database.anonymize(quasi_identifiers=NUMERIC)
    with pytest.raises(errors.TooFewRecords):
        database.anonymize(quasi_identifiers=NUMERIC, k=31, output="release.other")
    with pytest.raises(errors.OutputExists):
        database.anonymize(quasi_identifiers=NUMERIC)
    done = CliRunner().invoke(
        main,
        [
            "anonymize",
            database.url,
            "--table",
            "people",
            "--quasi-identifiers",
            "age",
            "--k",
            "31",
            "--output",
            "release.third",
        ],
    )
    assert done.exit_code == 3
    rows = database.rows(f"{RUN}{database.ledger('run')} ORDER BY finished_at")
    assert [(*row[:4], bool(row[6])) for row in rows] == [
        ("python", "done", None, "mdav", False),
        ("python", "failed", "too_few_records", "mdav", True),
        ("python", "failed", "output_exists", "mdav", True),
        ("cli", "failed", "too_few_records", "mdav", True),
    ]
    assert [row[5] for row in rows][1:] == ["other", "people", "third"]
    assert database.rows(f"SELECT count(*) FROM {database.ledger()}") == [(1,)]
    assert verify(open_store(database.url), parse_relation("release.people")).release_id == (
        report.release_id
    )


def test_what_stops_the_row_never_hides_why_the_run_failed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database, rows_of_people(30))
    database.anonymize(quasi_identifiers=NUMERIC)

    def broken(*_: Any) -> None:
        raise RuntimeError("this comes second")

    monkeypatch.setattr(entries, "insert_run", broken)
    with pytest.raises(errors.TooFewRecords):
        database.anonymize(quasi_identifiers=NUMERIC, k=31, output="release.other")
    monkeypatch.undo()
    database.execute(f"DROP TABLE {database.ledger('run')}")
    with pytest.raises(errors.TooFewRecords):
        database.anonymize(quasi_identifiers=NUMERIC, k=31, output="release.other")


def test_no_more_memory_is_a_limit_and_no_surprise(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(database, rows_of_people(30))
    database.anonymize(quasi_identifiers=NUMERIC)
    before = database.relations()

    def full(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(runs, "run", full)
    with pytest.raises(errors.MemoryLimit, match="out of memory"):
        database.anonymize(quasi_identifiers=NUMERIC, output="release.other")
    assert database.relations() == before
    codes = database.rows(f"SELECT error_code FROM {database.ledger('run')}")
    assert ("memory_limit",) in codes


def test_a_failed_run_on_a_connection_that_the_caller_keeps() -> None:
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT range AS a FROM range(9)")
        import dbanon

        options: dict[str, Any] = {"table": "t", "quasi_identifiers": ["a"]}
        dbanon.anonymize(connection, output="r.t", k=3, **options)
        with pytest.raises(errors.TooFewRecords):
            dbanon.anonymize(connection, output="r.u", k=10, **options)
        assert connection.execute(
            "SELECT state FROM dbanon.run ORDER BY finished_at"
        ).fetchall() == [("done",), ("failed",)]


# --- upgrade --------------------------------------------------------------------------------------


def test_upgrade_brings_a_clients_ledger_to_this_version(database: Database) -> None:
    with pytest.raises(errors.InstallRefused):
        install.upgrade(database.url)
    load_people(database, rows_of_people(30))
    report = database.anonymize(quasi_identifiers=NUMERIC)
    make_ledger_older(database)
    done = CliRunner().invoke(main, ["upgrade", database.url])
    assert done.exit_code == 0, done.output
    tied = database.name == "postgresql"
    assert database.rows(f"SELECT output_oid IS NOT NULL FROM {database.ledger()}") == [(tied,)]
    # Its digest was lost with the columns, so nothing reports 'unchanged'.
    verification = verify(open_store(database.url), parse_relation("release.people"))
    assert (verification.release_id, verification.unchanged) == (report.release_id, None)
    # A restored database numbers relations anew.
    database.execute(f"UPDATE {database.ledger()} SET output_oid = 1, relation_oid = 1")
    store = open_store(database.url)
    if tied:
        with pytest.raises(errors.ReleaseNotFound, match="dbanon upgrade"):
            verify(store, parse_relation("release.people"))
        install.upgrade(database.url)
    verification = verify(store, parse_relation("release.people"))
    assert (verification.release_id, verification.unchanged) == (report.release_id, None)


def test_a_ledger_that_is_not_there_has_no_release(sqlite_file: SqliteDatabase) -> None:
    load_people(sqlite_file, rows_of_people(30))

    def counted() -> tuple[int, ...]:
        with open_store(sqlite_file.url).session(write=False) as session:
            return tuple(len(earlier_releases(session, name, {})) for name in ("people", "others"))

    assert counted() == (0, 0)
    for output in ("one", "two"):
        sqlite_file.anonymize(quasi_identifiers=NUMERIC, output=output)
    assert counted() == (2, 0)
