"""Tables beyond memory: values on a disk beside values in memory, each run a process of its own.

A DuckDB file of doubles, released into the same file with MDAV, k = 5 and one kept column. With
``spill`` the memory limit is 4 GiB. CPU seconds are of all threads; memory is the largest resident
set, in which what the system keeps of files that are mapped counts, too.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.markdown import NotMeasuredError, table

LIMIT = 4 * 2**30
BLOCKS: dict[str, Any] = {"block_size": 50_000}
PASS = BLOCKS | {"refine": "pass"}
DISK = {"spill": True}
ALL_OPTIONS = (BLOCKS | DISK, PASS | DISK, BLOCKS, PASS, {})
# Sizes that take minutes; all other combinations would take half an hour.
SIZES = (
    (1_000_000, 5, ALL_OPTIONS),
    (10_000_000, 5, (BLOCKS | DISK, PASS | DISK, BLOCKS, {})),
    (10_000_000, 10, (BLOCKS | DISK, PASS | DISK, BLOCKS)),
)

JOB = """
import json, resource, sys, time
import dbanon
url, columns, options = sys.argv[1], sys.argv[2].split(","), json.loads(sys.argv[3])
started = time.perf_counter()
report = dbanon.anonymize(url, table="people", quasi_identifiers=columns, k=5, keep=["t"],
                          output="released", if_exists="replace", **options)
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "seconds": time.perf_counter() - started, "cpu": used.ru_utime + used.ru_stime,
    "memory": used.ru_maxrss / 2**10, "loss": 100 * report.internal.information_loss,
    "k": report.k_achieved, "phases": report.seconds}))
"""

HEAD = (
    "rows",
    "columns",
    "block_size",
    "refine",
    "values",
    "s",
    "CPU s",
    "read s",
    "cluster s",
    "write s",
    "peak MiB",
    "100 SSE/SST",
    "k counted",
)


def run(quick: bool = False) -> str:
    """Measure and return Markdown, one line per size and set of options."""
    sizes = ((100_000, 5, ALL_OPTIONS),) if quick else SIZES
    rows = []
    # /tmp may be in memory, so use a directory on disk.
    with tempfile.TemporaryDirectory(prefix="dbanon-spill-", dir="/var/tmp") as folder:
        for n, d, option_sets in sizes:
            if shutil.disk_usage(folder).free < 60 * n * d:
                raise NotMeasuredError(f"there is no room for {n} rows on the disk")
            path = Path(folder) / f"{n}x{d}.duckdb"
            names = make(path, n, d)
            for options in option_sets:
                result = measure(path, names, options, Path(folder) / "spill")
                rows.append(line(n, d, options, result))
                print(*rows[-1], flush=True)
            path.unlink()
    return f"# Tables beyond memory\n\n{__doc__.partition(chr(10))[2].strip()}\n\n" + table(
        HEAD, rows
    )


def make(path: Path, n: int, d: int) -> list[str]:
    """Create a table of d correlated columns and one of ten values; return the columns' names."""
    names = [f"q{i}" for i in range(d)]
    uniform = "(hash(i * 31 + {}) % 1000003 / 1000003.0)"
    normal = " + ".join(uniform.format(j) for j in range(3))
    columns = ", ".join(
        f"({normal}) * {i % 3} + {uniform.format(10 + 3 * i)} + {uniform.format(11 + 3 * i)}"
        f" + {uniform.format(12 + 3 * i)} AS {name}"
        for i, name in enumerate(names)
    )
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET memory_limit = '4GB'")
        connection.execute(
            f"CREATE TABLE people AS SELECT {columns}, 'text ' || (hash(i) % 10) AS t"
            f" FROM range({n}) AS r(i)"
        )
    return names


def measure(path: Path, names: list[str], requested: dict[str, Any], spill: Path) -> dict[str, Any]:
    """Run a release in a separate process."""
    options = dict(requested)
    if options.pop("spill", False):
        options |= {"spill": str(spill), "memory_limit": LIMIT}
    process = subprocess.run(
        [sys.executable, "-c", JOB, f"duckdb:///{path}", ",".join(names), json.dumps(options)],
        capture_output=True,
        text=True,
        check=True,
    )
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result


def line(n: int, d: int, options: dict[str, Any], result: dict[str, Any]) -> list[object]:
    """Format a line of the table."""
    phases = result["phases"]
    return [
        f"{n:,}",
        d,
        f"{options['block_size']:,}" if "block_size" in options else "",
        options.get("refine", ""),
        "disk" if options.get("spill") else "memory",
        result["seconds"],
        result["cpu"],
        phases["read"],
        phases["cluster"],
        phases["write"],
        round(result["memory"]),
        result["loss"],
        result["k"],
    ]
