"""Memory of jobs that spill: what ``plan`` says beside what a process takes.

A DuckDB file of doubles, released into the same file with MDAV, k = 5, blocks of 50,000 and one
kept column, under the least ``memory_limit`` that the plan allows, in a process of its own. The
resident set is the largest one (VmHWM), with all that Python and its libraries take. Anonymous
memory is the largest of ten samples a second (smaps_rollup): without files that are mapped, such
as libraries and spilled values. ``--big`` adds fifty million rows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dbanon
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.spill import BLOCKS, JOB, make

N_COLUMNS = 5
# Bytes of free disk per row and column: the source, the spilled values, the release, and what
# DuckDB spills.
DISK_BYTES = 60

HEAD = (
    "rows",
    "columns",
    "limit MiB",
    "resident MiB",
    "anonymous MiB",
    "s",
    "CPU s",
    "read s",
    "cluster s",
    "write s",
    "verify s",
    "100 SSE/SST",
    "k counted",
)


def run(quick: bool = False, big: bool = False) -> str:
    """Measure and return Markdown, one line per size."""
    sizes = [100_000] if quick else [10_000_000] + [50_000_000] * big
    rows = []
    # /tmp may be in memory, so use a directory on disk.
    with tempfile.TemporaryDirectory(prefix="dbanon-spill-", dir="/var/tmp") as folder:
        for n in sizes:
            if shutil.disk_usage(folder).free < DISK_BYTES * n * N_COLUMNS:
                raise NotMeasuredError(f"there is no room for {n} rows on the disk")
            path = Path(folder) / f"{n}.duckdb"
            names = make(path, n, N_COLUMNS)
            rows.append(measure(path, names, Path(folder) / "spill", n))
            print(*rows[-1], flush=True)
            path.unlink()
    return f"# Memory of jobs that spill\n\n{__doc__.partition(chr(10))[2].strip()}\n\n" + table(
        HEAD, rows
    )


def measure(path: Path, names: list[str], spill: Path, n: int) -> list[object]:
    """Release a table in a separate process, and return a line of the table."""
    url = f"duckdb:///{path}"
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
    with subprocess.Popen(
        [sys.executable, "-c", JOB, url, ",".join(names), json.dumps(options)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        resident, anonymous = sample_memory(process)
        assert process.stdout is not None
        result: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    phases = result["phases"]
    return [
        f"{n:,}",
        N_COLUMNS,
        round(planned.memory / 2**20),
        round(resident / 2**10),
        round(anonymous / 2**10),
        result["seconds"],
        result["cpu"],
        *(phases[name] for name in ("read", "cluster", "write", "verify")),
        result["loss"],
        result["k"],
    ]


def sample_memory(process: subprocess.Popen[str]) -> tuple[int, int]:
    """Wait for a process; return its largest resident set and anonymous memory, in KiB."""
    resident = anonymous = 0
    while process.poll() is None:
        resident = max(resident, _read_kib(process.pid, "status", "VmHWM"))
        anonymous = max(anonymous, _read_kib(process.pid, "smaps_rollup", "Anonymous"))
        time.sleep(0.1)
    return resident, anonymous


def _read_kib(pid: int, file: str, field: str) -> int:
    """Read a field in KiB from a file of a process; 0 once the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{field}:")), 0)
