"""What a method takes, as numbers that were measured: CPU seconds by size of a table.

Seconds grow as powers of records and attributes. ``python -m benchmarks forecast`` sets them beside
measured ones, and says which would fit; benchmarks/results/forecast.md names the machine.
"""

from __future__ import annotations

import math

from dbanon.data.frozen import dataclass

# Of the table that ``Power.seconds`` is about.
RECORDS, ATTRIBUTES = 100_000, 6


@dataclass(frozen=True)
class Power:
    """seconds · N^(records + both · ln P) · P^attributes; N is n / 100,000 records, P is p / 6.

    Parameters
    ----------
    seconds : CPU seconds of 100,000 records with six attributes, k = 5; larger k take less.
    both : by how much more each attribute makes of more records: indexes prune less then.
    """

    seconds: float
    records: float
    attributes: float = 1.0
    both: float = 0.0

    def seconds_of(self, n: float, p: int) -> float:
        """CPU seconds for n records with p attributes."""
        wide = p / ATTRIBUTES
        power = self.records + self.both * math.log(wide)
        return float(self.seconds * (n / RECORDS) ** power * wide**self.attributes)


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


UNKNOWN = Forecast()


def in_words(seconds: float, refinement: float = 0.0) -> str:
    """CPU seconds, and how many of them a refinement takes."""
    if seconds < 1:
        return "less than 1 CPU second"
    found = f"{two_digits(seconds):,g} CPU seconds"
    return found + (f", {two_digits(refinement):,g} of them the refinement" if refinement else "")


def two_digits(value: float) -> float:
    """A forecast is not better than that."""
    return float(f"{value:.2g}")
