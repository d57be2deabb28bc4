"""Figures of the disclosure risk, as the core passes them on; an extension measures them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from dbanon.data.types import JsonObject

# A row of figures of the disclosure risk: measure, column, figure and note.
RiskRow = tuple[str, str | None, float | None, str | None]


class RiskFigures(Protocol):
    """The disclosure risk of a source and of its release: for the controller of the data."""

    @property
    def records_after(self) -> int:
        """The number of records in the release."""
        ...

    @property
    def highest_after(self) -> float:
        """The largest individual risk in the release, or household risk if it was measured."""
        ...

    @property
    def mean_after(self) -> float:
        """The mean of these risks over all records of the release, 0 to 1."""
        ...

    def to_dict(self) -> JsonObject:
        """The figures as plain values, for JSON."""
        ...

    def measure_rows(self) -> Iterator[RiskRow]:
        """Yield the figures as rows: measure, column, figure and note."""
        ...

    def table_rows(self) -> list[tuple[str, str, str]]:
        """The figures as rows: label, figure before, figure after."""
        ...

    def pairs(self) -> list[tuple[str, str]]:
        """What the figures are about, and what they mean, as pairs of label and text."""
        ...
