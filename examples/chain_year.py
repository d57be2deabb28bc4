"""A year of monthly releases, with a chain and without: ``python -m examples.chain_year``.

    python -m examples.chain_year [--persons N] [--months M] [--picture FILE]

invents persons, lets some leave and join each month, publishes both ways in a DuckDB file, counts
on what was published whom its reader can single out, and draws it. Nothing else is needed.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

import dbanon
from dbanon.errors import KeptColumnTells

K = 5
LEAVE, CHANGE = 0.02, 0.01  # a month: persons who leave, and as many join; values that change
QUASI_IDENTIFIERS = ["age", "income", "distance"]
WAYS = ("independent", "chain")
# By way: below k, and loss, a month.
Year = dict[str, list[tuple[float, float]]]


def persons(count: int, rng: np.random.Generator) -> pd.DataFrame:
    """Persons who exist only here."""
    age = rng.integers(18, 95, count)
    return pd.DataFrame(
        {
            "age": age,
            "income": np.round(rng.lognormal(10.2, 0.5, count) * (1 + (age > 35) * 0.3)),
            "distance": np.round(rng.gamma(2, 6, count), 1),
            "illness": rng.choice([f"illness {i}" for i in range(12)], count),
        }
    )


def lived(count: int, months: int) -> list[pd.DataFrame]:
    """The table at each month; ``person`` says whose a row is."""
    rng = np.random.default_rng(7)
    moving = int(count * LEAVE)
    everybody = persons(count + moving * months, rng)
    everybody.insert(0, "person", np.arange(len(everybody)))
    inside, tables = np.arange(count), []
    for month in range(months):
        tables.append(everybody.iloc[inside].copy())
        stay = np.sort(rng.permutation(inside)[moving:])
        moved = rng.permutation(stay)[: int(count * CHANGE)]
        for name in ("income", "illness"):
            everybody.loc[moved, name] = rng.permutation(everybody.loc[stay, name])[: len(moved)]
        joined = np.arange(count + month * moving, count + (month + 1) * moving)
        inside = np.concatenate([stay, joined])
    return tables


def published(tables: Sequence[pd.DataFrame], folder: Path) -> Year:
    """Publish each month both ways; by way and month, what is below k and what was lost."""
    url, key = f"duckdb:///{folder / 'clinic.duckdb'}", folder / "patients.key"
    found: Year = {way: [] for way in WAYS}
    histories: dict[str, dict[int, list[object]]] = {way: {} for way in WAYS}
    for month, table in enumerate(tables):
        with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
            # To count, and for nothing else: no release should hold whose a row is.
            connection.register("month", table.assign(counted=table["person"]))
            connection.execute("CREATE TABLE IF NOT EXISTS patients AS FROM month")
            connection.execute("DELETE FROM patients; INSERT INTO patients FROM month")
        if not month:
            dbanon.create_chain(
                url, "patients", table="patients", entity="person", changes="show", key_out=str(key)
            )
        for way in WAYS:
            output = f"{way}.month{month + 1}"
            dbanon.anonymize(
                url,
                table="patients",
                quasi_identifiers=QUASI_IDENTIFIERS,
                sensitive=["illness"],
                keep=["counted"],
                k=K,
                output=output,
                entity="person" if way == "chain" else None,
                chain=dbanon.Chain("patients", key=f"file:{key}") if way == "chain" else None,
            )
            with duckdb.connect(str(folder / "clinic.duckdb")) as connection:
                released = connection.execute(f"FROM {output}").df().set_index("counted")
            exposed = below(histories[way], released, month)
            found[way].append((exposed, lost(released, table.set_index("person"))))
    return found


def below(histories: dict[int, list[object]], released: pd.DataFrame, month: int) -> float:
    """Share of persons whose history, under which values they stood, fewer than k have."""
    stood = dict(
        zip(released.index, released[QUASI_IDENTIFIERS].itertuples(index=False), strict=True)
    )
    for person in stood.keys() - histories.keys():
        histories[person] = [None] * month
    for person, history in histories.items():
        history.append(stood.get(person))
    shared = Counter(tuple(history) for history in histories.values())
    return sum(count for count in shared.values() if count < K) / len(histories)


def lost(released: pd.DataFrame, now: pd.DataFrame) -> float:
    """SSE/SST of the released values against what the source says now of the same persons."""
    both = released.index.intersection(now.index)
    apart = released.loc[both, QUASI_IDENTIFIERS] - now.loc[both, QUASI_IDENTIFIERS]
    return float(((apart / now[QUASI_IDENTIFIERS].std(ddof=0)) ** 2).mean().mean())


WIDTH, HEIGHT, EDGE = 640, 300, 56
LOOKS = {"independent": ("#a13d00", "6 4", "square"), "chain": ("#1f4e8c", "", "circle")}


def drawn(year: Year) -> str:
    """Both figures over the months as SVG; shapes and dashes tell the ways apart, too."""
    months = len(year["chain"])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" role="img"'
        ' font-family="sans-serif" font-size="12">',
        "<title>Exposure and loss over monthly releases</title>",
        "<desc>Above: the share of persons whose joint history is shared by fewer than"
        f" {K}, which rises for independent releases and stays 0 in a chain. Below: the loss, which"
        " rises with time in the chain. The numbers stand in chain_year.out.</desc>",
        f'<rect width="{WIDTH}" height="{2 * HEIGHT}" fill="#ffffff"/>',
    ]
    for place, what in enumerate((f"persons below k = {K}", "loss (SSE/SST)")):
        top = place * HEIGHT
        most = max(point[place] for points in year.values() for point in points) or 1.0

        def at(month: int, value: float, top: int = top, most: float = most) -> tuple[float, float]:
            return (
                EDGE + month / max(months - 1, 1) * (WIDTH - 2 * EDGE),
                top + HEIGHT - EDGE - value / most * (HEIGHT - 2 * EDGE),
            )

        parts.append(
            f'<path d="M{EDGE} {top + EDGE}V{top + HEIGHT - EDGE}H{WIDTH - EDGE}" fill="none"'
            f' stroke="#333333"/><text x="{EDGE}" y="{top + EDGE - 12}">{what}</text>'
        )
        parts.append(
            f'<text x="{WIDTH - EDGE}" y="{top + HEIGHT - 14}" text-anchor="end">month</text>'
        )
        for share in (0, 0.5, 1):
            y = at(0, most * share)[1]
            parts.append(
                f'<text x="{EDGE - 6}" y="{y + 4:.1f}" text-anchor="end">{most * share:.3f}</text>'
            )
        for month in range(months):
            x = at(month, 0)[0]
            parts.append(
                f'<text x="{x:.1f}" y="{top + HEIGHT - EDGE + 16}" text-anchor="middle">'
                f"{month + 1}</text>"
            )
        for way, points in year.items():
            colour, dash, shape = LOOKS[way]
            line = " ".join(
                "{:.1f},{:.1f}".format(*at(m, point[place])) for m, point in enumerate(points)
            )
            parts.append(
                f'<polyline points="{line}" fill="none" stroke="{colour}"'
                f' stroke-dasharray="{dash}"/>'
            )
            for month, point in enumerate(points):
                x, y = at(month, point[place])
                parts.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
                    if shape == "circle"
                    else f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"'
                    f' fill="{colour}"/>'
                )
    parts += [
        f'<text x="{WIDTH - EDGE}" y="{20 + 18 * number}" text-anchor="end" fill="{colour}">'
        f"{way} ({shape}s)</text>"
        for number, (way, (colour, _, shape)) in enumerate(LOOKS.items())
    ]
    return "\n".join([*parts, "</svg>\n"])


def main() -> None:
    """Print the year as a table; draw it where a picture is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--persons", type=int, default=1000)
    parser.add_argument("--months", type=int, default=12)
    parser.add_argument("--picture", type=Path, help="where to draw it, as SVG")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", KeptColumnTells)  # The column that counts.
        year = published(lived(given.persons, given.months), Path(folder))
    print(f"{given.persons} persons; {LEAVE:.0%} leave and join, {CHANGE:.0%} change, a month")
    print("month   below k: independent  chain    loss: independent  chain")
    for month, (alone, chained) in enumerate(zip(*year.values(), strict=True), 1):
        print(
            f"{month:>5}   {alone[0]:>20.1%}  {chained[0]:>5.1%}"
            f"    {alone[1]:>17.4f}  {chained[1]:.4f}"
        )
    if given.picture is not None:
        given.picture.write_text(drawn(year), encoding="utf-8")


if __name__ == "__main__":
    main()
