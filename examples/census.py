"""Loss against risk on Census: ``python -m examples.census DIRECTORY [--rows N] [--picture FILE]``.

DIRECTORY holds census.csv of the CASC project (1,080 records, 13 columns of numbers), which is not
part of dbanon. The cells below can be run one by one in an editor that knows ``# %%``.
"""

# %% [markdown]
# Which k, and is it worth while to refine the classes? A release tells little by its loss alone:
# what an attacker still gains is the other half. So each k is released twice, and both are measured
# on the values that are written.

# %%
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

import pandas as pd

import dbanon

KS = range(3, 11)
METHODS: dict[str, Literal["fast"] | None] = {"mdav": None, "mdav + fast": "fast"}
Points = dict[str, list[tuple[int, float, float, float]]]


# %%
def census(directory: Path, rows: int | None) -> pd.DataFrame:
    """The table, or its first rows."""
    return pd.read_csv(directory / "census.csv", nrows=rows)


def swept(table: pd.DataFrame) -> Points:
    """By method: k, loss, linkage risk and class risk of each release."""
    found: Points = {}
    for name, refine in METHODS.items():
        found[name] = []
        for k in KS:
            _, report = dbanon.anonymize_frame(
                table, quasi_identifiers=list(table.columns), k=k, refine=refine, evaluate=True
            )
            # Exact figures, to compare methods by; they are not for publication.
            figures = None if report.internal is None else report.internal.evaluation
            assert figures is not None, report.evaluation_failed
            losses, risks = figures["losses"], figures["risks"]
            found[name].append((k, losses["sse_loss"], risks["linkage_risk"], risks["class_risk"]))
    return found


# %% [markdown]
# At the same k refinement loses less and links more. That is no contradiction: classes that are
# better fitted lie nearer to their own records. Compare at equal risk: a refined release with a
# larger k often loses less than the other at its own.


# %%
def dominated(found: Points) -> list[str]:
    """Where the refined releases lose less at no more risk."""
    told = []
    for k, loss, risk, _ in found["mdav"]:
        better = [
            (other_loss, other_k)
            for other_k, other_loss, other_risk, _ in found["mdav + fast"]
            if other_risk <= risk and other_loss < loss
        ]
        if better:
            least, at = min(better)
            told.append(
                f"mdav, k = {k}: loss {loss:.4f}; refined with k = {at} {least:.4f},"
                " and no more risk"
            )
    return told


def knee_index(points: list[tuple[int, float, float, float]]) -> int:
    """The k farthest below the chord of the curve, both axes scaled to 0 to 1."""
    losses, risks = [p[1] for p in points], [p[2] for p in points]
    scaled = [
        (
            (loss - min(losses)) / ((max(losses) - min(losses)) or 1),
            (risk - min(risks)) / ((max(risks) - min(risks)) or 1),
        )
        for loss, risk in zip(losses, risks, strict=True)
    ]
    depths = [1 - x - y for x, y in scaled]
    return points[max(range(len(points)), key=lambda i: depths[i])][0]


# %% [markdown]
# The R-U map: risk against utility lost. Lower left is better.

# %%
WIDTH, HEIGHT, EDGE = 640, 420, 60
LOOKS = {"mdav": ("#1f4e8c", "", "circle"), "mdav + fast": ("#a13d00", "6 4", "square")}


def drawn(found: Points) -> str:
    """The map as SVG; shapes and dashes tell the methods apart, not colours alone."""
    every = [point for points in found.values() for point in points]
    most_loss, most_risk = max(p[1] for p in every) * 1.1, max(p[2] for p in every) * 1.1

    def at(loss: float, risk: float) -> tuple[float, float]:
        return (
            EDGE + loss / most_loss * (WIDTH - 2 * EDGE),
            HEIGHT - EDGE - risk / most_risk * (HEIGHT - 2 * EDGE),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' font-family="sans-serif" font-size="12">',
        "<title>Loss against linkage risk on Census</title>",
        "<desc>Two curves fall from k = 3 to k = 10; the same numbers stand in census.out.</desc>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        f'<path d="M{EDGE} {EDGE}V{HEIGHT - EDGE}H{WIDTH - EDGE}" fill="none" stroke="#333333"/>',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 12}" text-anchor="middle">loss (SSE/SST)</text>',
        f'<text transform="translate(16 {HEIGHT / 2}) rotate(-90)" text-anchor="middle">'
        "linkage risk</text>",
    ]
    for step in range(5):
        x, y = at(most_loss * step / 4, most_risk * step / 4)
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - EDGE + 16}" text-anchor="middle">'
            f"{most_loss * step / 4:.3f}</text>"
            f'<text x="{EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">'
            f"{most_risk * step / 4:.2f}</text>"
        )
    for place, (name, points) in enumerate(found.items()):
        colour, dash, shape = LOOKS[name]
        line = " ".join("{:.1f},{:.1f}".format(*at(p[1], p[2])) for p in points)
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-dasharray="{dash}"/>'
        )
        for k, loss, risk, _ in points:
            x, y = at(loss, risk)
            told = f"<title>{name}, k = {k}</title>"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">{told}</circle>'
                if shape == "circle"
                else f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{colour}">'
                f"{told}</rect>"
            )
            if k in (KS[0], KS[-1]):
                parts.append(f'<text x="{x + 8:.1f}" y="{y - 6:.1f}">k = {k}</text>')
        parts.append(
            f'<text x="{WIDTH - EDGE}" y="{EDGE + 18 * place}" text-anchor="end" fill="{colour}">'
            f"{name} ({shape}s)</text>"
        )
    return "\n".join([*parts, "</svg>\n"])


# %%
def main() -> None:
    """Print the table and what follows of it; draw the map where one is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, help="the first so many records only")
    parser.add_argument("--picture", type=Path, help="where to draw the map, as SVG")
    given = parser.parse_args()
    table = census(given.directory, given.rows)
    found = swept(table)
    print(f"{len(table)} records, {table.shape[1]} columns")
    print("method        k    loss  linkage risk  class risk")
    for name, points in found.items():
        for k, loss, linkage, highest in points:
            print(f"{name:<12} {k:>2}  {loss:.4f}        {linkage:.4f}      {highest:.4f}")
    for name, points in found.items():
        print(f"bend of {name}: k = {knee_index(points)}")
    print("\n".join(dominated(found)))
    if given.picture is not None:
        given.picture.write_text(drawn(found), encoding="utf-8")


if __name__ == "__main__":
    main()
