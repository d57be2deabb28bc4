"""Build hierarchies from values: intervals, dates, prefixes, orders, or a suggested tree.

The values become the leaves. Labels of intervals are ``[low, high)``. Builders with a parameter
``pulse`` call it regularly; an exception from it cancels the work.

Codes of diseases, drugs, occupations, regions and postcodes are recognized by their shape: digits
and few letters, in parts separated by a point, dash, slash or space. The beginning of a code is
more significant than its end. Examples are B24.1 (ICD-10), A10BA02 (ATC), DE111 (NUTS) and SW1A 1AA
(a postcode). Words, names, ranges (20-29) and dates (17.05.2024) are not codes, although some
contain digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import date
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from itertools import pairwise
from typing import Literal

from dbanon.data.frozen import dataclass
from dbanon.data.types import JsonMapping
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.edges import DATE_STEPS, Pulse, ignore_pulses, with_pulses
from dbanon.hierarchy.tree import Hierarchy, flat_hierarchy

ROOT = "*"


def intervals(
    values: Sequence[str],
    steps: Sequence[float | str],
    origin: float | str = 0,
    *,
    pulse: Pulse = ignore_pulses,
) -> Hierarchy:
    """Group numbers into nested intervals on a grid, for example of widths 5, 10 and 50.

    Parameters
    ----------
    values : numbers as text.
    steps : widths, each an integer multiple of the previous one.
    origin : a border of the grid.

    Raises
    ------
    InvalidParameter : a value is not a number, or a step is not a multiple of the previous one.
    """
    numbers = _parse_numbers(values, pulse)
    widths = [_parse_decimal(step, "A step") for step in steps]
    origin_number = _parse_decimal(origin, "The origin")
    previous_width = None
    for width in widths:
        if width <= 0 or (previous_width is not None and width % previous_width):
            raise InvalidParameter(
                "Steps must be positive, and each a multiple of the previous one."
            )
        previous_width = width
    rows = []
    for number, value in with_pulses(
        sorted((number, value) for value, number in numbers.items()), pulse
    ):
        row = [value]
        for width in widths:
            interval_index = ((number - origin_number) / width).to_integral_value(ROUND_FLOOR)
            low = origin_number + interval_index * width
            row.append(f"[{_format_decimal(low)}, {_format_decimal(low + width)})")
        rows.append([*row, ROOT])
    return _build_tree(rows, pulse)


def dates(
    values: Sequence[str],
    steps: Sequence[str] = ("month", "year", "decade"),
    *,
    pulse: Pulse = ignore_pulses,
) -> Hierarchy:
    """Group dates (``2024-05-17``) by the calendar.

    Steps are some of ``day`` (for timestamps), ``month``, ``quarter``, ``year``, ``5y`` and
    ``decade``, in this order, or ``week`` as the last one. Weeks of ISO 8601, Monday to Sunday, may
    span two months or years, so only ``*`` can be above a week.

    Raises
    ------
    InvalidParameter : a value is not a date, or steps are unknown, out of order or above a week.
    """
    if any(step not in DATE_STEPS for step in steps) or [
        step for step in DATE_STEPS if step in steps
    ] != list(steps):
        raise InvalidParameter("Steps of dates are, in this order: " + ", ".join(DATE_STEPS) + ".")
    if "week" in steps and steps[-1] != "week":
        raise InvalidParameter(
            "A week can span two months or two years, so no other step may follow it.",
            hint='Write ["week"] or ["day", "week"], or leave the week out.',
        )
    days = []
    for value in with_pulses(set(values), pulse):
        try:
            days.append((date.fromisoformat(value[:10]), value))
        except ValueError:
            raise InvalidParameter("A value is not a date in the form 2024-05-17.") from None
    rows = []
    for day, value in with_pulses(sorted(days), pulse):
        year, week, _ = day.isocalendar()
        labels = {
            "day": day.isoformat(),
            "week": f"{year:04d}-W{week:02d}",
            "month": f"{day.year:04d}-{day.month:02d}",
            "quarter": f"{day.year:04d}-Q{(day.month + 2) // 3}",
            "year": f"{day.year:04d}",
            "5y": f"{day.year // 5 * 5:04d} to {day.year // 5 * 5 + 4:04d}",
            "decade": f"{day.year // 10 * 10:04d}s",
        }
        # The date of a timestamp with a time zone depends on the zone, so labels name it.
        zone_suffix = " UTC" if value.endswith("+00:00") else ""
        rows.append([value, *(labels[step] + zone_suffix for step in steps), ROOT])
    return _build_tree(rows, pulse)


def prefixes(
    values: Sequence[str],
    keep: Sequence[int] | None = None,
    mask: str = "*",
    *,
    pulse: Pulse = ignore_pulses,
) -> Hierarchy:
    """Mask codes of digits or letters from the right, such as zip codes: 23208, 2320*, 232**, ….

    Parameters
    ----------
    values : codes, which may have different lengths.
    keep : number of unmasked leading characters on each level, decreasing; None to mask one more
        character on each level.
    mask : the character that replaces each masked one; the root consists only of it.

    Raises
    ------
    InvalidParameter : the numbers do not decrease, or the mask is not a single character.
    """
    if len(mask) != 1:
        raise InvalidParameter("The mask must be one character.")
    length = max((len(value) for value in values), default=0)
    kept_lengths = list(range(length - 1, 0, -1)) if keep is None else list(keep)
    if any(a <= b for a, b in pairwise(kept_lengths)) or min(kept_lengths, default=1) < 1:
        raise InvalidParameter("The numbers of kept characters must decrease, and be at least 1.")
    rows = []
    for value in with_pulses(sorted(set(values)), pulse):
        if mask in value:
            raise InvalidParameter("A value contains the mask character: choose another mask.")
        # A masked code keeps its length, so that short codes share no labels with longer ones.
        masked = [
            value[:n_kept] + mask * (len(value) - n_kept)
            for n_kept in kept_lengths
            if n_kept < len(value)
        ]
        rows.append([value, *masked, mask * max(length, 1)])
    return _build_tree(rows, pulse)


def ordered(values: Sequence[str], fanout: int = 2, *, pulse: Pulse = ignore_pulses) -> Hierarchy:
    """Group ordered values (an enum, grades) level by level: ``fanout`` neighbors form a node.

    Parameters
    ----------
    values : the distinct values, in order.
    fanout : the number of children per node, 2 or more.

    Raises
    ------
    InvalidParameter : a value is repeated, or the fanout is below 2.
    """
    if fanout < 2:
        raise InvalidParameter("The fanout must be 2 or more.")
    if len(set(values)) != len(values):
        raise InvalidParameter("A value appears twice in the order.")
    rows = [[value] for value in values]
    group_size = fanout
    while group_size < len(values):
        for index, row in enumerate(with_pulses(rows, pulse)):
            group_start = index // group_size * group_size
            group_end = min(group_start + group_size, len(values)) - 1
            # A single value at the end keeps its label.
            row.append(
                row[-1]
                if group_start == group_end
                else f"{values[group_start]} to {values[group_end]}"
            )
        group_size *= fanout
    return _build_tree([[*row, ROOT] for row in rows], pulse)


def grouped(
    values: Sequence[str], sizes: Sequence[int], *, pulse: Pulse = ignore_pulses
) -> Hierarchy:
    """Group ordered values in one level of groups.

    Parameters
    ----------
    values : the distinct values, in order.
    sizes : the number of values in each group, in order.

    Raises
    ------
    InvalidParameter : the sizes do not add up to the number of values.
    """
    if sum(sizes) != len(values) or min(sizes, default=1) < 1:
        raise InvalidParameter("The sizes of the groups must add up to the number of values.")
    rows, group_start = [], 0
    for group_size in sizes:
        group = list(values[group_start : group_start + group_size])
        label = group[0] if group_size == 1 else f"{group[0]} to {group[-1]}"
        rows += [[value, label, ROOT] for value in group]
        group_start += group_size
    return _build_tree(rows, pulse)


@dataclass(frozen=True)
class Suggestion:
    """A suggested tree, and the reason for it, a text that contains no values."""

    tree: Hierarchy
    reason: str


def suggest(values: Sequence[str]) -> Hierarchy:
    """Suggest a tree from the values alone, for a person to review.

    Groups dates by the calendar, codes by their prefixes, and numbers in two levels of intervals.
    The lower ones are at least 1/20 of the range wide (1, 2 or 5 times a power of ten), the upper
    ones five times as wide. All other values are directly below the root. ``suggestion`` also gives
    the reason.
    """
    return suggestion(values).tree


def suggestion(values: Sequence[str]) -> Suggestion:
    """Suggest a tree as ``suggest`` does, and give the reason for it."""
    distinct = sorted(set(values))
    # Try dates, then codes of digits, then numbers, then other codes.
    try:
        if distinct:
            return Suggestion(dates(distinct), "dates: by month, year and decade")
    except InvalidParameter:
        pass
    lengths = {len(value) for value in distinct}
    are_digits = all(value.isdigit() for value in distinct)
    if are_digits and len(lengths) == 1 and min(lengths) >= 4:
        reason = f"codes of {min(lengths)} digits: a star stands for each that is hidden"
        return Suggestion(prefixes(distinct), reason)
    # Leading zeros mark codes, not numbers.
    if not any(re.match("0[0-9]", value) for value in distinct):
        with suppress(InvalidParameter):
            return _suggest_intervals(distinct)
    code_labels = label_codes(distinct)
    if code_labels is None:
        reason = "neither dates, nor codes, nor numbers: all directly below the root"
        return Suggestion(flat_hierarchy(distinct, ROOT), reason)
    reason = (
        f"codes: letters and digits, most of them as {code_labels.shape}; a star stands for what"
        " follows"
    )
    return Suggestion(
        _build_tree(
            [[value, *code_labels.labels[value], ROOT] for value in distinct], ignore_pulses
        ),
        reason,
    )


def _suggest_intervals(distinct: Sequence[str]) -> Suggestion:
    """Suggest intervals of numbers; raises InvalidParameter if a value is not a number."""
    numbers = _parse_numbers(distinct).values()
    value_range = max(numbers, default=Decimal(0)) - min(numbers, default=Decimal(0))
    if value_range == 0:
        return Suggestion(
            flat_hierarchy(distinct, ROOT),
            "fewer than two different numbers: all directly below the root",
        )
    # The power of ten of a twentieth of the range, then 1, 2, 5 or 10 times that.
    step = Decimal(1).scaleb((value_range / 20).adjusted())
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 20 >= value_range)
    widths = [str(step), str(step * 5)]
    reason = f"numbers: in intervals of {_format_decimal(step)} and {_format_decimal(step * 5)}"
    return Suggestion(intervals(distinct, widths), reason)


def _build_tree(rows: Sequence[Sequence[str]], pulse: Pulse) -> Hierarchy:
    """Build a tree from rows (leaf, level 1, ..., root), of which there may be none."""
    return Hierarchy.from_levels(rows, pulse) if rows else flat_hierarchy([])


def _parse_numbers(values: Sequence[str], pulse: Pulse = ignore_pulses) -> dict[str, Decimal]:
    """Return the number of each distinct value; raises InvalidParameter if one is no number."""
    return {value: _parse_decimal(value, "A value") for value in with_pulses(set(values), pulse)}


def _parse_decimal(value: float | str, subject: str) -> Decimal:
    """Parse a number; if it is none, raises InvalidParameter with a message about the subject."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidParameter(f"{subject} is not a number.")
    return number


def _format_decimal(number: Decimal) -> str:
    """Format a number without an exponent and without zeros at the end of its fraction."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_SEPARATORS = ".-/ "
# A code has at most three capitals or one small letter in a row; more letters make a word.
# ICD-10-GM codes may end with + or !.
_LETTERS = r"(?:(?<![A-Za-z])(?:[A-Z]{1,3}|[a-z])(?![A-Za-z]))"
_PART = rf"(?:[0-9]|{_LETTERS})+"
_CODE = rf"{_PART}(?:[{re.escape(_SEPARATORS)}]{_PART})*[+!]?"
_CAPITALS_ONLY = r"[A-Z]{1,3}"
_MAX_CODE_LENGTH = 20
# The largest share of values that are not codes, such as "unknown", in a column of codes.
_MAX_SHARE_OF_OTHERS = 0.05
_RANGE = r"([0-9]+)(?:-([0-9]+)|\+)?"
# Dates such as 17.05.2024, 5/17/24 or 05/2024 are not codes: their beginning is not the most
# significant part.
_DAY_OR_MONTH = "(?:0?[1-9]|[12][0-9]|3[01])"
_DAY = (
    f"(?:{_DAY_OR_MONTH}[./-])?{_DAY_OR_MONTH}[./-](?:1[89]|2[01])[0-9]{{2}}"
    f"|{_DAY_OR_MONTH}[./-]{_DAY_OR_MONTH}[./-][0-9]{{2}}"
)
# If every value has at least this many separators, as version numbers have, only whole parts are
# cut off, not single characters.
_SEPARATORS_TO_CUT_WHOLE_PARTS = 3


@dataclass(frozen=True)
class CodeLabels:
    """The labels above each value of a column of codes, without the root.

    Parameters
    ----------
    labels : by value, the labels above it, from the longest; empty for a value that is not a code.
    shape : the most common shape: A for a letter, 9 for a digit.
    """

    labels: dict[str, tuple[str, ...]]
    shape: str


def label_codes(values: Sequence[str]) -> CodeLabels | None:
    """List the labels above codes; returns None if the values are not codes or share no prefix.

    A label is a *stem*, a common prefix of the values below it, mostly with a star: ``B2*``. So it
    reveals no more than each value itself. Stems that end at a separator have no star (``B24``),
    unless some value of the column equals such a stem.

    Parameters
    ----------
    values : the distinct values.
    """
    codes = _select_codes(values)
    if len(codes) < (1 - _MAX_SHARE_OF_OTHERS) * len(values) or any(
        "*" in value for value in values
    ):
        return None
    if _are_ranges(codes) or all(re.fullmatch(_DAY, code) for code in codes):
        return None
    cuts_whole_parts = all(
        sum(map(code.count, _SEPARATORS)) >= _SEPARATORS_TO_CUT_WHOLE_PARTS for code in codes
    )
    stems = {code: _list_stems(code, cuts_whole_parts) for code in codes}
    value_set = set(values)
    # Use stars in the whole column or nowhere: a star on a single label would reveal that its
    # prefix is a value.
    needs_stars = any(
        at_separator and stem in value_set
        for code_stems in stems.values()
        for stem, at_separator in code_stems
    )
    # A code that is also a stem of longer codes, as E11 of E11.9, gets a label E11* above both.
    all_stems = {stem for code_stems in stems.values() for stem, _ in code_stems}
    labels_of_code = {
        code: tuple(
            stem if at_separator and not needs_stars else f"{stem}*"
            for stem, at_separator in ([(code, False)] if code in all_stems else []) + stems[code]
        )
        for code in codes
    }
    label_counts = Counter(label for labels in labels_of_code.values() for label in labels)
    if max(label_counts.values(), default=0) < 2:
        return None
    shapes = Counter(re.sub("[0-9]", "9", re.sub("[A-Za-z]", "A", code)) for code in codes)
    no_labels: tuple[str, ...] = ()
    return CodeLabels(
        {value: labels_of_code.get(value, no_labels) for value in values},
        shapes.most_common(1)[0][0],
    )


def _select_codes(values: Sequence[str]) -> list[str]:
    """Select the values that are codes.

    A value without digits is a code only if a value with digits has the same beginning.
    """
    code_like_values = [v for v in values if len(v) <= _MAX_CODE_LENGTH and re.fullmatch(_CODE, v)]
    values_with_digits = [
        value for value in code_like_values if any(char.isdigit() for char in value)
    ]
    # If most values have no digits, the column has words, not codes.
    if 2 * len(values_with_digits) < len(values):
        return []
    # The beginnings of one character are for values of a single letter.
    beginnings = {value[:2] for value in values_with_digits} | {
        value[:1] for value in values_with_digits
    }
    return [
        value
        for value in code_like_values
        if any(char.isdigit() for char in value)
        or (re.fullmatch(_CAPITALS_ONLY, value) and value[:2] in beginnings)
    ]


def _list_stems(code: str, cuts_whole_parts: bool) -> list[tuple[str, bool]]:
    """List the stems of a code: its prefixes, longest first, each with True if a separator follows.

    Parameters
    ----------
    cuts_whole_parts : True to list only stems that a separator follows.
    """
    letters = re.match("[A-Za-z]*", code)
    # Two leading letters belong together, such as those of a country or town.
    shortest_length = 2 if letters is not None and len(letters[0]) >= 2 else 1
    stems: list[tuple[str, bool]] = []
    for end in range(len(code) - 1, shortest_length - 1, -1):
        stem = code[:end].rstrip(_SEPARATORS)
        at_separator = code[len(stem)] in _SEPARATORS
        if (not stems or stem != stems[-1][0]) and (at_separator or not cuts_whole_parts):
            stems.append((stem, at_separator))
    return stems


def _are_ranges(values: Sequence[str]) -> bool:
    """Return True if the values are ranges that do not overlap, such as ages: 20-29, 30-39."""
    bounds = []
    for value in values:
        match = re.fullmatch(_RANGE, value)
        if match is None:
            return False
        low = int(match[1])
        bounds.append((low, int(match[2] or low)))
    has_range = any("-" in value or "+" in value for value in values)
    return (
        has_range
        and all(low <= high for low, high in bounds)
        and all(high < next_low for (_, high), (next_low, _) in pairwise(sorted(bounds)))
    )


# The builders of ``spec.KINDS``, called as (specification, values, pulse).
BUILDERS: dict[str, Callable[[JsonMapping, Sequence[str], Pulse], Hierarchy]] = {
    "intervals": lambda spec, values, pulse: intervals(
        values, spec["intervals"], spec.get("origin", 0), pulse=pulse
    ),
    "dates": lambda spec, values, pulse: dates(values, spec["dates"], pulse=pulse),
    "mask": lambda spec, values, pulse: prefixes(
        values,
        None if spec["mask"] is True else spec["mask"],
        spec.get("character", "*"),
        pulse=pulse,
    ),
    "ordered": lambda spec, values, pulse: ordered(
        _ordered_values(spec["ordered"], values), spec.get("fanout", 2), pulse=pulse
    ),
    "grouped": lambda spec, values, pulse: grouped(
        _ordered_values(spec.get("order", True), values), spec["grouped"], pulse=pulse
    ),
}


def _ordered_values(
    order: Literal[True] | Iterable[object], values: Sequence[str]
) -> Sequence[str]:
    """Return the values in order: ``values`` if the order is True, otherwise the listed order."""
    return values if order is True else list(map(str, order))
