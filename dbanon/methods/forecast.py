"""Measured CPU seconds of methods by table size.

Seconds grow as powers of the numbers of records and attributes. For attributes of several kinds
they also depend on the shares of the kinds: a search can skip distant records by numbers, fewer by
trees, and by categories only those with other values. Equal records of mixed data count once.
``python -m benchmarks forecast`` compares forecasts with measured seconds and fits the constants;
benchmarks/results/forecast.md names the machine.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable

from dbanon.data.frozen import dataclass
from dbanon.data.schema import Attribute

# Of the table that ``Power.seconds`` is about.
RECORDS, ATTRIBUTES = 100_000, 6


@dataclass(frozen=True)
class Shape:
    """How many attributes of a table are of each kind.

    Parameters
    ----------
    numbers : those that are seen as numbers.
    trees : those that have a hierarchy.
    categories : all others.
    """

    numbers: int
    trees: int = 0
    categories: int = 0

    @classmethod
    def of(cls, attributes: Iterable[Attribute], trees: Container[str] = ()) -> Shape:
        """The shape of attributes, some of which have trees."""
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
        """How many there are."""
        return self.numbers + self.trees + self.categories

    @property
    def is_mixed(self) -> bool:
        """True where not all are numbers."""
        return self.attributes > self.numbers


@dataclass(frozen=True)
class PowerLaw:
    """seconds · N^(records + both · ln P) · P^attributes · e^(trees · T + categories · C).

    N is n · D^different / 100,000 records, of which the share D differs from all before, P is p / 6
    attributes; of these the share T has trees, and the share C are categories without.

    Parameters
    ----------
    seconds : CPU seconds of 100,000 records with six attributes, k = 5; larger k take less.
    both : by how much more each attribute makes of more records: indexes prune less then.
    trees, categories : how much longer it takes where all attributes are such, as logarithms.
    different : 1 where equal records are one, 0 where each takes its time.
    """

    seconds: float
    records: float
    attributes: float = 1.0
    both: float = 0.0
    trees: float = 0.0
    categories: float = 0.0
    different: float = 1.0

    def seconds_of(self, n: float, shape: Shape, different: float = 1.0) -> float:
        """CPU seconds for n records with such attributes, of which a share is different.

        Of numbers alone it does not matter: equal points take as long as others.
        """
        if shape.is_mixed:
            n *= different**self.different
        p = shape.attributes
        wide = p / ATTRIBUTES
        power = self.records + self.both * math.log(wide)
        kinds = math.exp((self.trees * shape.trees + self.categories * shape.categories) / p)
        return float(self.seconds * (n / RECORDS) ** power * wide**self.attributes * kinds)


@dataclass(frozen=True)
class MethodForecast:
    """The forecast of a method; None where it was not measured.

    Parameters
    ----------
    numbers : of tables whose attributes are all seen as numbers.
    mixed : of all others.
    """

    numbers: PowerLaw | None = None
    mixed: PowerLaw | None = None


UNKNOWN = MethodForecast()


def in_words(seconds: float, refinement: float = 0.0) -> str:
    """CPU seconds, and how many of them a refinement takes."""
    if seconds < 1:
        return "less than 1 CPU second"
    text = f"{two_digits(seconds):,g} CPU seconds"
    return text + (f", {two_digits(refinement):,g} of them the refinement" if refinement else "")


def two_digits(value: float) -> float:
    """A forecast is not better than that."""
    return float(f"{value:.2g}")
