"""The main job inside PostgreSQL, ``SELECT dbanon.mdav(…)``, compared with the client's.

Both write logged tables on one temporary server with default settings, in turn. The client's
seconds start after its imports, so the backend first handles a call on 1,000 rows. Its memory is
the growth of its private pages (RssAnon) since that call, sampled every 20 ms.

CPU seconds include server and client, from starting the process or connecting to the end, with
imports. They depend less on the load of the machine than elapsed time.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from benchmarks.beside import Version, medians, versions
from benchmarks.main_job import COLUMNS, cpu_of, job
from benchmarks.markdown import table
from tests.postgres_server import NoServerError, Server, conninfo, throwaway_server

CALL = (
    "SELECT seconds FROM dbanon.mdav('app.{0}'::regclass, 'release.{1}', '{{a,b,c,d,e}}', 5,"
    " keep => '{{t1,t2}}')"
)


PHASES = ("read", "cluster", "write", "verify", "digest", "total", "CPU")


SMALL = ("in a new connection, connecting included", "again", "later")


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure the main job in both modes, and small calls; parameters as in main_job."""
    n = 100_000 if quick else 1_000_000
    try:
        with installed_versions(versions(other_python)) as (server, urls):
            for url in urls.values():
                make_people(server, url, "people", n)
            return _large(server, urls, n) + "\n" + small_calls(urls)
    except NoServerError as error:
        return f"# Inside PostgreSQL\n\n{error}\n"


@contextmanager
def installed_versions(
    known_versions: Sequence[Version],
) -> Iterator[tuple[Server, dict[Version, str]]]:
    """Yield a temporary server, and for each version a database with its SQL functions.

    Each database has a table of 1,000 rows, ``app.few``.

    Raises
    ------
    NoServerError : there is no PostgreSQL with PL/Python.
    """
    folder = Path(tempfile.mkdtemp(prefix="dbanon-package-"))
    folder.chmod(0o755)
    try:
        with throwaway_server(kind="local") as server, ExitStack() as stack:
            urls: dict[Version, str] = {}
            for version in known_versions:
                url = urls[version] = stack.enter_context(server.database())
                version.install(url, version.package(folder / version.name))
                for statement in ("CREATE SCHEMA app", "CREATE SCHEMA release"):
                    server.execute(statement, url=url)
                make_people(server, url, "few", 1000)
            yield server, urls
    finally:
        shutil.rmtree(folder)


def make_people(server: Server, url: str, name: str, n: int) -> None:
    """Create a table of n rows in the schema ``app``."""
    server.execute(f"CREATE TABLE app.{name} ({COLUMNS})", url=url)
    server.execute(
        f"INSERT INTO app.{name} SELECT random(), random(), random(), random(), random(),"
        f" 'first ' || g, 'second ' || g FROM generate_series(1, {n}) AS g",
        url=url,
    )
    server.execute(f"VACUUM ANALYZE app.{name}", url=url)


def _large(server: Server, urls: Mapping[Version, str], n: int) -> str:
    rows: list[list[object]] = []
    ratios: dict[str, list[float]] = {}
    measured: dict[tuple[str, str], list[dict[str, float]]] = {}
    for attempt in range(3):
        for version, url in urls.items():
            cpu_before = cpu_of(server)
            client = job(version, url, f"release.client{attempt}")
            client["seconds"]["CPU"] += cpu_of(server) - cpu_before
            cpu_before = cpu_of(server)
            backend_seconds, memory = _in_backend(url, f"sql{attempt}")
            backend_seconds["CPU"] = cpu_of(server) - cpu_before
            for label, seconds, mib in (
                ("client", client["seconds"], client["memory"]),
                ("SQL", backend_seconds, memory),
            ):
                phases = [seconds.get(phase, "") for phase in PHASES]
                rows.append([label, version.name, n, *phases, float(mib)])
                measured.setdefault((label, version.name), []).append(seconds)
            for quantity in ("total", "CPU"):
                ratio = backend_seconds[quantity] / client["seconds"][quantity]
                ratios.setdefault(f"{quantity}, {version.name}", []).append(ratio)
    header = ["way", "version", "rows", *(f"{phase} s" for phase in PHASES), "MiB"]
    return (
        "# Inside PostgreSQL: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
        + table(header, rows)
        + "".join(
            f"\nSQL / client, {name}: {', '.join(f'{ratio:.2f}' for ratio in ratios_of_version)}"
            f" (median {statistics.median(ratios_of_version):.2f}).\n"
            for name, ratios_of_version in ratios.items()
        )
        + "MiB: the client's whole process; the backend's growth.\n"
        + medians(measured, PHASES)
    )


def _in_backend(url: str, output: str) -> tuple[dict[str, float], float]:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        pid = connection.info.backend_pid
        memory_before = _anonymous(pid)
        peak = [memory_before]
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.02):
                peak[0] = max(peak[0], _anonymous(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            connection.execute(CALL.format("few", f"few_{output}").encode())
            started = time.perf_counter()
            query = CALL.format("people", output)
            [(seconds,)] = connection.execute(query.encode()).fetchall()
        finally:
            done.set()
            watcher.join()
        total = time.perf_counter() - started
    phases = seconds if isinstance(seconds, dict) else json.loads(seconds)
    return {**phases, "total": total}, (peak[0] - memory_before) / 1024


def _anonymous(pid: int) -> int:
    """KiB of a process's private memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    return 0


def small_calls(urls: Mapping[Version, str]) -> str:
    """Tabulate the seconds of calls on 1,000 rows: the first ones of a connection, and later."""
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for attempt in range(10):
        for version, url in urls.items():
            started = time.perf_counter()
            with psycopg.connect(conninfo(url), autocommit=True) as connection:
                cpu_before = 0.0
                for name in SMALL:
                    connection.execute(CALL.format("few", f"{name[:2]}{attempt}").encode())
                    cpu = _cpu_of_process(connection.info.backend_pid)
                    elapsed = time.perf_counter() - started
                    times.setdefault((name, version.name), []).append((elapsed, cpu - cpu_before))
                    cpu_before, started = cpu, time.perf_counter()
    return table(
        ["1,000 rows", "version", "median s", "slowest s", "median CPU s", "least CPU s"],
        [
            [
                name,
                version,
                statistics.median(seconds),
                max(seconds),
                statistics.median(cpu),
                min(cpu),
            ]
            for (name, version), measurements in sorted(times.items(), reverse=True)
            for seconds, cpu in [tuple(zip(*measurements, strict=True))]
        ],
    )


def _cpu_of_process(pid: int) -> float:
    """CPU seconds of a process's first thread, the only one that a backend works with."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
