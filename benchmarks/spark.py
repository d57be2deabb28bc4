"""A release on Spark: CPU seconds of the JVM, of Python and of the server apart, and its loss.

One process (``local[2]``), five columns from a mixture of 20 Gaussians, k = 5, blocks of 50,000.
Each session makes its release three times, as Java loads and compiles classes at first. On an idle
machine of two cores it takes some fifteen minutes; ``--big`` takes 10 and 100 million rows, too,
once, in half an hour. ``python -m benchmarks.spark_runs files 200000000`` takes 200 million, which
need 42 GB of disk in the folder that TMPDIR names.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from benchmarks.markdown import NotMeasuredError, table

ROWS, MORE, QUICK = 1_000_000, 4_000_000, 20_000
BIG = [("files", 10_000_000, ""), ("files", 10_000_000, "pass"), ("files", 100_000_000, "")]
SLOWED = 300_000
TITLE = """# A release on Spark

Five columns of doubles from a mixture of 20 Gaussians, a key and a kept column, MDAV, k = 5, blocks
of 50,000, published by `anonymize_table`: staged, read back and counted again. `local[2]`, with
`refine=pass` in two turns across other borders. CPU seconds per million rows: of the JVM, of Python
with its workers, and of the PostgreSQL server that is source and target; a session's first three
releases, of which the first loads and compiles classes, or the first alone. A session of few rows
ends before Java has compiled what they go through, so that a million rows cost less where there are
more of them.

"""
WORKERS = """
## One worker and two

{rows:,} rows, {blocks} blocks of 5,000, each slowed by a second of sleep, on a standalone cluster
with workers of one core; each session's second release.

"""
ONE_MACHINE = """
## Beside one machine in the same blocks

The same files, released by `dbanon.anonymize` in one process into one Parquet file: CPU seconds per
million rows, without refinement.

"""
LOSS = """
## Loss beside one machine

The same {rows:,} rows without blocks on one machine, with the same refinement: like for like.

"""


def run(quick: bool = False, big: bool = False) -> str:
    """Measure CPU seconds per million rows, gain of a second worker, and loss; return Markdown."""
    rows = QUICK if quick else ROWS
    ways = [("files", ""), ("files", "pass"), ("database", "")]
    sizes = [rows] if quick else [rows, MORE]
    cases = [(source, count, refine) for count in sizes for source, refine in ways]
    if big:
        cases += BIG
    cells, losses, totals = [], {}, {}
    for source, count, refine in cases:
        for measurement in _run(source, count, refine):
            cpu_per_million = {
                name: measurement[name] / count * 1e6 for name in ("jvm", "python", "server")
            }
            total_cpu = sum(cpu_per_million.values())
            totals[source, count, refine, measurement["release"]] = total_cpu
            source_name = {"files": "Parquet", "database": "PostgreSQL"}[source]
            cpu = [
                cpu_per_million["jvm"],
                cpu_per_million["python"],
                cpu_per_million["server"] or "",
                total_cpu,
                round(2e6 / total_cpu),
            ]
            cells.append(
                [
                    source_name,
                    f"{count:,}",
                    refine or "none",
                    measurement["release"],
                    *cpu,
                    measurement["seconds"],
                    f"{100 * measurement['loss']:.4f}",
                ]
            )
            losses[source, count, refine] = measurement["loss"]
            print(*cells[-1], flush=True)
    header = [
        "from and to",
        "rows",
        "refine",
        "release",
        "JVM",
        "Python",
        "server",
        "CPU s per 1M rows",
        "rows/s on two cores, computed",
        "s",
        "100 SSE/SST",
    ]
    slowed = 20_000 if quick else SLOWED
    title = WORKERS.format(rows=slowed, blocks=slowed // 5_000)
    text = TITLE + table(header, cells) + title + _workers(slowed)
    text += ONE_MACHINE + _beside_one_machine(sizes, totals)
    return text + LOSS.format(rows=rows) + _losses(rows, losses)


def _run(source: str, rows: int, refine: str) -> list[dict[str, Any]]:
    """Run a scenario in a separate process, and return its measurements."""
    arguments = [source, str(rows), *([refine] if refine else [])]
    process = subprocess.run(
        [sys.executable, "-I", "-m", "benchmarks.spark_runs", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if process.returncode:
        raise NotMeasuredError(process.stderr.strip().splitlines()[-1])
    return [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]


def _workers(rows: int) -> str:
    one_worker, two_workers = (measurement["seconds"] for measurement in _run("workers", rows, ""))
    print(f"1 worker {one_worker:.1f} s, 2 workers {two_workers:.1f} s", flush=True)
    return table(
        ["workers", "s", "times as fast"],
        [[1, one_worker, 1.0], [2, two_workers, one_worker / two_workers]],
    )


def _beside_one_machine(
    sizes: list[int], spark_totals: dict[tuple[str, int, str, str], float]
) -> str:
    cells = []
    for rows in sizes:
        for measurement in _run("machine", rows, ""):
            release, local = measurement["release"], measurement["python"] / rows * 1e6
            on_spark = spark_totals["files", rows, "", release]
            cells.append([f"{rows:,}", release, local, on_spark, on_spark / local])
            print(*cells[-1], flush=True)
    return table(["rows", "release", "one machine", "Spark", "times as many"], cells)


def _losses(rows: int, losses: dict[tuple[str, int, str], float]) -> str:
    cells = []
    for refine in ("", "pass"):
        [unblocked] = _run("local", rows, refine)
        blocks = losses["files", rows, refine]
        difference = f"{100 * (blocks / unblocked['loss'] - 1):+.2f} %"
        cells.append(
            [
                refine or "none",
                f"{100 * blocks:.4f}",
                f"{100 * unblocked['loss']:.4f}",
                difference,
                unblocked["python"],
                unblocked["seconds"],
            ]
        )
        print(*cells[-1], flush=True)
    header = [
        "refine",
        "100 SSE/SST on Spark",
        "without blocks",
        "Spark beside it",
        "CPU s without blocks",
        "s",
    ]
    return table(header, cells)
