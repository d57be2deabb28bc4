"""The general log of a MariaDB server shows no value of the source and no row's class."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import dbanon
from dbanon import errors
from tests.mariadb_server import MariadbServer, throwaway_mariadb
from tests.stores.databases import Database, MariadbDatabase

# Rare in any statement, as decimal and as hexadecimal digits.
_FIRST_KEY = 7_317_300_000_000
_N = 60


def load(database: Database) -> None:
    """Persons whose keys, numbers and texts are unmistakable."""
    rng = np.random.default_rng(11)
    kind = database.types
    rows = [
        (
            _FIRST_KEY + int(key),
            73_173_000 + int(rng.integers(0, 900)),
            f"qzmark ward {int(rng.integers(0, 4))}",
            f"qzkept {key}",
        )
        for key in rng.permutation(_N)
    ]
    columns = {"id": "bigint PRIMARY KEY", "pay": "integer"}
    database.load("people", {**columns, "ward": kind["text"], "note": kind["text"]}, rows)


@contextmanager
def general_log(mariadb: MariadbDatabase) -> Iterator[Callable[[], list[str]]]:
    """The statements that the server notes meanwhile, in their order."""
    mariadb.execute("SET GLOBAL log_output = 'TABLE'", "TRUNCATE mysql.general_log")
    mariadb.execute("SET GLOBAL general_log = ON")

    def statements() -> list[str]:
        rows = mariadb.rows("SELECT argument FROM mysql.general_log")
        return [text.decode() if isinstance(text, bytes) else text for (text,) in rows]

    try:
        yield statements
    finally:
        mariadb.execute("SET GLOBAL general_log = OFF", "TRUNCATE mysql.general_log")


# Beginnings of keys of the source, its numbers, and its texts. Masks are random hexadecimal digits,
# which sometimes contain the first digits of its numbers.
TRACES = re.compile(
    f"7317300|{_FIRST_KEY:x}".removesuffix("00")[:-1]
    + r"|qz|(?<![0-9a-f])73173[0-9]{3}(?![0-9a-f])",
    re.IGNORECASE,
)


@pytest.mark.parametrize("options", [{"recoding": "representative"}, {"method": "gaa_cp"}])
def test_no_statement_of_a_release_shows_a_row_of_the_source(
    mariadb: MariadbDatabase, options: dict[str, str]
) -> None:
    load(mariadb)
    with general_log(mariadb) as statements:
        dbanon.advise(mariadb.url, table="people")
        dbanon.anonymize(
            mariadb.url,
            table="people",
            k=5,
            output="release.people",
            quasi_identifiers=["pay", "ward"],
            keep=["note"],
            **options,
        )
        dbanon.verify(mariadb.url, "release.people")
        logged = statements()
    released = {
        str(value) for row in mariadb.rows("SELECT pay, ward FROM release.people") for value in row
    }
    [labels] = [
        statement for statement in logged if statement.startswith('INSERT INTO "dbanon_labels"')
    ]
    # Words of small numbers, as classes and positions are, begin with zeros: these are masked.
    assert "0000000000" not in labels
    assert len(labels) > 32 * _N
    for statement in logged:
        if statement.startswith('INSERT INTO "dbanon_classes"'):
            assert set(re.findall("'(qz[^']*)'", statement)) <= released
        else:
            assert not TRACES.search(statement), statement


def test_rows_of_another_database_stand_in_the_order_of_the_release(
    mariadb: MariadbDatabase, make_database: Callable[[str], Database]
) -> None:
    source = make_database("sqlite")
    load(source)
    with general_log(mariadb) as statements:
        dbanon.anonymize(
            source.url,
            table="people",
            k=5,
            output="release.people",
            target=mariadb.url,
            quasi_identifiers=["pay"],
            keep=["note"],
        )
        [rows] = [
            statement
            for statement in statements()
            if statement.startswith('INSERT INTO "dbanon_rows"')
        ]
    in_release = [note for (note,) in mariadb.rows("SELECT note FROM release.people")]
    assert re.findall("qzkept [0-9]+", rows) == in_release
    assert in_release != [note for (note,) in source.rows("SELECT note FROM people")]


def test_the_secret_of_the_locks_is_in_no_statement(mariadb: MariadbDatabase) -> None:
    load(mariadb)
    with general_log(mariadb) as statements:
        dbanon.anonymize(
            mariadb.url, table="people", k=5, output="release.people", quasi_identifiers=["pay"]
        )
        logged = statements()
    [(secret,)] = mariadb.rows("SELECT secret FROM dbanon.lock_secret")
    assert len(secret) == 64
    assert not any(secret.lower() in statement.lower() for statement in logged)


def test_the_binary_log_has_no_classes(mariadb_server: MariadbServer) -> None:
    """In its usual format; the one that repeats statements is refused."""
    with throwaway_mariadb({"log-bin": "binlog", "server-id": "1"}) as server:
        database = MariadbDatabase(server)
        database.clear()
        load(database)

        def release(output: str) -> None:
            dbanon.anonymize(
                database.url, table="people", k=5, output=output, quasi_identifiers=["pay"]
            )

        release("release.people")
        events = [str(row) for row in database.rows("SHOW BINLOG EVENTS")]
        assert any("dbanon" in event for event in events)
        assert not any(re.search('(INTO|TABLE) "?dbanon_', event) for event in events)
        database.execute("SET GLOBAL binlog_format = 'STATEMENT'")
        with pytest.raises(errors.EngineUnsuitable, match="STATEMENT") as refused:
            release("release.others")
        assert refused.value.hint is not None
        database.execute(refused.value.hint.partition(": ")[2])
        release("release.others")
