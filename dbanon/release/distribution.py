"""Distributions of released columns for charts: bins and labels that many rows share.

Bin edges lie on a grid of round numbers, which does not depend on single values. The *bound* is the
smallest number of rows that a bar of a chart may stand for. Neighboring bins are merged until each
is empty or has at least that many rows. Labels that fewer rows have get no bar. Displayed counts
are rounded to multiples of the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import floor, isfinite, log10

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Kind

# The bound is at least this, however small k is.
LEAST_BOUND = 5
# Maximum number of bins, and of labels, that keeps a chart readable.
MOST_BINS, MOST_LABELS = 20, 12

# What the axis of a chart can show: bins of numbers, bins of dates, or labels.
AXIS_KINDS = ("number", "date", "label")


@dataclass(frozen=True)
class Bar:
    """A bar of a chart, for a bin or a label.

    Parameters
    ----------
    label : the name of the bar's row in the table beside the chart.
    rows : number of rows, rounded to a multiple of the bound.
    low, width : the start and the width of a bin, in grid steps from the start of the first bin.
    """

    label: str
    rows: int
    low: int = 0
    width: int = 1


@dataclass(frozen=True)
class Distribution:
    """The distribution of a released column, as far as it may be displayed.

    Parameters
    ----------
    name, role : name and role of the column.
    axis_kind : one of ``AXIS_KINDS``; empty if there is no chart.
    bound : the smallest number of rows that a bar may stand for.
    bars : bins in ascending order, or labels by descending number of rows.
    edges : texts of the edges of all grid steps; the first and the last are empty, because the
        outer bins are open.
    others : text about labels that have no bar; empty if every label has one.
    note : why there is no chart; empty if there is one.
    """

    name: str
    role: str
    axis_kind: str
    bound: int
    bars: tuple[Bar, ...] = ()
    edges: tuple[str, ...] = ()
    others: str = ""
    note: str = ""


def least_displayed_rows(k: int) -> int:
    """Return the bound: the smallest number of rows that a bar may stand for."""
    return max(int(k), LEAST_BOUND)


def require_displayable(distribution: Distribution, counts: Sequence[int] | None = None) -> None:
    """Check that each bar has either no rows or at least ``bound`` rows.

    Parameters
    ----------
    counts : number of rows of each bar before rounding.

    Raises
    ------
    AssertionError : a bar has fewer rows.
    """
    bound = distribution.bound
    displayed_rows = [bar.rows for bar in distribution.bars]
    is_allowed = bound >= LEAST_BOUND and all(
        rows == 0 or rows >= bound for rows in (*displayed_rows, *(counts or ()))
    )
    if not is_allowed or any(rows % bound for rows in displayed_rows):
        raise AssertionError("A bar of a chart would stand for fewer rows than allowed.")


def build_distribution(
    name: str,
    role: str,
    k: int,
    kind: Kind,
    *,
    counts_persons: bool,
    count_values: Callable[[], Sequence[tuple[str, int]] | None],
    count_labels: Callable[[int], tuple[Sequence[tuple[str, int]], int, int]],
) -> Distribution:
    """Build the distribution of a column: bins of numbers or dates, or else labels.

    Parameters
    ----------
    role : role of the column, such as ``sensitive``.
    counts_persons : whether k counts persons instead of rows. Then every class has k persons, so
        every bin of released quasi-identifiers has k persons, too. But the persons with a sensitive
        value cannot be counted, so a sensitive column gets no chart.
    count_values : returns the non-NULL values as texts, with row counts; None if there are too
        many.
    count_labels : returns the labels with at least the given number of rows and their row counts,
        then the number of other labels, and the number of their rows.
    """
    is_sensitive, bound = role == "sensitive", least_displayed_rows(k)
    # With a k below the bound, a bin of one class may have fewer persons than the bound.
    if counts_persons and (is_sensitive or k < bound):
        return omit_chart_of_persons(name, role, k)
    if is_sensitive or not can_be_binned(kind):
        return build_label_distribution(name, role, k, *count_labels(bound))
    value_rows = count_values()
    if value_rows is None:
        return omit_chart(name, role, k, "It has too many values.")
    return bin_texts(name, role, k, kind, value_rows)


def omit_chart(name: str, role: str, k: int, reason: str) -> Distribution:
    """Return a distribution without a chart, for this reason."""
    return Distribution(name, role, axis_kind="", bound=least_displayed_rows(k), note=reason)


def omit_chart_of_persons(name: str, role: str, k: int) -> Distribution:
    """Return a distribution without a chart, because persons cannot be counted in a release."""
    return omit_chart(name, role, k, "Persons in a bin or value cannot be counted here.")


def can_be_binned(kind: Kind) -> bool:
    """Return True if values of this kind are numbers or dates, which can be binned."""
    return kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)


def bin_texts(
    name: str, role: str, k: int, kind: Kind, value_rows: Sequence[tuple[str, int]]
) -> Distribution:
    """Bin numbers or dates, given as pairs of a non-NULL value as text and its number of rows."""
    if not value_rows:
        return omit_chart(name, role, k, "All rows have NULL.")
    row_counts = np.array([n_rows for _, n_rows in value_rows], np.int64)
    try:
        if kind in (Kind.DATE, Kind.TIMESTAMP):
            # datetime64 cannot parse years before Christ, as PostgreSQL writes them.
            if any("BC" in value for value, _ in value_rows):
                raise ValueError
            days = np.array([value[:10] for value, _ in value_rows], "datetime64[D]")
            return bin_dates(name, role, k, days, row_counts)
        values = [float(value) for value, _ in value_rows]
        if not all(map(isfinite, values)):
            raise ValueError
    except ValueError:
        return omit_chart(name, role, k, "Its values cannot be placed on one axis.")
    return bin_numbers(name, role, k, np.array(values), row_counts)


def bin_numbers(
    name: str,
    role: str,
    k: int,
    values: NDArray[np.float64],
    counts: NDArray[np.int64],
) -> Distribution:
    """Bin numbers, float64 (m,); ``counts``, int64 (m,), are the rows with each of them."""
    if not isfinite(float(values.max()) - float(values.min())):
        return omit_chart(name, role, k, "Its values are too far apart.")
    # The width of a grid step is ``step * 10**-digits``.
    step, digits = _choose_step(float(values.min()), float(values.max()))
    # Scale values so that grid steps are whole numbers: then edges are exact.
    scaled = values * 10.0**digits if digits >= 0 else values / 10.0**-digits
    steps = np.floor(np.round(scaled / step, 9)).astype(np.int64)

    # Edges with many digits are written with an exponent.
    def format_edge(step_number: int) -> str:
        exact = Decimal(step_number * step).scaleb(-digits)
        return f"{exact:,f}" if -5 < digits < 12 and abs(exact) < 10**15 else f"{exact:.4E}"

    return _build_bins(name, role, "number", least_displayed_rows(k), steps, counts, format_edge)


def bin_dates(
    name: str,
    role: str,
    k: int,
    days: NDArray[np.datetime64],
    counts: NDArray[np.int64],
) -> Distribution:
    """Bin dates, datetime64[D] (m,); ``counts``, int64 (m,), are the rows with each of them."""
    # The narrowest steps with which the chart stays readable.
    for unit, width in _CALENDAR_STEPS:
        # Count days, months or years since 1970, in steps of the width.
        steps = days.astype(f"datetime64[{unit}]").astype(np.int64) // width
        if steps.max() - steps.min() < MOST_BINS:
            break

    def format_edge(step_number: int) -> str:
        return str(np.array(step_number * width).astype(f"datetime64[{unit}]"))

    return _build_bins(name, role, "date", least_displayed_rows(k), steps, counts, format_edge)


# Widths of a grid step in ascending order: a unit of time (day, month or year) and a multiple.
_CALENDAR_STEPS = (
    *(("D", width) for width in (1, 5, 10)),
    *(("M", width) for width in (1, 3, 6)),
    *(("Y", width) for width in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)),
)


def build_label_distribution(
    name: str,
    role: str,
    k: int,
    labels: Sequence[tuple[str, int]],
    other_values: int = 0,
    other_rows: int = 0,
) -> Distribution:
    """Build the distribution of labels.

    Parameters
    ----------
    labels : pairs of label and number of rows, at least ``least_displayed_rows(k)``; the text for
        NULL is one of the labels.
    other_values, other_rows : the number of values that fewer rows have, and of these rows.
    """
    bound = least_displayed_rows(k)
    # Sort by rounded counts, so that the order does not reveal anything about exact ones.
    ordered = sorted(
        labels, key=lambda label_rows: (-_rounded_count(label_rows[1], bound), label_rows[0])
    )
    displayed, omitted = ordered[:MOST_LABELS], ordered[MOST_LABELS:]
    other_values += len(omitted)
    other_rows += sum(rows for _, rows in omitted)
    if not displayed:
        reason = f"No value is shared by {bound} rows or more, so none is shown."
        return Distribution(name, role, axis_kind="", bound=bound, note=reason)
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
    require_displayable(distribution, [rows for _, rows in displayed])
    return distribution


def _build_bins(
    name: str,
    role: str,
    axis_kind: str,
    bound: int,
    steps: NDArray[np.int64],
    counts: NDArray[np.int64],
    format_edge: Callable[[int], str],
) -> Distribution:
    """Build bins from values on the grid.

    Parameters
    ----------
    steps : int64 (m,), the number of the grid step that each value is in.
    counts : int64 (m,), the rows with each value.
    format_edge : returns the text of the start of a grid step, from its number.
    """
    first_step, last_step = int(steps.min()), int(steps.max())
    rows_by_step = np.zeros(last_step - first_step + 1, np.int64)
    np.add.at(rows_by_step, steps - first_step, counts)
    if int(rows_by_step.sum()) < bound:
        reason = f"Fewer than {bound} rows have a value."
        return Distribution(name, role, axis_kind="", bound=bound, note=reason)
    bins = merge_bins([int(count) for count in rows_by_step], bound)
    bars = []
    for begin, end, n_rows in bins:
        low, high = format_edge(first_step + begin), format_edge(first_step + end)
        label = f"{low} to under {high}"
        if len(bins) == 1:
            label = "all rows"
        elif begin == 0:
            label = f"before {high}" if axis_kind == "date" else f"under {high}"
        elif end == len(rows_by_step):
            label = f"{low} or later" if axis_kind == "date" else f"{low} or more"
        bars.append(Bar(label, _rounded_count(n_rows, bound), low=begin, width=end - begin))
    # The outer bins are open, so their outer edges have no text.
    edges = ("", *(format_edge(first_step + step) for step in range(1, len(rows_by_step))), "")
    distribution = Distribution(name, role, axis_kind, bound, bars=tuple(bars), edges=edges)
    require_displayable(distribution, [n_rows for _, _, n_rows in bins])
    return distribution


def merge_bins(counts: Sequence[int], bound: int) -> list[tuple[int, int, int]]:
    """Merge neighboring bins until each is empty or has at least ``bound`` rows.

    ``counts`` are the rows of each bin, at least ``bound`` in total. The result has the first
    index, the end index (exclusive) and the number of rows of each merged bin.
    """
    bins: list[tuple[int, int, int]] = []
    for index, count in enumerate(counts):
        begin, _, n_rows = bins[-1] if bins else (0, 0, 0)
        if 0 < n_rows < bound:
            bins[-1] = (begin, index + 1, n_rows + count)
        else:
            bins.append((index, index + 1, count))
    # The last bin may still have too few rows: merge it with the bins before it.
    begin, end, n_rows = bins.pop()
    while 0 < n_rows < bound:
        begin, _, previous_rows = bins.pop()
        n_rows += previous_rows
    bins.append((begin, end, n_rows))
    return bins


def _rounded_count(rows: int, bound: int) -> int:
    """Round a row count to a multiple of the bound."""
    return (2 * rows + bound) // (2 * bound) * bound


def _choose_step(low: float, high: float) -> tuple[int, int]:
    """Choose the width of a grid step for values from ``low`` to ``high``.

    Returns ``step`` (1, 2 or 5) and ``digits``; the width is ``step * 10**-digits``.
    """
    # The least width that needs at most ``MOST_BINS`` steps; for a single value, any width will do.
    width = (high - low) / (MOST_BINS - 1) or max(abs(high), 1.0) / 10
    power = floor(log10(width))
    for step in (1, 2, 5):
        if step * 10.0**power >= width:
            return step, -power
    return 1, -power - 1
