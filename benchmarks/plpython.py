"""The main job inside PostgreSQL, ``SELECT dbanon.mdav(…)``, beside the client's in the same run.

Both write logged tables on one throw-away server with its default settings, in turn. The memory is
the growth of the backend: of its own pages (RssAnon), seen every 20 ms.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import psycopg

from benchmarks.main_job import COLUMNS, _job
from benchmarks.markdown import table
from dbanon import install
from tests.backend_package import copy_package
from tests.postgres_server import NoServerError, Server, conninfo, throwaway_server

CALL = (
    "SELECT seconds FROM dbanon.mdav('app.{0}'::regclass, 'release.{1}', '{{a,b,c,d,e}}', 5,"
    " keep => '{{t1,t2}}')"
)


def run(quick: bool = False) -> str:
    """Markdown of the main job by both ways, and of small calls."""
    n = 100_000 if quick else 1_000_000
    folder = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    folder.chmod(0o755)
    try:
        (folder / "site").mkdir()
        package = copy_package(folder / "site")
        with throwaway_server(kind="local") as server, server.database() as url:
            install.install(url, python_paths=[str(package)])
            for statement in ("CREATE SCHEMA app", "CREATE SCHEMA release"):
                server.execute(statement, url=url)
            _make(server, url, "people", n)
            _make(server, url, "few", 1000)
            return _large(server, url, n) + "\n" + _small(server, url)
    except NoServerError as error:
        return f"# Inside PostgreSQL\n\n{error}\n"
    finally:
        shutil.rmtree(folder)


def _make(server: Server, url: str, name: str, n: int) -> None:
    server.execute(f"CREATE TABLE app.{name} ({COLUMNS})", url=url)
    server.execute(
        f"INSERT INTO app.{name} SELECT random(), random(), random(), random(), random(),"
        f" 'first ' || g, 'second ' || g FROM generate_series(1, {n}) AS g",
        url=url,
    )
    server.execute(f"VACUUM ANALYZE app.{name}", url=url)


def _large(server: Server, url: str, n: int) -> str:
    rows: list[list[object]] = []
    ratios = []
    for attempt in range(3):
        client = _job(url, f"release.client{attempt}")
        seconds: dict[str, float] = client["seconds"]  # type: ignore[assignment]
        rows.append(_row("client", n, seconds, float(client["memory"])))  # type: ignore[arg-type]
        seconds, memory = _in_backend(url, f"sql{attempt}")
        rows.append(_row("SQL", n, seconds, memory))
        ratios.append(seconds["total"] / rows[-2][-2])  # type: ignore[operator]
    header = ["way", "rows", "read s", "cluster s", "write s", "verify s", "total s", "MiB"]
    return (
        "# Inside PostgreSQL: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
        + table(header, rows)
        + f"\nSQL total / client total: {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
        f" (median {statistics.median(ratios):.2f}).\n"
        "MiB: the client's whole process; the backend's growth.\n"
    )


def _row(way: str, n: int, seconds: dict[str, float], memory: float) -> list[object]:
    phases = [seconds[phase] for phase in ("read", "cluster", "write", "verify", "total")]
    return [way, n, *phases, memory]


def _in_backend(url: str, output: str) -> tuple[dict[str, float], float]:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        pid = connection.info.backend_pid
        before = _anonymous(pid)
        peak = [before]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                peak[0] = max(peak[0], _anonymous(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        started = time.perf_counter()
        try:
            query = CALL.format("people", output)
            [(seconds,)] = connection.execute(query.encode()).fetchall()
        finally:
            done.set()
            watcher.join()
        total = time.perf_counter() - started
    found = seconds if isinstance(seconds, dict) else json.loads(seconds)
    return {**found, "total": total}, (peak[0] - before) / 1024


def _anonymous(pid: int) -> int:
    """KiB of a process's own memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def _small(server: Server, url: str) -> str:
    cold, warm = [], []
    for attempt in range(10):
        started = time.perf_counter()
        with psycopg.connect(conninfo(url), autocommit=True) as connection:
            connection.execute(CALL.format("few", f"cold{attempt}").encode())
            cold.append(time.perf_counter() - started)
            started = time.perf_counter()
            connection.execute(CALL.format("few", f"warm{attempt}").encode())
            warm.append(time.perf_counter() - started)
    return table(
        ["1,000 rows", "median s", "slowest s"],
        [
            ["in a new connection, connecting included", statistics.median(cold), max(cold)],
            ["in the same connection again", statistics.median(warm), max(warm)],
        ],
    )
