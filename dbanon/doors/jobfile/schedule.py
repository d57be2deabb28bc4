"""Checks of a job's cron schedule, which is only informative: dbanon starts no job by it."""

from __future__ import annotations

import re

from pydantic_core import PydanticCustomError

from dbanon.doors.jobfile.field_types import refused

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTH_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Name, smallest and largest number, and names of the numbers from the smallest on.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    # Sunday is 0 and 7.
    ("day of the week", 0, 7, _DAYS),
)
_NUMBER = "[0-9]+|[a-z]+"
_PART = re.compile(rf"(?:\*|(?P<first>{_NUMBER})(?:-(?P<last>{_NUMBER}))?)(?:/(?P<step>[0-9]+))?")


def require_schedule(value: str) -> None:
    """Check five fields of cron; raises a validation error that names the wrong field."""
    fields = value.split(" ")
    fields = [field for field in fields if field]
    if len(fields) != len(_FIELDS) or value != value.strip():
        raise refused('must be five fields as in cron: "0 3 1 * *"')
    numbers = [_numbers(field, *limits) for field, limits in zip(fields, _FIELDS, strict=True)]
    days, months = numbers[2], numbers[3]
    is_any_week_day = fields[4].startswith("*")
    if is_any_week_day and all(_MONTH_LENGTHS[month - 1] < min(days) for month in months):
        raise refused("names a day that its months do not have")


def schedule_problem(value: str) -> str | None:
    """Describe the problem of a schedule without quoting it; None if it is valid."""
    try:
        require_schedule(value)
    except PydanticCustomError as error:
        return error.message()
    return None


def _numbers(field: str, name: str, least: int, largest: int, names: tuple[str, ...]) -> set[int]:
    """Return the numbers that a field matches."""

    def number(text: str) -> int:
        parsed = int(text) if text.isdigit() else names.index(text) + least if text in names else -1
        if not least <= parsed <= largest:
            words = f", or {names[0]} to {names[-1]}" if names else ""
            raise refused(f"the {name} must be {least} to {largest}{words}")
        return parsed

    numbers: set[int] = set()
    for part in field.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise refused('must be five fields as in cron: "0 3 1 * *"')
        first = number(match["first"]) if match["first"] else least
        last = number(match["last"]) if match["last"] else first
        # A step without an end continues to the largest number.
        if not match["first"] or (match["step"] and not match["last"]):
            last = largest
        # At the end of a range, Sunday follows Saturday.
        if names == _DAYS and last == 0:
            last = 7 if match["last"] else last
        if last < first:
            raise refused(f"the {name} must be a range from less to more")
        step = int(match["step"] or 1)
        if step == 0:
            raise refused(f"the step of the {name} must be 1 or more")
        numbers |= set(range(first, last + 1, step))
    return numbers
