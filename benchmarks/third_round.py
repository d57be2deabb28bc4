"""Work that was slow, by this version and another one in turn: CPU seconds, k = 5.

Needs ``--beside``: an interpreter that has the other version, a comma, and one that has the peers.

*Calls* are processes of their own, from the data frame to the labels. Seconds are the least of two
turns, and of one turn beyond 30. A call is ended after 300 CPU seconds. Labels of both versions
must be equal. *U*, *R*, *W* and *X* are tables of `mixed_speed`, *normal* and *clustered* those of
`mdav_speed`, the others those of `untuned`.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import main_job, mdav_speed, mixed_speed, peers, startup, untuned
from benchmarks.beside import Version, split_interpreters, versions
from benchmarks.markdown import table
from benchmarks.mixed_beside import run_limited

K, TURNS = 5, 2
# Calls of more seconds than this have one turn.
REPEATED = 30.0
# Table, rows, columns (of numbers alone) and methods.
Case = tuple[str, int, int, tuple[str, ...]]
CASES: tuple[Case, ...] = (
    ("W", 10_000, 0, ("full_domain",)),
    ("W", 100_000, 0, ("full_domain", "mdav", "gaa_cp")),
    ("R", 100_000, 0, ("full_domain", "mdav", "gaa_cp", "kmember")),
    ("U", 100_000, 0, ("mdav", "gaa_cp")),
    ("U", 500_000, 0, ("gaa_cp",)),
    ("U", 1_000_000, 0, ("full_domain",)),
    ("X", 50_000, 0, ("full_domain", "mdav", "gaa_cp")),
    *(("normal", 40_000, p, ("gaa_cp", "kmember")) for p in (4, 10, 13, 20)),
    ("normal", 20_000, 10, ("kaca",)),
    *(
        (kind, n, p, ("mdav",))
        for kind in mdav_speed.KINDS
        for n, p in ((1_000_000, 4), (100_000, 10), (1_000_000, 10), (100_000, 13), (200_000, 13))
    ),
    *((name, untuned.SIZE, 0, untuned.METHODS) for name in untuned.TABLES),
)


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all work; return Markdown.

    Raises
    ------
    NotMeasuredError : ``other_python`` does not name two interpreters.
    """
    old, python_of_peers = split_interpreters(other_python)
    known_versions = versions(old)
    names = [version.name for version in known_versions]
    header = ["table", "n", "p", "method", *(f"{name} s" for name in names)]
    header.append(f"{names[1]} / this")
    sections = [
        "# Third round of speed\n\n" + (__doc__ or "").partition("\n\n")[2],
        "## Calls\n\n" + table(header, _rows(known_versions, 50 if quick else 1)),
        *(
            module.run(quick, python).replace("# ", "## ", 1)
            for module, python in (
                (main_job, old),
                (startup, old),
                (peers, python_of_peers),
            )
        ),
    ]
    return "\n".join(sections)


def _rows(known_versions: list[Version], divisor: int) -> Iterator[list[object]]:
    """Yield a row for each call: seconds of both versions and their ratio."""
    for name, n, p, methods in CASES:
        frame, trees = _draw(name, n // divisor, p)
        with tempfile.TemporaryDirectory() as folder:
            frame.to_parquet(f"{folder}/table.parquet")
            (Path(folder) / "trees.json").write_text(json.dumps(trees))
            for method in methods:
                options = {"nulls": "merge"} if frame.isna().any(axis=None) else {}
                ours, others = _take_turns(known_versions, folder, method, options)
                is_measured = isinstance(ours, float) and isinstance(others, float)
                ratio = others / ours if is_measured else "–"
                yield [name, f"{len(frame):,}", frame.shape[1], method, ours, others, ratio]


def _draw(name: str, n: int, p: int) -> tuple[pd.DataFrame, dict[str, list[list[str]]]]:
    """Draw a table; return it and its hierarchies, a row for each leaf."""
    if name in mdav_speed.KINDS:
        points = mdav_speed.make(name, n, p)
        return pd.DataFrame(points, columns=[f"x{j}" for j in range(p)]), {}
    if name in untuned.TABLES:
        return untuned.draw(name, n)
    return mixed_speed.draw(name, n), mixed_speed.resolve_hierarchies(name)


def _take_turns(
    known_versions: list[Version], folder: str, method: str, options: dict[str, str]
) -> list[float | str]:
    """Return the least seconds of each version, or a word.

    Raises
    ------
    AssertionError : labels differ.
    """
    best: dict[str, float | str] = {}
    expected: bytes | None = None
    for version in [*known_versions] * TURNS:
        previous = best.get(version.name, np.inf)
        if isinstance(previous, str) or REPEATED < previous < np.inf:
            continue
        arguments = (folder, method, str(K), json.dumps(options))
        result = run_limited(version, mixed_speed.CALL, *arguments)
        if isinstance(result, str):
            best[version.name] = result
            continue
        best[version.name] = min(result[0], previous)
        labels = np.load(f"{folder}/labels.npy").tobytes()
        expected = expected or labels
        if labels != expected:
            raise AssertionError(f"labels of {version.name} differ: {method}, {folder}")
    return [best[version.name] for version in known_versions]
