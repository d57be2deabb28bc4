"""Tables that no constant was fitted to: CPU seconds, and how near the forecast of ``plan`` is.

Fifteen tables of unusual shape, drawn from a seed: skewed and heavy-tailed numbers, texts with many
values, deep hierarchies, NULLs, ties, points of a line, and many columns. Numbers and dates are
called by their distribution. ``plan`` has a DuckDB file with the table. Each method runs in a
process of its own, from the data frame to the labels, k = 5. Seconds are the least of the turns.

*Forecast* is that of ``dbanon.plan``, which knows half of the rows or 48,000. *Plan s* are the CPU
seconds of the whole plan, which include its trials. Another version takes turns with this one by
``--beside``, and must give the same labels. Its forecast is beside that of this version.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.beside import Version, versions
from benchmarks.markdown import table
from benchmarks.mixed_speed import READ_TABLE

K, SEED, TURNS = 5, 7, 2
METHODS = ("mdav", "gaa_cp", "mondrian")
# The larger tables, with ``--big``, are for the forecast of this version alone.
SIZE, LARGE_SIZE = 50_000, 400_000
# Seconds. A larger table is left out if it would take longer with time growing as n².
LIMIT = 240.0
LEAVES, INNER_LEVELS = 2**14, 11

CALL = (
    READ_TABLE
    + """
import os, duckdb
method, k = sys.argv[2], int(sys.argv[3])
options = {"method": method, "hierarchies": trees}
if method == "mdav" and len(frame.select_dtypes(["object", "string"]).columns):
    options["recoding"] = "representative"
if frame.isna().any(axis=None):
    options["nulls"] = "merge"
dbanon.partition(frame[:200], k, **options)  # Loads what is loaded once.
started = time.process_time()
labels = dbanon.partition(frame, k, **options).labels
seconds = time.process_time() - started
np.save(folder + "/labels.npy", np.asarray(labels))
path = folder + "/table.duckdb"
if not os.path.exists(path):
    with duckdb.connect(path) as database:
        database.execute(
            "CREATE TABLE t AS SELECT row_number() OVER () AS id, *"
            f" FROM read_parquet('{folder}/table.parquet')"
        )
started = time.process_time()
planned = dbanon.plan(
    "duckdb:///" + path, table="t", output="o", quasi_identifiers=list(frame), k=k, **options
)
plan_seconds = time.process_time() - started
print(json.dumps([seconds, planned.forecast and planned.forecast["seconds"], plan_seconds]))
"""
)

Numbers = NDArray[np.float64]


def run(quick: bool = False, other_python: str | None = None, big: bool = False) -> str:
    """Measure all calls; return Markdown."""
    known_versions = versions(other_python)
    header = ["table", "n", "method"]
    header += [
        f"{version.name} {unit}"
        for version in known_versions
        for unit in ("s", "forecast", "forecast / s")
    ]
    header.append("plan s")
    sizes = [SIZE // 4] if quick else [SIZE, *([LARGE_SIZE] if big else [])]
    rows = list(_rows(known_versions, sizes))
    ratios = [float(row[5]) for row in rows if isinstance(row[5], float)]
    n_near = sum(1 / 1.5 <= ratio <= 1.5 for ratio in ratios)
    text = "# Tables nobody tuned for\n\n" + (__doc__ or "").partition("\n\n")[2]
    summary = f"{n_near} of {len(ratios)} forecasts of this version are within a factor of 1.5."
    return f"{text}\n{summary}\n\n{table(header, rows)}"


def _rows(known_versions: Sequence[Version], sizes: Sequence[int]) -> Iterator[list[object]]:
    """Yield a row for each table and method: seconds and forecasts of each version."""
    for name in TABLES:
        seconds_of: dict[str, float] = {}
        for n in sizes:
            frame, trees = draw(name, n)
            with tempfile.TemporaryDirectory() as folder:
                frame.to_parquet(f"{folder}/table.parquet")
                (Path(folder) / "trees.json").write_text(json.dumps(trees))
                for method in METHODS:
                    if seconds_of.get(method, 0.0) * (n / sizes[0]) ** 2 > LIMIT:
                        continue
                    results = _take_turns(
                        known_versions if n == sizes[0] else known_versions[:1], folder, method
                    )
                    seconds_of[method] = results[known_versions[0].name][0]
                    yield [name, f"{n:,}", method, *_cells(known_versions, results)]


def _cells(
    known_versions: Sequence[Version], results: Mapping[str, tuple[float, float | None, float]]
) -> Iterator[object]:
    """Yield seconds, forecast and their ratio for each version, and the seconds of this plan."""
    for version in known_versions:
        if version.name not in results:
            yield from ("–", "–", "–")
            continue
        seconds, predicted, _ = results[version.name]
        yield seconds
        yield from ("–", "–") if predicted is None else (predicted, predicted / seconds)
    yield results[known_versions[0].name][2]


def _take_turns(
    known_versions: Sequence[Version], folder: str, method: str
) -> dict[str, tuple[float, float | None, float]]:
    """Run each version; return its least seconds, and the forecast and seconds of its first plan.

    Raises
    ------
    AssertionError : labels differ.
    """
    results: dict[str, tuple[float, float | None, float]] = {}
    expected: bytes | None = None
    for version in [*known_versions] * TURNS:
        seconds, predicted, plan_seconds = json.loads(version.run(CALL, folder, method, str(K)))
        labels = np.load(f"{folder}/labels.npy").tobytes()
        expected = expected or labels
        if labels != expected:
            raise AssertionError(f"labels of {version.name} differ: {folder}, {method}")
        if version.name in results:
            previous = results[version.name]
            results[version.name] = (min(seconds, previous[0]), *previous[1:])
        else:
            results[version.name] = (seconds, predicted, plan_seconds)
    return results


def draw(name: str, n: int) -> tuple[pd.DataFrame, dict[str, list[list[str]]]]:
    """Draw n rows of a table; return it and its hierarchies, a row for each leaf."""
    frame = TABLES[name](np.random.default_rng(SEED), n)
    if name != "two deep trees":
        return frame, {}
    rows = [
        [f"v{leaf}", *(f"{leaf >> level}/{level}" for level in range(1, INNER_LEVELS + 1)), "*"]
        for leaf in range(LEAVES)
    ]
    return frame, {"text0": rows, "text1": rows}


def _frame(numbers: Numbers | None = None, codes: NDArray[np.int64] | None = None) -> pd.DataFrame:
    """Make a table of numbers, (n, p), and of texts by their codes, (n, q); negative is NULL."""
    columns: dict[str, object] = {}
    for position, values in enumerate([] if numbers is None else numbers.T):
        columns[f"number{position}"] = values
    for position, of_column in enumerate([] if codes is None else codes.T):
        texts = np.char.add("v", of_column.astype(str)).astype(object)
        texts[of_column < 0] = None
        columns[f"text{position}"] = texts
    return pd.DataFrame(columns)


def _zipf(rng: np.random.Generator, n: int) -> pd.DataFrame:
    codes = np.minimum(rng.zipf(1.3, (n, 2)), 5_000)
    return _frame(np.minimum(rng.zipf(1.3, (n, 2)), 10**6).astype(float), codes)


def _nulls(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return _frame(codes=np.where(rng.random((n, 5)) < 0.4, -1, rng.integers(0, 30, (n, 5))))


def _one_long_text(rng: np.random.Generator, n: int) -> pd.DataFrame:
    ages = rng.integers(0, 90, (n, 1)).astype(float)
    numbers = np.hstack([rng.normal(size=(n, 1)), ages])
    return _frame(numbers, rng.integers(0, 100_000, (n, 1)))


def _all_different(rng: np.random.Generator, n: int) -> pd.DataFrame:
    codes = np.column_stack([rng.permutation(n), rng.permutation(n)])
    return _frame(rng.normal(size=(n, 1)), codes)


def _deep_trees(rng: np.random.Generator, n: int) -> pd.DataFrame:
    codes = rng.integers(0, LEAVES, (n, 2))
    return _frame(rng.integers(0, 90, (n, 1)).astype(float), codes)


def _dates(rng: np.random.Generator, n: int) -> pd.DataFrame:
    frame = _frame(codes=rng.integers(0, (12, 2), (n, 2)))
    first = np.datetime64("1960-01-01")
    frame.insert(0, "born", first + rng.integers(0, 20_000, n))
    frame.insert(1, "admitted", first + 23_000 + rng.integers(0, 365, n))
    return frame


def _two_clusters(rng: np.random.Generator, n: int) -> pd.DataFrame:
    return _frame(0.01 * rng.normal(size=(n, 4)) + 10.0 * rng.integers(0, 2, (n, 1)))


def _duplicates(rng: np.random.Generator, n: int) -> pd.DataFrame:
    numbers = rng.normal(size=(n // 2, 4))
    return _frame(rng.permutation(np.vstack([numbers, numbers])))


def _sphere(rng: np.random.Generator, n: int) -> pd.DataFrame:
    numbers = rng.normal(size=(n, 10))
    return _frame(numbers / np.linalg.norm(numbers, axis=1, keepdims=True))


TABLES: dict[str, Callable[[np.random.Generator, int], pd.DataFrame]] = {
    "Zipf numbers and texts": _zipf,
    "Cauchy, p = 4": lambda rng, n: _frame(rng.standard_cauchy((n, 4))),
    "log-normal, p = 6": lambda rng, n: _frame(np.exp(2 * rng.normal(size=(n, 6)))),
    "40 % NULL, five texts": _nulls,
    "text of 100,000 values": _one_long_text,
    "two texts, all different": _all_different,
    "two deep trees": _deep_trees,
    "dates": _dates,
    "two clusters": _two_clusters,
    "sorted, p = 4": lambda rng, n: _frame(np.sort(rng.normal(size=(n, 4)), axis=0)),
    "points of a line": lambda rng, n: _frame(rng.random((n, 1)) * np.arange(1.0, 5.0)),
    "50 % duplicates": _duplicates,
    "sphere, p = 10": _sphere,
    "20 texts of two values": lambda rng, n: _frame(codes=rng.integers(0, 2, (n, 20))),
    "10 numbers, 10 texts": lambda rng, n: _frame(
        rng.normal(size=(n, 10)), rng.integers(0, 20, (n, 10))
    ),
}
