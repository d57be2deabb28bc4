"""Forecast the CPU seconds of methods, from measurements on tables of several sizes.

Seconds grow as powers of the numbers of records and attributes. With attributes of several kinds
they also depend on the share of each kind, since searches skip most records if attributes are
numbers, and fewer if they are categories. Equal records of mixed data may count once
(``PowerLaw.distinct_exponent``).
``python -m benchmarks forecast`` compares forecasts with measured seconds and fits the constants;
benchmarks/results/forecast.md names the machine.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute

# The numbers of records and attributes that ``PowerLaw.seconds`` refers to.
REFERENCE_RECORDS, REFERENCE_ATTRIBUTES = 100_000, 6


@dataclass(frozen=True)
class Shape:
    """The number of attributes of a table by kind.

    Parameters
    ----------
    numbers : attributes treated as numbers.
    trees : attributes with a hierarchy.
    categories : all other attributes.
    """

    numbers: int
    trees: int = 0
    categories: int = 0

    @classmethod
    def of(cls, attributes: Iterable[Attribute], trees: Container[str] = ()) -> Shape:
        """Count attributes by kind.

        Parameters
        ----------
        trees : the names of the attributes with a hierarchy.
        """
        kinds = [
            "trees"
            if attribute.name in trees
            else "categories"
            if attribute.kind.is_coded
            else "numbers"
            for attribute in attributes
        ]
        return cls(*(kinds.count(kind) for kind in ("numbers", "trees", "categories")))

    @property
    def attributes(self) -> int:
        """The total number of attributes."""
        return self.numbers + self.trees + self.categories

    @property
    def is_mixed(self) -> bool:
        """True unless all attributes are numbers."""
        return self.attributes > self.numbers


@dataclass(frozen=True)
class PowerLaw:
    """seconds · N^(records + interaction · ln P) · P^attributes · e^(trees · T + categories · C).

    For n records and p attributes, N is n · D^distinct_exponent / 100,000, where D is the share of
    distinct records, and P is p / 6. T is the share of attributes with a hierarchy, and C the share
    of other categories.

    Parameters
    ----------
    seconds : CPU seconds for 100,000 records with six attributes and k = 5; a larger k takes less.
    records, attributes : the exponents of N and P.
    interaction : growth of the exponent of N with ln P, because spatial indexes skip fewer records
        in more dimensions.
    trees, categories : the natural logarithm of the slowdown if all attributes are of this kind.
    distinct_exponent : 1 if a group of equal records takes as long as one record; 0 if it takes as
        long as equally many different records.
    """

    seconds: float
    records: float
    attributes: float = 1.0
    interaction: float = 0.0
    trees: float = 0.0
    categories: float = 0.0
    distinct_exponent: float = 1.0

    def seconds_of(self, n: float, shape: Shape, distinct_share: float = 1.0) -> float:
        """Return the CPU seconds for n records with attributes of this shape.

        Parameters
        ----------
        distinct_share : share of distinct records, 0 to 1; ignored if all attributes are numbers.
        """
        if shape.is_mixed:
            n *= distinct_share**self.distinct_exponent
        p = shape.attributes
        relative_width = p / REFERENCE_ATTRIBUTES
        power = self.records + self.interaction * math.log(relative_width)
        kind_factor = math.exp((self.trees * shape.trees + self.categories * shape.categories) / p)
        return float(
            self.seconds
            * (n / REFERENCE_RECORDS) ** power
            * relative_width**self.attributes
            * kind_factor
        )


@dataclass(frozen=True)
class MethodForecast:
    """The forecasts of a method by kind of table; None for a kind that was not measured.

    Parameters
    ----------
    numbers : for tables whose attributes are all treated as numbers.
    mixed : for all other tables.
    """

    numbers: PowerLaw | None = None
    mixed: PowerLaw | None = None


# The forecast of a method that was not measured.
UNKNOWN = MethodForecast()


def describe_seconds(seconds: float, refinement_seconds: float = 0.0) -> str:
    """Describe a forecast of CPU seconds, which include those of the refinement."""
    if seconds < 1:
        return "less than 1 CPU second"
    text = f"{round_to_two_digits(seconds):,g} CPU seconds"
    return text + (
        f", {round_to_two_digits(refinement_seconds):,g} of them the refinement"
        if refinement_seconds
        else ""
    )


def round_to_two_digits(value: float) -> float:
    """Round to two significant digits, the precision of a forecast."""
    return float(f"{value:.2g}")
