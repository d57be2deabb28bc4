"""A release on Spark, from Parquet to Parquet: CPU seconds of the JVM and of Python apart.

Two cores, one process (``local[2]``), five columns from a mixture of 20 Gaussians, k = 5, blocks of
50,000; each session makes its release twice, as the first loads and compiles classes. With a number
of rows and, if wanted, a value of ``refine`` it is that one session: ``python -m benchmarks.spark
ROWS [REFINE]``.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import dbanon.spark
from benchmarks.markdown import NotMeasuredError, table

_TICKS = os.sysconf("SC_CLK_TCK")
CASES = ((200_000, None), (1_000_000, None), (1_000_000, "pass"), (4_000_000, None))
TITLE = """# A release on Spark

Parquet to Parquet, `local[2]`, five columns from a mixture of 20 Gaussians, a key and a kept
column, MDAV, k = 5, blocks of 50,000. CPU seconds of the JVM and of Python with its workers; a
session's first release, then its second.

"""


def write(folder: Path, rows: int, files: int = 8) -> None:
    """A mixture of 20 Gaussians in five columns, with a key and a column that is kept."""
    rng = np.random.default_rng(7)
    centres = rng.normal(scale=4.0, size=(20, 5))
    each = -(-rows // files)
    for number in range(files):
        start = number * each
        count = min(each, rows - start)
        points = centres[rng.integers(0, 20, count)] + rng.normal(size=(count, 5))
        columns = {f"x{i}": points[:, i] for i in range(5)}
        columns["id"] = np.arange(start, start + count)
        columns["kept"] = rng.integers(0, 9, count)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet")


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


def run(quick: bool = False) -> str:
    """Markdown of CPU seconds per million rows, and the loss."""
    cells = []
    for rows, refine in [(20_000, None)] if quick else CASES:
        asked = [str(rows)] + ([] if refine is None else [refine])
        done = subprocess.run(
            [sys.executable, "-I", "-m", "benchmarks.spark", *asked],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NotMeasuredError(done.stderr.strip().splitlines()[-1])
        for line in done.stdout.splitlines():
            told = json.loads(line)
            jvm, python, all_of_it = (told[name] / rows * 1e6 for name in ("jvm", "python", "all"))
            loss = f"{100 * told['loss']:.4f} %"
            cells.append(
                [f"{rows:,}", refine or "none", told["session"], jvm, python, all_of_it,
                 2e6 / all_of_it, told["seconds"], loss]
            )  # fmt: skip
            print(*cells[-1], flush=True)
    header = ["rows", "refine", "release", "JVM", "Python", "CPU s per 1M rows",
              "rows/s on two cores, computed", "seconds", "loss"]  # fmt: skip
    return TITLE + table(header, cells)


def one(rows: int, refine: str | None = None) -> None:
    """Print what two releases of one session take, a line of JSON each."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    place = Path(tempfile.mkdtemp())
    (place / "in").mkdir()
    write(place / "in", rows)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.local.dir", str(place / "local"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark.sparkContext._gateway.proc.pid
    more = {} if refine is None else {"refine": refine}
    for name in ("first", "second"):
        before, workers = seconds(jvm)
        driver, started = time.process_time(), time.perf_counter()
        released, report = dbanon.spark.anonymize(
            spark.read.parquet(str(place / "in")),
            quasi_identifiers=[f"x{i}" for i in range(5)],
            k=5,
            key=["id"],
            keep=["kept"],
            **more,
        )
        released.write.mode("overwrite").parquet(str(place / "out"))
        spark.catalog.clearCache()
        after, worked = seconds(jvm)
        python = worked - workers + time.process_time() - driver
        told: dict[str, float | str] = {"session": name, "jvm": after - before, "python": python}
        told |= {"all": after - before + python, "seconds": time.perf_counter() - started}
        print(json.dumps(told | {"loss": report.information_loss}), flush=True)
    spark.stop()
    shutil.rmtree(place)


if __name__ == "__main__":
    one(int(sys.argv[1]), *sys.argv[2:3])
