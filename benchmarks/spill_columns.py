"""Least limits of jobs that spill, by rows and kept columns: whether they suffice, and the memory.

A DuckDB file of five doubles and kept columns, released into the same file with MDAV, k = 5 and
blocks of 50,000. The limit is the plan's; the run is a process of its own. Anonymous memory is the
largest of ten samples a second (smaps_rollup), with all that Python and its libraries take.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

import dbanon
from benchmarks.markdown import table
from benchmarks.spill import BLOCKS
from benchmarks.spill_memory import sample_memory

# SQL of a kept column by kind; ``i`` is the row, and ``{0}`` the column.
KINDS = {
    "short text": "'text ' || (hash(i + {0}) % 10)",
    "long text": "'text ' || hash(i + {0}) || hash(i - {0})",
    "integer": "(hash(i + {0}) % 1000)::INTEGER",
    "double": "hash(i + {0}) % 1000003 / 7.0::DOUBLE",
}
CASES = (
    (200_000, 6, "short text"),
    (300_000, 12, "short text"),
    (500_000, 12, "short text"),
    (300_000, 12, "long text"),
    (650_000, 1, "short text"),
    (1_000_000, 1, "short text"),
    (1_200_000, 1, "integer"),
    (1_000_000, 12, "double"),
)
QUASI_IDENTIFIERS = [f"q{i}" for i in range(5)]

JOB = """
import json, resource, sys
import dbanon
url, options = sys.argv[1], json.loads(sys.argv[2])
try:
    dbanon.anonymize(url, **options)
    outcome = "published"
except dbanon.errors.MemoryLimit:
    outcome = "memory_limit"
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({"outcome": outcome, "cpu": used.ru_utime + used.ru_stime}))
"""


def run(quick: bool = False) -> str:
    """Measure and return Markdown, one line per table."""
    rows = []
    # /tmp may be in memory, so use a directory on disk.
    with tempfile.TemporaryDirectory(prefix="dbanon-spill-", dir="/var/tmp") as folder:
        for n, n_kept, kind in CASES[:1] if quick else CASES:
            path = Path(folder) / "people.duckdb"
            names = make(path, n, n_kept, kind)
            rows.append([f"{n:,}", n_kept, kind, *measure(path, names, Path(folder) / "spill")])
            print(*rows[-1], flush=True)
            path.unlink()
    head = ("rows", "kept columns", "of", "limit MiB", "outcome", "anonymous MiB", "CPU s")
    return f"# Limits that suffice\n\n{__doc__.partition(chr(10))[2].strip()}\n\n" + table(
        head, rows
    )


def make(path: Path, n: int, n_kept: int, kind: str) -> list[str]:
    """Create a table of five doubles and some kept columns; return the names of the latter."""
    names = [f"t{j}" for j in range(n_kept)]
    columns = [
        f"hash(i * 31 + {j}) % 1000003 / 1000003.0::DOUBLE AS {name}"
        for j, name in enumerate(QUASI_IDENTIFIERS)
    ]
    columns += [f"{KINDS[kind].format(j)} AS {name}" for j, name in enumerate(names)]
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            f"CREATE TABLE people AS SELECT {', '.join(columns)} FROM range({n}) AS r(i)"
        )
    return names


def measure(path: Path, names: list[str], spill: Path) -> list[object]:
    """Release a table under the limit of its plan in a separate process."""
    options: dict[str, Any] = BLOCKS | {
        "table": "people",
        "quasi_identifiers": QUASI_IDENTIFIERS,
        "k": 5,
        "keep": names,
        "output": "released",
        "spill": str(spill),
    }
    limit = dbanon.plan(f"duckdb:///{path}", **options).memory
    options["memory_limit"] = limit
    with subprocess.Popen(
        [sys.executable, "-c", JOB, f"duckdb:///{path}", json.dumps(options)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        _, anonymous, _ = sample_memory(process, None)
        assert process.stdout is not None
        result: dict[str, Any] = json.loads(process.stdout.read().splitlines()[-1])
    return [round(limit / 2**20), result["outcome"], round(anonymous / 2**10), result["cpu"]]
