"""Releases for report pages: one with everything a page may contain, one with hostile names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import duckdb
import numpy as np

import dbanon
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.pairs import Pairs
from dbanon.release.evaluation import evaluation_of
from dbanon.release.report import EvaluationOutcome, Report
from dbanon.run.inspect_release import ReleaseInspection, inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation, quote

# Values that only one row has, in all spellings that a page could use.
PLANTED = ("12345.678", "12,345.678", "12345", "12,345", "zyxomma petiolatum", "1899")

HOSTILE = (
    '"><script>alert(1)</script>',
    "</style></title><img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066",
    "'; DROP TABLE x; --",
    "{{ 7 * 7 }}",
)


@dataclass(frozen=True)
class Release:
    """A release, its inspection, and a sweep for comparison."""

    report: Report
    look: ReleaseInspection
    tradeoff: Mapping[str, Any] | None = None


def rows(n: int = 400, seed: int = 3) -> list[tuple[Any, ...]]:
    """Invented persons; the first has unique values, far from all others."""
    rng = np.random.default_rng(seed)
    kinds = ["none", "flu", "asthma", "migraine"]
    records: list[tuple[Any, ...]] = [
        (
            i,
            date(1940, 1, 1) + timedelta(days=int(rng.integers(0, 25_000))),
            round(float(rng.normal(170, 9)), 3),
            int(rng.gamma(4, 9000)),
            kinds[int(rng.integers(0, 4))],
            f"site {i % 7}",
        )
        for i in range(n)
    ]
    records[0] = (0, date(1899, 7, 3), 12345.678, 12345, "zyxomma petiolatum", "site 1")
    return records


def make_release(
    names: Sequence[str] = ("born", "height", "income", "illness", "site"),
    *,
    evaluated: bool = True,
    **options: Any,
) -> Release:
    """Release these persons in DuckDB, with their columns under these names."""
    connection = duckdb.connect()
    kinds = ("DATE", "DOUBLE", "INTEGER", "VARCHAR", "VARCHAR")
    columns = ", ".join(f"{quote(n)} {kind}" for n, kind in zip(names, kinds, strict=True))
    connection.execute(f"CREATE TABLE people (id INTEGER PRIMARY KEY, {columns})")
    persons = rows()
    connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", persons)
    arguments: dict[str, Any] = {
        "table": "people",
        "output": "released",
        "k": 5,
        "quasi_identifiers": names[:3],
        "sensitive": [names[3]],
        "keep": [names[4]],
    }
    report = dbanon.anonymize(connection, **(arguments | options))
    looked = inspect_release(open_store(connection), parse_relation(report.output))
    if not evaluated:
        return Release(report, looked)
    figures = EvaluationOutcome(figures_of(numbers_of(persons), 5, names[:3]))
    return Release(replace(report, evaluation_outcome=figures), looked, sweep())


def numbers_of(persons: Sequence[tuple[Any, ...]]) -> np.ndarray:
    """The quasi-identifiers of persons as numbers, float64 (n, 3)."""
    return np.array([(r[1].toordinal(), r[2], r[3]) for r in persons], float)


@cache
def sweep() -> dict[str, Any]:
    """Releases for k from 3 to 10, refined and unrefined, including the given one with k = 5."""
    numbers, names = numbers_of(rows()), ("born", "height", "income")
    points = [
        {
            "curve": curve,
            "label": f"k = {k}",
            "risk": figures["risks"]["linkage_risk"],
            "loss": figures["losses"]["sse_loss"],
            "chosen": (k, refine) == (5, None),
        }
        for refine, curve in ((None, "mdav"), ("fast", "mdav + fast"))
        for k in range(3, 11)
        for figures in [figures_of(numbers, k, names, refine)]
    ]
    return {"risk": "linkage risk", "loss": "SSE/SST", "points": points}


def figures_of(
    points: np.ndarray, k: int, names: Sequence[str], refine: str | None = None
) -> dict[str, Any]:
    """``Evaluation.to_dict()`` for MDAV's classes with their means."""
    classes = Partition(dbanon.partition(points, k, refine=refine).labels)
    means = np.add.reduceat(points[classes.members], classes.starts) / classes.sizes[:, None]
    columns = (
        Numbers(name=name, original=x, scale=Scale.of(x), released=released)
        for name, x, released in zip(names, points.T, means.T, strict=True)
    )
    return evaluation_of(Pairs(tuple(columns), classes)).to_dict()
