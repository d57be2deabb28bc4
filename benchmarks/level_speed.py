"""`full_domain` on tables of many columns: CPU seconds of whole calls beside the loss, k = 5.

The tables are those of `mixed_speed`. ``X`` is ten columns of numbers with six levels each and ten
texts, independent: 62 thousand million combinations of levels. Each measurement is a process of its
own, from the data frame to the labels; seconds are the least of two turns, beyond 30 those of one,
*MiB* is what the call's peak of memory lies above that before it. Another version takes turns with
this one by ``--beside`` and must give the same levels and labels. It is ended after 100 CPU
seconds, this one after 1,000.

*Loss* is the mean over all cells of the labels' losses at the levels found: steps up over the
height, or the share of the range; a withheld row loses all. *At least* is what any levels lose, as
the search proves: less than the loss only where it ended early. Where rows may be withheld, levels
are found twice, and *at least* is the loss times the lesser of both shares, so about what any
levels lose. *Looks* are those of the search for the rows that are left and of the one before.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.beside import Version, versions
from benchmarks.markdown import table
from benchmarks.mixed_beside import run_limited
from benchmarks.mixed_speed import READ_TABLE, draw, resolve_hierarchies

K, TURNS = 5, 2
# Calls of more seconds than this have one turn.
REPEATED = 30.0
OWN_LIMIT, LIMIT = 1_000, 100
Case = tuple[str, int, float]
CASES: tuple[Case, ...] = (
    ("W", 10_000, 0.0),
    ("W", 10_000, 0.05),
    ("W", 100_000, 0.0),
    ("R", 100_000, 0.0),
    ("R", 100_000, 0.05),
    ("U", 1_000_000, 0.0),
    ("X", 10_000, 0.0),
    ("X", 50_000, 0.0),
    ("X", 50_000, 0.05),
    ("X", 1_000_000, 0.0),
)
CALL = (
    READ_TABLE
    + """
from dbanon.errors import InvalidParameter
k, suppression = int(sys.argv[2]), float(sys.argv[3])
options = {"suppression": suppression, "max_suppression": suppression} if suppression else {}
forget_peak()
before, started = peak_memory(), time.process_time()
try:
    partition = dbanon.partition(frame, k, method="full_domain", hierarchies=trees, **options)
except InvalidParameter:
    print(json.dumps("refused"))
    sys.exit()
seconds, mebibytes = time.process_time() - started, peak_memory() - before
labels = np.asarray(partition.labels)
np.save(folder + "/labels.npy", labels)
released = frame[labels >= 0]
losses = []
for name, level in partition.levels.items():
    numbers = partition.number_levels.get(name)
    if numbers is not None:
        losses.append(float(numbers.loss(released[name].to_numpy(float), level).mean()))
    else:
        losses.append(level / trees[name].height if name in trees else float(level))
share = len(released) / len(frame)
loss = share * sum(losses) / len(losses) + 1 - share
figures = dict(getattr(partition, "owner_figures", {}))
print(json.dumps([seconds, mebibytes, loss, dict(partition.levels), figures]))
"""
)


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all calls; return Markdown."""
    known_versions = versions(other_python)
    header = ["table", "n", "withheld, at most", "loss", "at least", "looks"]
    header += [f"{version.name} {unit}" for version in known_versions for unit in ("s", "MiB")]
    cases = [case for case in CASES if case[1] <= 10_000] if quick else CASES
    text = "# Levels for whole tables, CPU seconds\n\n" + (__doc__ or "").partition("\n\n")[2]
    return f"{text}\n{table(header, _rows(known_versions, cases))}"


def _rows(known_versions: list[Version], cases: Sequence[Case]) -> Iterator[list[object]]:
    """Yield a row for each case: the loss and its bound, then seconds and memory per version."""
    for kind, n, suppression in cases:
        frame, trees = draw(kind, n), resolve_hierarchies(kind)
        with tempfile.TemporaryDirectory() as folder:
            frame.to_parquet(f"{folder}/table.parquet")
            (Path(folder) / "trees.json").write_text(json.dumps(trees))
            results = _take_turns(known_versions, folder, suppression)
        _, _, loss, *_, figures = results[known_versions[0].name]
        bound = loss * min([1.0, *(figures[name] for name in figures if "bound" in name)])
        looks = [f"{figures[name]:,}" for name in sorted(figures) if "looks" in name]
        row: list[object] = [kind, f"{n:,}", suppression or "–", f"{loss:.5f}", f"{bound:.5f}"]
        row.append(" + ".join(looks) or "all needed")
        for version in known_versions:
            result = results[version.name]
            row += [result, ""] if isinstance(result, str) else [result[0], f"{result[1]:.0f}"]
        yield row


def _take_turns(known_versions: list[Version], folder: str, suppression: float) -> dict[str, Any]:
    """Run each version; return by name what it printed, with the least seconds, or a word.

    Raises
    ------
    AssertionError : levels or labels differ.
    """
    results: dict[str, Any] = {}
    expected: tuple[object, bytes] | None = None
    for version in [*known_versions] * TURNS:
        previous = results.get(version.name)
        if isinstance(previous, str) or (previous is not None and previous[0] > REPEATED):
            continue
        limit = OWN_LIMIT if version is known_versions[0] else LIMIT
        result = run_limited(version, CALL, folder, str(K), str(suppression), limit=limit)
        if isinstance(result, list):
            outcome = result[3], np.load(f"{folder}/labels.npy").tobytes()
            expected = expected or outcome
            if outcome != expected:
                raise AssertionError(f"levels or labels of {version.name} differ")
            result[0] = min(result[0], previous[0]) if previous else result[0]
        results[version.name] = result
    return results
