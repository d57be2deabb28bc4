"""Memory of jobs that spill: what ``plan`` says beside what a process takes.

A table of doubles, released into the same database with MDAV, k = 5, blocks of 50,000 and one kept
column, under the least ``memory_limit`` that the plan allows, in a process of its own. The resident
set is the largest one (VmHWM), with all that Python and its libraries take. Anonymous memory is the
largest of ten samples a second (smaps_rollup): without files that are mapped, such as libraries and
spilled values. DuckDB is part of the process. PostgreSQL is a temporary server with its default
settings, but without fsync and with ``wal_level = minimal``; its table was written by COPY. Its
CPU seconds and its anonymous memory, of all of its processes, are columns of their own. ``--big``
adds fifty million rows.
"""

from __future__ import annotations

import io
import json
import os
import shutil
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
import psycopg
import pyarrow.csv

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.spill import BLOCKS, JOB, make
from tests.postgres_server import NoServerError, conninfo, throwaway_server

N_COLUMNS = 5
# Bytes of free disk per row and column: the source, the spilled values, the release, and what
# DuckDB spills.
DISK_BYTES = 60
_TICKS = os.sysconf("SC_CLK_TCK")

HEAD = (
    "database",
    "rows",
    "columns",
    "limit MiB",
    "resident MiB",
    "anonymous MiB",
    "s",
    "CPU s",
    "server MiB",
    "server CPU s",
    "read s",
    "cluster s",
    "write s",
    "verify s",
    "100 SSE/SST",
    "k counted",
)


def run(quick: bool = False, big: bool = False) -> str:
    """Measure and return Markdown, one line per database and size."""
    sizes = [100_000] if quick else [10_000_000] + [50_000_000] * big
    rows = []
    # /tmp may be in memory, so use a directory on disk.
    with tempfile.TemporaryDirectory(prefix="dbanon-spill-", dir="/var/tmp") as folder:
        for n in sizes:
            if shutil.disk_usage(folder).free < DISK_BYTES * n * N_COLUMNS:
                raise NotMeasuredError(f"there is no room for {n} rows on the disk")
            path = Path(folder) / f"{n}.duckdb"
            names = make(path, n, N_COLUMNS)
            rows.append(measure("DuckDB", f"duckdb:///{path}", names, Path(folder) / "spill", n))
            print(*rows[-1], flush=True)
            try:
                with serve_rows(path, Path(folder)) as (url, server):
                    rows.append(
                        measure("PostgreSQL", url, names, Path(folder) / "spill", n, server)
                    )
            except NoServerError as error:
                raise NotMeasuredError(str(error)) from None
            print(*rows[-1], flush=True)
            path.unlink()
    return f"# Memory of jobs that spill\n\n{__doc__.partition(chr(10))[2].strip()}\n\n" + table(
        HEAD, rows
    )


@contextmanager
def serve_rows(path: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Copy a DuckDB file's rows to a temporary server; yield the database's URL and its process."""
    os.chmod(folder, 0o711)
    settings = {"wal_level": "minimal", "max_wal_senders": "0"}
    # Without fsync from the start, the server would be in memory.
    with (
        mock.patch.object(tempfile, "tempdir", str(folder)),
        throwaway_server(kind="local", settings=settings) as server,
    ):
        server.execute("ALTER SYSTEM SET fsync = off")
        server.execute("SELECT pg_reload_conf()")
        with server.database() as url:
            with duckdb.connect(str(path), read_only=True) as source:
                copy_rows(source, url)
            assert server.process_id is not None
            yield url, server.process_id


def copy_rows(source: duckdb.DuckDBPyConnection, url: str) -> None:
    """Write the table ``people`` to PostgreSQL by COPY."""
    without_head = pyarrow.csv.WriteOptions(include_header=False)
    with psycopg.connect(conninfo(url)) as connection:
        numbers = ", ".join(f"q{i} float8" for i in range(N_COLUMNS))
        connection.execute(f"CREATE TABLE people ({numbers}, t text)")
        with connection.cursor().copy("COPY people FROM STDIN (FORMAT csv)") as copy:
            for batch in source.execute("FROM people").to_arrow_reader(100_000):
                sink = io.BytesIO()
                pyarrow.csv.write_csv(batch, sink, without_head)
                copy.write(sink.getbuffer())
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE people")


def measure(
    database: str, url: str, names: list[str], spill: Path, n: int, server: int | None = None
) -> list[object]:
    """Release a table in a separate process, and return a line of the table.

    Parameters
    ----------
    server : the main process of the database's server; None for a database without one.
    """
    options: dict[str, Any] = BLOCKS | {"spill": str(spill)}
    planned = dbanon.plan(
        url,
        table="people",
        quasi_identifiers=names,
        k=5,
        keep=["t"],
        output="released",
        if_exists="replace",
        **options,
    )
    options["memory_limit"] = planned.memory
    seconds_before = _server_seconds(server) if server else 0.0
    with subprocess.Popen(
        [sys.executable, "-c", JOB, url, ",".join(names), json.dumps(options)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        resident, anonymous, of_server = sample_memory(process, server)
        assert process.stdout is not None
        result: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    phases = result["phases"]
    return [
        database,
        f"{n:,}",
        N_COLUMNS,
        round(planned.memory / 2**20),
        round(resident / 2**10),
        round(anonymous / 2**10),
        result["seconds"],
        result["cpu"],
        round(of_server / 2**10) if server else "",
        _server_seconds(server) - seconds_before if server else "",
        *(phases[name] for name in ("read", "cluster", "write", "verify")),
        result["loss"],
        result["k"],
    ]


def sample_memory(process: subprocess.Popen[str], server: int | None) -> tuple[int, int, int]:
    """Wait for a process; return its largest resident set and anonymous memory, in KiB.

    The third number is the largest anonymous memory of the server's processes together.
    """
    resident = anonymous = of_server = 0
    while process.poll() is None:
        resident = max(resident, _read_kib(process.pid, "status", "VmHWM"))
        anonymous = max(anonymous, _read_kib(process.pid, "smaps_rollup", "Anonymous"))
        if server:
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            sizes = (_read_kib(int(pid), "smaps_rollup", "Anonymous") for pid in children)
            of_server = max(of_server, sum(sizes))
        time.sleep(0.1)
    return resident, anonymous, of_server


def _server_seconds(server: int) -> float:
    """CPU seconds of the server's sessions that have ended."""
    time.sleep(0.5)  # A session outlives its connection for a moment.
    fields = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / _TICKS


def _read_kib(pid: int, file: str, field: str) -> int:
    """Read a field in KiB from a file of a process; 0 once the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
