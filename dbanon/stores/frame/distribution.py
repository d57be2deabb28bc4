"""Distributions of a released frame's columns that an HTML report may show."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dbanon.job.guarantee_names import guarantee_from_ledger
from dbanon.release.distribution import Distribution, build_distribution
from dbanon.release.report import Report
from dbanon.stores.frame.conversion import frame_of
from dbanon.stores.frame.microdata import attribute_of


def distributions(released: object, report: Report) -> tuple[Distribution, ...]:
    """Return distributions of released quasi-identifiers and sensitive columns, in column order.

    Parameters
    ----------
    released : the table that was returned to the caller.
    report : the report of the same run.
    """
    frame, _ = frame_of(released)
    # Empty if k counts rows. A report's ``arguments`` are what a ledger would record of the run.
    person_columns = guarantee_from_ledger(report.k_requested, report.arguments).entity_columns
    roles = dict.fromkeys(report.quasi_identifiers, "quasi_identifier")
    roles |= dict.fromkeys(report.sensitive, "sensitive")
    return tuple(
        _distribution(
            frame[name],
            str(name),
            roles[name],
            k=report.k_requested,
            counts_persons=bool(person_columns),
        )
        for name in frame.columns
        if name in roles
    )


def _distribution(
    series: pd.Series[Any], name: str, role: str, *, k: int, counts_persons: bool
) -> Distribution:
    def count_values() -> list[tuple[str, int]]:
        """Count the rows with each value except NULL, most frequent first."""
        counts = series.dropna().value_counts()
        return [(str(value), int(count)) for value, count in counts.items()]

    def count_labels(min_count: int) -> tuple[list[tuple[str, int]], int, int]:
        """Count the rows with each label, NULL included, that at least ``min_count`` rows have.

        Also returns the number of the other, rare labels, and the number of rows with them.
        """
        counts = series.astype(object).where(series.notna(), "NULL").astype(str).value_counts()
        frequent, rare = counts[counts >= min_count], counts[counts < min_count]
        frequent_labels = [(str(label), int(count)) for label, count in frequent.items()]
        return frequent_labels, len(rare), int(rare.sum())

    kind = attribute_of(name, series).kind
    return build_distribution(
        name,
        role,
        k,
        kind,
        counts_persons=counts_persons,
        count_values=count_values,
        count_labels=count_labels,
    )
