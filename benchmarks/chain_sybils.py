"""Chains: one newcomer among invented accounts, measured on real releases.

150 persons are released. Then one person joins together with k - 1 accounts with random values; one
to eight others join in each later month. The attacker knows the invented accounts. The benchmark
counts how often the newcomer, once admitted, shares a class with them alone.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dbanon
from benchmarks.markdown import table

K, PERSONS, MONTHS = 5, 150, 9
NEWCOMER, INVENTED = 900, range(1000, 1000 + K - 1)
# With the defence, which is the default, and without.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "as it is": {},
    "all let in": {"max_wait": 0, "min_newcomers": 0},
}


def run(quick: bool = False) -> str:
    """Count the trials in which the newcomer was isolated; return Markdown."""
    tries = 3 if quick else 100
    rows: list[list[object]] = []
    for mode, rules in WAYS.items():
        months = [is_isolated(seed, rules) for seed in range(tries)]
        rows.append(
            [
                mode,
                tries,
                sum(isolated for isolated, _ in months),
                max(month for _, month in months),
            ]
        )
    return f"# Chains: one newcomer and {K - 1} accounts that were made up, k = {K}\n\n" + table(
        ["way", "tries", "alone with the accounts", "admitted by release"], rows
    )


def is_isolated(seed: int, rules: Mapping[str, Any]) -> tuple[bool, int]:
    """Return whether the newcomer is isolated, and the number of the release that admits her."""
    generator = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "people.sqlite", Path(folder) / "people.key"
        url = f"sqlite:///{path}"

        def join(persons: list[int]) -> None:
            with sqlite3.connect(path) as people:
                people.executemany(
                    "INSERT INTO people VALUES (?, ?, ?, ?)",
                    [(p, generator.random(), generator.random(), p) for p in persons],
                )
            people.close()

        with sqlite3.connect(path) as people:
            people.execute(
                "CREATE TABLE people (person INTEGER PRIMARY KEY, a DOUBLE, b DOUBLE, who INTEGER)"
            )
        people.close()
        join(list(range(PERSONS)))
        dbanon.create_chain(
            url, "people", table="people", entity="person", changes="show", key_out=key, **rules
        )
        for month in range(MONTHS):
            if month == 1:
                join([NEWCOMER, *INVENTED])
            elif month:
                join([2000 + 10 * month + i for i in range(generator.randint(1, 8))])
            dbanon.anonymize(
                url,
                table="people",
                quasi_identifiers=["a", "b"],
                keep=["who"],
                k=K,
                output="people_released",
                if_exists="replace",
                entity="person",
                chain=dbanon.Chain("people", key=f"file:{key}"),
            )
            with sqlite3.connect(path) as people:
                class_members = people.execute(
                    "SELECT o.who FROM people_released AS r JOIN people_released AS o"
                    " ON o.a = r.a AND o.b = r.b WHERE r.who = ?",
                    (NEWCOMER,),
                ).fetchall()
            people.close()
            if class_members:
                return {who for (who,) in class_members} <= {NEWCOMER, *INVENTED}, month + 1
    raise AssertionError("The newcomer waits for longer than the rules say.")
