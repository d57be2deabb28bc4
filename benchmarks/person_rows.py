"""What ``persons: rows`` saves in loss, and whom it exposes to someone who knows several rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

import dbanon
from benchmarks.markdown import table

PERSONS, QUICK_PERSONS, VISITS, K = 500, 60, 12, 5
METHODS = {"mdav": "SSE/SST", "gaa_cp": "iloss", "mondrian": "iloss"}
COLUMNS = ["born", "zip", "day", "length"]

INTRODUCTION = f"""
A synthetic table of visits, {VISITS} per person on average: year of birth and zip of the person,
day and length of the visit. k = {K}. `whole`: all rows of a person share a class. `rows`: classes
may part them, and k counts persons in each class. The third loss counts rows and ignores persons.
The last columns count persons whose rows, all together or one pair drawn at random, fewer than k
persons share in the release of `rows`.
"""


def visits(persons: int) -> pd.DataFrame:
    """A visit per row, with the columns ``patient`` and ``COLUMNS``."""
    rng = np.random.default_rng(1)
    per_person = 1 + rng.poisson(VISITS - 1, persons)
    patient = np.repeat(np.arange(persons), per_person)
    n = len(patient)
    return pd.DataFrame(
        {
            "patient": patient,
            "born": rng.integers(1930, 2010, persons)[patient],
            "zip": rng.integers(1000, 1400, persons)[patient],
            "day": rng.integers(0, 365, n),
            "length": rng.gamma(2.0, 20.0, n).round(),
        }
    )


def run(quick: bool) -> str:
    """Measure and return the table."""
    frame = visits(QUICK_PERSONS if quick else PERSONS)
    rows = []
    for method, loss in METHODS.items():
        options: dict[str, Any] = {"quasi_identifiers": COLUMNS, "k": K, "method": method}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dbanon.errors.PrivacyWarning)
            _, undivided = dbanon.anonymize_frame(frame, entity="patient", **options)
            _, parted = dbanon.anonymize_frame(frame, entity="patient", persons="rows", **options)
            _, plain = dbanon.anonymize_frame(frame, **options)
        counts = parted.arguments["joint_rows"]
        rows.append(
            (
                f"`{method}`, {loss}",
                *(f"{report.information_loss:.3f}" for report in (undivided, parted, plain)),
                f"{counts['below']} of {counts['persons']}",
                f"{counts['pairs_below']} of {counts['of_pairs']}",
            )
        )
    header = (
        "method, loss",
        "`whole`",
        "`rows`",
        "no entity",
        "all rows under k",
        "two rows under k",
    )
    sizes = f"{len(frame):,} rows of {frame['patient'].nunique():,} persons."
    return f"{INTRODUCTION}\n{sizes}\n\n{table(header, rows)}"
