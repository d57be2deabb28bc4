"""Methods on numbers, categories and hierarchies together: CPU seconds of whole calls, k = 5.

``U``: two numbers and categories of 2, 40, 16 and 3,000 values, independent. ``R``: age, income,
sex, education, and trees of 10,000 places and 10,000 diagnoses, which depend on each other. ``C``:
six categories of 5 to 5,000 values, no numbers. ``W``: R and seven columns more. All are drawn from
a seed. Each measurement is a process of its own, from the data frame to the labels; seconds are the
least of the turns, *MiB* is what the call's peak of memory lies above that before it. Another
version takes turns with this one by ``--beside``, up to 100,000 records, and must give the same
labels, but where they are refined; ``mdav`` runs in this one alone, as versions before 0.3.0
measure mixed data by coordinates, of which most of these tables have too many. So do ``kaca``,
which compared all classes there, and ``ebkc``.

*Loss* is counted from the labels by code that shares nothing with dbanon. Of ``gaa_cp`` and
``kmember`` it is *iloss*: the width of a class over that of the table, the leaves below the lowest
common node over those of the tree, and 0 or 1 for categories. Of ``mdav`` it is the distance to the
mean or the most frequent value of the class, over the table's width, or of 0 or 1. Both are means
over records and columns.
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
# Other versions lack this method for mixed data, or are too slow with the merging ones.
OWN_METHOD = "mdav"
MERGING = ("kaca", "ebkc")
BLOCKS = 50_000
FAST = {"refine": "fast"}
Case = tuple[str, int, str, dict[str, object]]
SMALL: tuple[Case, ...] = (
    *((kind, 100_000, name, {}) for kind in "URCW" for name in METHODS),
    *((kind, 100_000, "gaa_cp", FAST) for kind in "R"),
)
THIS_VERSION_ONLY: tuple[Case, ...] = (
    *((kind, 100_000, OWN_METHOD, {}) for kind in "URCW"),
    *((kind, 100_000, name, {"seed": 3}) for kind in "URC" for name in MERGING),
    ("W", 100_000, "ebkc", {"seed": 3}),
    *((kind, 1_000_000, name, {}) for kind in "UR" for name in ("gaa_cp", OWN_METHOD)),
    *((kind, 1_000_000, OWN_METHOD, {"block_size": BLOCKS}) for kind in "URCW"),
    *((kind, 1_000_000, OWN_METHOD, {}) for kind in "CW"),
)

# The beginning of programs that are measured: it reads the table from the folder named first.
READ_TABLE = """
import json, sys, time
import numpy as np, pandas as pd
import dbanon
from dbanon.hierarchy.tree import Hierarchy
folder = sys.argv[1]
frame = pd.read_parquet(folder + "/table.parquet")
with open(folder + "/trees.json") as file:
    trees = {name: Hierarchy.from_levels(rows) for name, rows in json.load(file).items()}
def peak_memory():
    # In MiB. Not ru_maxrss, which knows the process that started this one.
    with open("/proc/self/status") as status:
        return int(status.read().split("VmHWM:")[1].split()[0]) / 1024
def forget_peak():
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
"""
CALL = (
    READ_TABLE
    + """
method, k, more = sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
if method == "mdav":
    more["recoding"] = "representative"
forget_peak()
before, started = peak_memory(), time.process_time()
labels = dbanon.partition(frame, k, method=method, hierarchies=trees, **more).labels
seconds = time.process_time() - started
np.save(folder + "/labels.npy", np.asarray(labels))
print(json.dumps([seconds, peak_memory() - before]))
"""
)

BIG = 1_000_000
PLACES = DIAGNOSES = 10_000


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure all calls; return Markdown."""
    known_versions = versions(other_python)
    header = ["table", "n", "method", "and", "loss"]
    header += [f"{version.name} {unit}" for version in known_versions for unit in ("s", "MiB")]
    cases = [*SMALL, *THIS_VERSION_ONLY]
    if quick:
        cases = [(kind, n // 10, name, options) for kind, n, name, options in cases if n < BIG]
    text = "# Mixed data, CPU seconds\n\n" + (__doc__ or "").partition("\n\n")[2]
    return f"{text}\n{table(header, _rows(known_versions, cases))}"


def _rows(known_versions: list[Version], cases: list[Case]) -> Iterator[list[object]]:
    """Yield a row for each case: seconds and memory of each version, or dashes."""
    for kind, n, method, options in cases:
        versions_to_run = (
            known_versions[:1] if method in (OWN_METHOD, *MERGING) or n >= BIG else known_versions
        )
        seconds = {version.name: np.inf for version in versions_to_run}
        peaks: dict[str, float] = {}
        labels: dict[str, np.ndarray] = {}
        frame, trees = draw(kind, n), resolve_hierarchies(kind)
        with tempfile.TemporaryDirectory() as folder:
            frame.to_parquet(f"{folder}/table.parquet")
            (Path(folder) / "trees.json").write_text(json.dumps(trees))
            for _ in range(TURNS if n < BIG else 1):
                for version in versions_to_run:
                    output = version.run(CALL, folder, method, str(K), json.dumps(options))
                    elapsed, peaks[version.name] = json.loads(output)
                    seconds[version.name] = min(seconds[version.name], elapsed)
                    labels[version.name] = np.load(f"{folder}/labels.npy")
        this_labels = labels[known_versions[0].name]
        if options != FAST and not all(
            np.array_equal(this_labels, other_labels) for other_labels in labels.values()
        ):
            raise AssertionError(f"labels differ: {kind}, {n} records, {method}")
        loss_index = 1 if method == OWN_METHOD else 0
        losses = [
            f"{losses_of(frame, version_labels, trees)[loss_index]:.5f}"
            for version_labels in labels.values()
        ]
        output = ", ".join(f"{name} {value}" for name, value in options.items())
        row: list[object] = [kind, f"{n:,}", method, output, " / ".join(dict.fromkeys(losses))]
        for version in known_versions:
            peak = peaks.get(version.name)
            row += [seconds.get(version.name, "–"), "–" if peak is None else f"{peak:.0f}"]
        yield row


def losses_of(
    frame: pd.DataFrame, labels: np.ndarray, trees: dict[str, list[list[str]]]
) -> tuple[float, float]:
    """iloss and the distance to the class, as the page defines them."""
    iloss, gower = [], []
    for name in frame:
        column = frame[name]
        classes = column.groupby(labels)
        if pd.api.types.is_numeric_dtype(column):
            column_range = float(column.max() - column.min())
            iloss.append(
                (classes.transform("max") - classes.transform("min")).mean() / column_range
            )
            gower.append((column - classes.transform("mean")).abs().mean() / column_range)
            continue
        if name in trees:
            iloss.append(_tree_loss(column, labels, trees[name]))
        else:
            iloss.append((classes.transform("nunique") > 1).mean())
        n_most_frequent = column.groupby([labels, column]).size().groupby(level=0).max().sum()
        gower.append(1 - n_most_frequent / len(frame))
    return float(np.mean(iloss)), float(np.mean(gower))


def _tree_loss(column: pd.Series, labels: np.ndarray, tree: list[list[str]]) -> float:
    """Mean over the records of (leaves below the class's lowest common node - 1) / (leaves - 1)."""
    levels = pd.DataFrame(tree).set_index(0, drop=False)
    leaf_counts = pd.Series(-1.0, index=pd.unique(labels))
    for level in levels:
        nodes = column.map(levels[level])
        leaves_below = nodes.map(levels[level].value_counts()).groupby(labels)
        is_common_node = nodes.groupby(labels).nunique() == 1
        newly_covered = is_common_node.index[
            is_common_node & (leaf_counts.loc[is_common_node.index] < 0)
        ]
        leaf_counts.loc[newly_covered] = leaves_below.first().loc[newly_covered]
    return float((leaf_counts.loc[labels] - 1).mean() / (len(tree) - 1))


def draw(kind: str, n: int) -> pd.DataFrame:
    """Draw n rows of one of the tables."""
    rng = np.random.default_rng(SEED)
    makers: dict[str, Callable[[int, np.random.Generator], pd.DataFrame]] = {
        "U": _independent,
        "R": _related,
        "C": _categories,
        "W": _wide,
        "X": _twenty,
    }
    return makers[kind](n, rng)


def resolve_hierarchies(kind: str) -> dict[str, list[list[str]]]:
    """The hierarchies, one row per leaf, from the leaf to the root."""
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
    """Draw values of which the i-th has frequency proportional to 1 / i^power."""
    weights = np.arange(1, values + 1) ** -power
    return rng.choice(values, n, p=weights / weights.sum())


def _related(n: int, rng: np.random.Generator) -> pd.DataFrame:
    place_codes = rng.permutation(PLACES)[_rare(PLACES, 0.7, n, rng)]
    age = np.clip(np.round(rng.gamma(4.5, 10, n)), 0, 100)
    school = np.clip(np.round(6 + 2.5 * rng.normal(size=n) + place_codes / 2_500), 0, 15)
    income = np.exp(9.5 + 0.12 * school + 0.01 * np.minimum(age, 60) + 0.35 * rng.normal(size=n))
    chapter = np.clip(np.round(age / 6 + 3 * rng.normal(size=n)), 0, 19).astype(int)
    group = (7 * _rare(500, 0.9, n, rng) + 13 * chapter) % 500
    codes = chapter * 500 + group
    return pd.DataFrame(
        {
            "age": age,
            "income": np.round(income, -2),
            "sex": _named("s", rng.integers(0, 2, n)),
            "school": _named("e", school),
            "place": np.array([f"{i:05d}" for i in range(PLACES)], object)[place_codes],
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
        codes = np.clip(values * rng.beta(1 + position, 3, n), 0, values - 1)
        frame[f"of_{values}"] = _named("v", codes)
    return frame


def _twenty(n: int, rng: np.random.Generator) -> pd.DataFrame:
    numbers = {f"x{i}": np.round(rng.normal(50 + 5 * (i % 3), 20, n)) for i in range(10)}
    texts = {f"t{i}": _named("v", rng.integers(0, 3 + i, n)) for i in range(10)}
    return pd.DataFrame({**numbers, **texts})
