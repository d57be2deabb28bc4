"""What has no pages of its own is read by COPY: in any pieces, with NULLs, and to its errors."""

from __future__ import annotations

from collections.abc import Generator

import numpy as np
import pytest
from psycopg.pq import TransactionStatus
from sqlalchemy import make_url

from dbanon.data.microdata import Microdata
from dbanon.errors import DatabaseFailure
from dbanon.stores.names import RelationName
from dbanon.stores.postgresql.client import PsycopgSession
from dbanon.stores.postgresql.store import PostgresqlStore
from tests.stores.databases import PostgresqlDatabase

pytestmark = pytest.mark.postgresql

COLUMNS = ["x", "born", "seen", "paid", "odd", "site"]


def make(database: PostgresqlDatabase) -> None:
    database.execute(
        "CREATE TABLE people AS SELECT g AS id, CASE WHEN g % 3 > 0 THEN g / 8.0::float8 END AS x,"
        " CASE WHEN g % 5 > 0 THEN date '2000-01-01' - 40 + g END AS born,"
        " timestamptz '1999-12-31 12:00+00' + g * interval '1 hour' AS seen,"
        " CASE WHEN g % 7 > 0 THEN g::numeric / 4 END AS paid, g % 2 = 0 AS odd,"
        " CASE WHEN g % 4 > 0 THEN chr(97 + g % 4) END AS site FROM generate_series(1, 100) AS g",
        "ALTER TABLE people ADD PRIMARY KEY (id)",
        "CREATE VIEW seen AS SELECT * FROM people",
        "CREATE VIEW nobody AS SELECT * FROM people WHERE id < 0",
        "CREATE VIEW broken AS SELECT id, 1.0::float8 / (id - 77) AS x FROM people",
    )


def read(session: PsycopgSession, name: str, columns: list[str], chunk_rows: int = 7) -> Microdata:
    source = session.locate(session.find_source(RelationName("public", name)), ["id"])
    attributes = session.inspect(source, [source.attribute(column) for column in columns])
    return session.read(source, attributes, chunk_rows=chunk_rows)


@pytest.mark.parametrize("chunk_rows", [1, 7, 99, 100, 101])
def test_a_view_is_read_as_its_table_is(postgresql: PostgresqlDatabase, chunk_rows: int) -> None:
    make(postgresql)
    found = {}
    for name in ("people", "seen", "nobody"):
        with PostgresqlStore(make_url(postgresql.url)).session(write=False) as session:
            found[name] = read(session, name, COLUMNS, chunk_rows)
            # Other statements may follow.
            assert session.rows("SELECT 1") == [(1,)]
    table, view = found["people"], found["seen"]
    assert found["nobody"].n_records == 0
    assert view.n_records == 100
    assert view.valid is not None
    assert table.valid is not None
    for mine, theirs in (
        (view.keys, table.keys),
        (view.numbers, table.numbers),
        (view.codes, table.codes),
        (view.valid, table.valid),
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_a_row_that_cannot_be_read_ends_it_with_the_servers_word(
    postgresql: PostgresqlDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    make(postgresql)
    store = PostgresqlStore(make_url(postgresql.url))
    with (
        pytest.raises(DatabaseFailure) as failure,
        store.session(write=False) as session,
    ):
        read(session, "broken", ["x"])
    assert failure.value.detail == "SQLSTATE 22012"
    assert not caplog.records


def test_reading_may_end_early(postgresql: PostgresqlDatabase) -> None:
    make(postgresql)
    with PostgresqlStore(make_url(postgresql.url)).session(write=False) as session:
        source = session.locate(session.find_source(RelationName("public", "seen")), ["id"])
        chunks = session.read_chunks(source, [source.attribute("x")], 10)
        assert isinstance(chunks, Generator)
        next(chunks)
        chunks.close()
        status = session._driver.info.transaction_status
        assert status in (TransactionStatus.INTRANS, TransactionStatus.INERROR)
