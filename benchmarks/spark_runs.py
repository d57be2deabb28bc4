"""Releases of one session of Spark, and what they take; each run of it is a process of its own.

``python -m benchmarks.spark_runs WHAT ROWS [REFINE]`` prints a line of JSON for each release.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import dbanon
from benchmarks.spark_slow import SlowBlocks
from dbanon.spark import anonymize_table, open_session, stages
from tests.postgres_server import conninfo, throwaway_server
from tests.spark.cluster import Cluster

_TICKS = os.sysconf("SC_CLK_TCK")
COLUMNS = [f"x{i}" for i in range(5)]
ASKED: dict[str, Any] = {"quasi_identifiers": COLUMNS, "k": 5, "key": ["id"], "keep": ["kept"]}
RELEASES = ("first", "second", "third")
# Of more rows there is one release: what Java does at first is little of it.
ONCE = 4_000_000
# Of slowed blocks: seconds that each sleeps, records of each, and blocks of a task.
SLEEP, SLOW_BLOCK, A_TASK = 1.0, 5_000, 3


def pieces(rows: int, files: int = 8) -> Iterator[pa.Table]:
    """A mixture of 20 Gaussians in five columns, with a key and a column that is kept."""
    rng = np.random.default_rng(7)
    centres = rng.normal(scale=4.0, size=(20, 5))
    each = -(-rows // files)
    for start in range(0, rows, each):
        count = min(each, rows - start)
        points = centres[rng.integers(0, 20, count)] + rng.normal(size=(count, 5))
        columns = {name: points[:, i] for i, name in enumerate(COLUMNS)}
        columns["id"] = np.arange(start, start + count)
        columns["kept"] = rng.integers(0, 9, count)
        yield pa.table(columns)


def write(folder: Path, rows: int) -> None:
    """The rows as Parquet files."""
    for number, piece in enumerate(pieces(rows, 8 if rows <= ONCE else 80)):
        pq.write_table(piece, folder / f"{number}.parquet")


def load(url: str, rows: int) -> None:
    """The rows as a table of PostgreSQL."""
    with psycopg.connect(conninfo(url)) as connection:
        numbers = ", ".join(f"{name} float8" for name in COLUMNS)
        connection.execute(f"CREATE TABLE people ({numbers}, id int8 PRIMARY KEY, kept int8)")
        for piece in pieces(rows):
            sink = io.BytesIO()
            pyarrow.csv.write_csv(piece, sink, pyarrow.csv.WriteOptions(include_header=False))
            with connection.cursor().copy("COPY people FROM STDIN (FORMAT csv)") as copy:
                copy.write(sink.getvalue())
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE people")


def seconds(pid: int) -> tuple[float, float]:
    """CPU seconds of a process by itself, and of all that it started."""
    parents: dict[int, list[int]] = {}
    own: dict[int, tuple[float, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            told = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents.setdefault(int(told[1]), []).append(int(entry))
        used = sum(map(int, told[11:13])) / _TICKS, sum(map(int, told[13:15])) / _TICKS
        own[int(entry)] = used
    below, pending = own[pid][1], list(parents.get(pid, []))
    while pending:
        child = pending.pop()
        below += sum(own[child])
        pending += parents.get(child, [])
    return own[pid][0], below


def _server_of(url: str) -> int:
    """The process that a server's others were started by."""
    with psycopg.connect(conninfo(url)) as connection:
        backend = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert backend is not None
    return int(Path(f"/proc/{backend[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])


@contextmanager
def _session(place: Path) -> Iterator[Any]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "8",
        "spark.local.dir": str(place / "local"),
    }
    session = open_session("local[2]", conf)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _told(session: Any, rows: int, release: Callable[[str], Any], server: int | None) -> None:
    """Make releases, and print what each takes."""
    java = session.sparkContext._gateway.proc.pid
    for name in RELEASES if rows <= ONCE else RELEASES[:1]:
        before, workers = seconds(java)
        database = sum(seconds(server)) if server else 0.0
        driver, started = time.process_time(), time.perf_counter()
        report = release(name)
        elapsed = time.perf_counter() - started
        after, worked = seconds(java)
        used = {
            "jvm": after - before,
            "python": worked - workers + time.process_time() - driver,
            "server": (sum(seconds(server)) if server else 0.0) - database,
        }
        told = {"release": name, "seconds": elapsed, "loss": report.internal.information_loss}
        print(json.dumps(used | told), flush=True)


def files(place: Path, rows: int, more: dict[str, Any]) -> None:
    """From Parquet files to Parquet files."""
    (place / "in").mkdir()
    write(place / "in", rows)
    with _session(place) as session:

        def release(name: str) -> Any:
            return anonymize_table(session, str(place / "in"), str(place / name), **ASKED, **more)

        _told(session, rows, release, None)


def database(place: Path, rows: int, more: dict[str, Any]) -> None:
    """From a table of PostgreSQL to one, in a server of its own with its usual settings."""
    asked = ASKED | more | {"table": "people", "output": "released", "if_exists": "replace"}
    with throwaway_server(kind="local") as server, server.database() as url:
        load(url, rows)
        with _session(place) as session:

            def release(_: str) -> Any:
                return anonymize_table(session, url, url, **asked)

            _told(session, rows, release, _server_of(url))


def workers(place: Path, rows: int, more: dict[str, Any]) -> None:
    """On one worker, then on two: blocks that sleep, so that the machine's cores do not matter."""
    (place / "in").mkdir()
    write(place / "in", rows)
    asked = ASKED | more | {"block_size": SLOW_BLOCK, "tasks": -(-rows // (SLOW_BLOCK * A_TASK))}
    (place / "cluster").mkdir()
    cluster = Cluster(place / "cluster")
    try:
        cluster.start()
        for count in (1, 2):
            settings = {"spark.ui.enabled": "false", "spark.cores.max": str(count)}
            session = open_session(cluster.master, cluster.conf | settings)
            session.sparkContext.setLogLevel("ERROR")
            for name, sleeps in (("warm", 0.0), ("slowed", SLEEP)):
                made = f"{name}{count}"
                # A class that workers find by its name, as they find the one that it extends.
                stages.Blocks = SlowBlocks.sleeping(sleeps)  # type: ignore[misc, assignment]
                started = time.perf_counter()
                anonymize_table(session, str(place / "in"), str(place / made), **asked)
                elapsed = time.perf_counter() - started
            session.stop()
            print(json.dumps({"workers": count, "seconds": elapsed}), flush=True)
    finally:
        cluster.stop()


def local(place: Path, rows: int, more: dict[str, Any]) -> None:
    """The same rows on one machine, whole."""
    frame = pa.concat_tables(pieces(rows)).select(COLUMNS).to_pandas()
    used, started = time.process_time(), time.perf_counter()
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=COLUMNS, k=5, **more)
    told = {"python": time.process_time() - used, "seconds": time.perf_counter() - started}
    print(json.dumps(told | {"loss": report.internal.information_loss}), flush=True)


WHAT = {one.__name__: one for one in (files, database, workers, local)}


def main() -> None:
    """Do what is named."""
    what, rows, *refine = sys.argv[1:]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = Path(tempfile.mkdtemp(prefix="dbanon-spark-"))
    try:
        WHAT[what](place, int(rows), {"refine": refine[0]} if refine else {})
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
