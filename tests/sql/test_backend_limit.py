"""An administrator sets the resources of calls inside a backend; users cannot raise them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from dbanon.data.memory import half_of_memory, limit_threads, worker_threads
from dbanon.doors.backend_limit import apply_backend_limits
from dbanon.errors import InvalidParameter
from tests.postgres_server import Server

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

MIB = 2**20
SMALL = "1000"
CALL = "SELECT (dbanon.mdav('app.people', 'release.r', '{a}', 5, if_exists => 'replace')).rows_out"
ASKING = (
    "SELECT (dbanon.mdav('app.people', 'release.r', '{a}', 5, if_exists => 'replace',"
    " options => '{\"memory_limit\": 100000000}')).rows_out"
)
LIMIT, VALUE = psycopg.errors.ProgramLimitExceeded, psycopg.errors.InvalidParameterValue


@pytest.fixture
def database(sql_url: str, run_sql: Run) -> str:
    run_sql("CREATE TABLE app.people AS SELECT g AS id, g % 90 AS a FROM generate_series(1, 900) g")
    run_sql("ALTER TABLE app.people ADD PRIMARY KEY (id)")
    return str(make_url(sql_url).database)


@pytest.fixture
def user(sql_server: Server, sql_url: str, run_sql: Run) -> Iterator[str]:
    """URL of a role that may release app.people."""
    with sql_server.roles_dropped(sql_url):
        run_sql("CREATE ROLE runner LOGIN PASSWORD 'pw'")
        run_sql("GRANT dbanon_runner TO runner")
        run_sql("GRANT USAGE ON SCHEMA app TO runner")
        run_sql("GRANT CREATE, USAGE ON SCHEMA release TO runner")
        run_sql("GRANT SELECT ON ALL TABLES IN SCHEMA app TO runner")
        url = make_url(sql_url).set(username="runner", password="pw")
        yield url.render_as_string(hide_password=False)


def limit_for(connection: psycopg.Connection[Any], statement: str) -> type[Exception] | None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        return type(error)
    return None


RAISES = [
    "SET dbanon.memory_limit = '100GiB'",
    "SELECT set_config('dbanon.memory_limit', '100GiB', false)",
    "ALTER ROLE runner SET dbanon.memory_limit = '100GiB'",
    "ALTER ROLE runner IN DATABASE {} SET dbanon.memory_limit = '100GiB'",
]


@pytest.mark.parametrize("statement", RAISES)
def test_users_cannot_raise_an_administrators_limit(
    database: str, user: str, run_sql: Run, connect: Connect, statement: str
) -> None:
    run_sql(f"ALTER DATABASE {database} SET dbanon.memory_limit = '{SMALL}'")
    with connect(user) as connection:
        # The setting is ignored if the role may not set it.
        limit_for(connection, statement.format(database))
        assert limit_for(connection, CALL) is LIMIT
        assert limit_for(connection, ASKING) is VALUE
        assert limit_for(connection, f"ALTER DATABASE {database} RESET dbanon.memory_limit")
    with connect(user, options="-c dbanon.memory_limit=100GiB") as connection:
        assert limit_for(connection, CALL) is LIMIT
    run_sql(f"ALTER DATABASE {database} SET dbanon.memory_limit = '1GiB'")
    with connect(user) as connection:
        assert limit_for(connection, CALL) is None
        assert limit_for(connection, ASKING) is None


def test_a_superuser_sets_it_for_all_databases(
    database: str, user: str, run_sql: Run, connect: Connect
) -> None:
    """The owner of a database can lower the limit there, but not raise it."""
    run_sql(f"ALTER DATABASE {database} SET dbanon.memory_limit = '100GiB'")
    try:
        run_sql(f"ALTER ROLE ALL SET dbanon.memory_limit = '{SMALL}'")
        with connect(user) as connection:
            assert limit_for(connection, CALL) is LIMIT
            assert limit_for(connection, "ALTER ROLE ALL RESET dbanon.memory_limit")
    finally:
        run_sql("ALTER ROLE ALL RESET dbanon.memory_limit")
    with connect(user) as connection:
        assert limit_for(connection, CALL) is None


def test_a_user_may_ask_for_less(database: str, user: str, connect: Connect) -> None:
    with connect(user) as connection:
        connection.execute(f"SET dbanon.memory_limit = '{SMALL}'".encode())
        assert limit_for(connection, CALL) is LIMIT
        connection.execute("SET dbanon.memory_limit = 'much'")
        assert limit_for(connection, CALL) is VALUE
        connection.execute("RESET dbanon.memory_limit")
        assert limit_for(connection, CALL) is None


THREADS = """
CREATE FUNCTION pg_temp.threads() RETURNS integer LANGUAGE plpython3u AS
$$
from dbanon.data.memory import worker_threads
return worker_threads()
$$"""


def test_a_backend_has_one_thread_unless_an_administrator_allows_more(
    database: str, run_sql: Run, connect: Connect
) -> None:
    def threads(*settings: str) -> int:
        with connect() as connection:
            for setting in settings:
                connection.execute(setting.encode())
            connection.execute(CALL)
            connection.execute(THREADS)
            [(threads,)] = connection.execute("SELECT pg_temp.threads()").fetchall()
        return int(threads)

    assert threads() == 1
    assert threads("SET dbanon.threads = 64") == 1
    run_sql(f"ALTER DATABASE {database} SET dbanon.threads = 3")
    assert threads() == 3
    assert threads("SET dbanon.threads = 2") == 2
    assert threads("SET dbanon.threads = 64") == 3


class Settings:
    """A backend with these settings, for everyone and for the session."""

    def __init__(self, everybody: dict[str, str], session: dict[str, str]) -> None:
        self._rows = [{"name": name, "value": value} for name, value in everybody.items()]
        self._rows += [{"name": f"session {n}", "value": value} for n, value in session.items()]

    def execute(self, query: str) -> list[dict[str, str]]:
        return self._rows


@pytest.fixture
def _threads() -> Iterator[None]:
    yield
    limit_threads(None)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize(
    ("everybody", "session", "limit", "expected"),
    [
        ({}, {}, None, half_of_memory()),
        ({}, {}, 1000, 1000),
        ({}, {"dbanon.memory_limit": "1MiB"}, None, MIB),
        ({}, {"dbanon.memory_limit": "1MiB"}, 2 * MIB, 2 * MIB),
        ({"dbanon.memory_limit": "1MiB"}, {}, None, MIB),
        ({"dbanon.memory_limit": "1MiB"}, {"dbanon.memory_limit": "2MiB"}, None, MIB),
        ({"dbanon.memory_limit": "2MiB"}, {"dbanon.memory_limit": "1MiB"}, None, MIB),
        ({"dbanon.memory_limit": "1MiB"}, {}, MIB, MIB),
        ({"dbanon.memory_limit": "1MiB"}, {}, MIB + 1, None),
        ({"dbanon.memory_limit": "all"}, {}, None, None),
        ({"dbanon.memory_limit": "0"}, {}, None, None),
        ({"dbanon.threads": "-1"}, {}, None, None),
        ({}, {"dbanon.threads": "two"}, None, None),
    ],
)
def test_the_memory_of_a_call(
    everybody: dict[str, str], session: dict[str, str], limit: int | None, expected: int | None
) -> None:
    options = {} if limit is None else {"memory_limit": limit}
    if expected is None:
        with pytest.raises(InvalidParameter):
            apply_backend_limits(Settings(everybody, session), options)
        return
    assert apply_backend_limits(Settings(everybody, session), options) == expected
    assert worker_threads() == 1
