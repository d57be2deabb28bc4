"""pg_cron runs the example; pg_stat_statements sees no value."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from dbanon.doors import install
from tests.postgres_server import NoServerError, Server, throwaway_server
from tests.prerequisites import skip_optional, skip_or_fail

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "schedule" / "pg_cron.sql"


@pytest.fixture(scope="module")
def cron_server(local_pg_server: Server) -> Iterator[Server]:
    if not local_pg_server.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_cron'"):
        skip_optional("no pg_cron for this server; on Debian: postgresql-NN-cron")
    settings = {
        "shared_preload_libraries": "pg_cron,pg_stat_statements",
        "cron.use_background_workers": "on",
        "pg_stat_statements.track": "all",
        "log_statement": "all",
    }
    try:
        with throwaway_server(fsync=False, kind="local", settings=settings) as server:
            yield server
    except NoServerError as error:
        skip_or_fail(str(error))


def test_the_example_releases_every_time_and_clears_old_tables(
    cron_server: Server, backend_path: Path
) -> None:
    server = cron_server
    with server.database() as url:
        install.install(url, python_paths=[str(backend_path)])
        for statement in (
            "CREATE SCHEMA app",
            "CREATE SCHEMA release",
            "CREATE TABLE app.people AS SELECT 18 + g % 60 AS age, 987654321 + g * 7919 % 5000"
            " AS income, 'SECRET-' || g % 3 AS diagnosis FROM generate_series(1, 300) AS g",
            "CREATE EXTENSION pg_stat_statements",
        ):
            server.execute(statement, url=url)
        server.create_role("publisher", url=url, options="IN ROLE dbanon_runner")
        for statement in (
            "GRANT USAGE ON SCHEMA app TO publisher",
            "GRANT SELECT ON app.people TO publisher",
            "GRANT USAGE, CREATE ON SCHEMA release TO publisher",
        ):
            server.execute(statement, url=url)
        server.execute("CREATE EXTENSION pg_cron")
        name = make_url(url).database
        server.psql(f"\\set database {name}\n\\set role publisher\n" + EXAMPLE.read_text())
        jobs = server.execute("SELECT jobname, schedule, username FROM cron.job ORDER BY jobid")
        assert jobs == [
            ("release people", "0 3 * * *", "publisher"),
            ("clear people", "30 3 * * *", "publisher"),
        ]
        # Run the same job every minute instead of at three o'clock.
        server.execute(
            "SELECT cron.alter_job(jobid, '* * * * *') FROM cron.job"
            " WHERE jobname = 'release people'"
        )
        ended = "SELECT status FROM cron.job_run_details WHERE status IN ('succeeded', 'failed')"
        deadline = time.monotonic() + 90
        while not (runs := server.execute(ended)):
            assert time.monotonic() < deadline
            time.sleep(0.5)
        details = server.execute("SELECT return_message FROM cron.job_run_details")
        assert runs == [("succeeded",)], details
        server.execute("SELECT cron.unschedule(jobid) FROM cron.job")
        server.execute("GRANT SELECT ON release.people TO dbanon_reader", url=url)
        # The following nights, without waiting.
        command = EXAMPLE.read_text().split("$job$")[1]
        for _ in range(3):
            server.execute("SET ROLE publisher; " + command, url=url)
        tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'people\\_r%'"
        assert server.execute(tables, url=url) == [(4,)]
        server.execute("SET ROLE publisher; SELECT dbanon.gc(keep_last => 1)", url=url)
        assert server.execute(tables, url=url) == [(2,)]
        assert server.execute(
            "SELECT relowner::regrole::text, (SELECT k_achieved FROM dbanon.verify(c.oid)),"
            " has_table_privilege('dbanon_reader', c.oid, 'SELECT')"
            " FROM pg_class AS c WHERE oid = 'release.people'::regclass",
            url=url,
        ) == [("publisher", 5, True)]
        statements = server.execute("SELECT query FROM pg_stat_statements", url=url)
        # The statements of the releases are visible.
        assert any('INSERT INTO "release"."people_r' in query for (query,) in statements)
        texts = [query for (query,) in statements if "app.people AS" not in query]
        assert not any("98765" in text or "SECRET" in text for text in texts)
