"""Privacy models on UCI Adult as they are released: loss, class sizes, entropy, CPU seconds.

Needs the reference data (``DBANON_DATA``), which is not part of the project.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import adult
from benchmarks.markdown import table
from tests.iloss_evaluator import published_iloss
from tests.reference.data import data_directory

SENSITIVE = "occupation"
K = 5
# Limit on the CPU seconds of one release.
LIMIT = 60
MODELS: dict[str, dict[str, Any]] = {
    "none": {},
    "l = 3": {"kind": "distinct_l", "level": 3},
    "l = 5": {"kind": "distinct_l", "level": 5},
    "equal t = 0.4": {"kind": "t_closeness", "level": 0.4},
    "equal t = 0.2": {"kind": "t_closeness", "level": 0.2},
    "hierarchical t = 0.2": {"kind": "t_closeness", "level": 0.2, "hierarchy": True},
    "beta = 2": {"kind": "beta_likeness", "level": 2},
}

# Each cell runs in its own process: versions take turns, and no cell warms up another.
RELEASE = """
import json, sys, time, warnings
import pandas as pd
import dbanon
from dbanon.errors import DbanonError
folder, model, refine, target = sys.argv[1], *map(json.loads, sys.argv[2:4]), sys.argv[4]
table = pd.read_csv(folder + "/adult.csv", sep=";")
columns = list(table.columns[:8])
frame = table[[*columns, "occupation"]].assign(place=range(len(table)))
tree = folder + "/hierarchies/{}.csv"
if model.pop("hierarchy", False):
    model["distance"] = tree.format("occupation")
warnings.simplefilter("ignore")  # The place is kept to find each row again.
started = time.process_time()
try:
    released, report = dbanon.anonymize_frame(
        frame, quasi_identifiers=columns, keep=["place"], k=5, method="gaa_cp", refine=refine,
        sensitive=["occupation"],
        models=[dbanon.Model(attribute="occupation", **model)] if model else [],
        hierarchies={name: tree.format(name) for name in columns if name != "age"},
    )
except DbanonError as error:
    result = {"refused": type(error).__name__}
else:
    rows = released.sort_values("place")[columns].astype(str).to_numpy().tolist()
    own = report.internal.information_loss_before_rounding * len(frame) * len(columns)
    result = {"rows": rows, "own": own, "k": report.k_achieved}
result["seconds"] = time.process_time() - started
with open(target, "w") as file:
    json.dump(result, file)
"""

INTRODUCTION = f"""# Privacy models as they are released, measured

UCI Adult: 45,222 rows, 8 quasi-identifiers, `occupation` (14 values) sensitive;
`dbanon.anonymize_frame(…, method="gaa_cp", k=5)` by default labels. *iloss* is that of own ranges
(as the report has it) and, as published, of the labels that are written (by the tests' evaluator).
Discernibility is Σ size² of the classes as their readers see them, in millions. Entropy is the
non-uniform one: Σ over cells of −log2 of the value's frequency among the values its label covers,
over the same with `*` everywhere. Seconds are CPU seconds of one process from the data frame to the
released one, measured once. This page is written by `python -m benchmarks models_adult`, which
needs the reference data (`DBANON_DATA`); `--beside PYTHON` has another version take turns,
which is `beside`. A release that takes more than {LIMIT} CPU seconds is ended.

"""
ENTROPY = """
No release by default labels has an entropy below {:.4f}: that of two years of age, the narrowest
label of that column, in all rows, and of everything else as it is. What k = 5 comes to without any
model stands in the first lines.
"""
HEAD = (
    "model",
    "refine",
    "version",
    "own ranges",
    "as published",
    "discernibility",
    "entropy",
    "seconds",
)


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure and return Markdown, one line per model, refinement and version."""
    data = adult.load()
    versions = {"this": sys.executable} | ({"beside": other_python} if other_python else {})
    rows = [
        (name, refine or "–", version, *measured(data, MODELS[name], refine, python))
        for name in (list(MODELS)[:1] if quick else MODELS)
        for refine in (None, "fast")
        for version, python in versions.items()
    ]
    rows_of_table = data.frame.to_numpy().tolist()
    even_ages = [(age - age % 2, others) for age, *others in rows_of_table]
    narrowest = [[f"[{age}, {age + 2})", *map(str, others)] for age, others in even_ages]
    entropy_note = ENTROPY.format(entropy(rows_of_table, narrowest, data.paths))
    return INTRODUCTION + table(HEAD, rows) + entropy_note


def measured(
    data: adult.Adult, model: dict[str, Any], refine: str | None, python: str
) -> tuple[str, ...]:
    """Return both losses, discernibility, entropy and seconds of one release.

    Raises
    ------
    ArithmeticError : the release is not k-anonymous.
    """
    folder = data_directory()
    assert folder is not None
    with TemporaryDirectory() as temporary:
        target = Path(temporary, "released.json")
        arguments = (str(folder / "adult"), json.dumps(model), json.dumps(refine), str(target))
        process = subprocess.run(
            [python, "-I", "-c", RELEASE, *arguments], preexec_fn=_limited, check=False
        )
        if process.returncode == -signal.SIGXCPU:
            return ("no answer", "", "", "", f"over {LIMIT}")
        process.check_returncode()
        result = json.loads(target.read_text())
    seconds = f"{result['seconds']:.1f}"
    if "refused" in result:
        return (result["refused"], "", "", "", seconds)
    classes = Counter(map(tuple, result["rows"]))
    if min(classes.values()) < K:
        raise ArithmeticError(f"{min(classes.values())} rows of a class of {K}")
    rows = data.frame.to_numpy().tolist()
    return (
        f"{result['own']:,.0f}",
        f"{published_iloss(rows, result['rows'], data.paths):,.0f}",
        f"{sum(size**2 for size in classes.values()) / 1e6:,.2f}",
        f"{entropy(rows, result['rows'], data.paths):.4f}",
        seconds,
    )


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))


def entropy(rows: list[list[Any]], released: list[list[str]], paths: Any) -> float:
    """The non-uniform entropy of the labels, relative to that of a fully suppressed table."""
    label_entropy = total_entropy = 0.0
    for column, paths_of_column in enumerate(paths):
        counts = Counter(row[column] for row in rows)
        covered: dict[str, int] = {}
        for row, labels in zip(rows, released, strict=True):
            label, value = labels[column], row[column]
            if label not in covered:
                covered[label] = sum(
                    n for v, n in counts.items() if _holds(label, v, paths_of_column)
                )
            label_entropy -= math.log2(counts[value] / covered[label])
            total_entropy -= math.log2(counts[value] / len(rows))
    return label_entropy / total_entropy


def _holds(label: str, value: Any, column_paths: dict[str, list[str]] | None) -> bool:
    if column_paths is not None:
        return label in column_paths[value]
    ends = [int(end) for end in label.strip("[)]").split(", ")]
    return ends[0] <= int(value) <= ends[-1] - label.endswith(")")
