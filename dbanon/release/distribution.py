"""Distributions of released columns for pictures: bins and labels that many rows share.

Bin edges lie on a round grid, never on data values. Neighbouring bins are merged until each is
empty or has at least ``bound`` rows, and displayed counts are multiples of the bound. Labels are
displayed if at least ``bound`` rows have them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Kind

# The minimum bound for any k.
FEWEST = 5
# Limits that keep a picture readable.
MOST_BINS, MOST_LABELS = 20, 12

UNITS = ("number", "date", "label")


@dataclass(frozen=True)
class Bar:
    """One bin or label.

    Parameters
    ----------
    label : in words, for a table.
    rows : how many, as a multiple of the bound.
    low, width : of a bin, where it begins and how wide it is, in steps of the grid.
    """

    label: str
    rows: int
    low: int = 0
    width: int = 1


@dataclass(frozen=True)
class Distribution:
    """The released values of a column, as far as they may be displayed.

    Parameters
    ----------
    name, role : of the column.
    unit : one of ``UNITS``; empty where nothing is drawn.
    bound : the fewest rows of a bin or label.
    bars : in order; those of labels by falling number of rows.
    edges : text of each edge of the grid's steps, from the first to the last; empty for these two.
    others : text on labels that are not displayed separately.
    note : why nothing is drawn; empty otherwise.
    """

    name: str
    role: str
    unit: str
    bound: int
    bars: tuple[Bar, ...] = ()
    edges: tuple[str, ...] = ()
    others: str = ""
    note: str = ""


def bound_of(k: int) -> int:
    """The minimum number of rows that a picture may display."""
    return max(int(k), FEWEST)


def require_shown(distribution: Distribution, counts: Sequence[int] | None = None) -> None:
    """Check before drawing that each bar has no rows or at least ``bound`` rows.

    Parameters
    ----------
    counts : the rows of each bar before rounding.

    Raises
    ------
    AssertionError : a bar has fewer rows.
    """
    bound = distribution.bound
    rows_shown = [bar.rows for bar in distribution.bars]
    is_allowed = bound >= FEWEST and all(
        rows == 0 or rows >= bound for rows in (*rows_shown, *(counts or ()))
    )
    if not is_allowed or any(rows % bound for rows in rows_shown):
        raise AssertionError("A picture would show fewer rows than allowed.")


def distribution_of(
    name: str,
    role: str,
    k: int,
    kind: Kind,
    *,
    persons: bool,
    values: Callable[[], Sequence[tuple[str, int]] | None],
    labels: Callable[[int], tuple[Sequence[tuple[str, int]], int, int]],
) -> Distribution:
    """The distribution of a released column: binned if its values have an order, else by label.

    Parameters
    ----------
    persons : whether k counts persons. Bins of classes have k persons; for source values the
        number of persons is not known.
    values : returns the non-NULL values as texts, with row counts; None if there are too many.
    labels : returns the labels with at least the given number of rows, and the number of other
        labels and of their rows.
    """
    sensitive, bound = role == "sensitive", bound_of(k)
    if persons and (sensitive or k < bound):
        return of_persons(name, role, k)
    if sensitive or not is_placeable(kind):
        return of_labels(name, role, k, *labels(bound))
    counted_values = values()
    if counted_values is None:
        return undrawable(name, role, k, "It has too many values.")
    return of_texts(name, role, k, kind, counted_values)


def undrawable(name: str, role: str, k: int, why: str) -> Distribution:
    """A column that is not drawn, and why."""
    return Distribution(name, role, "", bound_of(k), note=why)


def of_persons(name: str, role: str, k: int) -> Distribution:
    """A column that is not drawn, since k counts persons, whom the release does not hold."""
    return undrawable(name, role, k, "Persons in a bin or value cannot be counted here.")


def is_placeable(kind: Kind) -> bool:
    """Whether values of this kind have positions on a line that can be binned."""
    return kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)


def of_texts(
    name: str, role: str, k: int, kind: Kind, counted: Sequence[tuple[str, int]]
) -> Distribution:
    """The distribution of numbers or dates that come as text, each with its rows; without NULLs."""
    if not counted:
        return undrawable(name, role, k, "All rows have NULL.")
    sizes = np.array([size for _, size in counted], np.int64)
    try:
        if kind in (Kind.DATE, Kind.TIMESTAMP):
            if any("BC" in value for value, _ in counted):
                raise ValueError
            days = np.array([value[:10] for value, _ in counted], "datetime64[D]")
            return of_dates(name, role, k, days, sizes)
        values = [float(value) for value, _ in counted]
        if not all(map(isfinite, values)):
            raise ValueError
    except ValueError:
        return undrawable(name, role, k, "Its values have no place on a common line.")
    return of_numbers(name, role, k, np.array(values), sizes)


def of_numbers(
    name: str,
    role: str,
    k: int,
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Distribution:
    """The distribution of numbers; values, (m,), with the rows of each."""
    if not isfinite(float(values.max()) - float(values.min())):
        return undrawable(name, role, k, "Its values are too far apart.")
    step, digits = _step(float(values.min()), float(values.max()))
    # In units of the grid's last digit, so that edges are exact.
    scaled = values * 10.0**digits if digits >= 0 else values / 10.0**-digits
    places = np.floor(np.round(scaled / step, 9)).astype(np.int64)

    def edge(step_number: int) -> str:
        exact = Decimal(step_number * step).scaleb(-digits)
        return f"{exact:,f}" if -5 < digits < 12 and abs(exact) < 10**15 else f"{exact:.4E}"

    return _build_bins(name, role, "number", bound_of(k), places, counts, edge)


def of_dates(
    name: str,
    role: str,
    k: int,
    days: NDArray[np.datetime64],
    counts: NDArray[np.int64],
) -> Distribution:
    """The distribution of dates, datetime64[D] (m,), with the rows of each."""
    for unit, size in _CALENDAR:
        places = days.astype(f"datetime64[{unit}]").astype(np.int64) // size
        if places.max() - places.min() < MOST_BINS:
            break

    def edge(step_number: int) -> str:
        return str(np.array(step_number * size).astype(f"datetime64[{unit}]"))

    return _build_bins(name, role, "date", bound_of(k), places, counts, edge)


_CALENDAR = (
    *(("D", size) for size in (1, 5, 10)),
    *(("M", size) for size in (1, 3, 6)),
    *(("Y", size) for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


def of_labels(
    name: str,
    role: str,
    k: int,
    labels: Sequence[tuple[str, int]],
    other_values: int = 0,
    other_rows: int = 0,
) -> Distribution:
    """The distribution of labels.

    Parameters
    ----------
    labels : with the rows of each, each at least ``bound_of(k)``; the spelling of NULL included.
    other_values, other_rows : how many values there are beside them, and their rows.
    """
    bound = bound_of(k)
    # Sort by the displayed count, so that the order reveals nothing more.
    ordered = sorted(
        labels, key=lambda label_rows: (-_rounded_count(label_rows[1], bound), label_rows[0])
    )
    displayed, left = ordered[:MOST_LABELS], ordered[MOST_LABELS:]
    other_values += len(left)
    other_rows += sum(rows for _, rows in left)
    if not displayed:
        why = f"No value is shared by {bound} rows or more, so none is shown."
        return Distribution(name, role, "", bound, note=why)
    others = ""
    if other_values:
        values = "1 value" if other_values == 1 else f"{other_values:,} values"
        rows = (
            f"about {_rounded_count(other_rows, bound):,}"
            if other_rows >= bound
            else f"under {bound}"
        )
        others = f"other ({values}): {rows} rows"
    bars = tuple(Bar(label, _rounded_count(rows, bound)) for label, rows in displayed)
    distribution = Distribution(name, role, "label", bound, bars, others=others)
    require_shown(distribution, [rows for _, rows in displayed])
    return distribution


def _build_bins(
    name: str,
    role: str,
    unit: str,
    bound: int,
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    edge: Callable[[int], str],
) -> Distribution:
    """Build bins from the grid steps of values."""
    first, last = int(places.min()), int(places.max())
    rows = np.zeros(last - first + 1, np.int64)
    np.add.at(rows, places - first, counts)
    if int(rows.sum()) < bound:
        why = f"Fewer than {bound} rows have a value."
        return Distribution(name, role, "", bound, note=why)
    bins = merge_bins([int(count) for count in rows], bound)
    bars = []
    for begin, end, count in bins:
        low, high = edge(first + begin), edge(first + end)
        label = f"{low} to under {high}"
        if len(bins) == 1:
            label = "all rows"
        elif begin == 0:
            label = f"before {high}" if unit == "date" else f"under {high}"
        elif end == len(rows):
            label = f"{low} or later" if unit == "date" else f"{low} or more"
        bars.append(Bar(label, _rounded_count(count, bound), begin, end - begin))
    # Outer bins are open.
    edges = ("", *(edge(first + step) for step in range(1, len(rows))), "")
    distribution = Distribution(name, role, unit, bound, tuple(bars), edges)
    require_shown(distribution, [count for _, _, count in bins])
    return distribution


def merge_bins(counts: Sequence[int], bound: int) -> list[tuple[int, int, int]]:
    """Merge neighbouring bins until each is empty or has at least ``bound`` rows.

    Returns begin, end and rows of each bin. Requires at least ``bound`` rows in total.
    """
    bins: list[tuple[int, int, int]] = []
    for index, count in enumerate(counts):
        if bins and 0 < bins[-1][2] < bound:
            begin, _, n_rows = bins[-1]
            bins[-1] = (begin, index + 1, n_rows + count)
        else:
            bins.append((index, index + 1, count))
    while 0 < bins[-1][2] < bound:
        _, end, n_rows = bins.pop()
        begin, _, before = bins.pop()
        bins.append((begin, end, before + n_rows))
    return bins


def _rounded_count(rows: int, bound: int) -> int:
    """Round a row count to a multiple of the bound."""
    return (2 * rows + bound) // (2 * bound) * bound


def _step(low: float, high: float) -> tuple[int, int]:
    """Width of a bin: 1, 2 or 5 in units of 10**-digits, so that there are not too many."""
    width = (high - low) / (MOST_BINS - 1) or max(abs(high), 1.0) / 10
    power = floor(log10(width))
    for step in (1, 2, 5):
        if step * 10.0**power >= width:
            return step, -power
    return 1, -power - 1
