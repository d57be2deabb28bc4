"""Hierarchies made from a list of values: intervals, dates, prefixes, orders, and a proposal.

Every builder takes the values that are to be leaves and gives a tree in which they keep the order
that the builder states. Labels of intervals are ``[low, high)``. ``pulse`` is called now and then:
what it raises ends the making.

Codes are known by their shape: of diseases, drugs, occupations, regions, and postcodes. A code is
made of digits and few letters, in parts that a point, dash, slash or space joins, and its beginning
says more than its end: B24.1 (ICD-10), A10BA02 (ATC), DE111 (NUTS), SW1A 1AA. Words, names, ranges
(20-29) and dates (17.05.2024) are no codes, though some hold digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from decimal import ROUND_FLOOR, Decimal, InvalidOperation
from itertools import pairwise

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter
from dbanon.hierarchy.edges import Pulse, no_pulse, paced
from dbanon.hierarchy.tree import Hierarchy, flat

ROOT = "*"
DATE_STEPS = ("day", "week", "month", "quarter", "year", "5y", "decade")


def intervals(
    values: Sequence[str],
    steps: Sequence[float | str],
    origin: float | str = 0,
    *,
    pulse: Pulse = no_pulse,
) -> Hierarchy:
    """Numbers in intervals of growing width on a grid, e.g. steps 5, 10, 50.

    Parameters
    ----------
    values : numbers as text.
    steps : widths, each a whole multiple of the one before.
    origin : a border of the grid.

    Raises
    ------
    InvalidParameter : a value is no number, or a step is no multiple of the one before.
    """
    numbers = _numbers(values, pulse)
    widths = [_decimal(step, "A step") for step in steps]
    start = _decimal(origin, "The origin")
    before = None
    for width in widths:
        if width <= 0 or (before is not None and width % before):
            raise InvalidParameter(
                "Steps must be positive, each a whole multiple of the one before."
            )
        before = width
    rows = []
    for number, value in paced(sorted((number, value) for value, number in numbers.items()), pulse):
        row = [value]
        for width in widths:
            low = start + ((number - start) / width).to_integral_value(ROUND_FLOOR) * width
            row.append(f"[{_plain(low)}, {_plain(low + width)})")
        rows.append([*row, ROOT])
    return _tree(rows, pulse)


def dates(
    values: Sequence[str],
    steps: Sequence[str] = ("month", "year", "decade"),
    *,
    pulse: Pulse = no_pulse,
) -> Hierarchy:
    """Dates (``2024-05-17``) by calendar: day, month, quarter, year, 5y and decade, in that order.

    A day is a step of moments. A week, Monday to Sunday as ISO 8601 counts them, lies in no one
    month or year: only ``*`` stands above it.

    Raises
    ------
    InvalidParameter : a value is no date, or the steps are unknown, not in order, or stand above a
        week.
    """
    if any(step not in DATE_STEPS for step in steps) or [
        step for step in DATE_STEPS if step in steps
    ] != list(steps):
        raise InvalidParameter("Steps of dates are, in this order: " + ", ".join(DATE_STEPS) + ".")
    if "week" in steps and steps[-1] != "week":
        raise InvalidParameter(
            "A week may lie in two months or two years, so no other step may follow it.",
            hint='Write ["week"] or ["day", "week"], or leave the week out.',
        )
    found = []
    for value in paced(set(values), pulse):
        try:
            found.append((date.fromisoformat(value[:10]), value))
        except ValueError:
            raise InvalidParameter("A value is no date in the form 2024-05-17.") from None
    rows = []
    for day, value in paced(sorted(found), pulse):
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
        # The calendar of an instant is that of its zone, which its text ends with.
        zone = " UTC" if value.endswith("+00:00") else ""
        rows.append([value, *(labels[step] + zone for step in steps), ROOT])
    return _tree(rows, pulse)


def prefixes(
    values: Sequence[str],
    keep: Sequence[int] | None = None,
    mask: str = "*",
    *,
    pulse: Pulse = no_pulse,
) -> Hierarchy:
    """Codes of digits or letters masked from the right, e.g. 23208, 2320*, 232**, ... (zip codes).

    Parameters
    ----------
    keep : how many leading characters each level keeps, falling; None for every number.
    mask : one character for each one hidden; the root is all mask.

    Raises
    ------
    InvalidParameter : the levels do not fall, or the mask is no single character.
    """
    if len(mask) != 1:
        raise InvalidParameter("The mask must be one character.")
    length = max((len(value) for value in values), default=0)
    levels = list(range(length - 1, 0, -1)) if keep is None else list(keep)
    if any(a <= b for a, b in pairwise(levels)) or min(levels, default=1) < 1:
        raise InvalidParameter("The numbers of kept characters must fall, down to 1 at least.")
    rows = []
    for value in paced(sorted(set(values)), pulse):
        if mask in value:
            raise InvalidParameter("A value holds the mask character: choose another mask.")
        # A shorter code is masked to its own length, so that its labels are its own.
        kept = [
            value[:count] + mask * (len(value) - count) for count in levels if count < len(value)
        ]
        rows.append([value, *kept, mask * max(length, 1)])
    return _tree(rows, pulse)


def ordered(values: Sequence[str], fanout: int = 2, *, pulse: Pulse = no_pulse) -> Hierarchy:
    """Ordered values (an enum, grades) in groups of ``fanout`` neighbours, level upon level.

    Parameters
    ----------
    values : in their order, each once.
    fanout : children of a node, 2 or more.

    Raises
    ------
    InvalidParameter : a value stands twice, or the fanout is below 2.
    """
    if fanout < 2:
        raise InvalidParameter("The fanout must be 2 or more.")
    if len(set(values)) != len(values):
        raise InvalidParameter("A value appears twice in the order.")
    rows = [[value] for value in values]
    size = fanout
    while size < len(values):
        for at, row in enumerate(paced(rows, pulse)):
            first = at // size * size
            last = min(first + size, len(values)) - 1
            row.append(row[-1] if first == last else f"{values[first]} to {values[last]}")
        size *= fanout
    return _tree([[*row, ROOT] for row in rows], pulse)


def grouped(values: Sequence[str], sizes: Sequence[int], *, pulse: Pulse = no_pulse) -> Hierarchy:
    """Ordered values in one level of groups of the given sizes, in order.

    Raises
    ------
    InvalidParameter : the sizes do not add up to the number of values.
    """
    if sum(sizes) != len(values) or min(sizes, default=1) < 1:
        raise InvalidParameter("The sizes of the groups must add up to the number of values.")
    rows, first = [], 0
    for size in sizes:
        group = list(values[first : first + size])
        label = group[0] if size == 1 else f"{group[0]} to {group[-1]}"
        rows += [[value, label, ROOT] for value in group]
        first += size
    return _tree(rows, pulse)


@dataclass(frozen=True)
class Suggestion:
    """A proposed tree, and why it is this one: no value is named."""

    tree: Hierarchy
    why: str


def suggest(values: Sequence[str]) -> Hierarchy:
    """A proposal from the values alone, to be edited by a person before it is used.

    Dates by calendar; codes by what they begin with; numbers in intervals of about a tenth and a
    third of their width; all others directly below the root. ``suggestion`` also says why.
    """
    return suggestion(values).tree


def suggestion(values: Sequence[str]) -> Suggestion:
    """The proposal of ``suggest``, and why it was made."""
    distinct = sorted(set(values))
    try:
        if distinct:
            return Suggestion(dates(distinct), "dates: by month, year and decade")
    except InvalidParameter:
        pass
    lengths = {len(value) for value in distinct}
    digits = all(value.isdigit() for value in distinct)
    if digits and len(lengths) == 1 and min(lengths) >= 4:
        why = f"codes of {min(lengths)} digits: a star stands for each that is hidden"
        return Suggestion(prefixes(distinct), why)
    # A number is not written with a zero in front.
    if not any(re.match("0[0-9]", value) for value in distinct):
        with suppress(InvalidParameter):
            return _of_numbers(distinct)
    codes = codes_of(distinct)
    if codes is None:
        why = "neither dates, nor codes, nor numbers: all right below the root"
        return Suggestion(flat(distinct, ROOT), why)
    why = (
        f"codes: letters and digits, most of them as {codes.shape}; a star stands for what follows"
    )
    return Suggestion(_tree([[v, *codes.ways[v], ROOT] for v in distinct], no_pulse), why)


def _of_numbers(distinct: Sequence[str]) -> Suggestion:
    """Intervals; raises InvalidParameter where a value is no number."""
    numbers = _numbers(distinct).values()
    width = max(numbers, default=Decimal(0)) - min(numbers, default=Decimal(0))
    if width == 0:
        return Suggestion(flat(distinct, ROOT), "no two numbers: all right below the root")
    step = Decimal(1).scaleb((width / 20).adjusted())
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * 20 >= width)
    widths = [str(step), str(step * 5)]
    why = f"numbers: in intervals of {_plain(step)} and {_plain(step * 5)}"
    return Suggestion(intervals(distinct, widths), why)


def _tree(rows: Sequence[Sequence[str]], pulse: Pulse) -> Hierarchy:
    return Hierarchy.from_levels(rows, pulse) if rows else flat([])


def _numbers(values: Sequence[str], pulse: Pulse = no_pulse) -> dict[str, Decimal]:
    return {value: _decimal(value, "A value") for value in paced(set(values), pulse)}


def _decimal(value: float | str, what: str) -> Decimal:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite():
        raise InvalidParameter(f"{what} is no number.")
    return number


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_JOINS = ".-/ "
# Letters in runs of three at most, small ones alone: more are words. Marks as of ICD-10-GM behind.
_LETTERS = r"(?:(?<![A-Za-z])(?:[A-Z]{1,3}|[a-z])(?![A-Za-z]))"
_PART = rf"(?:[0-9]|{_LETTERS})+"
_CODE = re.compile(rf"{_PART}(?:[{re.escape(_JOINS)}]{_PART})*[+!]?")
_COUNTRY = re.compile(r"[A-Z]{1,3}")
_LONGEST = 20
# Of the values, so many may be none: what stands for unknown.
_OTHERS = 0.05
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+)|\+)?")
# 17.05.2024, 5/17/24, 05/2024: what stands in front says least.
_DAY_OR_MONTH = "(?:0?[1-9]|[12][0-9]|3[01])"
_DAY = re.compile(
    f"(?:{_DAY_OR_MONTH}[./-])?{_DAY_OR_MONTH}[./-](?:1[89]|2[01])[0-9]{{2}}"
    f"|{_DAY_OR_MONTH}[./-]{_DAY_OR_MONTH}[./-][0-9]{{2}}"
)
# So many joints in every value, and each part is a number of its own.
_PARTED = 3


@dataclass(frozen=True)
class Codes:
    """The labels above each value of a column of codes, up to the root but for it.

    Parameters
    ----------
    ways : by value; none for a value that is no code.
    shape : the shape that most of them have: A for a letter, 9 for a digit.
    """

    ways: dict[str, tuple[str, ...]]
    shape: str


def codes_of(values: Sequence[str]) -> Codes | None:
    """The labels above codes, or None where the values are none, or have no beginning in common.

    A label is what all values below it begin with, and nothing else, so that it tells no more of
    one of them than the value itself: ``B2*``. Cut between two parts it has no star, ``B24``, but
    where a value of the column could be taken for such a label.

    Parameters
    ----------
    values : texts, each once.
    """
    codes = _coded(values)
    if len(codes) < (1 - _OTHERS) * len(values) or any("*" in value for value in values):
        return None
    if _are_ranges(codes) or all(_DAY.fullmatch(code) for code in codes):
        return None
    parted = all(sum(map(code.count, _JOINS)) >= _PARTED for code in codes)
    stems = {code: _stems(code, parted) for code in codes}
    known = set(values)
    # One rule for the column: a star of one label alone would tell of one value.
    starred = any(cut and stem in known for found in stems.values() for stem, cut in found)
    above = {stem for found in stems.values() for stem, _ in found}
    ways = {
        code: tuple(
            stem if cut and not starred else f"{stem}*"
            for stem, cut in ([(code, False)] if code in above else []) + stems[code]
        )
        for code in codes
    }
    below = Counter(label for way in ways.values() for label in way)
    if max(below.values(), default=0) < 2:
        return None
    shapes = Counter(re.sub("[0-9]", "9", re.sub("[A-Za-z]", "A", code)) for code in codes)
    none: tuple[str, ...] = ()
    return Codes({value: ways.get(value, none) for value in values}, shapes.most_common(1)[0][0])


def _coded(values: Sequence[str]) -> list[str]:
    """Those values that are codes; without a digit only beside others that begin alike."""
    shaped = [v for v in values if len(v) <= _LONGEST and _CODE.fullmatch(v)]
    numbered = [value for value in shaped if any(char.isdigit() for char in value)]
    if 2 * len(numbered) < len(values):
        return []
    starts = {value[:2] for value in numbered} | {value[:1] for value in numbered}
    return [
        value
        for value in shaped
        if any(char.isdigit() for char in value)
        or (_COUNTRY.fullmatch(value) and value[:2] in starts)
    ]


def _stems(code: str, parted: bool) -> list[tuple[str, bool]]:
    """What a code begins with, the longest first, and whether it was cut between two parts."""
    letters = re.match("[A-Za-z]*", code)
    # Two letters in front are one thing, such as a country or a town.
    shortest = 2 if letters is not None and len(letters[0]) >= 2 else 1
    found: list[tuple[str, bool]] = []
    for end in range(len(code) - 1, shortest - 1, -1):
        stem = code[:end].rstrip(_JOINS)
        cut = code[len(stem)] in _JOINS
        if (not found or stem != found[-1][0]) and (cut or not parted):
            found.append((stem, cut))
    return found


def _are_ranges(values: Sequence[str]) -> bool:
    """True for numbers from one to another that follow on each other, as ages do: 20-29, 30-39."""
    ends = []
    for value in values:
        found = _RANGE.fullmatch(value)
        if found is None:
            return False
        low = int(found[1])
        ends.append((low, int(found[2] or low)))
    ranges = any("-" in value or "+" in value for value in values)
    return (
        ranges
        and all(low <= high for low, high in ends)
        and all(before[1] < after[0] for before, after in pairwise(sorted(ends)))
    )
