"""Codes, known by their shape: of diseases, drugs, occupations, regions, and postcodes.

A code is made of digits and few letters, in parts that a point, dash, slash or space joins, and its
beginning says more than its end: B24.1 (ICD-10), A10BA02 (ATC), DE111 (NUTS), SW1A 1AA. Words,
names, ranges (20-29) and dates (17.05.2024) are no codes, though some hold digits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
