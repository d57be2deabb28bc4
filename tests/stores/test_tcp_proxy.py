"""The proxy treats connections as the tests that use it expect."""

from __future__ import annotations

import time
from typing import Literal

import psycopg
import pytest

from tests.postgres_server import Server, conninfo
from tests.stores.tcp_proxy import COMMIT, Cut, TcpProxy


def insert(url: str, row: int) -> None:
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute("INSERT INTO t VALUES (%s)", (row,))


def values_of_t(server: Server, url: str) -> list[int]:
    return [row for (row,) in server.execute("SELECT a FROM t ORDER BY a", url=url)]


def _wait_for(rows: list[int], server: Server, url: str) -> None:
    """The server may still be at the COMMIT that it was sent."""
    deadline = time.monotonic() + 30
    while values_of_t(server, url) != rows:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("how", "rows"), [("before", []), ("after", [1]), ("hold", [])])
@pytest.mark.parametrize("at", [COMMIT, b"INSERT INTO"])
def test_a_connection_is_cut_where_it_shall_be(
    pg_server: Server,
    pg_url: str,
    how: Literal["before", "after", "hold"],
    rows: list[int],
    at: bytes,
) -> None:
    pg_server.execute("CREATE TABLE t (a integer)", url=pg_url)
    with TcpProxy(pg_server.host, pg_server.port, Cut(how, at)) as proxy:
        url = proxy.url(pg_url)
        with pytest.raises(psycopg.OperationalError):
            insert(url, 1)
        assert proxy.was_cut.is_set()
        # Cut at the INSERT, there is nothing that could have been committed.
        expected = rows if at == COMMIT else []
        _wait_for(expected, pg_server, pg_url)
        if how == "hold" and at == COMMIT:
            proxy.forward()
            expected = [1]
            _wait_for(expected, pg_server, pg_url)
        insert(url, 2)
        assert values_of_t(pg_server, pg_url) == [*expected, 2]


def test_a_network_that_is_down_stays_down(pg_server: Server, pg_url: str) -> None:
    pg_server.execute("CREATE TABLE t (a integer)", url=pg_url)
    with TcpProxy(pg_server.host, pg_server.port, Cut("after", down=True)) as proxy:
        url = proxy.url(pg_url)
        for _ in range(2):
            with pytest.raises(psycopg.OperationalError):
                insert(url, 1)
        proxy.down = False
        insert(url, 2)
    assert values_of_t(pg_server, pg_url) == [1, 2]


def test_after_so_many_bytes(pg_server: Server, pg_url: str) -> None:
    with TcpProxy(pg_server.host, pg_server.port, Cut("before", 2000)) as proxy:
        with psycopg.connect(conninfo(proxy.url(pg_url))) as connection:
            connection.execute("SELECT 1")
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT %s", ("x" * 2000,))
        insert_nothing = psycopg.connect(conninfo(proxy.url(pg_url)))
        insert_nothing.execute("SELECT %s", ("x" * 5000,))
        insert_nothing.close()
