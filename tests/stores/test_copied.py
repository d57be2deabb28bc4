"""Rows of COPY as libpq has them: taken by the compiled core, and without it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dbanon import kernels
from dbanon.stores.postgresql import copy_stream, packed_rows
from tests.postgres_server import Server, conninfo
from tests.stores.signals import handler
from tests.stores.tcp_proxy import Cut, TcpProxy

pytestmark = pytest.mark.postgresql

ROWS = 3000


@pytest.fixture(params=["core", "python"])
def connection(
    request: pytest.FixtureRequest, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[psycopg.Connection]:
    if request.param == "python":
        monkeypatch.setattr(copy_stream, "_libpq_addresses", lambda _: None)
    with psycopg.connect(conninfo(pg_url)) as open_connection:
        by_core = request.param == "core" and psycopg.pq.__impl__ != "python"
        # Otherwise a slow reader would go unnoticed.
        assert (
            isinstance(copy_stream._create_drain(open_connection.pgconn), kernels.CopyDrain)
            == by_core
        )
        yield open_connection


def read_all(connection: psycopg.Connection, query: str, rows: int) -> list[bytes]:
    copy = f"COPY ({query}) TO STDOUT (FORMAT binary)"
    with connection.cursor() as cursor, cursor.copy(copy.encode()) as stream:
        buffers = copy_stream.read_copy(stream, connection.pgconn, rows)
        return [buffer.tobytes() for buffer in buffers]


@pytest.mark.parametrize("rows", [1, 7, ROWS, ROWS + 1])
def test_the_bytes_are_those_of_the_copy(connection: psycopg.Connection, rows: int) -> None:
    query = (
        "SELECT g, NULLIF(g % 3, 0), repeat('x', CASE WHEN g % 500 = 0 THEN 100000 ELSE 9 END)"
        f" FROM generate_series(1, {ROWS}) AS g"
    )
    with connection.cursor() as cursor:
        with cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as stream:
            copied_bytes = b"".join(bytes(piece) for piece in stream)
        buffers_read = read_all(connection, query, rows)
        assert (
            packed_rows.COPY_HEADER + b"".join(buffers_read) + packed_rows.COPY_TRAILER
            == copied_bytes
        )
        assert len(buffers_read) == -(-ROWS // rows)
        # The connection is free for other statements.
        assert cursor.execute("SELECT 7").fetchall() == [(7,)]


def test_no_rows(connection: psycopg.Connection) -> None:
    assert read_all(connection, "SELECT 1 WHERE false", 5) == []
    assert connection.execute("SELECT 7").fetchall() == [(7,)]


@pytest.mark.parametrize("rows", [5, 10**6])
def test_an_error_on_the_way(connection: psycopg.Connection, rows: int) -> None:
    query = f"SELECT repeat('x', 99), 1 / ({ROWS} - g) FROM generate_series(1, {ROWS}) AS g"
    with pytest.raises(psycopg.errors.DivisionByZero):
        read_all(connection, query, rows)
    connection.rollback()
    assert connection.execute("SELECT 7").fetchall() == [(7,)]


def test_one_who_stops_on_the_way(connection: psycopg.Connection) -> None:
    """Like Ctrl-C between two pieces: the server receives a cancel request, and goes on.

    20 MB is more than socket buffers hold.
    """
    copy = b"COPY (SELECT g FROM generate_series(1, 2000000) AS g) TO STDOUT (FORMAT binary)"
    with (  # noqa: PT012
        pytest.raises(KeyboardInterrupt),
        connection.cursor() as cursor,
        cursor.copy(copy) as stream,
    ):
        pieces: Any = copy_stream.read_copy(stream, connection.pgconn, 10)
        next(pieces)
        raise KeyboardInterrupt
    connection.rollback()
    assert connection.execute("SELECT 7").fetchall() == [(7,)]


@pytest.mark.parametrize("implementation", ["core", "python"])
@pytest.mark.parametrize("answers", [1, 200_000, 3_000_000])
def test_a_server_that_vanishes(
    pg_server: Server,
    pg_url: str,
    monkeypatch: pytest.MonkeyPatch,
    implementation: str,
    answers: int,
) -> None:
    """Like a killed server: no error arrives, and its socket is closed on both sides."""
    if implementation == "python":
        monkeypatch.setattr(copy_stream, "_libpq_addresses", lambda _: None)
    query = "SELECT g, repeat('x', 200) FROM generate_series(1, 100000) AS g"

    def hangs(number: int, frame: Any) -> None:
        raise TimeoutError

    with (
        handler(signal.SIGALRM, hangs),
        TcpProxy(pg_server.host, pg_server.port, Cut("before", b"COPY", answers=answers)) as proxy,
        psycopg.connect(conninfo(proxy.url(pg_url))) as connection,
    ):
        signal.alarm(20)
        try:
            with pytest.raises(psycopg.OperationalError):
                read_all(connection, query, 1000)
        finally:
            signal.alarm(0)
        assert proxy.was_cut.is_set()
        connection.close()
