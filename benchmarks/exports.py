"""A release with and without a file of it, in turn, beside the database's own way to write one.

PostgreSQL writes by ``COPY … TO``, which neither counts nor reads back; DuckDB likewise. The
server is a throw-away one with its default settings, fsync included.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.beside import versions
from benchmarks.main_job import make_duckdb, make_postgresql, seconds_of
from benchmarks.markdown import table
from tests.postgres_server import NoServerError, throwaway_server

JOB = """
import json, resource, sys
import dbanon
url, output, *files = sys.argv[1:]
report = dbanon.anonymize(
    url, table="app.people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"],
    output=output, exports=files,
)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"seconds": dict(report.seconds), "memory": used.ru_maxrss / 1024,
                  "cpu": used.ru_utime + used.ru_stime}))
"""
RUNS = 3


def run(quick: bool = False) -> str:
    """Markdown of releases with a Parquet file, a CSV file and none."""
    n = 100_000 if quick else 1_000_000
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        try:
            with throwaway_server() as server, server.database() as url:
                make_postgresql(server, url, n)
                made = place / "copy.csv"
                rows += _rows(
                    f"PostgreSQL {server.version}",
                    n,
                    url,
                    place,
                    lambda: server.psql(f"\\copy app.people TO '{made}' CSV HEADER", url=url),
                )
        except NoServerError as error:
            rows.append([f"PostgreSQL: {error}", *[""] * 8])
        path = place / "people.duckdb"
        make_duckdb(path, n)
        rows += _rows("DuckDB", n, f"duckdb:///{path}", place, lambda: _copied(path, place))
    header = ["database", "file", "rows", "total s", "of it export s", "x without", "CPU s"]
    header += ["client MiB", "COPY … TO s"]
    title = "# Files of a release: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
    told = f"\nThe least of {RUNS} runs each, which took turns.\n"
    return title + table(header, rows) + told


def _copied(path: Path, place: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"COPY app.people TO '{place / 'copy.csv'}' (FORMAT csv, HEADER)")


def _rows(
    name: str, n: int, url: str, place: Path, copied: Callable[[], object]
) -> list[list[object]]:
    """A row for no file, one for Parquet and one for CSV, of runs that took turns."""
    [version] = versions(None)
    best: dict[str, dict[str, Any]] = {}
    for attempt in range(RUNS):
        for kind in ("", "parquet", "csv"):
            files = [str(place / f"people{attempt}.{kind}")] if kind else []
            found = json.loads(version.run(JOB, url, f"release.people{attempt}{kind}", *files))
            for file in files:
                Path(file).unlink()
            before = best.get(kind)
            if before is None or found["seconds"]["total"] < before["seconds"]["total"]:
                best[kind] = found
    floor = min(seconds_of(copied) for _ in range(RUNS))
    alone = best[""]["seconds"]["total"]
    return [
        [
            name,
            kind or "none",
            n,
            found["seconds"]["total"],
            found["seconds"].get("export", 0.0),
            found["seconds"]["total"] / alone,
            found["cpu"],
            float(found["memory"]),
            floor if kind == "csv" else "",
        ]
        for kind, found in best.items()
    ]
