"""UCI Adult, for those who have the data: the loss of GAA-CP with hierarchies.

    python -m examples.adult DIRECTORY

DIRECTORY holds ``adult.csv`` (``;`` between columns, a header, age first) and ``hierarchies``, one
file ``COLUMN.csv`` for each quasi-identifier that is no number, as ARX writes them. Anonymizes the
eight quasi-identifiers before ``occupation`` and prints what is lost.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

import dbanon

SENSITIVE = "occupation"


def main(directory: Path) -> None:
    """Print loss and classes for k = 5 and 10, and some released rows."""
    frame = pd.read_csv(directory / "adult.csv", sep=";")
    names = [name for name in frame.columns if name != SENSITIVE]
    # Age is a number: its hierarchy would only make it coarser.
    hierarchies = {
        name: directory / "hierarchies" / f"{name}.csv" for name in names if name != "age"
    }
    print(f"{len(frame)} rows, {len(frame[names].drop_duplicates())} distinct ones\n")
    for k in (5, 10):
        for refine in (None, "fast"):
            released, report = dbanon.anonymize_frame(
                frame,
                quasi_identifiers=names,
                sensitive=[SENSITIVE],
                k=k,
                method="gaa_cp",
                refine=refine,
                hierarchies=hierarchies,
            )
            # The exact loss, as papers compare methods by it; it is not for publication.
            assert report.internal is not None
            lost = report.internal.information_loss_before_rounding * len(frame) * len(names)
            print(
                f"k = {k}, {'refined' if refine else 'gaa_cp'}: iloss {lost:.0f},"
                f" {report.classes} classes of {report.smallest_class} rows or more"
            )
    print("\nOf the last release, rows by name:\n")
    shown = released.sort_values(list(released.columns)).head(5)
    print(shown.to_csv(index=False, sep=";"), end="")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python -m examples.adult DIRECTORY")
    main(Path(sys.argv[1]))
