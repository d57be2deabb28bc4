"""How long SQL calls go on after a cancel: seconds from the cancel's answer to the call's error.

A call should end within a second. Each is cancelled at several moments after it began, on a
throw-away server; a limit of time, ``statement_timeout``, is measured from the limit.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.beside import versions
from benchmarks.markdown import NotMeasuredError, table
from tests.postgres_server import NoServerError, conninfo, throwaway_server

_TABLES = """
CREATE SCHEMA app;
CREATE SCHEMA release;
CREATE TABLE app.people AS SELECT g AS id, 'leaf ' || g AS place, 'v' || g % 7 AS ill,
    (g * 7919::bigint % 1000003)::integer AS age, random() AS a, random() AS b
    FROM generate_series(1, {n}) AS g;
CREATE TABLE app.tree AS SELECT 'leaf ' || g AS child, 'group ' || g / 100 AS parent
    FROM generate_series(1, {n}) AS g
    UNION ALL SELECT 'group ' || g, '*' FROM generate_series(0, {n} / 100) AS g;
"""


def _mondrian(columns: str, trees: dict[str, Any], options: dict[str, Any]) -> str:
    return (
        f"SELECT dbanon.mondrian('app.people', 'release.p', '{columns}', 5, sensitive => '{{ill}}',"
        f" hierarchies => '{json.dumps(trees)}', options => '{json.dumps(options)}')"
    )


_MODEL = {"attribute": "ill", "kind": "distinct_l", "level": 3}
_CALLS = {
    "mdav": "SELECT dbanon.mdav('app.people', 'release.p', '{a,b}', 5, keep => '{id}')",
    "reading a hierarchy": _mondrian("{place}", {"place": {"table": "app.tree"}}, {}),
    "making a hierarchy": _mondrian("{place}", {"place": {"ordered": True}}, {"local_range": True}),
    "merging for a model": _mondrian("{age}", {}, {"models": [_MODEL]}),
    "refining": _mondrian("{place,age}", {"place": {"mask": [8, 7, 6]}}, {"refine": "thorough"}),
}
_MOMENTS = (0.3, 0.9, 2.0, 4.0)


def run(quick: bool = False) -> str:
    """Markdown of the seconds after cancels at four moments, and after a limit of time."""
    folder = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    folder.chmod(0o755)
    [version] = versions(None)
    try:
        with throwaway_server(kind="local") as server, server.database() as url:
            version.install(url, version.package(folder / version.name))
            server.execute(_TABLES.format(n=20_000 if quick else 200_000), url=url)
            rows = [
                [
                    name,
                    *(_after_cancel(url, call, moment) for moment in _MOMENTS),
                    _after_limit(url, call),
                ]
                for name, call in _CALLS.items()
            ]
    except NoServerError as error:
        raise NotMeasuredError(str(error)) from error
    finally:
        shutil.rmtree(folder)
    header = ["call", *(f"cancelled at {moment:g} s" for moment in _MOMENTS), "limit of 1 s"]
    return (
        "# Cancelled SQL calls: seconds from the cancel, or the limit, to the end\n\n"
        + table(header, rows)
        + "\nEmpty: the call had ended before.\n"
    )


def _after_cancel(url: str, call: str, moment: float) -> float | str:
    with psycopg.connect(conninfo(url)) as connection, psycopg.connect(conninfo(url)) as other:
        pid, cancelled = connection.info.backend_pid, []

        def cancel() -> None:
            other.execute(f"SELECT pg_cancel_backend({pid})".encode())
            cancelled.append(time.perf_counter())

        timer = threading.Timer(moment, cancel)
        timer.start()
        try:
            connection.execute(call.encode())
        except psycopg.errors.QueryCanceled:
            ended = time.perf_counter()
            timer.join()
            return ended - cancelled[0]
        finally:
            timer.cancel()
            connection.rollback()
    return ""


def _after_limit(url: str, call: str) -> float | str:
    with psycopg.connect(conninfo(url)) as connection:
        connection.execute(b"SET statement_timeout = '1s'")
        began = time.perf_counter()
        try:
            connection.execute(call.encode())
        except psycopg.errors.QueryCanceled:
            return time.perf_counter() - began - 1
        finally:
            connection.rollback()
    return ""
