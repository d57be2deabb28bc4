"""Evaluation of mixed releases in DuckDB: CPU seconds of whole runs with and without it, k = 5.

Rows of ``U`` (mixed_speed: two numbers and categories of 2, 40, 16 and 3,000 values) with 15 kept
texts, classes of gaa_cp. Each run is a process of its own; its CPU seconds are those of all of its
threads, DuckDB's too. ``all records`` links every record where a release links a sample of 10,000.
Another version evaluates beside this one by ``--beside``, the smaller table only, as 0.2.0 takes
minutes for the larger; its figures must be the same.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb

from benchmarks.beside import Version, versions
from benchmarks.markdown import table
from benchmarks.mixed_speed import draw

SMALL, LARGE, N_RETAINED = 50_000, 500_000, 15
RECODINGS = ("generalization", "representative")
RISKS = ("linkage_risk", "nearest_linkage_risk")

JOB = """
import json, resource, sys, time
import dbanon
from dbanon.measures.catalogue import MEASURES
from dbanon.measures.risk import links

url, output, recoding, way = sys.argv[1:]
if way == "all records":
    # Fails if the limit has another name in this version.
    assert links.MAX_ATTRIBUTE_COMPARISONS
    links.MAX_ATTRIBUTE_COMPARISONS = 2**62
seconds = {}

def timed(measure, run):
    def took(task):
        began = time.process_time()
        figure = run(task)
        seconds[measure.name] = time.process_time() - began
        return figure
    object.__setattr__(measure, "run", took)

for measure in MEASURES.values():
    timed(measure, measure.run)
report = dbanon.anonymize(
    url, table="people", k=5, method="gaa_cp", recoding=recoding, output=output,
    quasi_identifiers=["days", "income", "of_2", "of_40", "of_16", "of_3000"],
    keep=[f"t{j}" for j in range(15)], evaluate=way != "no",
)
assert report.evaluation_failed is None
used = resource.getrusage(resource.RUSAGE_SELF)
risks = report.evaluation["risks"] if report.evaluation else {}
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, seconds, risks]))
"""

HEADER = ["rows", "recoding", "version", "evaluate", "whole run s", "of it measures s", *RISKS]
HEADER += [f"{name} found" for name in RISKS] + ["peak MiB"]


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all runs, also with another version; return Markdown."""
    rows: list[list[object]] = []
    for n in (SMALL,) if quick else (SMALL, LARGE):
        known_versions = versions(other_python)[: 2 if n == SMALL else 1]
        with tempfile.TemporaryDirectory() as folder:
            for version in known_versions:
                make(Path(folder) / f"{version.name}.duckdb", n)
            rows += [[n, *row] for row in _rows(known_versions, folder, n == SMALL)]
    text = "# Evaluation of mixed releases\n\n" + (__doc__ or "").strip() + "\n\n"
    return text + table(HEADER, rows)


def make(path: Path, n: int) -> None:
    """Create a database with the table; each version writes its own ledger."""
    texts = ", ".join(
        f"'text {j} of ' || range % {1000 * (j + 1)} AS t{j}" for j in range(N_RETAINED)
    )
    with duckdb.connect(str(path)) as connection:
        connection.register("drawn", draw("U", n))
        connection.execute(
            "CREATE TABLE people AS SELECT * FROM drawn POSITIONAL JOIN"
            f" (SELECT {texts} FROM range({n}))"
        )


def _rows(known_versions: list[Version], folder: str, everything: bool) -> Iterator[list[object]]:
    """Yield one row per run: this version in all modes, then the other one's evaluation."""
    modes = ("no", "yes", "all records") if everything else ("no", "yes")
    runs = [(known_versions[0], mode) for mode in modes]
    runs += [(other, "yes") for other in known_versions[1:]]
    for recoding in RECODINGS:
        risks_by_mode: dict[str, dict[str, float]] = {}
        for version, mode in runs:
            url = f"duckdb:///{folder}/{version.name}.duckdb"
            output = version.run(JOB, url, f"r_{recoding}_{mode[0]}", recoding, mode)
            cpu, memory, seconds, risks = json.loads(output)
            if risks_by_mode.setdefault(mode, risks) != risks:
                raise AssertionError(f"figures differ: {recoding}, {mode}")
            row = [
                *(recoding, version.name, mode, cpu, sum(seconds.values())),
                *(seconds.get(name, "") for name in RISKS),
                *(risks.get(name, "") for name in RISKS),
                memory,
            ]
            yield row
