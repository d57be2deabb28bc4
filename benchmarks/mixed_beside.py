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
from benchmarks.beside import Version, split_interpreters
from benchmarks.markdown import table
from benchmarks.mixed_speed import BLOCKS, FAST, K, draw, losses_of, resolve_hierarchies
from benchmarks.peers import CALL, THEIRS

LIMIT = 300
N_FEW, SMALL, BIG, OF_EVALUATION = 10_000, 100_000, 1_000_000, 500_000
PEERS = {"anonypyx Mondrian": "Mondrian", "umbra-k Mondrian": "umbra-k"}
# Errors of calls that a version does not accept. The second is about more coordinates than the
# kernels of version 0.2.0 support, the third about levels for whole tables of many columns.
REFUSALS = ("MemoryLimit", "1 to 4096 attributes", "combinations of levels")
LIMITED = "import resource; resource.setrlimit(resource.RLIMIT_CPU, ({0}, {0} + 30))\n"


@dataclass(frozen=True)
class Workload:
    """Work on a table; ``peers`` if other programs can do about the same."""

    kind: str
    n: int
    method: str
    options: dict[str, Any] = field(default_factory=dict)
    peers: bool = False


WORKS = (
    *(Workload(kind, N_FEW, "gaa_cp", peers=True) for kind in "UR"),
    *(Workload(kind, SMALL, "gaa_cp") for kind in "URCW"),
    Workload("R", SMALL, "gaa_cp", FAST),
    *(Workload(kind, SMALL, "mdav") for kind in "URCW"),
    *(Workload(kind, BIG, "gaa_cp") for kind in "UR"),
    *(Workload(kind, BIG, "mdav") for kind in "UR"),
    *(Workload(kind, BIG, "mdav", {"block_size": BLOCKS}) for kind in "CW"),
)


@dataclass(frozen=True)
class Outcome:
    """CPU seconds, MiB and loss of one call, or a word that says why there are none."""

    seconds: float | None = None
    memory: float | None = None
    loss: float | None = None
    word: str = "–"

    def cell(self) -> object:
        """The seconds, or the word."""
        return self.word if self.seconds is None else self.seconds


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all workloads; return Markdown.

    Raises
    ------
    NotMeasuredError : ``other_python`` does not name two interpreters.
    """
    old, peers = split_interpreters(other_python)
    return report(measure_all(old, peers, quick), other_name(old))


def other_name(old: str) -> str:
    """The version that an interpreter has installed."""
    return Version("", old).run("import dbanon; print(dbanon.__version__)").strip()


def report(rows: Iterator[list[object]], name: str) -> str:
    """Format the page from the rows of ``measure_all``."""
    header = ["table", "n", "method", "and", "this s", "this MiB", f"{name} s"]
    header += ["this loss", f"{name} loss", *(f"{peer} s (loss)" for peer in PEERS)]
    text = "# Mixed data beside another version and other programs, CPU seconds\n\n"
    return text + (__doc__ or "").partition("\n\n")[2] + "\n" + table(header, rows)


def measure_all(old: str, peers: str, quick: bool = False) -> Iterator[list[object]]:
    """Yield a row for each workload, then one for the run in DuckDB."""
    for work in WORKS:
        n = work.n // 10 if quick else work.n
        if quick and work.n == BIG:
            continue
        frame, trees = draw(work.kind, n), resolve_hierarchies(work.kind)
        this = _classes(Version("this", sys.executable), work, frame, trees)
        other = Outcome(word="not asked")
        if work.n < BIG:
            other = _classes(Version("other", old), work, frame, trees)
        note = ", ".join(f"{name} {value}" for name, value in work.options.items())
        row = [work.kind, f"{n:,}", work.method, note, *_versions(this, other)]
        for method in PEERS.values():
            outcome = _peer_outcome(peers, method, frame) if work.peers else Outcome()
            loss = "" if outcome.loss is None else f" ({outcome.loss:.4f})"
            row.append(f"{outcome.seconds:.4g}{loss}" if outcome.seconds else outcome.word)
        yield row
    n = mixed_evaluation.SMALL if quick else OF_EVALUATION
    this, other = _evaluation_outcome(sys.executable, n), _evaluation_outcome(old, n)
    note = "DuckDB, 15 kept texts, --evaluate"
    yield ["U", f"{n:,}", "gaa_cp", note, *_versions(this, other), *("–" for _ in PEERS)]


def _versions(this: Outcome, other: Outcome) -> list[object]:
    losses = ["" if outcome.loss is None else f"{outcome.loss:.5f}" for outcome in (this, other)]
    memory = "–" if this.memory is None else f"{this.memory:.0f}"
    return [this.cell(), memory, other.cell(), *losses]


def _classes(
    version: Version, work: Workload, frame: pd.DataFrame, trees: dict[str, list[list[str]]]
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        frame.to_parquet(f"{folder}/table.parquet")
        (Path(folder) / "trees.json").write_text(json.dumps(trees))
        result = run_limited(
            version, mixed_speed.CALL, folder, work.method, str(K), json.dumps(work.options)
        )
        if isinstance(result, str):
            return Outcome(word=result)
        labels = np.load(f"{folder}/labels.npy")
    seconds, memory = result
    loss = losses_of(frame, labels, trees)[work.method == mixed_speed.OWN_METHOD]
    return Outcome(seconds, memory, loss)


def _peer_outcome(python: str, method: str, frame: pd.DataFrame) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(f"{folder}/table.csv", index=False)
        result = run_limited(Version("", python), THEIRS + CALL, folder, str(K), method, "{}")
    if isinstance(result, str):
        return Outcome(word=result)
    seconds, labels = result
    if np.bincount(labels).min() < K:
        raise AssertionError(f"classes below k: {method}")
    return Outcome(seconds, loss=losses_of(frame, np.asarray(labels), {})[0])


def _evaluation_outcome(python: str, n: int) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        mixed_evaluation.make(Path(folder) / "people.duckdb", n)
        url = f"duckdb:///{folder}/people.duckdb"
        job = mixed_evaluation.JOB
        result = run_limited(Version("", python), job, url, "released", "generalization", "yes")
    return Outcome(word=result) if isinstance(result, str) else Outcome(*result[:2])


def run_limited(version: Version, code: str, *arguments: str, limit: int = LIMIT) -> Any:
    """Parse a program's output as JSON, or say in a word why it failed.

    Parameters
    ----------
    limit : the CPU seconds after which it is ended.
    """
    try:
        return json.loads(version.run(LIMITED.format(limit) + code, *arguments))
    except subprocess.CalledProcessError as error:
        if error.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return f"more than {limit}"
        if any(words in error.stderr for words in REFUSALS):
            return "refused"
        raise RuntimeError(error.stderr[-2000:]) from None
