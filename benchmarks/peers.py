"""Other packages for notebooks against dbanon: CPU seconds and loss on mixed tables, k = 5.

The tables are ``U`` and ``R`` of the benchmark ``mixed_speed``, without hierarchies, as the peers
have none. anonypyx has Mondrian and MDAV-generic; anonypy, polarfrost and umbra-k have Mondrian.
MDAV-generic holds all pairs in memory and is left out above 5,000 records. Seconds run from the
data frame to the classes, each call in a process of its own. The losses are counted from the
classes by code that knows none of the packages: *iloss* is the width of a class over that of the
table for numbers, and 0 or 1 for categories; *Gower* is the distance to the mean or the most
frequent value of the class, in the same units. Both are means over records and columns.

ARX is a Java program and sdcMicro an R package: they are not measured here. Their published tables
are compared with dbanon's in docs/generalization-measured.md and docs/evaluation.md.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks.beside import Version
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.mixed_speed import K, draw, losses_of

SIZES = (1_000, 5_000, 10_000)
LARGEST = {"anonypyx MDAV-generic": 5_000}

OURS = """
import dbanon
def classes(frame, k, method, options):
    return dbanon.partition(frame, k, method=method, **options).labels
"""
THEIRS = """
import sys
import numpy as np
if sys.argv[3] == "umbra-k":
    from umbra_k import MondrianAnonymizer
elif sys.argv[3] == "anonypy":
    from anonypy.mondrian import Mondrian
elif sys.argv[3] == "polarfrost":
    import polars
    from polarfrost import mondrian_k_anonymity_polars
else:
    from anonypyx import models, mondrian, microaggregation
def classes(frame, k, method, options):
    if method == "umbra-k":
        one = MondrianAnonymizer(k, list(frame))
        one.fit_transform(frame)
        found = one._partitions
    elif method == "polarfrost":
        texts = [c for c in frame if frame[c].dtype == object]
        rows = polars.from_pandas(frame.assign(row=np.arange(len(frame))))
        released = mondrian_k_anonymity_polars(rows, list(frame), "row", k, texts)
        found = [list(map(int, of_class.split(","))) for of_class in released["row"]]
    else:
        frame = frame.astype({c: "category" for c in frame if frame[c].dtype == object})
    if method == "anonypy":
        found = Mondrian(frame, list(frame)).partition(k)
    elif method == "Mondrian":
        found = mondrian.Mondrian(frame, list(frame)).partition([models.kAnonymity(k)])
    elif method == "MDAV-generic":
        found = microaggregation.MDAVGeneric(frame, list(frame)).partition(k)
    labels = np.empty(len(frame), int)
    for label, records in enumerate(found):
        labels[records] = label
    return labels
"""
CALL = """
import json, sys, time, warnings
import numpy as np, pandas as pd
warnings.simplefilter("ignore")
folder, k, method, options = sys.argv[1], int(sys.argv[2]), sys.argv[3], json.loads(sys.argv[4])
frame = pd.read_csv(folder + "/table.csv")
for c in frame:
    if not pd.api.types.is_numeric_dtype(frame[c]):
        frame[c] = frame[c].astype(object)
started = time.process_time()
labels = classes(frame, k, method, options)
print(json.dumps([time.process_time() - started, np.asarray(labels).tolist()]))
"""
CASES: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("anonypyx Mondrian", THEIRS, "Mondrian", {}),
    ("umbra-k Mondrian", THEIRS, "umbra-k", {}),
    ("anonypy Mondrian", THEIRS, "anonypy", {}),
    ("polarfrost Mondrian", THEIRS, "polarfrost", {}),
    ("anonypyx MDAV-generic", THEIRS, "MDAV-generic", {}),
    ("dbanon mondrian", OURS, "mondrian", {}),
    ("dbanon mdav", OURS, "mdav", {"recoding": "representative"}),
    ("dbanon gaa_cp", OURS, "gaa_cp", {}),
    ("dbanon gaa_cp, fast", OURS, "gaa_cp", {"refine": "fast"}),
)


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all calls; return Markdown. ``other_python`` must have the packages of all peers.

    Raises
    ------
    NotMeasuredError : no such interpreter was given.
    """
    if other_python is None:
        raise NotMeasuredError("name by --beside an interpreter that has the peers' packages")
    header = ["table", "n", "program", "CPU s", "smallest class", "iloss", "Gower"]
    text = "# Peers on mixed data\n\n" + (__doc__ or "").partition("\n\n")[2]
    return f"{text}\n{table(header, _rows(other_python, SIZES[:1] if quick else SIZES))}"


def _rows(other_python: str, sizes: tuple[int, ...]) -> Iterator[list[object]]:
    for kind in "UR":
        for n in sizes:
            with tempfile.TemporaryDirectory() as folder:
                frame = draw(kind, n)
                frame.to_csv(f"{folder}/table.csv", index=False)
                for name, code, method, options in CASES:
                    if n > LARGEST.get(name, n):
                        continue
                    version = Version(name, other_python if code is THEIRS else sys.executable)
                    arguments = (folder, str(K), method, json.dumps(options))
                    seconds, labels = json.loads(version.run(code + CALL, *arguments))
                    label_array = np.asarray(labels)
                    smallest = int(np.bincount(label_array).min())
                    iloss, gower = losses_of(frame, label_array, {})
                    yield [kind, f"{n:,}", name, seconds, smallest, f"{iloss:.4f}", f"{gower:.4f}"]
