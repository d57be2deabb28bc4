"""Checks a job's cron schedule, which is for information only: dbanon itself never starts jobs."""

from __future__ import annotations

import re
from typing import NamedTuple

from pydantic_core import PydanticCustomError

from dbanon.doors.jobfile.field_types import validation_error

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# In days, from January on, in a leap year.
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class _FieldRange(NamedTuple):
    """The allowed values of a field of a schedule.

    Parameters
    ----------
    value_names : names that may be written instead of numbers, beginning with the smallest number.
    """

    name: str
    smallest: int
    largest: int
    value_names: tuple[str, ...] = ()


_FIELDS = (
    _FieldRange("minute", 0, 59),
    _FieldRange("hour", 0, 23),
    _FieldRange("day of the month", 1, 31),
    _FieldRange("month", 1, 12, _MONTHS),
    # Sunday is 0 and 7.
    _FieldRange("day of the week", 0, 7, _WEEKDAYS),
)
_NUMBER_PATTERN = "[0-9]+|[a-z]+"
_RANGE_PATTERN = re.compile(
    rf"(?:\*|(?P<first>{_NUMBER_PATTERN})(?:-(?P<last>{_NUMBER_PATTERN}))?)(?:/(?P<step>[0-9]+))?"
)


def require_schedule(value: str) -> None:
    """Check the five fields of a cron schedule.

    Raises
    ------
    PydanticCustomError : names the wrong field.
    """
    fields = [field for field in value.split(" ") if field]
    if len(fields) != len(_FIELDS) or value != value.strip():
        raise validation_error('must be five fields as in cron: "0 3 1 * *"')
    _, _, days, months, _ = (
        _parse_field(field, field_range) for field, field_range in zip(fields, _FIELDS, strict=True)
    )
    # If a schedule restricts days of the week, too, cron runs on days that match either field.
    is_any_week_day = fields[-1].startswith("*")
    if is_any_week_day and all(_MONTH_LENGTHS[month - 1] < min(days) for month in months):
        raise validation_error("names a day that its months do not have")


def schedule_problem(value: str) -> str | None:
    """Describe the problem of a schedule without quoting it; None if it is valid."""
    try:
        require_schedule(value)
    except PydanticCustomError as error:
        return error.message()
    return None


def _parse_field(field: str, field_range: _FieldRange) -> set[int]:
    """Return the numbers that a field matches."""
    name, smallest, largest, value_names = field_range

    def parse_number(text: str) -> int:
        if text in value_names:
            return value_names.index(text) + smallest
        if not text.isdigit() or not smallest <= int(text) <= largest:
            names_note = f", or {value_names[0]} to {value_names[-1]}" if value_names else ""
            raise validation_error(f"the {name} must be {smallest} to {largest}{names_note}")
        return int(text)

    numbers: set[int] = set()
    for range_text in field.lower().split(","):
        match = _RANGE_PATTERN.fullmatch(range_text)
        if match is None:
            raise validation_error('must be five fields as in cron: "0 3 1 * *"')
        first = parse_number(match["first"]) if match["first"] else smallest
        last = parse_number(match["last"]) if match["last"] else first
        # A step without an end continues to the largest number.
        if not match["first"] or (match["step"] and not match["last"]):
            last = largest
        # At the end of a range, Sunday follows Saturday.
        if value_names == _WEEKDAYS and last == 0:
            last = 7 if match["last"] else last
        if last < first:
            raise validation_error(f"the {name} must be a range whose end is not below its start")
        step = int(match["step"] or 1)
        if step == 0:
            raise validation_error(f"the step of the {name} must be 1 or more")
        numbers |= set(range(first, last + 1, step))
    return numbers
