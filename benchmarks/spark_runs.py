"""Releases of one Spark session and their costs, run as a separate process.

``python -m benchmarks.spark_runs SCENARIO ROWS [REFINE]`` prints a line of JSON per release.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import dbanon
from benchmarks.spark_slow import SlowBlocks
from dbanon.extensions.spark import stages
from dbanon.extensions.spark.anonymize import BLOCK_SIZE
from dbanon.spark import anonymize_table, open_session
from tests.postgres_server import conninfo, throwaway_server
from tests.spark.cluster import Cluster

_TICKS, _PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
COLUMNS = [f"x{i}" for i in range(5)]
OPTIONS: dict[str, Any] = {"quasi_identifiers": COLUMNS, "k": 5, "key": ["id"], "keep": ["kept"]}
RELEASES = ("first", "second", "third")
# Above this, one release suffices: Java's warm-up is a small part of it.
ONCE = 4_000_000
# For slowed blocks: seconds that each sleeps, its records, and blocks per task.
SLEEP, SLOW_BLOCK, BLOCKS_PER_TASK = 1.0, 5_000, 3


def pieces(rows: int, files: int = 8) -> Iterator[pa.Table]:
    """A mixture of 20 Gaussians in five columns, with a key and a retained column."""
    rng = np.random.default_rng(7)
    centres = rng.normal(scale=4.0, size=(20, 5))
    rows_per_file = -(-rows // files)
    for start in range(0, rows, rows_per_file):
        count = min(rows_per_file, rows - start)
        points = centres[rng.integers(0, 20, count)] + rng.normal(size=(count, 5))
        columns = {name: points[:, i] for i, name in enumerate(COLUMNS)}
        columns["id"] = np.arange(start, start + count)
        columns["kept"] = rng.integers(0, 9, count)
        yield pa.table(columns)


def write(folder: Path, rows: int) -> None:
    """Write the rows as Parquet files."""
    for number, piece in enumerate(pieces(rows, 8 if rows <= ONCE else 80)):
        pq.write_table(piece, folder / f"{number}.parquet")


def load(url: str, rows: int) -> None:
    """Load the rows into a table of PostgreSQL."""
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


def sample_tree(pid: int) -> dict[tuple[int, str], tuple[float, float, int]]:
    """Return CPU seconds and memory of a process and its descendants, by number and start time.

    The values are a process's own CPU seconds, those of children that it waited for, and bytes of
    anonymous memory.
    """
    stats, children = {}, dict[int, list[int]]()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        # The process may have ended.
        with suppress(OSError):
            fields = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
            stats[int(entry)] = fields
            children.setdefault(int(fields[1]), []).append(int(entry))
    samples, pending = {}, [pid]
    while pending:
        number = pending.pop()
        fields = stats[number]
        pending += children.get(number, [])
        pages = [0, 0, 0]
        with suppress(OSError):
            pages = list(map(int, Path(f"/proc/{number}/statm").read_text().split()))
        process_seconds, reaped_seconds = (
            sum(map(int, fields[i : i + 2])) / _TICKS for i in (11, 13)
        )
        samples[number, fields[19]] = (
            process_seconds,
            reaped_seconds,
            (pages[1] - pages[2]) * _PAGE_BYTES,
        )
    return samples


class ProcessWatch(threading.Thread):
    """Samples a process and its descendants each second until the program ends.

    pyspark's daemon does not wait for its workers, so what an ended worker took is added to no
    other process. Its last sample counts: before Spark ends a worker, it is idle for a minute.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self._lock = threading.Lock()
        self._seconds: dict[tuple[int, str], float] = {}
        self._peak_bytes = 0

    def run(self) -> None:
        """Sample each second."""
        while True:
            with suppress(KeyError):
                self.seconds()
            time.sleep(1.0)

    def seconds(self) -> tuple[float, float]:
        """Sample, and return the CPU seconds of the process itself, and of all its descendants."""
        samples = sample_tree(self.pid)
        with self._lock:
            self._seconds |= {process: sample[0] for process, sample in samples.items()}
            tree_bytes = sum(sample[2] for sample in samples.values())
            self._peak_bytes = max(self._peak_bytes, tree_bytes)
            own_seconds = sum(x for (pid, _), x in self._seconds.items() if pid == self.pid)
            return own_seconds, sum(self._seconds.values()) - own_seconds

    def take_peak_memory(self) -> float:
        """Return the most anonymous memory in a sample since the last call, in MiB."""
        with self._lock:
            peak_bytes, self._peak_bytes = self._peak_bytes, 0
        return peak_bytes / 2**20


def _server_of(url: str) -> int:
    """The main process of a server."""
    with psycopg.connect(conninfo(url)) as connection:
        backend = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert backend is not None
    return int(Path(f"/proc/{backend[0]}/stat").read_text().rsplit(")", 1)[1].split()[1])


@contextmanager
def _session(folder: Path) -> Iterator[Any]:
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(folder / "local"),
    }
    session = open_session("local[2]", conf)
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def _report_releases(
    session: Any, rows: int, release: Callable[[str], Any], server: int | None
) -> None:
    """Make releases, and print the cost of each."""
    java = ProcessWatch(session.sparkContext._gateway.proc.pid)
    java.start()

    def server_seconds() -> float:
        if server is None:
            return 0.0
        return sum(sample[0] + sample[1] for sample in sample_tree(server).values())

    for name in RELEASES if rows <= ONCE else RELEASES[:1]:
        java_before, workers_before = java.seconds()
        java.take_peak_memory()
        shuffled_before = _shuffled_bytes(session)
        database = server_seconds()
        driver, started = time.process_time(), time.perf_counter()
        report = release(name)
        elapsed = time.perf_counter() - started
        java_after, workers_after = java.seconds()
        cpu = {
            "jvm": java_after - java_before,
            "python": workers_after - workers_before + time.process_time() - driver,
            "server": server_seconds() - database,
        }
        result = {
            "release": name,
            "seconds": elapsed,
            "loss": report.internal.information_loss,
            "memory": java.take_peak_memory(),
            "shuffled": _shuffled_bytes(session) - shuffled_before,
        }
        print(json.dumps(cpu | result), flush=True)


def _shuffled_bytes(session: Any) -> int:
    """Return the bytes that all stages of a session wrote for others, as Spark counts them."""
    context = session.sparkContext
    # The listeners that count run beside the jobs.
    context._jsc.sc().listenerBus().waitUntilEmpty()
    no_strings = context._gateway.new_array(context._jvm.double, 0)
    stages_of_session = (
        context._jsc.sc().statusStore().stageList(None, False, False, no_strings, None)
    )
    return sum(
        stages_of_session.apply(i).shuffleWriteBytes() for i in range(stages_of_session.size())
    )


def files(folder: Path, rows: int, options: dict[str, Any]) -> None:
    """Release Parquet files into Parquet files."""
    (folder / "in").mkdir()
    write(folder / "in", rows)
    with _session(folder) as session:

        def release(name: str) -> Any:
            return anonymize_table(
                session, str(folder / "in"), str(folder / name), **OPTIONS, **options
            )

        _report_releases(session, rows, release, None)


def database(folder: Path, rows: int, options: dict[str, Any]) -> None:
    """Release a table of PostgreSQL into another, on a temporary server with default settings."""
    all_options = (
        OPTIONS | options | {"table": "people", "output": "released", "if_exists": "replace"}
    )
    with throwaway_server(kind="local") as server, server.database() as url:
        load(url, rows)
        with _session(folder) as session:

            def release(_: str) -> Any:
                return anonymize_table(session, url, url, **all_options)

            _report_releases(session, rows, release, _server_of(url))


def workers(folder: Path, rows: int, options: dict[str, Any]) -> None:
    """Release on one worker, then on two, with sleeping blocks so that cores do not matter."""
    (folder / "in").mkdir()
    write(folder / "in", rows)
    all_options = (
        OPTIONS
        | options
        | {"block_size": SLOW_BLOCK, "tasks": -(-rows // (SLOW_BLOCK * BLOCKS_PER_TASK))}
    )
    (folder / "cluster").mkdir()
    cluster = Cluster(folder / "cluster")
    try:
        cluster.start()
        for count in (1, 2):
            settings = {"spark.ui.enabled": "false", "spark.cores.max": str(count)}
            session = open_session(cluster.master, cluster.conf | settings)
            session.sparkContext.setLogLevel("ERROR")
            for name, sleeps in (("warm", 0.0), ("slowed", SLEEP)):
                output_name = f"{name}{count}"
                # Workers import this class by name, like the one that it extends.
                stages.ClusterBlocks = SlowBlocks.sleeping(sleeps)  # type: ignore[misc, assignment]
                started = time.perf_counter()
                anonymize_table(
                    session, str(folder / "in"), str(folder / output_name), **all_options
                )
                elapsed = time.perf_counter() - started
            session.stop()
            print(json.dumps({"workers": count, "seconds": elapsed}), flush=True)
    finally:
        cluster.stop()


def local(folder: Path, rows: int, options: dict[str, Any]) -> None:
    """Release the same rows on one machine, without blocks."""
    frame = pa.concat_tables(pieces(rows)).select(COLUMNS).to_pandas()
    cpu_before, started = time.process_time(), time.perf_counter()
    _, report = dbanon.anonymize_frame(frame, quasi_identifiers=COLUMNS, k=5, **options)
    result = {"python": time.process_time() - cpu_before, "seconds": time.perf_counter() - started}
    print(json.dumps(result | {"loss": report.internal.information_loss}), flush=True)


def machine(folder: Path, rows: int, options: dict[str, Any]) -> None:
    """Release the same files on one machine, in the same blocks, into one Parquet file."""
    (folder / "in").mkdir()
    write(folder / "in", rows)
    roles = {name: value for name, value in OPTIONS.items() if name != "key"}
    for name in RELEASES if rows <= ONCE else RELEASES[:1]:
        cpu_before, started = time.process_time(), time.perf_counter()
        report = dbanon.anonymize(
            f"file:{folder / 'in'}",
            table="people",
            output="released",
            exports=[str(folder / f"{name}.parquet")],
            block_size=BLOCK_SIZE,
            **roles,
            **options,
        )
        cpu = time.process_time() - cpu_before
        result = {"release": name, "python": cpu, "seconds": time.perf_counter() - started}
        print(json.dumps(result | {"loss": report.internal.information_loss}), flush=True)


SCENARIOS = {scenario.__name__: scenario for scenario in (files, database, workers, local, machine)}


def main() -> None:
    """Run the named scenario."""
    scenario, rows, *refine = sys.argv[1:]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    folder = Path(tempfile.mkdtemp(prefix="dbanon-spark-"))
    try:
        SCENARIOS[scenario](folder, int(rows), {"refine": refine[0]} if refine else {})
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
