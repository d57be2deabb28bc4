"""A release in MariaDB beside the server's own copy of the table, in CPU seconds of both sides.

The server is a throw-away one in memory, with 1 GiB of pages and its log not waited for.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from benchmarks.beside import versions
from benchmarks.markdown import NotMeasuredError, table
from tests.mariadb_server import MariadbServer, throwaway_mariadb
from tests.postgres_server import NoServerError

JOB = """
import json, resource, sys
import dbanon
report = dbanon.anonymize(
    sys.argv[1], table="people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"],
    output=sys.argv[2],
)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": dict(report.seconds), "memory": used.ru_maxrss / 1024,
                  "cpu": used.ru_utime + used.ru_stime}))
"""
VERIFY = """
import json, resource, sys, time
import dbanon
begun = time.perf_counter()
assert dbanon.verify(sys.argv[1], sys.argv[2]).unchanged
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": time.perf_counter() - begun, "cpu": used.ru_utime + used.ru_stime}))
"""
RUNS = 3
_TICKS = os.sysconf("SC_CLK_TCK")


def run(quick: bool = False) -> str:
    """Markdown of releases of 5 doubles and 2 texts, and of CREATE TABLE … AS SELECT."""
    n = 100_000 if quick else 1_000_000
    settings = {"innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M"}
    try:
        with throwaway_mariadb(settings) as server:
            return _measured(server, n)
    except NoServerError as error:
        raise NotMeasuredError(str(error)) from None


def _measured(server: MariadbServer, n: int) -> str:
    [version] = versions(None)
    doubles = ", ".join(f"{name} double" for name in "abcde")
    drawn = ", ".join("rand()" for _ in "abcde")
    server.execute(
        "CREATE DATABASE app CHARACTER SET utf8mb4",
        "USE app",
        f"CREATE TABLE people (id int PRIMARY KEY, {doubles}, t1 varchar(20), t2 varchar(40))",
        f"INSERT INTO people SELECT seq, {drawn}, concat('text ', floor(rand() * 1000)),"
        f" md5(seq) FROM seq_1_to_{n}",
    )
    url, copies, releases, verified = server.url("app"), [], [], []
    for attempt in range(RUNS):
        before = cpu_of(server)
        took = _timed(
            server,
            f"CREATE TABLE app.copy{attempt} AS SELECT a, b, c, d, e, t1, t2 FROM app.people",
        )
        copies.append((took, cpu_of(server) - before))
        output, before = f"release.people{attempt}", cpu_of(server)
        found = json.loads(version.run(JOB, url, output))
        releases.append((found, cpu_of(server) - before))
        before = cpu_of(server)
        again = json.loads(version.run(VERIFY, url, output))
        verified.append((again["seconds"], again["cpu"], cpu_of(server) - before))
        server.execute(f"DROP TABLE app.copy{attempt}")
    floor_s, floor_cpu = (min(one[i] for one in copies) for i in range(2))
    found, of_server = min(releases, key=lambda one: _work(one[0]["seconds"]))
    spent = found["seconds"]
    names = ("read", "write", "verify", "digest")
    rows: list[list[object]] = [
        ["CREATE TABLE … AS SELECT", floor_s, floor_cpu, "", 1.0, ""],
        *([f"a release: {name}", spent[name], "", "", spent[name] / floor_s, ""] for name in names),
        ["a release: read + write + verify + digest", _work(spent), "", "", _work(spent) / floor_s,
         ""],
        ["a release: all, with MDAV", spent["total"], of_server, found["cpu"],
         spent["total"] / floor_s, float(found["memory"])],
    ]  # fmt: skip
    seconds, client, on_server = min(verified)
    rows.append(["dbanon verify", seconds, on_server, client, seconds / floor_s, ""])
    header = ["what", "s", "server CPU s", "client CPU s", "x CREATE TABLE", "client MiB"]
    title = f"# MariaDB {_version(server)}: {n} rows, 5 doubles, 2 kept texts, MDAV, k = 5\n\n"
    return title + table(header, rows) + f"\nThe least of {RUNS} runs each, which took turns.\n"


def _work(seconds: dict[str, Any]) -> float:
    """Seconds of all that is no clustering."""
    return float(sum(seconds[name] for name in ("read", "write", "verify", "digest")))


def _timed(server: MariadbServer, statement: str) -> float:
    begun = time.perf_counter()
    server.execute(statement)
    return time.perf_counter() - begun


def cpu_of(server: MariadbServer) -> float:
    """CPU seconds of the server's process until now."""
    fields = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _version(server: MariadbServer) -> str:
    [(told,)] = server.execute("SELECT version()")
    return str(told).partition("-")[0]
