"""Hints of MariaDB: what raises each, and what a user does who follows it."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any
from unittest import mock

import dbanon
from dbanon.errors import InsufficientRights, OutputNotOurs
from dbanon.extensions.mariadb.publication import MariadbPublication
from dbanon.extensions.mariadb.store import MariadbStore
from tests.doors.hints_stores import Act, Stores, StoreSteps

SETTINGS = {"log-bin": "log", "binlog-format": "MIXED"}
TABLES = (
    "CREATE TABLE people (id int PRIMARY KEY, age int, town varchar(9), born date, size float,"
    " ok tinyint(1), kind enum('x', 'y'))",
    "SET sql_mode = ''",
    "INSERT INTO people SELECT seq, 20 + seq % 9, 'a', if(seq = 1, '0000-00-00', '2001-02-03'),"
    " 1.5, if(seq = 1, 7, 1), if(seq = 1, 'z', 'x') FROM seq_1_to_40",
    "CREATE TABLE pairs (id int PRIMARY KEY, age int)",
    "INSERT INTO pairs SELECT id, age FROM people",
    "CREATE DATABASE `release`",
)


def maria(sql: str = "", *, columns: str = "", **options: Any) -> Act:
    """Release after a statement, or from a view of these columns."""

    def run(w: Stores) -> object:
        if sql:
            w.maria.execute(sql)
        if not columns:
            return release(w, **options)
        view = w.new()
        w.maria.execute(f"CREATE VIEW {view} AS SELECT id, age, {columns} FROM people")
        return release(w, **options, table=view, key=["id"])

    return run


def release(w: Stores, url: str = "", **options: Any) -> object:
    """Anonymize the table."""
    return w.release(url or w.maria.url, **{"output": f"release.{w.new()}", **options})


def statements(w: Stores) -> None:
    """Run the printed statements."""
    for sql in w.hints[-1].removesuffix(".").split("; "):
        w.maria.execute(sql)


def sql(pattern: str) -> Act:
    """Run the printed statement that a regular expression has as its group."""
    return lambda w: w.maria.execute(w.printed(pattern))


def account(name: str, *grants: str) -> Act:
    """An account with these rights alone."""

    def run(w: Stores) -> None:
        user = f"`{name}`@`%`"
        w.maria.execute(
            f"CREATE USER {user} IDENTIFIED VIA mysql_native_password USING PASSWORD('p@q')",
            *(f"GRANT {grant} TO {user}" for grant in grants),
        )

    return run


def as_account(w: Stores, name: str, password: str = "p%40q") -> str:
    """The URL of an account."""
    return str(w.maria.url).replace("root@", f"{name}:{password}@")


def release_as(name: str) -> Act:
    return lambda w: release(w, as_account(w, name), table="pairs")


def granted(name: str) -> Act:
    """Run the printed statements, and those of the next hint if the account lacks more."""

    def run(w: Stores) -> object:
        for _ in range(2):
            statements(w)
            try:
                return release_as(name)(w)
            except InsufficientRights as error:
                w.hints.append(str(error.hint))
        raise AssertionError(w.hints)

    return run


def with_account(make: Act, act: Act) -> Act:
    def run(w: Stores) -> object:
        make(w)
        return act(w)

    return run


def view_of_mallory(security: str) -> Act:
    def run(w: Stores) -> object:
        w.maria.execute(
            f"CREATE OR REPLACE DEFINER=mallory@localhost SQL SECURITY {security} VIEW shared AS"
            " SELECT id, age FROM app.people"
        )
        return release(w, table="shared", key=["id"])

    return run


def obstructed(*sql: str) -> Act:
    """Something stands in the way of a release that is to be replaced."""

    def run(w: Stores) -> object:
        release(w, output="release.taken", if_exists="replace")
        w.maria.execute(*sql)
        return release(w, output="release.taken", if_exists="replace")

    return run


AGAIN: dict[str, Any] = {"output": "release.taken", "if_exists": "replace"}


def read_meanwhile(w: Stores, kill: bool = False, wait: float = 0, **options: Any) -> object:
    """Release while a reader has the output open, until it is killed or its time is over."""
    release(w, **AGAIN)
    with closing(w.maria.server.connect("app")) as connection:
        cursor = connection.cursor()
        cursor.execute("START TRANSACTION")
        cursor.execute("SELECT count(*) FROM release.taken")
        if kill:
            [(session, *_)] = [
                row for row in w.maria.rows("SHOW PROCESSLIST") if row[0] == connection.thread_id()
            ]
            w.maria.execute(f"KILL {session}")
        timer = threading.Timer(wait, lambda: cursor.execute("COMMIT"))
        if wait:
            timer.start()
        try:
            return release(w, **AGAIN, **options)
        finally:
            if wait:
                timer.join()


def two_at_once(w: Stores) -> object:
    caught: list[Exception] = []

    def other(text: str) -> None:
        if text.startswith('CREATE TABLE "dbanon"."r_') and not caught:
            caught.append(ValueError())
            try:
                release(w, **AGAIN)
            except dbanon.DbanonError as error:
                caught.append(error)

    release(w, **AGAIN, on_sql=other)
    raise caught[1]


def replaced_meanwhile(w: Stores) -> object:
    """Another session replaces the output just before the release takes its name."""
    release(w, **AGAIN)

    def other(text: str) -> None:
        if "RENAME TABLE" in text and "old_" in text.split(" TO ")[1]:
            w.maria.execute("DROP TABLE release.taken", "CREATE TABLE release.taken (x int)")

    return release(w, **AGAIN, on_sql=other)


def look_and_run(w: Stores) -> None:
    """What the other session wrote is nobody's release, so the next run says so."""
    [(_, definition)] = w.maria.rows(w.printed("Run (SHOW CREATE TABLE .*?) to see"))
    assert "COMMENT" not in definition
    try:
        release(w, **AGAIN)
    except OutputNotOurs:
        w.maria.execute("DROP TABLE release.taken")
    release(w, **AGAIN)


def lost(w: Stores) -> object:
    """The connection ends once the release is shown."""
    complete = MariadbPublication.complete

    def publish_and_lose(*args: Any) -> None:
        complete(*args)
        raise OSError

    with (
        mock.patch.object(MariadbPublication, "complete", publish_and_lose),
        mock.patch.object(MariadbStore, "_resolve_failed_publication", return_value=None),
    ):
        return release(w, output="release.lost")


def read_comment(w: Stores) -> None:
    [(_, definition)] = w.maria.rows(w.printed("Run (SHOW CREATE TABLE .*?):"))
    assert w.printed("comment is (dbanon release [-0-9a-f]+),") in definition


OK: dict[str, Any] = {
    "quasi_identifiers": ["ok"],
    "recoding": "representative",
    "method": "kmember",
}
SIZE: dict[str, Any] = {**OK, "quasi_identifiers": ["size"]}
MARIADB = (
    StoreSteps(
        "Write mysql+pymysql://user@host/database.",
        lambda w: release(w, w.maria.server.url("")),
        [release],
    ),
    StoreSteps(
        "Write mysql+pymysql://user@host/database.",
        lambda w: dbanon.releases(w.maria.url.replace("pymysql", "mysqldb")),
        [release],
    ),
    StoreSteps(
        "Write %40 for each @ in a password",
        with_account(account("at", "ALL ON *.*"), lambda w: release(w, as_account(w, "at", "p@q"))),
        [lambda w: release(w, as_account(w, "at"))],
    ),
    StoreSteps(
        "{}.",
        with_account(
            account(
                "read-er",
                "INSERT ON app.pairs",
                "ALL ON `release`.*",
                "ALL ON dbanon.*",
                "CREATE TEMPORARY TABLES ON app.*",
            ),
            release_as("read-er"),
        ),
        [granted("read-er")],
    ),
    StoreSteps(
        "{}.",
        with_account(account("writer", "SELECT ON app.*"), release_as("writer")),
        [granted("writer")],
    ),
    StoreSteps(
        "Find out who created it, then run DROP TRIGGER",
        maria(
            "CREATE TRIGGER dbanon.watch BEFORE INSERT ON dbanon.release FOR EACH ROW SET @x = 1"
        ),
        [sql("run (DROP TRIGGER .*)[.]"), release],
    ),
    StoreSteps(
        "Let its owner create it again with",
        with_account(account("mallory", "SELECT ON app.people"), view_of_mallory("INVOKER")),
        [view_of_mallory("DEFINER"), release, maria(columns="town")],
    ),
    StoreSteps(
        "Run {}, then run it again.",
        obstructed(
            "CREATE TRIGGER `release`.`wa``tch`"
            " BEFORE INSERT ON release.taken FOR EACH ROW SET @x = 1"
        ),
        [sql("Run (DROP TRIGGER .*), then"), maria(**AGAIN)],
    ),
    StoreSteps(
        "Run {}, then run it again.",
        obstructed(
            "CREATE TABLE refers AS SELECT age FROM release.taken",
            "ALTER TABLE refers ADD KEY (age)",
            "ALTER TABLE release.taken ADD KEY (age)",
            "ALTER TABLE refers ADD CONSTRAINT f FOREIGN KEY (age) REFERENCES release.taken (age)",
        ),
        [sql("Run (ALTER TABLE .*), then"), maria(**AGAIN)],
    ),
    StoreSteps("Run SHOW CREATE TABLE {} to see", replaced_meanwhile, [look_and_run]),
    StoreSteps(
        "End their transactions (SHOW PROCESSLIST lists",
        lambda w: read_meanwhile(w, swap_timeout=1),
        [
            lambda w: read_meanwhile(w, kill=True, swap_timeout=1),
            lambda w: read_meanwhile(w, wait=1.2, swap_timeout=30),
        ],
    ),
    StoreSteps("Wait until it has ended, then run", two_at_once, [maria(**AGAIN)]),
    StoreSteps("Run SHOW CREATE TABLE {}: if its comment", lost, [read_comment]),
    StoreSteps(
        "Correct these values, or make them NULL",
        maria(keep=["born"]),
        [
            maria(columns="nullif(born, '0000-00-00') AS born", keep=["born"]),
            maria("UPDATE people SET born = '2001-02-03' WHERE id = 1", keep=["born"]),
        ],
    ),
    StoreSteps(
        "Correct these values, or make them NULL",
        maria(keep=["kind"]),
        [
            maria(columns="nullif(kind, '') AS kind", keep=["kind"]),
            maria("UPDATE people SET kind = 'x' WHERE id = 1", keep=["kind"]),
        ],
    ),
    StoreSteps(
        "Change its type to DOUBLE or DECIMAL, or",
        maria(**SIZE),
        [
            maria(columns="CAST(size AS double) AS size", **SIZE),
            maria(columns="CAST(size AS decimal(9, 2)) AS size", **SIZE),
            maria("ALTER TABLE people MODIFY size double", **SIZE),
        ],
    ),
    StoreSteps(
        "Change the type of the column, or cast it",
        maria(**OK),
        [
            maria(columns="CAST(ok AS integer) AS ok", **OK),
            maria("ALTER TABLE people MODIFY ok smallint", **OK),
        ],
    ),
    StoreSteps(
        "Release a table: `output_kind=", maria(output_kind="view"), [maria(output_kind="table")]
    ),
    StoreSteps(
        "Run ALTER TABLE {} ENGINE InnoDB, or",
        maria("ALTER TABLE people ENGINE MyISAM"),
        [
            lambda w: w.maria.execute(
                "CREATE TABLE copied ENGINE InnoDB AS SELECT * FROM people",
                "ALTER TABLE copied ADD PRIMARY KEY (id)",
            ),
            maria(table="copied"),
            sql("Run (ALTER TABLE .*?), or"),
            release,
        ],
    ),
    StoreSteps(
        "Let an administrator run: SET GLOBAL",
        maria("SET GLOBAL binlog_format = 'STATEMENT'"),
        [sql("run: (SET GLOBAL .*)"), release],
    ),
)
