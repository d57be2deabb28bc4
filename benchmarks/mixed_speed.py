"""Methods on numbers, categories and hierarchies together: CPU seconds of whole calls, k = 5.

``U``: two numbers and categories of 2, 40, 16 and 3,000 values, independent. ``R``: age, income,
sex, education, and trees of 10,000 places and 10,000 diagnoses, which depend on each other. ``C``:
six categories of 5 to 5,000 values, no numbers. ``W``: R and seven columns more. All are drawn from
a seed. Each measurement is a process of its own, from the data frame to the labels; seconds are the
least of the turns. Another version takes turns with this one by ``--beside``, up to 100,000
records, and must give the same labels.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.beside import Version, versions
from benchmarks.markdown import table

K, SEED, TURNS = 5, 1, 2
METHODS = ("gaa_cp", "kmember")
CASES = tuple((kind, 100_000, method) for kind in "URCW" for method in METHODS)
BIG = (("U", 1_000_000, "gaa_cp"), ("R", 1_000_000, "gaa_cp"))

CALL = """
import hashlib, json, sys, time
import numpy as np, pandas as pd
import dbanon
from dbanon.hierarchy.tree import Hierarchy
folder, method, k = sys.argv[1], sys.argv[2], int(sys.argv[3])
frame = pd.read_parquet(folder + "/table.parquet")
with open(folder + "/trees.json") as file:
    trees = {name: Hierarchy.from_levels(rows) for name, rows in json.load(file).items()}
started = time.process_time()
labels = dbanon.partition(frame, k, method=method, hierarchies=trees).labels
seconds = time.process_time() - started
print(json.dumps([seconds, hashlib.sha256(np.asarray(labels).tobytes()).hexdigest()]))
"""

PLACES = DIAGNOSES = 10_000


def run(quick: bool = False, beside: str | None = None) -> str:
    """Markdown of all calls."""
    known = versions(beside)
    header = ["table", "n", "method", "this s", *(f"{other.name} s" for other in known[1:])]
    cases = [(kind, 10_000, method) for kind, _, method in CASES] if quick else [*CASES, *BIG]
    text = "# Mixed data, CPU seconds\n\n" + (__doc__ or "").partition("\n\n")[2]
    return f"{text}\n{table(header, _rows(known, cases))}"


def _rows(known: list[Version], cases: list[tuple[str, int, str]]) -> Iterator[list[object]]:
    """A row for each case: the seconds of each version, or a dash."""
    for kind, n, method in cases:
        asked = known[:1] if (kind, n, method) in BIG else known
        least = {version.name: np.inf for version in asked}
        labels = set()
        with tempfile.TemporaryDirectory() as folder:
            draw(kind, n).to_parquet(f"{folder}/table.parquet")
            (Path(folder) / "trees.json").write_text(json.dumps(trees_of(kind)))
            for _ in range(TURNS):
                for version in asked:
                    seconds, digest = json.loads(version.run(CALL, folder, method, str(K)))
                    least[version.name] = min(least[version.name], seconds)
                    labels.add(digest)
        if len(labels) != 1:
            raise AssertionError(f"labels differ: {kind}, {n} records, {method}")
        yield [kind, f"{n:,}", method, *(least.get(version.name, "–") for version in known)]


def draw(kind: str, n: int) -> pd.DataFrame:
    """One of the tables, of n rows."""
    rng = np.random.default_rng(SEED)
    made: dict[str, Callable[[int, np.random.Generator], pd.DataFrame]] = {
        "U": _independent,
        "R": _related,
        "C": _categories,
        "W": _wide,
    }
    return made[kind](n, rng)


def trees_of(kind: str) -> dict[str, list[list[str]]]:
    """The hierarchies, leaf by leaf: a row from the leaf to the root."""
    if kind not in "RW":
        return {}
    places = [[f"{i:05d}", *(f"{i // 10**j}/{j}" for j in (1, 2, 3)), "*"] for i in range(PLACES)]
    # 20 chapters of 10 groups of 10 diagnoses with 5 kinds each.
    kinds = [[f"d{i:04d}", *(f"{i // j}/{j}" for j in (5, 50, 500)), "*"] for i in range(DIAGNOSES)]
    return {"place": places, "diagnosis": kinds}


def _named(prefix: str, codes: np.ndarray) -> np.ndarray:
    return np.char.add(prefix, codes.astype(int).astype(str)).astype(object)


def _independent(n: int, rng: np.random.Generator) -> pd.DataFrame:
    columns = {"days": rng.integers(0, 36_500, n), "income": np.round(rng.lognormal(10, 0.6, n))}
    for values in (2, 40, 16, 3_000):
        columns[f"of_{values}"] = _named("v", rng.integers(0, values, n))
    return pd.DataFrame(columns)


def _rare(values: int, power: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Values of which the i-th is as frequent as 1 / i^power."""
    weights = np.arange(1, values + 1) ** -power
    return rng.choice(values, n, p=weights / weights.sum())


def _related(n: int, rng: np.random.Generator) -> pd.DataFrame:
    place = rng.permutation(PLACES)[_rare(PLACES, 0.7, n, rng)]
    age = np.clip(np.round(rng.gamma(4.5, 10, n)), 0, 100)
    school = np.clip(np.round(6 + 2.5 * rng.normal(size=n) + place / 2_500), 0, 15)
    income = np.exp(9.5 + 0.12 * school + 0.01 * np.minimum(age, 60) + 0.35 * rng.normal(size=n))
    chapter = np.clip(np.round(age / 6 + 3 * rng.normal(size=n)), 0, 19).astype(int)
    below = (7 * _rare(500, 0.9, n, rng) + 13 * chapter) % 500
    codes = chapter * 500 + below
    return pd.DataFrame(
        {
            "age": age,
            "income": np.round(income, -2),
            "sex": _named("s", rng.integers(0, 2, n)),
            "school": _named("e", school),
            "place": np.array([f"{i:05d}" for i in range(PLACES)], object)[place],
            "diagnosis": np.array([f"d{i:04d}" for i in range(DIAGNOSES)], object)[codes],
        }
    )


def _categories(n: int, rng: np.random.Generator) -> pd.DataFrame:
    counts = (5, 10, 20, 50, 500, 5_000)
    return pd.DataFrame({f"of_{c}": _named("v", _rare(c, 0.5, n, rng)) for c in counts})


def _wide(n: int, rng: np.random.Generator) -> pd.DataFrame:
    frame = _related(n, rng)
    height = np.round(165 + 10 * rng.normal(size=n) + 8 * (frame["sex"] == "s1").to_numpy())
    frame["height"] = height
    frame["weight"] = np.round(height - 100 + 12 * rng.normal(size=n))
    civil = np.clip(frame["age"].to_numpy() / 25 + rng.normal(size=n), 0, 3)
    frame["civil"] = _named("c", civil)
    for position, values in enumerate((7, 12, 30, 120)):
        drawn = np.clip(values * rng.beta(1 + position, 3, n), 0, values - 1)
        frame[f"of_{values}"] = _named("v", drawn)
    return frame
