"""Methods of generalization on Adult: iloss on own ranges and CPU seconds, side by side.

Reads DBANON_DATA/adult. Figures of one run may be compared with each other.
"""

import argparse
import time

import pandas as pd
from rich.console import Console
from rich.table import Table

import dbanon
from dbanon.hierarchy import load_hierarchies
from tests.reference_data import data_directory

CASES = {
    "gaa_cp": {},
    "gaa_cp, fast": {"refine": "fast"},
    "kmember": {},
    "kaca": {},
    "ebkc": {},
    "ebkc, threshold 0.1": {"threshold": 0.1},
    "mondrian": {},
    "mondrian, tree": {"cut": "tree"},
    "mondrian, relaxed": {"cut": "relaxed"},
    "full_domain": {},
    "full_domain, 5 % withheld": {"suppression": 0.05},
}
THOROUGH = {"gaa_cp, thorough": {"refine": "thorough"}}


def load(folder):
    """The 8 quasi-identifiers and the files of their hierarchies; age is a number."""
    frame = pd.read_csv(folder / "adult" / "adult.csv", sep=";").iloc[:, :8]
    files = {
        name: folder / "adult" / "hierarchies" / f"{name}.csv"
        for name in frame.columns
        if name != "age"
    }
    return frame, load_hierarchies(files)


def measure(frame, trees, k, case, options):
    """iloss, CPU seconds and the partition's sizes."""
    start = time.process_time()
    method = case.partition(",")[0]
    partition = dbanon.partition(frame, k, method=method, hierarchies=trees, **options)
    seconds = time.process_time() - start
    loss = dbanon.generalization_loss(frame, partition, hierarchies=trees)
    # Withheld records lose everything.
    return loss + partition.n_suppressed * frame.shape[1], seconds, partition


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--columns", type=int, default=8, help="the first so many columns")
    parser.add_argument("--thorough", action="store_true", help="minutes for each k")
    parser.add_argument("--cases", nargs="+", help="names of cases; all but thorough by default")
    arguments = parser.parse_args()
    folder = data_directory()
    if folder is None:
        raise SystemExit("no reference data: set DBANON_DATA")
    frame, trees = load(folder)
    frame = frame.iloc[:, : arguments.columns]
    trees = {name: tree for name, tree in trees.items() if name in frame.columns}
    cases = CASES | (THOROUGH if arguments.thorough else {})
    console = Console()
    table = Table("method", "k", "iloss", "CPU s", "classes", "smallest", "largest", "withheld")
    for k in arguments.k:
        for case in arguments.cases or cases:
            options = (CASES | THOROUGH)[case]
            loss, seconds, partition = measure(frame, trees, k, case, options)
            sizes = partition.sizes
            table.add_row(
                case,
                str(k),
                f"{loss:,.1f}",
                f"{seconds:.2f}",
                f"{partition.n_classes:,}",
                str(sizes.min()),
                f"{sizes.max():,}",
                f"{partition.n_suppressed:,}",
            )
    console.print(table)


if __name__ == "__main__":
    main()
