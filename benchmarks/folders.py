"""Release a folder of Parquet files into one file, locally and on S3, compared with DuckDB's COPY.

COPY reads the same folder and writes one file with the same compression; it neither counts, recodes
nor reads back. Times are CPU seconds, which depend less on the load of the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb

from benchmarks.beside import versions
from benchmarks.markdown import table

JOB = """
import json, sys, time
import dbanon
source, out = sys.argv[1:]
spent, last = {}, ["start", time.process_time()]
def told(phase, share):
    now = time.process_time()
    spent[last[0]] = spent.get(last[0], 0.0) + now - last[1]
    last[:] = phase, now
report = dbanon.anonymize(
    source, table="people", quasi_identifiers=list("abcde"), k=5, keep=["t1", "t2"],
    output="released", exports=[out], progress=told, method="mdav", block_size=5000,
)
told("end", 1.0)
print(json.dumps({"all": time.process_time(), **spent, "rows": report.rows_out}))
"""
COPY = """
import json, sys, time
import duckdb
source, out = sys.argv[1:]
duckdb.sql("SET enable_progress_bar = false")
duckdb.sql(f"COPY (FROM read_parquet('{source}/*.parquet')) TO '{out}' (COMPRESSION zstd)")
print(json.dumps({"all": time.process_time()}))
"""
SERVER = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(*server.get_host_and_port(), flush=True)
input()
"""
RUNS, FILES = 3, 8


def run(quick: bool = False) -> str:
    """Measure releases from folder to file, on disk and on an object store; return Markdown."""
    n = 100_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as directory, serve_objects() as bucket:
        folder, out = Path(directory) / "in", Path(directory) / "out"
        make(folder, n)
        put(folder, bucket)
        [version] = versions(None)
        jobs = {
            "DuckDB's COPY": (COPY, str(folder), str(out / "copy{}.parquet")),
            "folder to file": (JOB, f"file:{folder}", str(out / "people{}.parquet")),
            "S3 to S3": (JOB, f"{bucket}/in/", f"{bucket}/out/people{{}}.parquet"),
        }
        out.mkdir()
        best: dict[str, dict[str, Any]] = {}
        for attempt in range(RUNS):
            for name, (program, source, to) in jobs.items():
                result = json.loads(version.run(program, source, to.format(attempt)))
                if name not in best or result["all"] < best[name]["all"]:
                    best[name] = result
    floor = best["DuckDB's COPY"]["all"]
    rows: list[list[object]] = []
    for name, result in best.items():
        classes = result.get("cluster", 0.0)
        other_seconds = result["all"] - classes
        parts = [result.get(phase, 0.0) for phase in ("start", "read", "write", "verify", "export")]
        rows.append([name, result["all"], classes, other_seconds, other_seconds / floor, *parts])
    header = [
        "way",
        "CPU s",
        "of it classes",
        "all else",
        "x COPY",
        "load and imports",
        "read",
        "write",
        "verify",
        "export",
    ]
    title = (
        f"# From a folder of {FILES} Parquet files to one: {n} rows, 5 float8 quasi-identifiers,"
        " 2 kept text columns, MDAV in blocks, k = 5\n\n"
    )
    note = (
        f"\nThe least of {RUNS} runs each, which took turns; imports are counted in, COPY's, too."
        " The object store is a server of moto's on the loopback, whose own seconds are not"
        " counted.\n"
    )
    return title + table(header, rows) + note


def make(folder: Path, n: int) -> None:
    """Create a folder of files with n rows in total."""
    folder.mkdir()
    numbers = ", ".join(f"random() * 100 AS {name}" for name in "abcde")
    with duckdb.connect() as connection:
        connection.execute("SELECT setseed(0.5)")
        for number in range(FILES):
            connection.execute(
                f"COPY (SELECT {numbers}, 'diagnosis ' || (range % 200) AS t1, 'note of row '"
                f" || range AS t2 FROM range({n // FILES})) TO '{folder}/{number}.parquet'"
                " (COMPRESSION zstd)"
            )


def put(folder: Path, bucket: str) -> None:
    """Upload the folder's files as objects."""
    from dbanon.stores.objects import ObjectPath

    file_system = ObjectPath.parse(f"{bucket}/in").file_system
    file_system.mkdir(bucket.partition("://")[2])
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            ObjectPath.parse(f"{bucket}/in/{path.name}").put(file, path.stat().st_size)


@contextmanager
def serve_objects() -> Iterator[str]:
    """Run an object store in another process, set up the environment, and yield its bucket."""
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        host, port = server.stdout.readline().split()
        environment = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x",
        }
        with mock.patch.dict(os.environ, environment):
            yield "s3://bench"
    finally:
        server.stdin.close()
        time.sleep(0.1)
        server.kill()
        server.wait()
