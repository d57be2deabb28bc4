"""Work on mixed tables by this version, by another one and by what else can be installed: CPU s.

The tables are those of `mixed_speed`, k = 5; *mdav* releases representatives. Each call is a
process of its own, from the data frame to the classes, and is ended after 300 CPU seconds. The
other version is not asked for a million rows: the time of its `gaa_cp` grows with their square at
worst, and its `mdav` refuses 100,000. The last row is a whole run in DuckDB: 500,000 rows of ``U``
with 15 kept texts, classes of `gaa_cp`, generalized, with `--evaluate`. *MiB* is what this
version's peak of memory in a call lies above what it had before; of the run in DuckDB it is that of
the whole process.

``--beside`` names an interpreter that has the other version, and after a comma one that has
anonypyx and umbra-k. Both are Mondrian without hierarchies, get tables without trees, and are asked
for 10,000 rows only. ARX is a Java program and sdcMicro an R package. Neither is in the registries
of Python or of Debian, so they are not measured here.

*Loss* is counted from the classes by code that shares nothing with any of these, as in
`mixed_speed`: iloss, of *mdav* the distance to the mean or the most frequent value. That of two
versions differs only where a refinement does.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks import mixed_evaluation, mixed_speed
from benchmarks.beside import Version
from benchmarks.markdown import NotMeasuredError, table
from benchmarks.mixed_speed import BLOCKS, FAST, K, draw, losses_of, trees_of
from benchmarks.peers import CALL, THEIRS

LIMIT = 300
FEW, SMALL, BIG, OF_EVALUATION = 10_000, 100_000, 1_000_000, 500_000
PEERS = {"anonypyx Mondrian": "Mondrian", "umbra-k Mondrian": "umbra-k"}
LIMITED = f"import resource; resource.setrlimit(resource.RLIMIT_CPU, ({LIMIT}, {LIMIT + 30}))\n"


@dataclass(frozen=True)
class Work:
    """What is done with a table; ``peers`` where others can do about the same."""

    kind: str
    n: int
    method: str
    more: dict[str, Any] = field(default_factory=dict)
    peers: bool = False


WORKS = (
    *(Work(kind, FEW, "gaa_cp", peers=True) for kind in "UR"),
    *(Work(kind, SMALL, "gaa_cp") for kind in "URCW"),
    Work("R", SMALL, "gaa_cp", FAST),
    *(Work(kind, SMALL, "mdav") for kind in "URCW"),
    *(Work(kind, BIG, "gaa_cp") for kind in "UR"),
    *(Work(kind, BIG, "mdav") for kind in "UR"),
    *(Work(kind, BIG, "mdav", {"block_size": BLOCKS}) for kind in "CW"),
)


@dataclass(frozen=True)
class Outcome:
    """CPU seconds, MiB and loss of one call, or in a word why there are none."""

    seconds: float | None = None
    memory: float | None = None
    loss: float | None = None
    word: str = "–"

    def shown(self) -> object:
        """The seconds, or the word."""
        return self.word if self.seconds is None else self.seconds


def run(quick: bool = False, beside: str | None = None) -> str:
    """Markdown of all works.

    Raises
    ------
    NotMeasuredError : the two interpreters were not named.
    """
    if beside is None or "," not in beside:
        raise NotMeasuredError("name by --beside an interpreter of another version, and of peers")
    old, peers = beside.split(",")
    return report(measured(old, peers, quick), other_name(old))


def other_name(old: str) -> str:
    """The version that an interpreter has."""
    return Version("", old).run("import dbanon; print(dbanon.__version__)").strip()


def report(rows: Iterator[list[object]], name: str) -> str:
    """The page, of rows as ``measured`` gives them."""
    header = ["table", "n", "method", "and", "this s", "this MiB", f"{name} s"]
    header += ["this loss", f"{name} loss", *(f"{peer} s (loss)" for peer in PEERS)]
    text = "# Mixed data beside another version and other programs, CPU seconds\n\n"
    return text + (__doc__ or "").partition("\n\n")[2] + "\n" + table(header, rows)


def measured(old: str, peers: str, quick: bool = False) -> Iterator[list[object]]:
    """A row for each work, then that of the run in DuckDB."""
    for work in WORKS:
        n = work.n // 10 if quick else work.n
        if quick and work.n == BIG:
            continue
        frame, trees = draw(work.kind, n), trees_of(work.kind)
        this = _classes(Version("this", sys.executable), work, frame, trees)
        other = Outcome(word="not asked")
        if work.n < BIG:
            other = _classes(Version("other", old), work, frame, trees)
        told = ", ".join(f"{name} {value}" for name, value in work.more.items())
        row = [work.kind, f"{n:,}", work.method, told, *_versions(this, other)]
        for method in PEERS.values():
            found = _of_peer(peers, method, frame) if work.peers else Outcome()
            loss = "" if found.loss is None else f" ({found.loss:.4f})"
            row.append(f"{found.seconds:.4g}{loss}" if found.seconds else found.word)
        yield row
    n = mixed_evaluation.SMALL if quick else OF_EVALUATION
    this, other = _evaluated(sys.executable, n), _evaluated(old, n)
    told = "DuckDB, 15 kept texts, --evaluate"
    yield ["U", f"{n:,}", "gaa_cp", told, *_versions(this, other), *("–" for _ in PEERS)]


def _versions(this: Outcome, other: Outcome) -> list[object]:
    losses = ["" if one.loss is None else f"{one.loss:.5f}" for one in (this, other)]
    memory = "–" if this.memory is None else f"{this.memory:.0f}"
    return [this.shown(), memory, other.shown(), *losses]


def _classes(
    version: Version, work: Work, frame: pd.DataFrame, trees: dict[str, list[list[str]]]
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(f"{folder}/table.parquet")
        (Path(folder) / "trees.json").write_text(json.dumps(trees))
        found = _told(version, mixed_speed.CALL, folder, work.method, str(K), json.dumps(work.more))
        if isinstance(found, str):
            return Outcome(word=found)
        labels = np.load(f"{folder}/labels.npy")
    seconds, memory = found
    loss = losses_of(frame, labels, trees)[work.method == mixed_speed.OWN]
    return Outcome(seconds, memory, loss)


def _of_peer(python: str, method: str, frame: pd.DataFrame) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(f"{folder}/table.csv", index=False)
        found = _told(Version("", python), THEIRS + CALL, folder, str(K), method, "{}")
    if isinstance(found, str):
        return Outcome(word=found)
    seconds, labels = found
    if np.bincount(labels).min() < K:
        raise AssertionError(f"classes below k: {method}")
    return Outcome(seconds, loss=losses_of(frame, np.asarray(labels), {})[0])


def _evaluated(python: str, n: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        mixed_evaluation.make(Path(folder) / "people.duckdb", n)
        url = f"duckdb:///{folder}/people.duckdb"
        job = mixed_evaluation.JOB
        found = _told(Version("", python), job, url, "released", "generalization", "yes")
    return Outcome(word=found) if isinstance(found, str) else Outcome(*found[:2])


def _told(version: Version, code: str, *arguments: str) -> Any:
    """What a program prints as JSON, or in words how it ended."""
    try:
        return json.loads(version.run(LIMITED + code, *arguments))
    except subprocess.CalledProcessError as error:
        if error.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"more than {LIMIT}"
        # 0.2.0 says that of more coordinates than its kernels take.
        if "MemoryLimit" in error.stderr or "1 to 4096 attributes" in error.stderr:
            return "refused"
        raise RuntimeError(error.stderr[-2000:]) from None
