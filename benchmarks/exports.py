"""Releases with and without an exported file, compared with the database's own export.

PostgreSQL's ``COPY … TO`` neither counts nor reads back, and neither does DuckDB's. The server is a
temporary one with default settings, including fsync.
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
    """Measure releases with a Parquet file, a CSV file and none; return Markdown."""
    n = 100_000 if quick else 1_000_000
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        try:
            with throwaway_server() as server, server.database() as url:
                make_postgresql(server, url, n)
                csv_path = folder / "copy.csv"
                rows += _rows(
                    f"PostgreSQL {server.version}",
                    n,
                    url,
                    folder,
                    lambda: server.psql(f"\\copy app.people TO '{csv_path}' CSV HEADER", url=url),
                )
        except NoServerError as error:
            rows.append([f"PostgreSQL: {error}", *[""] * 8])
        path = folder / "people.duckdb"
        make_duckdb(path, n)
        rows += _rows("DuckDB", n, f"duckdb:///{path}", folder, lambda: _copy_to_csv(path, folder))
    header = ["database", "file", "rows", "total s", "of it export s", "x without", "CPU s"]
    header += ["client MiB", "COPY … TO s"]
    title = "# Files of a release: 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
    note = f"\nThe least of {RUNS} runs each, which took turns.\n"
    return title + table(header, rows) + note


def _copy_to_csv(path: Path, folder: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"COPY app.people TO '{folder / 'copy.csv'}' (FORMAT csv, HEADER)")


def _rows(
    name: str, n: int, url: str, folder: Path, copy_to_csv: Callable[[], object]
) -> list[list[object]]:
    """Measure no file, Parquet and CSV in turn; one row each."""
    [version] = versions(None)
    best: dict[str, dict[str, Any]] = {}
    for attempt in range(RUNS):
        for kind in ("", "parquet", "csv"):
            files = [str(folder / f"people{attempt}.{kind}")] if kind else []
            result = json.loads(version.run(JOB, url, f"release.people{attempt}{kind}", *files))
            for file in files:
                Path(file).unlink()
            best_so_far = best.get(kind)
            if best_so_far is None or result["seconds"]["total"] < best_so_far["seconds"]["total"]:
                best[kind] = result
    floor = min(seconds_of(copy_to_csv) for _ in range(RUNS))
    total_without_export = best[""]["seconds"]["total"]
    return [
        [
            name,
            kind or "none",
            n,
            result["seconds"]["total"],
            result["seconds"].get("export", 0.0),
            result["seconds"]["total"] / total_without_export,
            result["cpu"],
            float(result["memory"]),
            floor if kind == "csv" else "",
        ]
        for kind, result in best.items()
    ]
