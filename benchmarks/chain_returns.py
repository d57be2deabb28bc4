"""Chains: identify persons who missed a month by the rows that did not change.

Census by means. Some persons are missing from the second release and return in the third; a share
of all others has a new retained value every month. The attacker knows who was out, and that their
rows cannot have changed. Each of them has one of the unchanged rows. In classes with such persons,
each person who was never out has one of as many rows as there are such persons. Everything is
counted on the published releases.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

import dbanon
from benchmarks.chains import casc
from benchmarks.markdown import table
from dbanon.extensions.chains import cell_rows
from dbanon.sessions.chain_staging import CELLS_WITH_RETURNED

K = 5
OUT = 46
RATES = (0.1, 0.5, 0.9)
RELEASES = 6
WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("show, without this defence", {"changes": "show"}),
    ("hold, without this defence", {"changes": "hold"}),
    ("show", {"changes": "show"}),
    ("show, class_size 20", {"changes": "show", "class_size": 20}),
    ("hold", {"changes": "hold"}),
    ("hold, class_size 20", {"changes": "hold", "class_size": 20}),
    ("freeze", {"changes": "freeze"}),
)


def run(quick: bool = False) -> str:
    """Measure persons with fewer than k candidate rows, and held classes; return Markdown."""
    rows = [
        [f"{rate:.0%}", name, *published(rules, rate, "without" in name)]
        for rate in (RATES[:1] if quick else RATES)
        for name, rules in WAYS
    ]
    return "\n".join(
        [
            f"# Chains: {OUT} of the persons of Census are out for a month, k = {K}\n",
            "Changes: persons in the source whose kept value is another one each month. Counted of"
            " classes that show new rows with the third release, when those persons are back: who"
            " of them has fewer than k rows that stood, or exactly one; and who was never out, as"
            " fewer than k of the class were not. Held: share of classes, at the third and the last"
            f" of {RELEASES} releases. Out of date: rows of the last.\n",
            table(
                [
                    "changes",
                    "way",
                    "out: below k",
                    "exactly one",
                    "never out: below k",
                    "classes shown anew",
                    "held, third",
                    "last",
                    "out of date, last",
                ],
                rows,
            ),
        ]
    )


def published(rules: dict[str, Any], rate: float, without_defence: bool) -> list[object]:
    """Publish all releases, and return the attack's counts and the price of the defence."""
    rng = np.random.default_rng(3)
    people = casc("census").pool.iloc[:692].copy()
    people.insert(0, "person", np.arange(len(people)))
    people["finding"] = np.arange(len(people))
    fresh, columns = (
        len(people),
        [name for name in people.columns if name not in ("person", "finding")],
    )
    out = set(rng.choice(len(people), OUT, replace=False).tolist())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "source.duckdb"
        url, key = f"duckdb:///{path}", path.with_suffix(".key")
        displayed_classes: list[dict[Any, Counter[int]]] = []
        held_shares = []
        for month in range(1, RELEASES + 1):
            is_away = people["person"].isin(out) if month == 2 else people["person"] < 0
            if month > 1:
                # Persons who are out, or just returned, keep their values.
                is_unchanged = people["person"].isin(out) if month < 4 else people["person"] < 0
                changed = (rng.random(len(people)) < rate) & ~is_unchanged.to_numpy()
                people.loc[changed, "finding"] = fresh + np.arange(int(changed.sum()))
                fresh += int(changed.sum())
            with duckdb.connect(str(path)) as connection:
                connection.register("month", people[~is_away])
                connection.execute("CREATE OR REPLACE TABLE people AS FROM month")
            if month == 1:
                dbanon.create_chain(
                    url, "people", table="people", entity="person", key_out=key, **rules
                )
            with undefended(without_defence):
                dbanon.anonymize(
                    url,
                    table="people",
                    output="release.people",
                    if_exists="replace",
                    k=K,
                    keep=["finding"],
                    quasi_identifiers=columns,
                    entity="person",
                    method="mdav",
                    chain=dbanon.Chain("people", key=f"file:{key}", accept_turnover=True),
                )
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute(
                    f"SELECT finding, {', '.join(columns)} FROM release.people"
                ).fetchall()
            classes: dict[Any, Counter[int]] = {}
            for value, *combination in rows:
                classes.setdefault(tuple(combination), Counter())[value] += 1
            displayed_classes.append(classes)
            release = dbanon.show_chain(url, "people").releases[-1]
            held_shares.append(release["held"] / max(release["held"] + release["live"], 1))
    return _count_attacks(displayed_classes, out, set(people["finding"]), held_shares)


def _count_attacks(
    displayed_classes: list[dict[Any, Counter[int]]],
    out: set[int],
    current: set[int],
    held_shares: list[float],
) -> list[object]:
    below = single = never = renewed = 0
    for combination, first in displayed_classes[0].items():
        # In the first release each value identifies a person.
        were_out = out & set(first)
        third = displayed_classes[2].get(combination, Counter())
        if not were_out or third == first:
            continue
        renewed += 1
        unchanged = sum((first & third).values())
        below += len(were_out) * (unchanged < K)
        single += unchanged == 1
        always_present = sum(first.values()) - len(were_out)
        never += always_present * (0 < always_present < K)
    stale = sum(
        sum(counts[v] for v in counts if v not in current)
        for counts in displayed_classes[-1].values()
    )
    total = sum(sum(rows.values()) for rows in displayed_classes[-1].values())
    return [
        below,
        single,
        never,
        renewed,
        f"{held_shares[2]:.0%}",
        f"{held_shares[-1]:.0%}",
        f"{stale / total:.0%}",
    ]


@contextmanager
def undefended(without_defence: bool) -> Iterator[None]:
    """Disable the defence for the block if requested."""
    original_function = cell_rows.freeze_returned_cells

    def hold_none(state: Any, *arguments: Any) -> int:
        state.stage(CELLS_WITH_RETURNED, "SELECT 0 AS cell, 0 AS changed WHERE 1 = 0")
        return 0

    if without_defence:
        cell_rows.freeze_returned_cells = hold_none
    try:
        yield
    finally:
        cell_rows.freeze_returned_cells = original_function


if __name__ == "__main__":
    print(run())
