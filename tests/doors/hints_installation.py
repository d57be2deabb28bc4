"""Hints of installation, copies of state, connections and full disks on PostgreSQL."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import create_engine, make_url

import dbanon
from dbanon.doors.extension import write_extension
from dbanon.run.open import open_store
from dbanon.stores.postgresql.settings import CLIENT_STATEMENTS, WORK_MEM
from tests.doors.hint_doors import Call, job_file
from tests.doors.server_site import Site, Step, Trial
from tests.doors.server_steps import (
    REPLACE,
    anonymize,
    begin_in_sqlite,
)
from tests.postgres.pooler import pgbouncer, through
from tests.postgres_server import conninfo
from tests.stores.tcp_proxy import SESSION, Cut, TcpProxy


def files_of_extension(folder: str) -> Step:
    """Install as an extension whose files go to a folder of the trial's."""

    def act(site: Site) -> object:
        path = site.path / (folder or site.table)
        with site.patch.context() as patch:
            patch.setattr("dbanon.doors.install.extension_directory", lambda _: path)
            return site.take("dbanon install $url --extension --python-path $package")

    return act


def write_files(site: Site) -> None:
    """Write its files to the folder, which is there now."""
    (site.path / site.table).mkdir(exist_ok=True)
    assert write_extension(site.path / site.table, [])


def write_other_extension(site: Site) -> None:
    (site.path / site.table).mkdir()
    site.write(f"{site.table}/dbanon.control", "comment = 'another one'\n")


def catalog_without(extension: str) -> str:
    """The catalog of a server that lacks an extension."""
    return (
        "CREATE OR REPLACE VIEW pg_catalog.pg_available_extensions AS SELECT e.name,"
        " e.default_version, x.extversion AS installed_version, e.comment FROM"
        " pg_available_extensions() AS e(name, default_version, comment) LEFT JOIN pg_extension"
        f" AS x ON e.name = x.extname WHERE e.name <> '{extension}'"
    )


_CONFIG = "CREATE OR REPLACE VIEW pg_catalog.pg_config AS SELECT name, setting FROM pg_config()"


_INSTALL = "dbanon install $url --python-path $package --python-path $opendp"


def add_database(site: Site) -> None:
    """A database without anything of dbanon's, as the role `fresh`."""
    site.urls["fresh"] = site.server.create_database()


def drop_database(site: Site) -> None:
    site.close("fresh")
    site.server.drop_database(make_url(site.urls.pop("fresh")).database or "")


INSTALLATIONS = (
    Trial(
        "Run dbanon install without --extension.",
        _INSTALL + " --extension",
        [_INSTALL],
        ["SET allow_system_table_mods = on", _CONFIG + " WHERE false"],
        [_CONFIG, "RESET allow_system_table_mods"],
    ),
    Trial("Run it as root on the server's machine", files_of_extension("nowhere"), [write_files]),
    Trial(
        "Run dbanon install without --extension, or remove {}",
        files_of_extension(""),
        [lambda s: Path(re.findall("remove (.*) first", s.hint)[0]).unlink(), write_files],
        [write_other_extension],
    ),
    Trial(
        "On Debian, run on the server's machine:",
        "fresh: dbanon install $url --python-path $package",
        ["fresh: dbanon install $url --sql-only"],
        [
            add_database,
            "fresh: SET allow_system_table_mods = on",
            "fresh: " + catalog_without("plpython3u"),
        ],
        [drop_database],
    ),
)


_SQLITE = "sqlite:///$path/$t.sqlite"


_DUCKDB = "duckdb:///$path/$t.duckdb"


_TO_SQLITE = f"--target {_SQLITE} --output o$t"


_CSV = "\n".join(f"{i},{20 + i % 9},{i}" for i in range(60))


def chain_of_file(more: str) -> str:
    return (
        f"dbanon anonymize file:$path/$t.csv --table rows -q age --k 5 --output o$t --target"
        f" {_DUCKDB} --chain c --entity id --chain-key file:$path/c$t {more}"
    )


def write_rows(name: str) -> Step:
    """A file of rows, the last column of this name."""
    return lambda site: site.write(f"{site.table}.csv", f"id,age,{name}\n{_CSV}\n")


def of_sqlite(more: str = "", q: str = "size", table: str = "people") -> str:
    return (
        f"dbanon anonymize {_SQLITE} --table {table} -q {q} --k 5 --output o$t"
        f" --releases independent {more}"
    )


COPIES = (
    *(
        Trial(
            "Rename the column in the file, or do not release it.",
            chain_of_file("--keep rowid"),
            right,
            [
                write_rows("rowid"),
                f"dbanon chain create {_DUCKDB} c --source"
                " file:$path/$t.csv --table rows --entity id --changes show --key-out $path/c$t",
            ],
        )
        for right in ([write_rows("number"), chain_of_file("--keep number")], [chain_of_file("")])
    ),
    Trial(
        "Cast it to text or to a number in a view, and anonymize the view.",
        anonymize(f"--keep p {_TO_SQLITE}"),
        [
            "CREATE VIEW app.v$t AS SELECT id, age, p::text AS p FROM app.$t",
            anonymize(f"--keep p --key id {_TO_SQLITE}", table="app.v$t"),
        ],
        ["ALTER TABLE app.$t ADD p point DEFAULT '(1,2)'"],
    ),
    Trial(
        "Exclude these rows in a view, or cast",
        anonymize(f"--keep v {_TO_SQLITE}"),
        [
            "CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE v <> 'NaN'",
            anonymize(f"--keep v --key id {_TO_SQLITE}", table="app.v$t"),
            "CREATE VIEW app.c$t AS SELECT id, age, v::text AS v FROM app.$t",
            anonymize(f"--keep v --key id {_TO_SQLITE} {REPLACE}", table="app.c$t"),
        ],
        ["ALTER TABLE app.$t ADD v numeric DEFAULT 1", "UPDATE app.$t SET v = 'NaN' WHERE id = 3"],
    ),
    Trial(
        "Write to another database, or exclude these rows",
        anonymize(_TO_SQLITE, q="d"),
        [
            anonymize(q="d"),
            "CREATE VIEW app.v$t AS SELECT * FROM app.$t WHERE d > '0002-01-01'",
            anonymize(f"--key id {_TO_SQLITE}", table="app.v$t", q="d"),
        ],
        [
            "ALTER TABLE app.$t ADD d date DEFAULT '2020-01-01'",
            "UPDATE app.$t SET d = '0044-03-15 BC' WHERE id < 20",
        ],
    ),
    Trial(
        "Release a table of all rows, or give the column",
        of_sqlite("--output-kind view", q="true"),
        [
            of_sqlite(q="true"),
            lambda s: s.sqlite(
                "CREATE VIEW v AS "
                + s.text("$statement").replace("…", "id").rstrip(".")
                + " FROM people"
            ),
            of_sqlite("--output-kind view --key id --output v$t", "is_true", "v"),
        ],
        [
            begin_in_sqlite,
            lambda s: s.sqlite(
                'ALTER TABLE people ADD COLUMN "true" INTEGER', 'UPDATE people SET "true" = size'
            ),
        ],
    ),
    Trial(
        "Rename the column in a view, and anonymize the view.",
        of_sqlite("--target $url", "xmin"),
        [
            lambda s: s.sqlite("CREATE VIEW v AS SELECT id, xmin AS low FROM people"),
            of_sqlite("--target $url --key id", "low", "v"),
        ],
        [begin_in_sqlite, lambda s: s.sqlite("ALTER TABLE people RENAME COLUMN size TO xmin")],
    ),
    Trial(
        "Leave out `kept_columns`, so that its values",
        anonymize("--keep w --kept-columns client"),
        [anonymize("--keep w")],
        ["CREATE DOMAIN app.w$t AS text", "ALTER TABLE app.$t ADD w app.w$t[] DEFAULT '{a}'"],
    ),
    Trial(
        "Raise the limit (`memory_limit`), or leave out `kept_columns`",
        anonymize("--keep note --kept-columns client --memory-limit 300000"),
        [
            anonymize("--keep note --kept-columns client --memory-limit 30000000"),
            anonymize(f"--keep note --memory-limit 300000 {REPLACE}"),
        ],
        ["ALTER TABLE app.$t ADD note text DEFAULT repeat('x', 5000)"],
    ),
)


def run_job(site: Site) -> object:
    """Run a job of the trial's table."""
    call = Call(
        site.url,
        {
            "table": f"app.{site.table}",
            "output": f"release.{site.table}",
            "quasi_identifiers": ["age"],
            "k": 5,
            "if_exists": "replace",
        },
    )
    site.write("job.yaml", json.dumps(job_file(call)))
    return site.take("dbanon run $path/job.yaml --allow-inline-password")


def run_locked(site: Site, url: str = "") -> object:
    """A job whose lock another session holds; through a pooler the lock's own connection counts."""
    with open_store(url or site.url).job_lock("people"):
        return run_job(site) if not url else release_by(url, site)


def release_by(url: str, site: Site) -> object:
    """A release by a URL of the same database."""
    return dbanon.anonymize(
        url,
        table=f"app.{site.table}",
        output=f"release.{site.table}",
        quasi_identifiers=["age"],
        k=5,
        if_exists="replace",
    )


def through_pooler(words: str = "", locked: bool = False, **settings: Any) -> Step:
    """A release by way of a pooler, with these words at the end of the URL."""

    def act(site: Site) -> object:
        with pgbouncer(site.server, **settings) as port:
            url = through(site.url, port) + words
            return run_locked(site, url) if locked else release_by(url, site)

    return act


def list_releases(size: int, used: int) -> Step:
    """List releases with an engine of so many connections, of which some are in use."""

    def act(site: Site) -> None:
        engine = create_engine(site.url, pool_size=size, max_overflow=0, pool_timeout=0.05)
        with contextlib.ExitStack() as stack:
            stack.callback(engine.dispose)
            for _ in range(used):
                stack.enter_context(engine.connect())
            dbanon.releases(engine)

    return act


def without_answer(act: Callable[[str, Site], object]) -> Step:
    """An act whose connection is lost at COMMIT, and with it the server."""

    def step(site: Site) -> object:
        site.patch.setattr("dbanon.stores.postgresql.store.OUTCOME_SECONDS", 0.2)
        server = site.server
        cut = Cut("after", since=SESSION, down=True)
        with TcpProxy(server.host, server.port, cut) as proxy:
            return act(proxy.url(site.url), site)

    return step


def open_reader(site: Site) -> None:
    """Read the release in a transaction that stays open."""
    reader = psycopg.connect(conninfo(site.urls["bob"]))
    site.closing.callback(reader.close)
    reader.execute(site.text("SELECT count(*) FROM release.$t").encode())


_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'bob' AND state ="
    " 'idle in transaction'"
)


_KEY = """(hashtextextended('dbanon output "release"."$t"', 0))"""


def require_own_message(site: Site) -> None:
    """The server's log has the server's own message."""
    assert "division by zero" in site.server.log_text()


SERVERS = (
    Trial("Wait until it is done: a second run", run_locked, [run_job]),
    Trial(
        "Close unused connections, enlarge the pool",
        list_releases(1, 1),
        [list_releases(1, 0), list_releases(2, 1), "dbanon releases $url"],
    ),
    Trial(
        "Choose a name of at most {} bytes.",
        anonymize(f"--output release.{'x' * 70}"),
        [
            lambda s: s.take(
                anonymize("--output release." + "x" * int(re.findall(r"\d+", s.hint)[0]))
            )
        ],
    ),
    Trial(
        "Wait until it is done, then try again.",
        anonymize(),
        ["bob: SELECT pg_advisory_unlock" + _KEY, anonymize()],
        ["bob: SELECT pg_advisory_lock" + _KEY],
    ),
    Trial(
        "Look up the server's own message",
        anonymize("--key id", table="app.v$t"),
        [
            require_own_message,
            "CREATE OR REPLACE VIEW app.v$t AS SELECT id, age FROM app.$t",
            anonymize("--key id", table="app.v$t"),
        ],
        ["CREATE VIEW app.v$t AS SELECT id, age / (id - 5) AS age FROM app.$t"],
    ),
    Trial(
        "Use pool_mode = transaction or session",
        through_pooler(mode="statement"),
        [through_pooler(mode="session"), anonymize(REPLACE)],
    ),
    Trial(
        "Leave the setting out, add it to",
        through_pooler("?options=-cwork_mem%3D1MB"),
        [
            through_pooler(),
            through_pooler("?options=-cwork_mem%3D1MB", ignore_startup_parameters="options"),
        ],
    ),
    Trial(
        "Raise default_pool_size of the pooler",
        through_pooler(locked=True, size=1, query_wait_timeout=1),
        [through_pooler(locked=True, size=2, query_wait_timeout=1)],
    ),
    Trial(
        "End these transactions (pg_stat_activity",
        anonymize(REPLACE, "anna: "),
        [_END, anonymize(REPLACE, "anna: ")],
        [
            "ALTER ROLE anna SET lock_timeout = '100ms'",
            anonymize(role="anna: "),
            "GRANT SELECT ON release.$t TO bob",
            open_reader,
        ],
        ["ALTER ROLE anna RESET lock_timeout"],
    ),
    Trial(
        "Drop those objects and create them again",
        anonymize(f"--output-kind view {REPLACE}"),
        [
            "CREATE VIEW app.v$t AS SELECT id, age::integer AS age FROM app.$t",
            anonymize(f"--output-kind view {REPLACE} --key id", table="app.v$t"),
            "DROP VIEW release.d$t",
            anonymize(f"--output-kind view {REPLACE}"),
            "CREATE VIEW release.d$t AS SELECT * FROM release.$t",
        ],
        [
            anonymize("--output-kind view"),
            "CREATE VIEW release.d$t AS SELECT * FROM release.$t",
            "ALTER TABLE app.$t ALTER age TYPE bigint",
        ],
    ),
    Trial(
        "Run: SELECT pg_xact_status('{}')",
        without_answer(lambda url, s: dbanon.store_hierarchy(url, s.table, {"tree": {"*": ["a"]}})),
        ["$statement"],
    ),
    Trial(
        "Before you run it again, check: SELECT created_at",
        without_answer(release_by),
        ["$statement"],
    ),
)


def sort_on_disk(site: Site) -> object:
    """A release by anna that sorts more than fits the memory of its session."""
    for name, text in (("session.SORT_MEM", "64kB"), ("session.WORK_MEM", "64kB")):
        site.patch.setattr(f"dbanon.stores.postgresql.{name}", text)
    small = CLIENT_STATEMENTS.replace(f"'{WORK_MEM}'", "'64kB'")
    site.patch.setattr("dbanon.stores.postgresql.connection.CLIENT_STATEMENTS", small)
    return site.take(anonymize("--key id", "anna: "))


DISKS = (
    Trial(
        "A superuser can allow more: ALTER ROLE …",
        sort_on_disk,
        [
            lambda s: s.take(s.text("$statement").replace("…", "anna").partition(",")[0]),
            sort_on_disk,
        ],
        [
            "INSERT INTO app.$t SELECT g, g % 70, 1, repeat('n', 60), 'x'"
            " FROM generate_series(1000, 11000) AS g",
            "ALTER ROLE anna SET temp_file_limit = 64",
        ],
        ["ALTER ROLE anna RESET temp_file_limit"],
    ),
)
