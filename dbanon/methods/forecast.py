"""What a method takes, as numbers that were measured: CPU seconds and memory by size of a table.

They grow as powers of records and attributes. ``python -m benchmarks forecast`` sets them beside
measured ones, and says which would fit; benchmarks/results/forecast.md names the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

# Of the table that ``Power.seconds`` is about.
RECORDS, ATTRIBUTES = 100_000, 6


@dataclass(frozen=True)
class Power:
    """seconds · (n / 100,000)^records · (p / 6)^attributes, of n records with p attributes.

    Parameters
    ----------
    seconds : CPU seconds of 100,000 records with six attributes, k = 5; larger k take less.
    memory : bytes for each record and attribute, beside the records themselves.
    """

    seconds: float
    records: float
    attributes: float = 1.0
    memory: float = 100.0

    def seconds_of(self, n: float, p: int) -> float:
        """CPU seconds for n records with p attributes."""
        return float(
            self.seconds * (n / RECORDS) ** self.records * (p / ATTRIBUTES) ** self.attributes
        )

    def bytes_of(self, n: float, p: int) -> float:
        """Memory for n records with p attributes."""
        return self.memory * n * p


@dataclass(frozen=True)
class Forecast:
    """What a method takes; None where it was not measured, and nobody can say.

    Parameters
    ----------
    numbers : of tables whose attributes are all seen as numbers.
    mixed : of all others.
    """

    numbers: Power | None = None
    mixed: Power | None = None
