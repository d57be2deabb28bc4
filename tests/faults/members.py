"""Compares released values with the values of the rows in their class."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from tests.faults.cases import CROSSING_PATTERNS, SUPPRESSING, Case
from tests.faults.tables import Column

Row = dict[str, str | None]
Pairs = Sequence[tuple[Row, Row]]

_MOMENT = re.compile(r"^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d(?:\.\d+)?))?(?:[+]00(?::00)?)?$")


def member_findings(case: Case, pairs: Pairs, generalized: bool) -> Iterator[str]:
    """Check ``pairs`` of a released row and its source row."""
    for name in case.arguments["quasi_identifiers"]:
        column = case.table.column(name)
        if column.extreme:
            continue
        if case.arguments["method"] in SUPPRESSING:
            yield from _cell_findings(column, pairs)
        elif generalized:
            yield from _label_findings(case, column, pairs)
        elif case.arguments.get("guarantee") == "per_attribute":
            yield from _class_findings(case, column, pairs, [name])
        else:
            yield from _class_findings(case, column, pairs, case.arguments["quasi_identifiers"])


def _cell_findings(column: Column, pairs: Pairs) -> Iterator[str]:
    """A released cell must be the source's, or NULL."""
    changed = [
        released[column.name]
        for released, original in pairs
        if released[column.name] not in (None, original[column.name])
    ]
    if changed:
        yield f"truth: {len(changed)} values of a column of type {column.sql_type} changed"


def _class_findings(
    case: Case, column: Column, pairs: Pairs, names: Sequence[str]
) -> Iterator[str]:
    """A mean must be that of its class; a median or medoid must be one of the values."""
    classes: dict[Any, list[str | None]] = defaultdict(list)
    strata = [*names, *case.arguments.get("by", ())]
    index = list(names).index(column.name)
    for released, original in pairs:
        classes[tuple(released[name] for name in strata)].append(original[column.name])
    recoding = case.arguments.get("recoding", "mean")
    numbers = column.family in ("integer", "decimal", "float", "date", "timestamp")
    wrong = 0
    for key, members in classes.items():
        value = key[index]
        if (value is None) != (None in members) or (value is None and set(members) != {None}):
            yield f"truth: NULLs of a column of type {column.sql_type} are not where they were"
            return
        if value is None:
            continue
        if recoding != "mean" or not numbers or case.arguments["method"] == "secure_kward":
            if case.arguments["method"] != "secure_kward" and value not in members:
                member_numbers = {number(text) for text in members} if numbers else set()
                wrong += not (numbers and _near_any(number(value), member_numbers, column))
            continue
        mean, released_number = _mean([text for text in members if text is not None]), number(value)
        if mean is None or released_number is None:
            continue
        wrong += abs(released_number - mean) > _rounding(column, value, mean)
    if wrong:
        expected = "the mean of its class" if recoding == "mean" and numbers else "a member's"
        yield f"truth: {wrong} values of a column of type {column.sql_type} are not {expected}"


def _near_any(value: Fraction | None, members: set[Fraction | None], column: Column) -> bool:
    return value is not None and any(
        other is not None and abs(other - value) <= _rounding(column, "", other)
        for other in members
    )


def _rounding(column: Column, text: str, mean: Fraction) -> Fraction:
    """The tolerance: half a unit of the column's type, plus what a float cannot represent."""
    if column.family == "integer" or column.family == "date":
        return Fraction(1, 2)
    if column.family == "timestamp":
        # SQLite has no precision; use as many digits of a second as the values have.
        is_whole = (
            column.sql_type.endswith(("(0)", "_S", "DATETIME", "TIMESTAMP")) and "." not in text
        )
        return Fraction(1, 2) if is_whole else Fraction(1, 1000)
    relative = Fraction(1, 10**5) if column.sql_type in ("real", "FLOAT") else Fraction(1, 10**11)
    room = abs(mean) * relative + Fraction(1, 10**12)
    if column.family == "decimal":
        digits = len(text.partition(".")[2])
        if "," in column.sql_type:
            digits = int(column.sql_type.rstrip(")").rpartition(",")[2])
        return Fraction(1, 2 * 10**digits) + room
    return room


def _mean(values: Sequence[str]) -> Fraction | None:
    numbers = [number(value) for value in values]
    if not numbers or any(value is None for value in numbers):
        return None
    return sum((value for value in numbers if value is not None), Fraction(0)) / len(numbers)


def number(text: str | None) -> Fraction | None:
    """A number, a date in days, or an instant in seconds; None for anything else."""
    if text is None:
        return None
    if match := _MOMENT.match(text):
        days = date.fromisoformat(match[1]).toordinal()
        if match[2] is None:
            return Fraction(days)
        clock = datetime.strptime(match[2][:8], "%H:%M:%S")
        seconds = clock.hour * 3600 + clock.minute * 60 + clock.second
        return Fraction(days * 86400 + seconds) + Fraction("0" + match[2][8:] or "0")
    try:
        return Fraction(Decimal(text))
    except (InvalidOperation, ValueError, OverflowError):
        return None


def _label_findings(case: Case, column: Column, pairs: Pairs) -> Iterator[str]:
    """Whether a label, range or midpoint covers the original value."""
    name, arguments = column.name, case.arguments
    tree = arguments.get("hierarchies", {}).get(name)
    order = list(arguments.get("orders", {}).get(name, ())) or (
        list(column.levels) if column.family == "enum" else []
    )
    may_be_null = arguments["method"] in CROSSING_PATTERNS
    wrong = 0
    for released, original in pairs:
        value = original[name]
        if may_be_null and released.get(name, released.get(f"{name}_low")) is None:
            continue
        if f"{name}_low" in released and name not in released:
            ends = released[f"{name}_low"], released[f"{name}_high"]
            if value is None:
                wrong += ends != (None, None)
            else:
                wrong += not _between(value, ends[0], ends[1], order, closed=True)
            continue
        label = released.get(name)
        if value is None or label is None:
            wrong += value is not label
        elif tree is not None and "levels" in tree:
            [path] = [path for path in tree["levels"] if path[0] == value.rstrip()] or [[value]]
            wrong += label not in path
        elif tree is None and arguments.get("intervals", "text") != "midpoint":
            wrong += not _holds(label, value, order)
    if wrong:
        yield f"truth: {wrong} labels of a column of type {column.sql_type} do not hold their value"


def _holds(label: str, value: str, order: list[str]) -> bool:
    # The root has enough stars to differ from every value.
    if (label and not label.strip("*")) or label.rstrip() == value.rstrip():
        return True
    if label[:1] in "[(" and label[-1:] in ")]":
        inner = label[1:-1]
        splits = [i for i in range(len(inner)) if inner[i] == ","]
        # Range types quote instants.
        marks = " " if order else '" '
        return any(
            _between(
                value,
                inner[:i].strip(marks),
                inner[i + 1 :].strip(marks),
                order,
                closed=label.endswith("]"),
            )
            for i in splits
        )
    label_number, same = number(label), number(value)
    return (
        label_number is not None
        and same is not None
        and abs(label_number - same) <= _room(value, same)
    )


def _between(value: str, low: str | None, high: str | None, order: list[str], closed: bool) -> bool:
    if low is None or high is None:
        return False
    if order:
        return (
            low in order
            and high in order
            and order.index(low) <= order.index(value) <= order.index(high)
        )
    numbers = [number(text) for text in (value, low, high)]
    if any(limit is None for limit in numbers):
        # Bounds of instants have several spellings, so they are not checked.
        return True
    middle, first, last = (limit for limit in numbers if limit is not None)
    room = _room(value, middle)
    if closed:
        return first - room <= middle <= last + room
    return first - room <= middle < last + room


def _room(text: str, value: Fraction) -> Fraction:
    """A float4 is printed with fewer digits than it has."""
    return abs(value) / 10**6 if "." in text else Fraction(0)
