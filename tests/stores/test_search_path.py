"""The first statements of a connection, under a search path on which another role comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
import sqlalchemy

import dbanon
from dbanon.doors import install
from dbanon.stores.postgresql import store as postgresql_store
from tests.postgres.connection_pool import close_idle
from tests.postgres_server import Server, conninfo

pytestmark = [pytest.mark.postgresql, pytest.mark.own_backends]

# Functions that drivers and dialects are fond of, with the same arguments as PostgreSQL's own.
SHADOWED = (
    "current_schemas(a boolean) RETURNS name[]",
    "current_schema() RETURNS name",
    "version() RETURNS text",
    "set_config(a text, b text, c boolean) RETURNS text",
    "current_setting(a text) RETURNS text",
    "to_regtype(a text) RETURNS regtype",
    "to_regclass(a text) RETURNS regclass",
    "format_type(a oid, b integer) RETURNS text",
    "pg_backend_pid() RETURNS integer",
    "current_database() RETURNS name",
    "row_security_active(a oid) RETURNS boolean",
    "obj_description(a oid, b name) RETURNS text",
    "hashtextextended(a text, b bigint) RETURNS bigint",
    "pg_advisory_xact_lock(a bigint) RETURNS void",
)


@pytest.fixture
def trapped(pg_server: Server, pg_url: str) -> Callable[[], bool]:
    """A database whose default is such a path; yields a function that tells whether the other
    role's function ran.
    """
    url = pg_server.create_role("mallory", url=pg_url)
    pg_server.execute("CREATE SCHEMA evil AUTHORIZATION mallory", url=pg_url)
    with psycopg.connect(conninfo(url), autocommit=True) as mallory:
        mallory.execute("CREATE SEQUENCE evil.sprung")
        for signature in SHADOWED:
            result = signature.partition(" RETURNS ")[2]
            value = "" if result == "void" else f" NULL::pg_catalog.{result}"
            mallory.execute(
                f"CREATE FUNCTION evil.{signature} LANGUAGE plpgsql AS $$ BEGIN"
                f" PERFORM pg_catalog.nextval('evil.sprung'); RETURN{value}; END $$".encode()
            )
        for name in ("name", "text", "oid"):
            mallory.execute(
                f"CREATE FUNCTION evil.same(a pg_catalog.{name}, b pg_catalog.{name})"
                " RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN"
                " PERFORM pg_catalog.nextval('evil.sprung'); RETURN true; END $$;"
                f"CREATE OPERATOR evil.= (LEFTARG = pg_catalog.{name},"
                f" RIGHTARG = pg_catalog.{name}, FUNCTION = evil.same)".encode()
            )
        mallory.execute(
            "CREATE DOMAIN evil.text AS pg_catalog.text"
            " CHECK (pg_catalog.nextval('evil.sprung') > 0)"
        )
    database = sqlalchemy.make_url(pg_url).database
    pg_server.execute(
        "CREATE TABLE public.people AS SELECT g AS id, sin(g) AS a"
        " FROM generate_series(1, 60) AS g",
        url=pg_url,
    )
    pg_server.execute(f'ALTER DATABASE "{database}" SET search_path = evil, pg_catalog, public')
    # Only connections that are opened from now on have it.
    close_idle(database)

    def sprung() -> bool:
        [(called,)] = pg_server.execute("SELECT is_called FROM evil.sprung", url=pg_url)
        return bool(called)

    assert not sprung()
    return sprung


def anonymize(database: Any, **overrides: Any) -> dbanon.Report:
    return dbanon.anonymize(
        database, table="people", output="release.people", quasi_identifiers=["a"], k=5, **overrides
    )


def test_the_trap_springs(trapped: Callable[[], bool], pg_server: Server, pg_url: str) -> None:
    pg_server.execute("SELECT current_schemas(false)", url=pg_url)
    assert trapped()


def test_a_client_by_url(trapped: Callable[[], bool], pg_url: str) -> None:
    """Names without a schema are still looked for on the path."""
    assert anonymize(pg_url).rows_out == 60
    assert anonymize(pg_url, if_exists="replace").rows_out == 60
    assert not trapped()


def test_an_engine_of_the_callers_own(trapped: Callable[[], bool], pg_url: str) -> None:
    """SQLAlchemy queries a first connection for the caller; all later queries are dbanon's."""
    engine = sqlalchemy.create_engine(pg_url, connect_args={"options": "-c search_path=pg_catalog"})
    engine.connect().close()

    @sqlalchemy.event.listens_for(engine, "checkout")
    def set_path(connection: Any, *_: Any) -> None:
        connection.execute("SET search_path = evil, pg_catalog, public")
        connection.commit()

    assert anonymize(engine).rows_out == 60
    engine.dispose()
    assert not trapped()


def test_install(trapped: Callable[[], bool], pg_url: str) -> None:
    install.install(pg_url, sql_only=True)
    install.upgrade(pg_url)
    install.uninstall(pg_url)
    assert not trapped()


def test_asking_whether_a_release_was_committed(trapped: Callable[[], bool], pg_url: str) -> None:
    """On a new connection, which may be one of an engine of the caller's own."""
    engine = sqlalchemy.create_engine(pg_url, connect_args={"options": "-c search_path=pg_catalog"})
    engine.connect().close()
    with engine.connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.execute("SET search_path = evil, pg_catalog, public")
        driver.commit()
        [(number,)] = postgresql_store._query(
            connection, "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text"
        )
        driver.commit()
        query = "SELECT pg_catalog.pg_xact_status(%s::text::xid8)"
        assert postgresql_store._query(connection, query, number) == [("committed",)]
        driver.rollback()
    engine.dispose()
    assert not trapped()
