"""Evaluation: CPU seconds of all measures beside those of MDAV on the same data, k = 5, and memory.

Each case in a process of its own; peak memory is of the run with the measures and of one without.
Another version's MDAV, on the same data and in turn, by ``--beside``. Then whole releases of a
table in DuckDB, with and without ``evaluate``, in turn.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import numpy as np

from benchmarks.beside import Version, versions
from benchmarks.markdown import table

CASES = (
    ("clustered", 100_000, 5),
    ("normal", 100_000, 5),
    ("normal", 100_000, 10),
    ("normal", 100_000, 13),
    ("clustered", 1_000_000, 5),
    ("normal", 1_000_000, 5),
)
LONGEST = ("linkage_risk", "nearest_linkage_risk", "interval_risk")

POINTS = """
import json, sys, time
import numpy as np
from dbanon import kernels

kind, n, p = sys.argv[1], *map(int, sys.argv[2:4])
rng = np.random.default_rng(1)
numbers = rng.normal(size=(n, p))
if kind == "clustered":
    numbers += 3.0 * rng.normal(size=(20, p))[rng.integers(0, 20, size=n)]
points = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0, ddof=1)
clock = time.process_time
started = clock()
kernel = kernels.Mdav(points, 5)
while not kernel.step():
    pass
seconds = {"mdav": clock() - started}
"""

# Works with any version.
MDAV = POINTS + "print(json.dumps(seconds))"

SCRIPT = (
    POINTS
    + """
from pathlib import Path
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.catalogue import MEASURES
from dbanon.measures.figure import EvaluationTask
from dbanon.measures.pairs import Pairs

evaluate = int(sys.argv[4])
classes = Partition(kernel.labels())
means = np.add.reduceat(numbers[classes.members], classes.starts) / classes.sizes[:, None]
del kernel, points
if evaluate:
    scales = [Scale.of(x) for x in numbers.T]  # a run has them
    started = clock()
    pairs = Pairs(
        tuple(
            Numbers(name=str(j), original=x, scale=scales[j], released=means[:, j])
            for j, x in enumerate(numbers.T)
        ),
        classes,
    )
    pairs.points, pairs.row_ids  # cached properties, which all measures share
    seconds["shared"] = clock() - started
    figures = {}
    for name, measure in MEASURES.items():
        started = clock()
        figures[name] = measure.run(EvaluationTask(pairs, figures=figures))
        seconds[name] = clock() - started
status = Path("/proc/self/status").read_text()
memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([seconds, memory]))
"""
)

JOB = """
import json, resource, sys
import dbanon
report = dbanon.anonymize(
    sys.argv[1], table="people", quasi_identifiers=list("abcde"), k=5, output=sys.argv[2],
    evaluate=sys.argv[3] == "1",
)
assert report.evaluation_failed is None
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, report.seconds]))
"""
RUNS = 3


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure everything; return Markdown. Includes another version's MDAV on request."""
    rows: list[list[object]] = []
    other = versions(other_python)[1:]
    for kind, n, p in CASES[:2] if quick else CASES:
        size = n // 10 if quick else n
        seconds, memory = _measure(kind, size, p, True)
        _, memory_without = _measure(kind, size, p, False)
        mdav = seconds.pop("mdav")
        other_seconds = [_mdav(version, kind, size, p) for version in other]
        everything = sum(seconds.values())
        longest = [seconds[name] for name in LONGEST]
        other_measures = everything - sum(longest)
        ratio = everything / mdav
        comparisons = [
            part for seconds in other_seconds for part in (seconds, everything / seconds)
        ]
        rows.append(
            [
                kind,
                size,
                p,
                mdav,
                *longest,
                other_measures,
                everything,
                ratio,
                *comparisons,
                memory,
                memory_without,
            ]
        )
    header = ["data", "n", "p", "MDAV s", *LONGEST, "others", "all", "all / MDAV"]
    header += [
        name for version in other for name in (f"MDAV of {version.name} s", f"all / {version.name}")
    ]
    text = "# Evaluation, one thread\n\n" + __doc__.partition("\n\n")[0] + "\n\n"
    text += table([*header, "peak MiB", "without"], rows)
    return text + "\n" + _releases(100_000 if quick else 1_000_000)


def _mdav(version: Version, kind: str, n: int, p: int) -> float:
    """CPU seconds of another version's MDAV on the same points."""
    return float(json.loads(version.run(MDAV, kind, str(n), str(p)))["mdav"])


def _releases(n: int) -> str:
    """Tabulate complete releases with and without evaluation, taking turns."""
    rng = np.random.default_rng(1)
    numbers = rng.normal(size=(n, 5)) + 3 * rng.normal(size=(20, 5))[rng.integers(0, 20, size=n)]
    this = Version("this", sys.executable)
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "people.duckdb"
        with duckdb.connect(str(path)) as connection:
            columns = dict(zip("abcde", numbers.T, strict=True))
            connection.register("given", columns)
            connection.execute("CREATE TABLE people AS SELECT * FROM given")
        for attempt in range(RUNS):
            for evaluate in ("0", "1"):
                output = this.run(JOB, f"duckdb:///{path}", f"r{attempt}{evaluate}", evaluate)
                cpu, memory, seconds = json.loads(output)
                rows.append(
                    [
                        "yes" if evaluate == "1" else "no",
                        n,
                        cpu,
                        seconds["cluster"],
                        seconds.get("evaluate", 0.0),
                        seconds["total"],
                        memory,
                    ]
                )
    peaks = [
        statistics.median(float(str(row[6])) for row in rows if row[0] == kind)
        for kind in ("yes", "no")
    ]
    header = ["evaluate", "rows", "CPU s", "cluster s", "evaluate s", "total s", "peak MiB"]
    output = (
        f"\nPeak memory with evaluation: {peaks[0] / peaks[1]:.2f} of that without (medians).\n"
    )
    return table(header, rows) + output


def _measure(kind: str, n: int, p: int, evaluate: bool) -> tuple[dict[str, float], float]:
    # -I: the installed package, as in `make bench`.
    command = [sys.executable, "-I", "-c", SCRIPT, kind, *map(str, (n, p, int(evaluate)))]
    process = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, memory = json.loads(process.stdout)
    return seconds, memory
