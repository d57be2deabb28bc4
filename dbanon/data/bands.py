"""Bands: ranges of numbers with public borders, released under labels such as ``18-29`` or ``65+``.

Coding replaces each number of a column by its band, before classes are made. Neighboring bands meet
at a border, so the union of several neighbors is a range again, with a label of the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass

# The label of all numbers, as of the root of a hierarchy.
_ANY = "*"


@dataclass(frozen=True)
class Bands:
    """The bands of a column, from the lowest numbers to the highest.

    Parameters
    ----------
    borders : ascending, one or more. A border belongs to the band above it.
    is_integral : True for bands of whole numbers, whose labels name the last number: ``18-29``.
        Other labels name the border above, which is not part of the band: ``[18, 30)``.
    open_below : True if the first band has all numbers below the first border.
    open_above : True if the last band has all numbers from the last border on.
    """

    borders: tuple[float, ...]
    is_integral: bool
    open_below: bool = True
    open_above: bool = True

    @property
    def n_bands(self) -> int:
        """The number of bands."""
        return len(self.borders) - 1 + self.open_below + self.open_above

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of all bands, in ascending order."""
        return tuple(self.label(band, band) for band in range(self.n_bands))

    @property
    def border_texts(self) -> tuple[str, ...]:
        """The borders as text, which is also SQL."""
        return tuple(map(_format, self.borders))

    @property
    def has_single_numbers(self) -> bool:
        """Whether each closed band is one whole number."""
        return self.is_integral and self.borders[-1] - self.borders[0] == len(self.borders) - 1

    @property
    def open_bands(self) -> tuple[int, ...]:
        """The ranks of the bands that are open: the coded tails."""
        return (
            *((0,) if self.open_below else ()),
            *((self.n_bands - 1,) if self.open_above else ()),
        )

    def ranks(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The rank of each value's band from 0, integral float64 (n,).

        Parameters
        ----------
        values : float64 (n,), within the bands.
        """
        ranks = np.searchsorted(np.array(self.borders), values, side="right")
        return np.asarray(ranks - (not self.open_below), np.float64)

    def label(self, first: int, last: int) -> str:
        """The label of the range from the band ``first`` to the band ``last``, both ranks."""
        # The positions of the borders of the range; outside of the borders if the range is open.
        start = first - self.open_below
        end = last + 1 - self.open_below
        if start < 0:
            return _ANY if end >= len(self.borders) else f"<{_format(self.borders[end])}"
        low = self.borders[start]
        if end >= len(self.borders):
            return f"{_format(low)}+"
        high = self.borders[end]
        if not self.is_integral:
            return f"[{_format(low)}, {_format(high)})"
        if high - low == 1:
            return _format(low)
        # The dash after or before a minus sign would be misread.
        separator = " to " if low < 0 else "-"
        return f"{_format(low)}{separator}{_format(high - 1)}"

    def is_label(self, text: str) -> bool:
        """Whether a text is the label of one band, or of several neighbors."""
        return self.parse_label(text) is not None

    def parse_label(self, text: str) -> tuple[int, int] | None:
        """The ranks of the first and the last band of a label; None if it is no label."""
        top_rank = self.n_bands - 1
        if text == _ANY:
            return (0, top_rank) if self.open_below and self.open_above else None
        if text.startswith("<"):
            border = self._border_of_text.get(text[1:])
            # The band below a border has the border's position as its rank.
            return None if border is None or not self.open_below else (0, border)
        if text.endswith("+"):
            border = self._border_of_text.get(text[:-1])
            if not self.open_above or border is None:
                return None
            return border + self.open_below, top_rank
        low_text, high_text = text, text
        if not self.is_integral:
            if not (text.startswith("[") and text.endswith(")")):
                return None
            low_text, _, high_text = text[1:-1].partition(", ")
        elif text not in self._border_of_text or text not in self._end_of_text:
            low_text, _, high_text = text.partition(" to " if text.startswith("-") else "-")
        start, end = self._border_of_text.get(low_text), self._end_of_text.get(high_text)
        if start is None or end is None or start >= end:
            return None
        first, last = start + self.open_below, end - 1 + self.open_below
        # A label is written in one way only.
        return (first, last) if self.label(first, last) == text else None

    @cached_property
    def _border_of_text(self) -> dict[str, int]:
        """The position of each border, by its text."""
        return {_format(border): position for position, border in enumerate(self.borders)}

    @cached_property
    def _end_of_text(self) -> dict[str, int]:
        """The position of the border above closed bands, by the text of their end in a label."""
        return {
            _format(border - self.is_integral): position
            for position, border in enumerate(self.borders)
        }


@dataclass(frozen=True)
class CopyCoding:
    """How the numbers of a copied column are coded, row by row.

    Parameters
    ----------
    bands : the bands, whose labels are released.
    keeps_numbers : True if only the numbers of open bands are replaced by labels, and others are
        released as they are.
    """

    bands: Bands
    keeps_numbers: bool

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that are released."""
        return self.tail_labels if self.keeps_numbers else self.bands.labels

    @property
    def tail_labels(self) -> tuple[str, ...]:
        """The labels of the open bands: the coded tails."""
        return tuple(self.bands.label(band, band) for band in self.bands.open_bands)

    @property
    def conditions(self) -> list[tuple[str, str, str]]:
        """The replacements, in order: comparison, border as SQL, label."""
        borders, bands = self.bands.border_texts, self.bands
        conditions = []
        if bands.open_below:
            conditions.append(("<", borders[0], bands.label(0, 0)))
        if not self.keeps_numbers:
            conditions += [
                ("<", border, bands.label(rank, rank))
                for rank, border in enumerate(borders[1:], bands.open_below)
            ]
        if bands.open_above:
            conditions.append(
                (">=", borders[-1], bands.label(bands.n_bands - 1, bands.n_bands - 1))
            )
        return conditions

    def label_of(self, number: float) -> str | None:
        """The label of a number; None if the number is released as it is."""
        for comparison, border, label in self.conditions:
            is_below = number < float(border)
            # NaN is above all numbers, as in databases.
            if is_below == (comparison == "<"):
                return label
        return None


def consecutive_bands(
    low: float, high: float, *, open_below: bool = False, open_above: bool = False
) -> Bands:
    """Return a band for each whole number from ``low`` to below ``high``, and the open bands."""
    borders = tuple(np.arange(low, high + 1).tolist())
    return Bands(borders, is_integral=True, open_below=open_below, open_above=open_above)


def has_fraction(numbers: Sequence[float] | NDArray[np.float64]) -> bool:
    """Whether a number is not whole."""
    return bool((np.asarray(numbers, np.float64) % 1 != 0).any())


def _format(number: float) -> str:
    """Write a border: whole numbers without a point."""
    return str(int(number)) if float(number).is_integer() else repr(float(number))
