"""A release in MariaDB beside the server's own copy of the table, in CPU seconds of both sides.

The server is a throw-away one in memory, with 1 GiB of pages, its log not waited for, and the
cache of temporary tables that a server has unless it is told otherwise.
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
    """Markdown of releases of 5 doubles and 2 texts, and of CREATE TABLE … AS SELECT."""
    n = 100_000 if quick else 1_000_000
    settings = {
        "innodb-buffer-pool-size": "1G", "innodb-log-file-size": "512M",
        "aria-pagecache-buffer-size": "128M",
    }  # fmt: skip
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
    url, output, before = server.url("app"), "release.people", cpu_of(server)
    server.execute("CREATE TABLE app.copy AS SELECT a, b, c, d, e, t1, t2 FROM app.people")
    floor = cpu_of(server) - before
    told = json.loads(version.run(JOB, url, output, str(server.process_id), str(_TICKS)))
    before = cpu_of(server)
    again = json.loads(version.run(VERIFY, url, output))
    on_server = cpu_of(server) - before
    rows: list[list[object]] = [["CREATE TABLE … AS SELECT", floor, "", 1.0]]
    work = [0.0, 0.0]
    for phase, (client, of_server) in told["cpu"].items():
        rows.append(_row(f"a release: {phase}", of_server, client, floor))
        if phase != "cluster":
            work = [work[0] + of_server, work[1] + client]
    rows.append(_row("a release: all but cluster", *work, floor))
    rows.append(_row("dbanon verify, a process of its own", on_server, again["cpu"], floor))
    header = ["what", "server CPU s", "client CPU s", "x CREATE TABLE"]
    title = f"# MariaDB {_version(server)}: {n} rows, 5 doubles, 2 kept texts, MDAV, k = 5\n\n"
    end = (
        "\nOne run, in CPU seconds of server and client. The digest counts as verify; what is told"
        f" last, of the swap and the ledger, too. Client: {told['memory']:.0f} MiB.\n"
    )
    return title + table(header, rows) + end


def _row(what: str, of_server: float, client: float, floor: float) -> list[object]:
    return [what, of_server, client, (of_server + client) / floor]


def cpu_of(server: MariadbServer) -> float:
    """CPU seconds of the server's process until now."""
    fields = Path(f"/proc/{server.process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _version(server: MariadbServer) -> str:
    [(told,)] = server.execute("SELECT version()")
    return str(told).partition("-")[0]
