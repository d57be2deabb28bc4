"""The main job end to end: seconds per phase, compared with CREATE TABLE AS of the same table.

The PostgreSQL server is a temporary one with default settings, including fsync, and tables are
logged. The client's memory is measured in a separate process. CPU seconds include the client and
all server processes; they depend less on the load of the machine than elapsed time.

On PostgreSQL this version also runs with ``kept_columns="client"``, in the same turns. The server's
CPU seconds for complete runs, including digest and ledger, are then compared with CREATE TABLE AS.
"""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.beside import Version, medians, versions
from benchmarks.markdown import table
from tests.postgres.kinds import LocalServer
from tests.postgres_server import NoServerError, Server, throwaway_server

COLUMNS = "a double precision, b double precision, c double precision, d double precision,"
COLUMNS += " e double precision, t1 text, t2 text"

JOB = """
import json, resource, sys
import dbanon
url, output, *kept_columns = sys.argv[1:]
report = dbanon.anonymize(
    url, table="app.people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"],
    output=output, **({"kept_columns": kept_columns[0]} if kept_columns else {}),
)
used = resource.getrusage(resource.RUSAGE_SELF)
memory = used.ru_maxrss / 1024
seconds = dict(report.seconds, CPU=used.ru_utime + used.ru_stime)
print(json.dumps({"seconds": seconds, "memory": memory, "loss": report.internal.information_loss,
                  "k": report.k_achieved}))
"""


PHASES = ("read", "cluster", "write", "verify", "digest")
RUNS = 3
# Name of this version's runs whose retained columns travel through the client.
CLIENT_COLUMNS = "this, kept_columns=client"

JobResult = dict[str, Any]


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure the main job by database, also with another version; return Markdown."""
    n = 100_000 if quick else 1_000_000
    rows: list[list[object]] = []
    measured: dict[tuple[str, str], list[dict[str, float]]] = {}
    known_versions = versions(other_python)
    client_table = ""
    try:
        with throwaway_server() as server, ExitStack() as stack:
            urls = [stack.enter_context(server.database()) for _ in known_versions]
            floor = min(make_postgresql(server, url, n) for url in urls)
            name = f"PostgreSQL {server.version}"
            url_of_version = dict(zip(known_versions, urls, strict=True))
            cpu = min(_cpu_of_ctas(server, urls[0], attempt) for attempt in range(RUNS))
            rows += _rows(name, n, floor, url_of_version, measured, server)
            client_table = _client_columns_table(measured, name, cpu)
    except NoServerError as error:
        rows.append([f"PostgreSQL: {error}", *[""] * 14])
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory) / f"people{i}.duckdb" for i in range(len(known_versions))]
        floor = min(make_duckdb(path, n) for path in paths)
        urls = [f"duckdb:///{path}" for path in paths]
        rows += _rows("DuckDB", n, floor, dict(zip(known_versions, urls, strict=True)), measured)
        n_sqlite = n * 3 // 10
        paths = [Path(directory) / f"people{i}.sqlite" for i in range(len(known_versions))]
        floor = min(make_sqlite(path, n_sqlite) for path in paths)
        urls = [f"sqlite:///{path}" for path in paths]
        url_of_version = dict(zip(known_versions, urls, strict=True))
        rows += _rows("SQLite", n_sqlite, floor, url_of_version, measured)
    header = ["database", "version", "rows", "CTAS s", *(f"{phase} s" for phase in PHASES[:4])]
    header += ["read+write+verify s", "x CTAS", "digest s", "digest x CTAS", "total s", "CPU s"]
    header += ["client MiB"]
    title = "# The main job: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
    phases = ("x CTAS", "read+write+verify", *PHASES, "total", "CPU", "MiB")
    return title + table(header, rows) + medians(measured, phases) + client_table


def make_postgresql(server: Server, url: str, n: int) -> float:
    """Create the table, and return the least seconds of CREATE TABLE AS of it."""
    server.execute("CREATE SCHEMA app", url=url)
    server.execute(f"CREATE TABLE app.people ({COLUMNS})", url=url)
    server.execute(
        "INSERT INTO app.people SELECT random(), random(), random(), random(), random(),"
        f" 'first ' || g, 'second ' || g FROM generate_series(1, {n}) AS g",
        url=url,
    )
    server.execute("VACUUM ANALYZE app.people", url=url)
    return min(
        seconds_of(
            lambda attempt=attempt: server.execute(
                f"CREATE TABLE app.copy{attempt} AS SELECT * FROM app.people", url=url
            )
        )
        for attempt in range(RUNS)
    )


def make_duckdb(path: Path, n: int) -> float:
    """Create the table, and return the least seconds of CREATE TABLE AS of it."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE SCHEMA app")
        connection.execute(
            "CREATE TABLE app.people AS SELECT random() AS a, random() AS b, random() AS c,"
            " random() AS d, random() AS e, 'first ' || range AS t1, 'second ' || range AS t2"
            f" FROM range({n})"
        )
        return min(
            seconds_of(
                lambda attempt=attempt: connection.execute(
                    f"CREATE TABLE app.copy{attempt} AS SELECT * FROM app.people"
                )
            )
            for attempt in range(RUNS)
        )


def make_sqlite(path: Path, n: int) -> float:
    """Create the table, and return the least seconds of CREATE TABLE AS of it."""
    numbers = np.random.default_rng(1).random((n, 5)).tolist()
    people = ((*row, f"first {i}", f"second {i}") for i, row in enumerate(numbers))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # dbanon takes the schema as a prefix of the name.
        connection.execute(f"CREATE TABLE app_people ({COLUMNS})")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO app_people VALUES (?, ?, ?, ?, ?, ?, ?)", people)
        connection.execute("COMMIT")
        return min(
            seconds_of(
                lambda attempt=attempt: connection.execute(
                    f"CREATE TABLE app_copy{attempt} AS SELECT * FROM app_people"
                )
            )
            for attempt in range(RUNS)
        )


def _rows(
    name: str,
    n: int,
    floor: float,
    urls: Mapping[Version, str],
    measured: dict[tuple[str, str], list[dict[str, float]]],
    server: Server | None = None,
) -> list[list[object]]:
    """Measure in turn; one row per run."""
    rows: list[list[object]] = []
    runs = [(version, version.name, url, list[str]()) for version, url in urls.items()]
    if server is not None:
        this, url = next(iter(urls.items()))
        runs.append((this, CLIENT_COLUMNS, url, ["client"]))
    for attempt in range(RUNS):
        for version, label, url, options in runs:
            cpu_before = cpu_of(server)
            result = job(version, url, f"release.people{attempt}{''.join(options)}", *options)
            seconds = result["seconds"]
            seconds["server CPU"] = cpu_of(server) - cpu_before
            seconds["CPU"] += seconds["server CPU"]
            seconds["MiB"] = result["memory"]
            path = seconds["read+write+verify"] = (
                seconds["read"] + seconds["write"] + seconds["verify"]
            )
            seconds["x CTAS"] = path / floor
            subject = name if label == version.name else CLIENT_COLUMNS
            measured.setdefault((subject, version.name), []).append(seconds)
            digest: list[object] = ["", ""]
            if "digest" in seconds:
                digest = [seconds["digest"], seconds["digest"] / floor]
            rows.append(
                [
                    *(name, label, n, floor),
                    *(seconds[phase] for phase in PHASES[:4]),
                    *(path, path / floor, *digest, seconds["total"], seconds["CPU"]),
                    float(result["memory"]),
                ]
            )
    return rows


def _client_columns_table(
    measured: Mapping[tuple[str, str], list[dict[str, float]]], name: str, cpu: float
) -> str:
    """Tabulate the medians of this version's runs for both transports of retained columns.

    Parameters
    ----------
    cpu : the server's CPU seconds for CREATE TABLE AS.
    """
    by_server, by_client = measured[name, "this"], measured[CLIENT_COLUMNS, "this"]
    rows: list[list[object]] = []
    for phase in ("x CTAS", "server CPU", "read+write+verify", *PHASES, "total", "CPU", "MiB"):
        ours, usual = (
            statistics.median(run.get(phase, 0.0) for run in runs)
            for runs in (by_client, by_server)
        )
        rows.append([phase, ours / usual if usual else "", ours, usual])
        if phase == "server CPU" and cpu:
            rows.append(["server CPU x that of CTAS", ours / usual, ours / cpu, usual / cpu])
    return "\n" + table(["median of", "client / server", "kept_columns=client", "server"], rows)


def _cpu_of_ctas(server: Server, url: str, attempt: int) -> float:
    """The server's CPU seconds for CREATE TABLE AS of the table; 0 if unknown."""
    cpu_before = cpu_of(server)
    server.execute(f"CREATE TABLE app.cpu{attempt} AS SELECT * FROM app.people", url=url)
    return cpu_of(server) - cpu_before


def cpu_of(server: Server | None) -> float:
    """CPU seconds of a local server's processes, including ended ones; 0 without one."""
    pid = server.process_id if isinstance(server, LocalServer) else None
    if pid is None:
        return 0.0
    ticks = 0
    for directory in Path("/proc").iterdir():
        if not directory.name.isdigit():
            continue
        try:
            fields = (directory / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:  # It ended meanwhile.
            continue
        if int(directory.name) == pid:
            # Its own and those of children that it has waited for.
            ticks += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def seconds_of(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def job(version: Version, url: str, output: str, *kept_columns: str) -> JobResult:
    """Run the main job with a version's client: seconds by phase, and MiB of the process."""
    result: JobResult = json.loads(version.run(JOB, url, output, *kept_columns))
    return result
