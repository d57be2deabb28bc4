"""Summarize the results of ``synthesis_seven`` in the docs: a picture, and where the goal is met.

Writes docs/figures/synthesis-error.svg, errors against epsilon, and its section of
docs/differential-privacy-measured.md.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.markdown import table

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "synthesis_seven.md"
PICTURE = ROOT / "docs" / "figures" / "synthesis-error.svg"
PAGE = ROOT / "docs" / "differential-privacy-measured.md"
HEADING = "\n## Synthetic rows beside MST and AIM\n"
INTRODUCTION = """
[Seven tables](../benchmarks/results/synthesis_seven.md) were made into synthetic rows by
`dp_marginals` and `dp_ranks`, by MST and AIM of dpmm, and by plain noisy histograms of each column.
The page of results also has correlations, quantiles, rare categories and a classifier that is
tested on rows held out. Errors here are the mean total variation of tables of one, two and three
columns.

![Error of two-way tables against epsilon](figures/synthesis-error.svg)

Errors of `dp_marginals` with Gaussian noise, over those of the better of MST and AIM at the same
epsilon and delta; and CPU seconds over those of the peer that is better in tables of two columns.
The goal is at most 1.05 times the error in a tenth of the seconds. Of a peer that is missing there
is no finished run yet, so that the other one alone is compared, which is named.

"""
# By the name of rows in the results, their name in the picture.
CURVES = {
    "dp_marginals, zcdp": "dp_marginals, with δ",
    "dp_marginals": "dp_marginals, δ = 0",
    "MST": "MST, with δ",
    "AIM": "AIM, with δ",
    "plain Gaussian": "plain histogram, with δ",
}
TABLES = ("Survey", "Ledger", "sdcMicro")
ERROR = "2-way"
GOAL_COLUMNS = ("table", "epsilon", "1-way", "2-way", "3-way", "seconds", "goal")


def draw(results: str, picture: Path) -> None:
    """Draw the errors in tables of two columns."""
    from benchmarks import figures

    panels: dict[str, figures.Curves] = {name: read_curves(results, name) for name in TABLES}
    figures.draw(picture, panels, "ε", "total variation of two columns")


def read_curves(results: str, name: str) -> dict[str, tuple[list[float], list[float]]]:
    """Read each curve of a table: the epsilons and the errors that were measured."""
    curves: dict[str, tuple[list[float], list[float]]] = {
        label: ([], []) for label in CURVES.values()
    }
    for row in _read_table(results, f"\n## {name}, "):
        label = CURVES.get(row["rows"])
        if label is not None and row[ERROR] != "-":
            epsilons, errors = curves[label]
            epsilons.append(float(row["epsilon"]))
            errors.append(float(row[ERROR]))
    return curves


def summarize(results: str) -> str:
    """The section of the page: the goal of each table at each epsilon, and how often it is met."""
    rows = _read_table(results, "\n## Against the better peer\n")
    against_both = [row for row in rows if row["goal"] in ("met", "missed")]
    against_one = [row for row in rows if row["goal"].startswith(("met: ", "missed: "))]
    sentences = [
        f"Beside both peers the goal is met in {_count_met(against_both)}",
        f"beside one of them in {_count_met(against_one)}.",
    ]
    text = table(GOAL_COLUMNS, [[row[column] for column in GOAL_COLUMNS] for row in rows])
    # The rest of the page is of another version and machine, which its last line names.
    version_and_machine = results.strip().splitlines()[-1].partition(". Compare")[0]
    measured_with = f"Measured with {version_and_machine}."
    return f"{HEADING}{INTRODUCTION}{text}\n{', '.join(sentences)}\n\n{measured_with}\n"


def _count_met(rows: list[dict[str, str]]) -> str:
    n_met = sum(row["goal"].startswith("met") for row in rows)
    return f"{n_met} of {len(rows)} settings"


def _read_table(results: str, heading: str) -> list[dict[str, str]]:
    """Read the table below a heading: cells by column."""
    lines = results.partition(heading)[2].partition("\n## ")[0].splitlines()
    header, _, *rows = (
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[:1] == "|"
    )
    return [dict(zip(header, row, strict=True)) for row in rows]


def replace_section(page: str, section: str) -> str:
    """Return the page with another summary, which stands before its last section at first."""
    last = "\n## Seconds\n"
    before, _, after = page.partition(HEADING if HEADING in page else last)
    return before + section + last + after.partition(last)[2 if HEADING in page else 0]


def main() -> None:
    """Write the picture and the section."""
    results = RESULTS.read_text(encoding="utf-8")
    draw(results, PICTURE)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replace_section(page, summarize(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
