"""Behaviour specific to MariaDB: texts, types, names, rights, and how releases are made."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pymysql
import pytest
from click.testing import CliRunner

import dbanon
from dbanon import errors
from dbanon.doors.cli.main import main
from dbanon.doors.jobfile.file import read_job_file
from dbanon.doors.jobfile.init import render_job_file
from dbanon.extensions.mariadb import dialect, publication
from dbanon.run.open import open_store
from tests.mariadb_server import Readers
from tests.stores.databases import MariadbDatabase
from tests.stores.people import load_people

NINE = ["a", "A", "a ", "ä", "ss", "ß", "é", "e\u0301", "a\u200b"]
OPTIONS: dict[str, Any] = {"quasi_identifiers": ["age", "height"], "method": "mdav"}
# The statement before which each cut falls: nine, from the plan to the last table that goes.
CUTS = (
    'INSERT INTO "dbanon"."publication"',
    'CREATE TABLE "dbanon"."r_',
    'INSERT INTO "dbanon"."r_',
    "SELECT size, null_in_class",
    'UPDATE "dbanon"."publication" SET entry',
    "SET STATEMENT max_statement_time",
    "START TRANSACTION",
    'UPDATE "dbanon"."publication" SET state',
    'DROP TABLE IF EXISTS "dbanon"."old_',
)


def marks(database: MariadbDatabase) -> str:
    [(comment,)] = database.rows(
        "SELECT table_comment FROM information_schema.tables"
        " WHERE table_schema = 'release' AND table_name = 'people'"
    )
    return str(comment).removeprefix("dbanon release ")


def staged(database: MariadbDatabase) -> list[str]:
    return [
        name
        for schema, name in database.relations()
        if schema == "dbanon" and name.startswith(("r_", "old_"))
    ]


def states(database: MariadbDatabase) -> list[str]:
    rows = database.rows("SELECT state FROM dbanon.publication ORDER BY planned_at")
    return [state for (state,) in rows]


@pytest.mark.parametrize("collation", ["utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_unicode_ci"])
def test_nine_texts_are_nine_groups(mariadb: MariadbDatabase, collation: str) -> None:
    mariadb.execute(
        f"CREATE TABLE people (id int PRIMARY KEY, name varchar(20) COLLATE {collation}, age int)"
    )
    rows = [(i, NINE[i % 9], 30 + i % 5) for i in range(90)]
    values = ", ".join(f"({i}, '{name}', {age})" for i, name, age in rows)
    mariadb.execute(f"INSERT INTO people VALUES {values}")
    report = mariadb.anonymize(quasi_identifiers=["age"], by=["name"], k=5)
    assert report.rows_out == 90
    name_counts = mariadb.rows("SELECT name, count(*) FROM release.people GROUP BY name")
    assert dict(name_counts) == dict.fromkeys(NINE, 10)
    # Of the source, too, whose own GROUP BY finds fewer.
    with pytest.raises(errors.RecountFailed):
        dbanon.verify(mariadb.url, "people", quasi_identifiers=["name"], k=11)
    assert dbanon.verify(mariadb.url, "people", quasi_identifiers=["name"], k=10).classes == 9


def test_values_that_no_release_may_have(mariadb: MariadbDatabase) -> None:
    mariadb.execute(
        "CREATE TABLE people (id int PRIMARY KEY, age int, height float, born date, ok tinyint(1),"
        " kind enum('x', 'y'))",
        "SET sql_mode = ''",
        "INSERT INTO people VALUES (1, 30, 1.5, '0000-00-00', 1, 'x'), (2, 31, 1.6, '2001-02-03',"
        " 1, 'x'), (3, 31, 1.6, '2001-02-03', 7, 'z'), (4, 31, 1.6, '2001-02-03', 1, 'y')",
    )
    options: dict[str, Any] = {"k": 2, "method": "kmember"}
    for name, error in (
        ("height", errors.UnsupportedType),
        ("born", errors.MixedTypes),
        ("kind", errors.MixedTypes),
        ("ok", errors.MixedTypes),
    ):
        with pytest.raises(error, match=f'"{name}"'):
            mariadb.anonymize(quasi_identifiers=["age", name], **options)
    with pytest.raises(errors.MixedTypes, match='"born"'):
        mariadb.anonymize(quasi_identifiers=["age"], keep=["born"], **options)
    assert "dbanon" not in mariadb.server.schemas()


def test_an_engine_without_snapshots(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    mariadb.execute("ALTER TABLE people ENGINE=MyISAM")
    with pytest.raises(errors.EngineUnsuitable, match="MyISAM"):
        mariadb.anonymize(**OPTIONS)


def test_what_needs_one_transaction(mariadb: MariadbDatabase, tmp_path: Any) -> None:
    load_people(mariadb)
    with pytest.raises(errors.ViewsNotHere):
        mariadb.anonymize(**OPTIONS, output_kind="view")
    with pytest.raises(errors.ChainsNotHere):
        dbanon.create_chain(
            mariadb.url, "c", table="people", entity="id", changes="hold", key_out=tmp_path / "key"
        )
    assert not (tmp_path / "key").exists()
    with pytest.raises(errors.BudgetsNotHere):
        dbanon.create_budget(mariadb.url, "b", source="people", epsilon=1.0)


def test_a_label_longer_than_its_column(
    mariadb: MariadbDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_people(mariadb)
    before = mariadb.state()
    monkeypatch.setattr(dialect, "declare_type", lambda kind: "varchar(6) NULL")
    with pytest.raises(errors.UnsupportedType, match="longer than its column"):
        mariadb.anonymize(**OPTIONS | {"method": "kmember"})
    assert mariadb.state() == before
    assert states(mariadb) == ["refused"]


def test_the_rows_of_one_moment(mariadb: MariadbDatabase) -> None:
    """Changes that others make during the run do not enter the release."""
    load_people(mariadb)

    def change(sql: str) -> None:
        if sql.startswith('CREATE TABLE "dbanon"."r_'):
            mariadb.execute("UPDATE people SET site = 'changed', age = 1")

    mariadb.anonymize(**OPTIONS, keep=["site"], on_sql=change)
    assert mariadb.rows("SELECT count(*) FROM people WHERE site = 'changed'") == [(40,)]
    assert mariadb.rows("SELECT count(*) FROM release.people WHERE site = 'changed'") == [(0,)]


def test_a_table_that_changes_before_it_is_read(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    with open_store(mariadb.url).session(write=False) as session:
        mariadb.execute("ALTER TABLE people ENGINE=InnoDB")
        with pytest.raises(errors.SourceChanged):
            session.rows('SELECT * FROM "app"."people"')


def test_hostile_names(mariadb: MariadbDatabase) -> None:
    long, hostile = "x" * 64, 'a`b"c%s?'
    quoted = hostile.replace('"', '""')
    mariadb.execute(
        f'CREATE TABLE "{quoted}" (id int PRIMARY KEY, "{quoted}" int, "{long}" varchar(9))',
        f'INSERT INTO "{quoted}" VALUES ' + ", ".join(f"({i}, {i % 7}, 'v')" for i in range(20)),
    )
    named = '"' + quoted + '"'
    report = mariadb.anonymize(
        table=named, output=f"release.{long}", quasi_identifiers=[hostile], keep=[long]
    )
    assert report.rows_out == 20
    assert dbanon.verify(mariadb.url, f"release.{long}").unchanged
    with pytest.raises(errors.ColumnNotFound):
        mariadb.anonymize(table=named, quasi_identifiers=[hostile.upper()])
    with pytest.raises(errors.NameTooLong):
        mariadb.anonymize(table=named, output=f"release.{long}y", quasi_identifiers=[hostile])


def test_a_view_that_would_run_functions_of_others_as_the_caller(mariadb: MariadbDatabase) -> None:
    """Mallory's function does as root what root may, where her view runs with root's rights."""
    load_people(mariadb)
    mariadb.execute("CREATE TABLE taken (who varchar(99))")
    mariadb.execute(
        "CREATE DEFINER=mallory@localhost FUNCTION evil(x int) RETURNS int SQL SECURITY INVOKER"
        " MODIFIES SQL DATA BEGIN INSERT INTO app.taken VALUES (current_user()); RETURN x; END"
    )
    view = "CREATE OR REPLACE DEFINER=mallory@localhost SQL SECURITY {} VIEW shown AS SELECT id, {}"
    mariadb.execute(f"{view.format('INVOKER', 'evil(age) AS age')} FROM app.people")
    options = OPTIONS | {"table": "shown", "key": ["id"], "quasi_identifiers": ["age"]}
    for call in (mariadb.anonymize, partial(dbanon.plan, mariadb.url, output="o", k=3)):
        with pytest.raises(errors.ForeignCode, match="mallory"):
            call(**options)
    assert mariadb.rows("SELECT count(*) FROM app.taken") == [(0,)]
    # One of the account's own is its own business.
    secure_view = view.replace("DEFINER=mallory@localhost ", "").format("INVOKER", "age")
    mariadb.execute(f"{secure_view} FROM app.people")
    assert (
        mariadb.anonymize(**options).rows_out == mariadb.rows("SELECT count(*) FROM people")[0][0]
    )


EVIL = (
    "CREATE DEFINER=mallory@localhost FUNCTION evil(x int) RETURNS int SQL SECURITY {}"
    " MODIFIES SQL DATA BEGIN INSERT INTO app.taken VALUES (current_user()); RETURN x; END"
)
# What root reads, and the objects it is made of: evil runs with root's rights where it is INVOKER.
NESTED = {
    "a function in a view of the reader's": [
        "CREATE VIEW shown AS SELECT id, evil(age) AS age FROM people",
    ],
    "a view of mallory's below one of the reader's": [
        "CREATE DEFINER=mallory@localhost SQL SECURITY INVOKER VIEW below AS"
        " SELECT id, evil(age) AS age FROM people",
        "CREATE VIEW shown AS SELECT id, age FROM below",
    ],
    "two views down, in a subquery": [
        "CREATE SQL SECURITY INVOKER VIEW below AS SELECT id, (SELECT max(evil(p.id)) FROM people p"
        " WHERE p.id = q.id) AS age FROM people q",
        "CREATE VIEW shown AS SELECT id, age FROM below",
    ],
    "a routine in a routine of the reader's": [
        "CREATE FUNCTION mine(x int) RETURNS int SQL SECURITY INVOKER MODIFIES SQL DATA"
        " RETURN /* plain */ `evil` /* call */ (x)",
        "CREATE VIEW shown AS SELECT id, mine(age) AS age FROM people",
    ],
    "a procedure that a routine of the reader's calls": [
        "CREATE DEFINER=mallory@localhost PROCEDURE Deep() SQL SECURITY INVOKER MODIFIES SQL DATA"
        " INSERT INTO app.taken VALUES (current_user())",
        "CREATE FUNCTION mine(x int) RETURNS int MODIFIES SQL DATA"
        " BEGIN CALL DEEP(); RETURN x; END",
        "CREATE VIEW shown AS SELECT id, mine(age) AS age FROM people",
    ],
    "a function of another schema, under a name that needs quotes": [
        "CREATE DATABASE `mal lory`",
        EVIL.replace("evil", "`mal lory`.`a``b`").format("INVOKER"),
        "CREATE VIEW shown AS SELECT id, `mal lory`.`a``b`(age) AS age FROM people",
    ],
}


@pytest.mark.parametrize("case", NESTED)
def test_foreign_code_below_a_view_of_the_readers_own(mariadb: MariadbDatabase, case: str) -> None:
    """Views and routines are followed down to the last that would run as the reader."""
    load_people(mariadb)
    mariadb.server.execute(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE taken (who varchar(99))",
        EVIL.format("INVOKER"),
        *NESTED[case],
        database="app",
    )
    # The attack works where dbanon does not check.
    mariadb.rows("SELECT sum(age) FROM shown")
    assert mariadb.rows("SELECT DISTINCT who FROM app.taken") == [("root@localhost",)]
    mariadb.execute("DELETE FROM app.taken")
    options = OPTIONS | {"table": "shown", "key": ["id"], "quasi_identifiers": ["age"]}
    trees = {"age": {"table": "shown"}}
    for call in (
        partial(mariadb.anonymize, **options),
        partial(dbanon.plan, mariadb.url, output="o", k=3, **options),
        partial(dbanon.advise, mariadb.url, table="shown"),
        partial(dbanon.verify, mariadb.url, "shown", quasi_identifiers=["age"], k=2),
        partial(mariadb.anonymize, quasi_identifiers=["age"], method="gaa_cp", hierarchies=trees),
    ):
        with pytest.raises(errors.ForeignCode, match="mallory"):
            call()
    assert mariadb.rows("SELECT count(*) FROM app.taken") == [(0,)]


def test_code_that_runs_with_its_definers_rights_is_no_reason_to_refuse(
    mariadb: MariadbDatabase,
) -> None:
    load_people(mariadb)
    mariadb.server.execute(
        "SET SESSION sql_mode = ''",
        "CREATE TABLE taken (who varchar(99))",
        EVIL.format("DEFINER"),
        "CREATE USER IF NOT EXISTS mallory@localhost",
        "GRANT INSERT ON app.taken TO mallory@localhost",
        "GRANT EXECUTE ON app.* TO mallory@localhost",
        "CREATE FUNCTION mine(x int) RETURNS int RETURN x",
        # INVOKER code that only a view with another definer's rights names.
        EVIL.replace("evil", "theirs").format("INVOKER"),
        "GRANT SELECT ON app.people TO mallory@localhost",
        "CREATE DEFINER=mallory@localhost SQL SECURITY DEFINER VIEW below AS"
        " SELECT id, theirs(age) AS age FROM people",
        "CREATE VIEW shown AS SELECT id, mine(evil(age)) AS age FROM below",
        database="app",
    )
    options = OPTIONS | {"table": "shown", "key": ["id"], "quasi_identifiers": ["age"]}
    assert (
        mariadb.anonymize(**options).rows_out == mariadb.rows("SELECT count(*) FROM people")[0][0]
    )
    assert mariadb.rows("SELECT DISTINCT who FROM app.taken") == [("mallory@localhost",)]


def test_names_that_differ_in_capitals(mariadb: MariadbDatabase, sqlite_file: Any) -> None:
    load_people(mariadb)
    mariadb.execute("CREATE DATABASE `Release`")
    mariadb.anonymize(**OPTIONS)
    mariadb.anonymize(**OPTIONS, output="Release.People")
    assert {("release", "people"), ("Release", "People")} <= mariadb.relations()


def test_a_trigger_sees_nothing(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    mariadb.anonymize(**OPTIONS)
    old = marks(mariadb)

    def hang(sql: str) -> None:
        if sql.startswith('INSERT INTO "dbanon"."r_'):
            [name] = [routine for routine in staged(mariadb) if routine.startswith("r_")]
            mariadb.execute(
                f"CREATE TRIGGER dbanon.t BEFORE INSERT ON dbanon.{name} FOR EACH ROW SET @x = 1"
            )

    with pytest.raises(errors.LedgerNotTrusted):
        mariadb.anonymize(**OPTIONS, if_exists="replace", on_sql=hang)
    assert (marks(mariadb), staged(mariadb)) == (old, [])
    mariadb.execute(
        "CREATE TRIGGER release.t BEFORE INSERT ON release.people FOR EACH ROW SET @x = 1"
    )
    with pytest.raises(errors.OutputChanged, match="trigger"):
        mariadb.anonymize(**OPTIONS, if_exists="replace")
    assert (marks(mariadb), staged(mariadb)) == (old, [])


def test_two_runs_of_one_output(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    refused: list[Exception] = []

    def other(sql: str) -> None:
        if sql.startswith('CREATE TABLE "dbanon"."r_') and not refused:
            refused.append(ValueError())
            with pytest.raises(errors.OutputBusy) as caught:
                mariadb.anonymize(**OPTIONS)
            refused.append(caught.value)

    report = mariadb.anonymize(**OPTIONS, on_sql=other)
    assert getattr(refused[1], "exit_code", None) == 4
    assert marks(mariadb) == report.release_id


def test_an_account_without_rights_cannot_take_a_runs_locks(mariadb: MariadbDatabase) -> None:
    """It may lock whatever it names; names of a run's locks need the ledger's secret."""
    load_people(mariadb)
    statements: list[str] = []
    mariadb.anonymize(**OPTIONS)
    mariadb.execute("CREATE USER IF NOT EXISTS nobody@localhost", "DROP TABLE release.people")
    names = [
        f"dbanon {kind} {hashlib.sha256(name.encode()).hexdigest()[:40]}"
        for kind, name in (("output", '"release"."people"'), ("job", "people"))
    ]
    with contextlib.closing(mariadb.server.connect(user="nobody")) as squatter:
        cursor = squatter.cursor()
        for name in names:
            cursor.execute("SELECT get_lock(%s, 0)", (name,))
            assert cursor.fetchall() == ((1,),)
        for query in ("SELECT secret FROM dbanon.lock_secret", "SHOW TABLES FROM dbanon"):
            with pytest.raises(pymysql.err.OperationalError, match="denied"):
                cursor.execute(query)
        with open_store(mariadb.url).job_lock("people"):
            mariadb.anonymize(**OPTIONS, on_sql=statements.append)
    assert any("get_lock" in sql for sql in statements)
    # Two runs agree on the names.
    with open_store(mariadb.url).job_lock("people"):
        with pytest.raises(errors.JobRunning), open_store(mariadb.url).job_lock("people"):
            pass
        with open_store(mariadb.url).job_lock("other"):
            pass


def test_a_ledger_without_a_secret_gets_one(mariadb: MariadbDatabase) -> None:
    """As after an upgrade during which a run of the old version ended."""
    load_people(mariadb)
    mariadb.anonymize(**OPTIONS)
    mariadb.execute(
        "DROP TABLE dbanon.lock_secret",
        "UPDATE dbanon.publication SET state = 'planned'",
    )
    mariadb.anonymize(**OPTIONS, output="release.second")
    assert states(mariadb) == ["refused", "published"]
    [(secret,)] = mariadb.rows("SELECT secret FROM dbanon.lock_secret")
    assert len(secret) == 64
    # A run that ended between the two statements has left the table without its row.
    mariadb.execute("DELETE FROM dbanon.lock_secret")
    mariadb.anonymize(**OPTIONS, output="release.third")
    assert mariadb.rows("SELECT count(*) FROM dbanon.lock_secret") == [(1,)]


def test_an_idle_reader(mariadb: MariadbDatabase) -> None:
    """It keeps its rows; others wait behind a try of at most .8 s; then the old release stays."""
    load_people(mariadb)
    old = mariadb.anonymize(**OPTIONS)
    tries: list[str] = []
    with contextlib.closing(mariadb.server.connect("app")) as reader:
        cursor = reader.cursor()
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT count(*) FROM release.people")
        with pytest.raises(errors.OutputBusy, match="for 2 s"):
            mariadb.anonymize(
                **OPTIONS,
                if_exists="replace",
                swap_timeout=2,
                on_sql=lambda sql: tries.append(sql) if "RENAME" in sql else None,
            )
        cursor.execute("COMMIT")
    waits = [float(sql.split(" = ")[1].split()[0]) for sql in tries]
    assert len(waits) >= 3
    assert max(waits) <= 0.8
    assert publication.PAUSE_SECONDS > 0
    assert (marks(mariadb), staged(mariadb)) == (old.release_id, [])
    assert states(mariadb) == ["published", "refused"]
    assert mariadb.anonymize(**OPTIONS, if_exists="replace").release_id == marks(mariadb)


def test_readers_see_whole_releases(mariadb: MariadbDatabase) -> None:
    load_people(mariadb)
    mariadb.execute("CREATE TABLE few AS SELECT * FROM people WHERE id <= 20")
    mariadb.execute("ALTER TABLE few ADD PRIMARY KEY (id)")
    mariadb.anonymize(**OPTIONS)
    readers = Readers(mariadb.server, '"release"', '"release".people')
    stood = [readers.digest()]
    with readers.reading():
        for n in range(6):
            table = "people" if n % 2 else "few"
            mariadb.anonymize(**OPTIONS, table=table, if_exists="replace")
            stood.append(readers.digest())
    assert readers.findings(stood) == []
    # The rows of each, and no others: of two tables, which take turns.
    assert set(readers.seen) == set(stood)
    assert len(set(stood)) == 2


@contextlib.contextmanager
def before(cut: str, then: Callable[[], None]) -> Iterator[Callable[[str], None]]:
    done: list[bool] = []

    def at(sql: str) -> None:
        # A transaction of the ledger begins so; that of reading has a snapshot.
        if sql.startswith(cut) and "SNAPSHOT" not in sql and not done:
            done.append(True)
            then()

    yield at
    assert done or then is _die


def _die() -> None:
    os._exit(9)


@contextlib.contextmanager
def _child(database: MariadbDatabase, cut: str) -> Iterator[Callable[[], int]]:
    """A client that dies at a given step; forked before any thread exists, and started on
    demand.
    """
    reading_end, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(reading_end, 1)
            with before(cut, _die) as at:
                database.anonymize(**OPTIONS, if_exists="replace", on_sql=at)
        finally:
            # Whatever was raised, it never returns into pytest.
            os._exit(0)

    def go() -> int:
        os.write(tell, b"x")
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    yield go
    os.close(reading_end)
    os.close(tell)


def _require_settled(database: MariadbDatabase, old: str, cut: str) -> None:
    """The old release or the new one, whole; the ledger says which; nothing else is left."""
    with open_store(database.url).session(write=True):
        pass
    assert staged(database) == []
    assert states(database)[0] == "published"
    last = states(database)[-1]
    assert last in ("published", "refused")
    new = marks(database) != old
    assert new is (CUTS.index(cut) > CUTS.index("SET STATEMENT max_statement_time"))
    assert new is (last == "published" and len(states(database)) == 2)
    assert dbanon.verify(database.url, "release.people").rows == (40 if new else 20)
    current = database.rows("SELECT release_id FROM dbanon.release WHERE superseded_at IS NULL")
    assert current == [(marks(database),)]
    # A later run goes on from there.
    assert database.anonymize(**OPTIONS, if_exists="replace").rows_out == 40


# PyMySQL leaves a unix socket open that refuses it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("who", ["server", "client"])
def test_killed_between_two_steps(mariadb: MariadbDatabase, cut: str, who: str) -> None:
    load_people(mariadb)
    mariadb.execute("CREATE TABLE few AS SELECT * FROM people WHERE id <= 20")
    mariadb.execute("ALTER TABLE few ADD PRIMARY KEY (id)")
    old = mariadb.anonymize(**OPTIONS, table="few").release_id
    # What a killed run leaves stays until someone clears it.
    readers = Readers(mariadb.server, '"release"', '"release".people', pause=0.005)
    stood = [readers.digest()]
    if who == "server":
        with (
            readers.reading(),
            before(cut, mariadb.server.crash) as at,
            pytest.raises((errors.ConnectionLost, errors.OutcomeUnknown)),
        ):
            mariadb.anonymize(**OPTIONS, if_exists="replace", on_sql=at)
        mariadb.server.start()
    else:
        with _child(mariadb, cut) as go, readers.reading():
            assert go() == 9
            readers.wait()
    with readers.reading():
        with open_store(mariadb.url).session(write=True):
            pass
        readers.wait()
    # One that was shown and not kept would be neither.
    assert readers.findings([*stood, readers.digest()]) == []
    assert readers.seen
    _require_settled(mariadb, old, cut)


def test_what_init_gives_runs_as_it_is(
    mariadb: MariadbDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table: views are no releases here."""
    load_people(mariadb)
    monkeypatch.setenv("DBANON_URL", mariadb.url)
    file = tmp_path / "job.yaml"
    file.write_text(render_job_file(mariadb.url, "people", k=4))
    [job] = read_job_file(file).jobs
    assert job.job.output_kind == "table"
    completed = CliRunner().invoke(main, ["check", str(file)])
    assert completed.exit_code == 0, completed.output
    completed = CliRunner().invoke(main, ["run", str(file)])
    assert completed.exit_code == 0, completed.output
