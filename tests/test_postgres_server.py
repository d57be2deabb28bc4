from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
import sqlalchemy

from tests.postgres_server import Server, conninfo, throwaway_server
from tests.reference.data import CASC_SHAPES, Table


def test_version_is_a_supported_one(pg_server: Server) -> None:
    assert pg_server.version >= 13


def test_the_url_is_sqlalchemys(pg_url: str) -> None:
    engine = sqlalchemy.create_engine(pg_url)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT 1 + 1")).scalar_one() == 2
    engine.dispose()


def test_the_marker_comes_by_itself(request: pytest.FixtureRequest, pg_url: str) -> None:
    assert request.node.get_closest_marker("postgresql")


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_a_fresh_database(
    pg_server: Server, pg_url: str, pg_role: Callable[..., str], turn: int
) -> None:
    pg_server.execute("CREATE TABLE only_here (x integer)", url=pg_url)
    reader = pg_role("reader")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        pg_server.execute("SELECT x FROM only_here", url=reader)
    pg_server.execute("GRANT SELECT ON only_here TO reader", url=pg_url)
    assert pg_server.execute("SELECT x FROM only_here", url=reader) == []


def test_databases_are_copies_of_a_template_and_leave_nothing(pg_server: Server) -> None:
    before = pg_server.execute("SELECT datname FROM pg_database")
    template = pg_server.create_database("some_template")
    pg_server.execute("CREATE TABLE t AS SELECT 42 AS x", url=template)
    with pg_server.database(template="some_template") as url:
        assert pg_server.execute("SELECT x FROM t", url=url) == [(42,)]
        pg_server.execute("CREATE ROLE made_inside", url=url)
    pg_server.drop_database("some_template")
    assert pg_server.execute("SELECT datname FROM pg_database") == before
    assert pg_server.execute("SELECT 1 FROM pg_roles WHERE rolname = 'made_inside'") == []


def test_psql_runs_scripts_and_tells_errors(pg_server: Server, pg_url: str) -> None:
    script = "\\set x 7\nSELECT :x * 6;\nDO $$BEGIN RAISE NOTICE 'hello'; END$$;"
    done = pg_server.psql(script, url=pg_url)
    assert done.stdout == "42\n"
    assert "hello" in done.stderr
    with pytest.raises(RuntimeError, match="no_such_table"):
        pg_server.psql("SELECT * FROM no_such_table;", url=pg_url)
    assert pg_server.psql("SELECT 1/0;", url=pg_url, check=False).returncode == 3


def test_plpython_runs_this_language_version(local_pg_server: Server, plpython_url: str) -> None:
    local_pg_server.execute(
        "CREATE FUNCTION python_major() RETURNS integer LANGUAGE plpython3u"
        " AS 'import sys; return sys.version_info.major'",
        url=plpython_url,
    )
    assert local_pg_server.execute("SELECT python_major()", url=plpython_url) == [(3,)]


def test_a_crash_loses_nothing_committed(pg_server: Server, pg_url: str) -> None:
    pg_server.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS x", url=pg_url)
    with pg_server.capture_log() as log:
        with psycopg.connect(conninfo(pg_url)) as connection:
            connection.execute("INSERT INTO t VALUES (0)")
            pg_server.crash()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(conninfo(pg_url))
        pg_server.start()
    assert pg_server.execute("SELECT count(*), min(x) FROM t", url=pg_url) == [(1000, 1)]
    assert "not properly shut down" in log.text


def test_statements_are_logged_only_on_request(pg_server: Server, pg_url: str) -> None:
    with pg_server.capture_log() as quiet:
        pg_server.execute("SELECT 'needle one'", url=pg_url)
    assert "needle" not in quiet.text
    with pg_server.capture_log(statements=True) as loud:
        pg_server.execute("SELECT 'needle two', %s::text", "needle four", url=pg_url)
    assert "needle two" in loud.text
    assert "needle four" in loud.text
    assert pg_server.execute("SHOW log_statement") == [("none",)]
    with pg_server.capture_log() as errors:
        pg_server.psql("SELECT 'needle three'::integer;", url=pg_url, check=False)
    assert "needle three" in errors.text


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"log_statement": "none"}, "control literal"),
        ({"log_statement": "all", "log_parameter_max_length": "0"}, "control parameter"),
        ({"log_statement": "all", "log_error_verbosity": "terse"}, "control parameter"),
        ({"log_min_messages": "panic"}, "control message"),
        ({"log_min_error_statement": "panic"}, "control statement"),
    ],
)
def test_a_log_without_values_is_no_evidence(
    pg_server: Server, settings: dict[str, str], missing: str
) -> None:
    with pg_server.settings_changed(settings), pytest.raises(AssertionError, match=missing):
        pg_server.require_values_logged(bind_parameters=True)


@pytest.mark.postgresql
def test_a_server_keeps_defaults_takes_settings_and_leaves_nothing(local_pg_server: Server) -> None:
    with throwaway_server(settings={"work_mem": "7MB"}, kind="local") as server:
        assert server.execute("SHOW fsync") == [("on",)]
        assert server.execute("SHOW work_mem") == [("7MB",)]
        assert server.log_path is not None
        folder = server.log_path.parent
        server.stop()
        server.start()
        assert server.port != local_pg_server.port
    assert not folder.exists()


@pytest.mark.parametrize("name", CASC_SHAPES)
def test_reference_data(casc: Callable[[str], Table], name: str) -> None:
    table = casc(name)
    assert table.values.shape == CASC_SHAPES[name]
    assert len(table.names) == table.values.shape[1]
    assert not table.values.flags.writeable
