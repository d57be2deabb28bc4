"""Chains: persons who were out for a month, looked for among the rows that stood meanwhile.

Census by means. Some persons are out at the second release and back at the third; of all others a
share have another kept value every month. A reader knows who was out, and that rows of those cannot
have changed: a person who was out has one of the rows that stood, and one who was not out, where
others were, one of as many rows as there are such persons. All is counted on what was published.
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
from dbanon.chain import cell_rows
from dbanon.sessions.pseudonym_session import RETURNED

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
    """Markdown of how many persons have fewer rows than k that can be theirs, and what is held."""
    found = [
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
                ["changes", "way", "out: below k", "exactly one", "never out: below k",
                 "classes shown anew", "held, third", "last", "out of date, last"],
                found,
            ),
        ]
    )  # fmt: skip


def published(rules: dict[str, Any], rate: float, without: bool) -> list[object]:
    """What a reader finds, and what it costs."""
    rng = np.random.default_rng(3)
    now = casc("census").pool.iloc[:692].copy()
    now.insert(0, "person", np.arange(len(now)))
    now["finding"] = np.arange(len(now))
    fresh, columns = len(now), [name for name in now.columns if name not in ("person", "finding")]
    out = set(rng.choice(len(now), OUT, replace=False).tolist())
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "source.duckdb"
        url, key = f"duckdb:///{path}", path.with_suffix(".key")
        shown: list[dict[Any, Counter[int]]] = []
        held = []
        for month in range(1, RELEASES + 1):
            away = now["person"].isin(out) if month == 2 else now["person"] < 0
            if month > 1:
                # Who is out, and who is back, says what they said.
                still = now["person"].isin(out) if month < 4 else now["person"] < 0
                changed = (rng.random(len(now)) < rate) & ~still.to_numpy()
                now.loc[changed, "finding"] = fresh + np.arange(int(changed.sum()))
                fresh += int(changed.sum())
            with duckdb.connect(str(path)) as connection:
                connection.register("month", now[~away])
                connection.execute("CREATE OR REPLACE TABLE people AS FROM month")
            if month == 1:
                dbanon.create_chain(
                    url, "people", table="people", entity="person", key_out=key, **rules
                )
            with undefended(without):
                dbanon.anonymize(
                    url, table="people", output="release.people", if_exists="replace", k=K,
                    keep=["finding"], quasi_identifiers=columns, entity="person", method="mdav",
                    chain=dbanon.Chain("people", key=f"file:{key}", accept_turnover=True),
                )  # fmt: skip
            with duckdb.connect(str(path), read_only=True) as connection:
                rows = connection.execute(
                    f"SELECT finding, {', '.join(columns)} FROM release.people"
                ).fetchall()
            classes: dict[Any, Counter[int]] = {}
            for value, *combination in rows:
                classes.setdefault(tuple(combination), Counter())[value] += 1
            shown.append(classes)
            told = dbanon.show_chain(url, "people").releases[-1]
            held.append(told["held"] / max(told["held"] + told["live"], 1))
    return _looked_for(shown, out, set(now["finding"]), held)


def _looked_for(
    shown: list[dict[Any, Counter[int]]], out: set[int], current: set[int], held: list[float]
) -> list[object]:
    below = one = never = anew = 0
    for combination, first in shown[0].items():
        # At the first release values are persons.
        were_out = out & set(first)
        again = shown[2].get(combination, Counter())
        if not were_out or again == first:
            continue
        anew += 1
        stood = sum((first & again).values())
        below += len(were_out) * (stood < K)
        one += stood == 1
        always = sum(first.values()) - len(were_out)
        never += always * (0 < always < K)
    stale = sum(sum(rows[v] for v in rows if v not in current) for rows in shown[-1].values())
    total = sum(sum(rows.values()) for rows in shown[-1].values())
    return [below, one, never, anew, f"{held[2]:.0%}", f"{held[-1]:.0%}", f"{stale / total:.0%}"]


@contextmanager
def undefended(without: bool) -> Iterator[None]:
    """Leave the defence out, where that is asked for."""
    as_it_is = cell_rows.hold_returned

    def nobody(state: Any, *given: Any) -> int:
        state.make(RETURNED, "SELECT 0 AS cell, 0 AS changed WHERE 1 = 0")
        return 0

    if without:
        cell_rows.hold_returned = nobody
    try:
        yield
    finally:
        cell_rows.hold_returned = as_it_is


if __name__ == "__main__":
    print(run())
