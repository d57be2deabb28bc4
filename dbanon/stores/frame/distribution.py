"""What a page may draw of a released frame: as of a release in a database."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dbanon.job.guarantee_names import recorded
from dbanon.release.distribution import Distribution, build_distribution
from dbanon.release.report import Report
from dbanon.stores.frame.conversion import frame_of
from dbanon.stores.frame.microdata import attribute_of


def distributions(released: Any, report: Report) -> tuple[Distribution, ...]:
    """Of each released quasi-identifier and sensitive column, in the frame's order.

    Parameters
    ----------
    released : the frame as it was handed back.
    """
    frame, _ = frame_of(released)
    persons = recorded(report.k_requested, report.arguments).persons
    roles = dict.fromkeys(report.quasi_identifiers, "quasi_identifier")
    roles |= dict.fromkeys(report.sensitive, "sensitive")
    return tuple(
        _distribution(frame[name], str(name), roles[name], report.k_requested, bool(persons))
        for name in frame.columns
        if name in roles
    )


def _distribution(
    series: pd.Series[Any], name: str, role: str, k: int, persons: bool
) -> Distribution:
    def values() -> list[tuple[str, int]]:
        counted = series.dropna().value_counts()
        return [(str(value), int(size)) for value, size in counted.items()]

    def labels(bound: int) -> tuple[list[tuple[str, int]], int, int]:
        sizes = series.astype(object).where(series.notna(), "NULL").astype(str).value_counts()
        shared, others = sizes[sizes >= bound], sizes[sizes < bound]
        named = [(str(label), int(size)) for label, size in shared.items()]
        return named, len(others), int(others.sum())

    kind = attribute_of(name, series).kind
    return build_distribution(name, role, k, kind, persons=persons, values=values, labels=labels)
