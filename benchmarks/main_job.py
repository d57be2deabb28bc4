"""The main job end to end: seconds per phase beside CREATE TABLE AS of the same table.

The PostgreSQL server is a throw-away one with its default settings, fsync included, and tables
are logged. The client's memory is that of a process of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

from benchmarks.markdown import table
from tests.postgres_server import NoServerError, throwaway_server

COLUMNS = "a double precision, b double precision, c double precision, d double precision,"
COLUMNS += " e double precision, t1 text, t2 text"

JOB = """
import json, resource, sys
import dbanon
url, output = sys.argv[1:3]
report = dbanon.anonymize(
    url, table="app.people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"],
    output=output,
)
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
seconds = dict(report.seconds)
print(json.dumps({"seconds": seconds, "memory": memory, "loss": report.information_loss,
                  "k": report.k_achieved}))
"""


def run(quick: bool = False) -> str:
    """Markdown of the main job on PostgreSQL and DuckDB."""
    n = 100_000 if quick else 1_000_000
    rows = []
    try:
        with throwaway_server() as server, server.database() as url:
            server.execute("CREATE SCHEMA app", url=url)
            server.execute(f"CREATE TABLE app.people ({COLUMNS})", url=url)
            server.execute(
                "INSERT INTO app.people SELECT random(), random(), random(), random(), random(),"
                f" 'first ' || g, 'second ' || g FROM generate_series(1, {n}) AS g",
                url=url,
            )
            server.execute("VACUUM ANALYZE app.people", url=url)
            floor = []
            for attempt in range(3):
                floor.append(
                    _seconds(
                        lambda attempt=attempt: server.execute(
                            f"CREATE TABLE app.copy{attempt} AS SELECT * FROM app.people", url=url
                        )
                    )
                )
            rows += [
                _row(f"PostgreSQL {server.version}", n, min(floor), _job(url, f"release.people{i}"))
                for i in range(3)
            ]
    except NoServerError as error:
        rows.append([f"PostgreSQL: {error}", *[""] * 10])
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "people.duckdb"
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE SCHEMA app")
            connection.execute(
                "CREATE TABLE app.people AS SELECT random() AS a, random() AS b, random() AS c,"
                " random() AS d, random() AS e, 'first ' || range AS t1, 'second ' || range AS t2"
                f" FROM range({n})"
            )
            floor = [
                _seconds(
                    lambda attempt=attempt: connection.execute(
                        f"CREATE TABLE app.copy{attempt} AS SELECT * FROM app.people"
                    )
                )
                for attempt in range(3)
            ]
        url = f"duckdb:///{path}"
        rows += [_row("DuckDB", n, min(floor), _job(url, f"release.people{i}")) for i in range(3)]
    header = ["database", "rows", "CTAS s", "read s", "cluster s", "write s", "verify s"]
    header += ["read+write+verify s", "x CTAS", "total s", "client MiB"]
    title = "# The main job: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
    return title + table(header, rows)


def _seconds(work: object) -> float:
    started = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - started


def _job(url: str, output: str) -> dict[str, object]:
    # -I: the installed package, as in `make bench`.
    done = subprocess.run(
        [sys.executable, "-I", "-c", JOB, url, output], check=True, capture_output=True, text=True
    )
    result: dict[str, object] = json.loads(done.stdout)
    return result


def _row(name: str, n: int, floor: float, found: dict[str, object]) -> list[object]:
    seconds: dict[str, float] = found["seconds"]  # type: ignore[assignment]
    path = seconds["read"] + seconds["write"] + seconds["verify"]
    return [
        name,
        n,
        floor,
        *(seconds[phase] for phase in ("read", "cluster", "write", "verify")),
        path,
        path / floor,
        seconds["total"],
        float(found["memory"]),  # type: ignore[arg-type]
    ]
