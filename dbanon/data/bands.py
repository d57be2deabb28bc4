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
        starts, ends = self._start_texts, self._end_texts
        if text == _ANY:
            return self.open_below and self.open_above
        if text.startswith("<"):
            return self.open_below and text[1:] in starts
        if text.endswith("+"):
            return self.open_above and text[:-1] in starts
        if text in starts and self.is_integral:
            return ends.get(text) == starts[text]
        if self.is_integral:
            low, _, high = text.partition(" to " if text.startswith("-") else "-")
        elif text.startswith("[") and text.endswith(")"):
            low, _, high = text[1:-1].partition(", ")
        else:
            return False
        return low in starts and high in ends and starts[low] < ends[high] + self.is_integral

    @cached_property
    def _start_texts(self) -> dict[str, float]:
        """The borders by text."""
        return {_format(border): border for border in self.borders}

    @cached_property
    def _end_texts(self) -> dict[str, float]:
        """The ends of closed ranges by text: the last number, or the border above."""
        last_numbers = [border - self.is_integral for border in self.borders[1:]]
        return {_format(number): number for number in last_numbers}


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
