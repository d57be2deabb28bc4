"""A release in MariaDB compared with the server's own copy of the table, in CPU seconds of both.

The server is a temporary one in memory, with a 1 GiB buffer pool, no waiting for its log, and the
default cache for temporary tables.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from benchmarks.beside import versions
from benchmarks.markdown import NotMeasuredError, table
from tests.mariadb_server import MariadbServer, throwaway_mariadb
from tests.postgres_server import NoServerError

JOB = """
import json, resource, sys, time
import dbanon
url, output, server, ticks = *sys.argv[1:4], float(sys.argv[4])
def spent():
    fields = open(f"/proc/{server}/stat").read().rpartition(")")[2].split()
    return time.process_time(), (int(fields[11]) + int(fields[12])) / ticks
found, last = {}, ["read", *spent()]
def told(phase, share):
    now = spent()
    client, of_server = found.get(last[0], (0.0, 0.0))
    found[last[0]] = client + now[0] - last[1], of_server + now[1] - last[2]
    last[:] = [phase, *now]
dbanon.anonymize(
    url, table="people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"], output=output,
    progress=told,
)
told("", 1.0)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu": found, "memory": memory}))
"""
VERIFY = """
import json, resource, sys
import dbanon
assert dbanon.verify(sys.argv[1], sys.argv[2]).unchanged
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"cpu": used.ru_utime + used.ru_stime}))
"""
_TICKS = os.sysconf("SC_CLK_TCK")


def run(quick: bool = False) -> str:
    """Measure releases of 5 doubles and 2 texts, and CREATE TABLE … AS SELECT; return Markdown."""
    n = 100_000 if quick else 1_000_000
    settings = {
        "innodb-buffer-pool-size": "1G",
        "innodb-log-file-size": "512M",
        "aria-pagecache-buffer-size": "128M",
    }
    try:
        with throwaway_mariadb(settings) as server:
            return _report(server, n)
    except NoServerError as error:
        raise NotMeasuredError(str(error)) from None


def _report(server: MariadbServer, n: int) -> str:
    [version] = versions(None)
    doubles = ", ".join(f"{name} double" for name in "abcde")
    random_values = ", ".join("rand()" for _ in "abcde")
    server.execute(
        "CREATE DATABASE app CHARACTER SET utf8mb4",
        "USE app",
        f"CREATE TABLE people (id int PRIMARY KEY, {doubles}, t1 varchar(20), t2 varchar(40))",
        f"INSERT INTO people SELECT seq, {random_values}, concat('text ', floor(rand() * 1000)),"
        f" md5(seq) FROM seq_1_to_{n}",
    )
    url, output, cpu_before = server.url("app"), "release.people", cpu_of(server)
    server.execute("CREATE TABLE app.copy AS SELECT a, b, c, d, e, t1, t2 FROM app.people")
    floor = cpu_of(server) - cpu_before
    release_result = json.loads(version.run(JOB, url, output, str(server.process_id), str(_TICKS)))
    cpu_before = cpu_of(server)
    verify_result = json.loads(version.run(VERIFY, url, output))
    verify_cpu = cpu_of(server) - cpu_before
    rows: list[list[object]] = [["CREATE TABLE … AS SELECT", floor, "", 1.0]]
    seconds_without_clustering = [0.0, 0.0]
    for phase, (client, server_seconds) in release_result["cpu"].items():
        rows.append(_row(f"a release: {phase}", server_seconds, client, floor))
        if phase != "cluster":
            seconds_without_clustering = [
                seconds_without_clustering[0] + server_seconds,
                seconds_without_clustering[1] + client,
            ]
    rows.append(_row("a release: all but cluster", *seconds_without_clustering, floor))
    rows.append(
        _row("dbanon verify, a process of its own", verify_cpu, verify_result["cpu"], floor)
    )
    header = ["what", "server CPU s", "client CPU s", "x CREATE TABLE"]
    title = f"# MariaDB {_version(server)}: {n} rows, 5 doubles, 2 kept texts, MDAV, k = 5\n\n"
    note = (
        "\nOne run, in CPU seconds of server and client. The digest counts as verify; what is told"
        f" last, of the swap and the ledger, too. Client: {release_result['memory']:.0f} MiB.\n"
    )
    return title + table(header, rows) + note


def _row(label: str, server: float, client: float, floor: float) -> list[object]:
    return [label, server, client, (server + client) / floor]


def cpu_of(server: MariadbServer) -> float:
    """CPU seconds of the server's process so far."""
    fields = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _version(server: MariadbServer) -> str:
    [(version,)] = server.execute("SELECT version()")
    return str(version).partition("-")[0]
