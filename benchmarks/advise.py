"""Advice on mixed tables: CPU seconds, and the recommendation beside that of trying all releases.

Adult with its hierarchies, and U and R of `mixed_speed`, R with trees and without, each
as a data frame at the usual settings: 2,000 rows are tried. *All* names the methods, so that none
is passed over. Neither has a limit of time. Another version takes turns by ``--beside``, at
its own defaults. Loss is `iloss` of the rows that were tried.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from benchmarks.adult import load
from benchmarks.beside import versions
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.mixed_speed import draw, resolve_hierarchies

CALL = """
import json, sys, time
import pandas as pd
import dbanon
from dbanon.hierarchy.tree import Hierarchy
folder, more = sys.argv[1], json.loads(sys.argv[2])
frame = pd.read_parquet(folder + "/table.parquet")
with open(folder + "/trees.json") as file:
    trees = {name: Hierarchy.from_levels(rows) for name, rows in json.load(file).items()}
started = time.process_time()
found = dbanon.advise(frame, quasi_identifiers=list(frame.columns), hierarchies=trees, **more)
seconds = time.process_time() - started
best = found.recommendation.point
tried = len(found.sweep.points)
print(json.dumps([seconds, tried, best.curve, best.k, best.loss, best.risk]))
"""
# The set of trials then depends on CPU time only, not on the load of the machine.
PATIENT = {"time_limit": 3600.0}
ALL = {"methods": ["gaa_cp", "gaa_cp+fast"], **PATIENT}
HEADER = ("table", "rows", "by", "CPU s", "tried", "recommended", "k", "loss", "linkage risk")


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all recommendations; return Markdown."""
    rows = list(_rows(10_000 if quick else 500_000, other_python))
    text = "# Advice on mixed tables\n\n" + (__doc__ or "").partition("\n\n")[2]
    return f"{text}\n{table(HEADER, rows)}"


def _tables(n: int) -> Iterator[tuple[str, pd.DataFrame, dict[str, list[list[str]]]]]:
    yield "U", draw("U", n), {}
    yield "R", draw("R", n), {}
    yield "R, trees", draw("R", n), resolve_hierarchies("R")
    try:
        adult = load()
    except NotMeasuredError:
        return
    yield "Adult", adult.frame, {name: _levels(file) for name, file in adult.files.items()}


def _levels(path: str) -> list[list[str]]:
    with Path(path).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter=";"))


def _rows(n: int, other_python: str | None) -> Iterator[list[object]]:
    for name, frame, trees in _tables(n):
        with tempfile.TemporaryDirectory() as folder:
            frame.to_parquet(Path(folder) / "table.parquet")
            (Path(folder) / "trees.json").write_text(json.dumps(trees))
            this, *others = versions(other_python)
            calls = [
                ("this", this, PATIENT),
                ("all", this, ALL),
                *((o.name, o, {}) for o in others),
            ]
            for label, version, more in calls:
                measurements = json.loads(version.run(CALL, folder, json.dumps(more)))
                yield [name, f"{len(frame):,}", label, *measurements]
