"""The forms in which CSV files write numbers, days and moments: what fits, and what it means.

A form is a condition on each value and the SQL of what it means. A column can be of several forms;
``csv_types`` decides which of them it is read by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dbanon.job.reading import APOSTROPHE, COMMA, DMY, MDY, POINT, SPACE, YMD, Reading
from dbanon.stores.duckdb.dialect import literal

INTEGER, DECIMAL, DOUBLE, PERCENT = "integer", "decimal", "double", "percent"
DATE, TIMESTAMP, TIMESTAMPTZ, BOOLEAN = "date", "timestamp", "timestamptz", "boolean"
NUMBERS = (INTEGER, DECIMAL, DOUBLE)
SQL_TYPES = {
    INTEGER: "BIGINT",
    DECIMAL: "DECIMAL",
    DOUBLE: "DOUBLE",
    PERCENT: "DECIMAL",
    DATE: "DATE",
    TIMESTAMP: "TIMESTAMP",
    TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    BOOLEAN: "BOOLEAN",
}
_INTEGER = "(0|[1-9][0-9]*)"
# More digits with a plus are a telephone number.
_WITH_PLUS = "[-+](0|[1-9][0-9]{0,5})"
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
# Spreadsheets write hours before ten with one digit.
_CLOCK = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_ZONE = r"(Z| ?[-+][0-9]{2}(:?[0-9]{2})?)"
# A space between thousands is often one that does not break a line.
_MARKS = {APOSTROPHE: "['\u2019]", SPACE: "[ \u00a0\u202f]", COMMA: ",", POINT: r"\."}
_MARK_NAMES = {APOSTROPHE: "apostrophe", SPACE: "space", COMMA: "comma", POINT: "point"}

_PARTS = {"d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "y": "[0-9]{2}", "Y": "[0-9]{4}"}
_LETTERS = {"d": "dd", "m": "mm", "y": "yy", "Y": "yyyy"}
_ORDERS = {DMY: ("d", "m", "Y"), MDY: ("m", "d", "Y"), YMD: ("Y", "m", "d")}
_SEPARATORS = {DMY: "/.-", MDY: "/-", YMD: "/.-"}
# The patterns of orders, for columns whose separator is the first.
PATTERNS = {DMY: "%d/%m/%Y", MDY: "%m/%d/%Y", YMD: "%Y/%m/%d"}
FIRST = {DMY: "day first", MDY: "month first", YMD: "year first"}
# A time of day behind a day: its pattern, and the formats of ``strptime``.
_TIMES = {
    "": ("", ("",)),
    " hh:mm": (f"[ T]{_CLOCK}", (" %H:%M:%S.%f", " %H:%M:%S", " %H:%M")),
    " hh:mm AM": (
        "[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2})? ?[AaPp][Mm]",
        (" %I:%M:%S %p", " %I:%M %p", " %I:%M:%S%p", " %I:%M%p"),
    ),
}
_MONTH_NAMES, _NAME_MARKS = ("%d{0}%b{0}%{1}", "%d{0}%B{0}%{1}"), "-/ ."


@dataclass(frozen=True)
class ValueFormat:
    """A format of values.

    Parameters
    ----------
    kind : the type's name in ``types``.
    name : a description, such as ``dd/mm/yyyy``.
    condition : SQL that is true for matching values, and true or NULL for NULL.
    value : SQL of the converted value.
    option, argument : the option of ``Reading`` that selects the format; empty for usual formats.
    decimal, thousands : the decimal mark and the separator of thousands.
    is_century_open : whether the year has two digits.
    """

    kind: str
    name: str
    condition: str
    value: str
    option: str = ""
    argument: str = ""
    decimal: str = ""
    thousands: str = ""
    is_century_open: bool = False

    @property
    def sql_type(self) -> str:
        """The type in DuckDB; decimals without width."""
        return SQL_TYPES[self.kind]


def fits(column: str, pattern: str) -> str:
    """Build the condition that a text matches a pattern completely."""
    return f"regexp_full_match({column}, {literal(pattern)})"


def _both(quick: str, slow: str) -> str:
    """Combine two conditions so that the second is evaluated only if the first is true."""
    return f"CASE WHEN {quick} THEN {slow} ELSE false END"


def decimal_of(reading: Reading) -> str:
    """The decimal mark that is tried first."""
    if reading.decimal is None:
        return COMMA if reading.thousands == POINT else POINT
    return reading.decimal


def usual_forms(column: str, reading: Reading) -> list[ValueFormat]:
    """The formats that need no option, the narrowest first."""
    mark = decimal_of(reading)
    number = f"-?{_INTEGER}({_MARKS[mark]}([0-9]+))?"
    plain = f"replace({column}, ',', '.')" if mark == COMMA else column
    option, argument = ("decimal", mark) if mark == COMMA else ("", "")
    return [
        ValueFormat(
            INTEGER,
            "whole numbers",
            f"{fits(column, f'-?{_INTEGER}')} AND length({column}) <= 18",
            column,
        ),
        ValueFormat(
            DECIMAL,
            "numbers",
            f"{fits(column, number)} AND length({column}) <= 30",
            plain,
            option,
            argument,
            decimal=mark,
        ),
        ValueFormat(
            DOUBLE,
            "numbers",
            fits(column, f"{number}([eE][-+]?[0-9]+)?"),
            plain,
            option,
            argument,
            decimal=mark,
        ),
        _iso(column, DATE, "yyyy-mm-dd", _ISO),
        _iso(column, TIMESTAMP, "yyyy-mm-dd hh:mm", f"{_ISO}[ T]{_CLOCK}"),
        _iso(
            column, TIMESTAMPTZ, "yyyy-mm-dd hh:mm with a time zone", f"{_ISO}[ T]{_CLOCK}{_ZONE}"
        ),
        ValueFormat(BOOLEAN, "true and false", f"lower({column}) IN ('true', 'false')", column),
    ]


def _iso(column: str, kind: str, name: str, pattern: str) -> ValueFormat:
    text = f"replace({column}, ' +', '+')" if kind == TIMESTAMPTZ else column
    right = f"TRY_CAST({text} AS {SQL_TYPES[kind]}) IS NOT NULL"
    return ValueFormat(kind, name, _both(fits(column, pattern), right), text)


def other_forms(column: str, reading: Reading) -> list[ValueFormat]:
    """The formats of numbers and dates that are used only if no other one fits."""
    return [*_numbers(column, reading), *_days(column, reading)]


# -- numbers --------------------------------------------------------------------------------------


def _numbers(column: str, reading: Reading) -> Iterator[ValueFormat]:
    for mark in (POINT, COMMA):
        if reading.decimal in (mark, None) and reading.thousands != mark:
            yield from _of_mark(column, reading, mark)


def _of_mark(column: str, reading: Reading, mark: str) -> Iterator[ValueFormat]:
    tail = f"({_MARKS[mark]}([0-9]+))?"
    plain = f"replace({column}, ',', '.')" if mark == COMMA else column
    if mark != decimal_of(reading):
        yield ValueFormat(
            DECIMAL,
            f"numbers with a decimal {_MARK_NAMES[mark]}",
            f"{fits(column, f'-?{_INTEGER}{tail}')} AND length({column}) <= 30",
            plain,
            "decimal",
            mark,
            decimal=mark,
        )
    yield ValueFormat(
        DECIMAL,
        "numbers with a plus sign",
        fits(column, f"({_WITH_PLUS}|0|[1-9][0-9]{{0,5}}){tail}"),
        f"ltrim({plain}, '+')",
        decimal=mark,
    )
    for thousands in (COMMA, POINT, APOSTROPHE, SPACE):
        if thousands == mark or reading.thousands not in (thousands, None):
            continue
        between = _MARKS[thousands]
        marks = literal(f"[+]|{between}")
        group = f"[1-9][0-9]{{0,2}}({between}[0-9]{{3}})+"
        grouped = f"-?(0|[1-9][0-9]*|{group}){tail}"
        if thousands != SPACE:
            grouped += f"|({_WITH_PLUS}|[-+]{group}){tail}"
        yield ValueFormat(
            DECIMAL,
            f"numbers with a {_MARK_NAMES[thousands]} between thousands",
            f"{fits(column, grouped)} AND length({column}) <= 40",
            f"replace(regexp_replace({column}, {marks}, '', 'g'), ',', '.')",
            "thousands",
            thousands,
            decimal=mark,
            thousands=thousands,
        )
    percent = fits(column, f"[-+]?{_INTEGER}{tail} ?%")
    yield ValueFormat(
        PERCENT, "numbers with %", percent, f"rtrim(ltrim({plain}, '+'), '% ')", decimal=mark
    )


def lenient_integers(column: str, reading: Reading) -> list[ValueFormat]:
    """The formats that are accepted for a column declared as integer."""
    forms = [
        ValueFormat(
            INTEGER, "whole numbers", fits(column, "[-+]?[0-9]{1,18}"), f"ltrim({column}, '+')"
        )
    ]
    for thousands in (COMMA, POINT, APOSTROPHE, SPACE):
        # A comma or a point could also be the decimal mark of a number that is not an integer.
        stated = reading.decimal is not None or thousands in (APOSTROPHE, SPACE)
        if reading.decimal != thousands and (
            reading.thousands == thousands or (reading.thousands is None and stated)
        ):
            between = _MARKS[thousands]
            pattern = f"-?[1-9][0-9]{{0,2}}({between}[0-9]{{3}})*"
            value = f"regexp_replace({column}, {literal(between)}, '', 'g')"
            forms.append(
                ValueFormat(
                    INTEGER,
                    "whole numbers",
                    fits(column, pattern),
                    value,
                    "thousands",
                    thousands,
                    thousands=thousands,
                )
            )
    return forms


# -- days -----------------------------------------------------------------------------------------


def pattern_forms(column: str, pattern: str, option: str = "dates") -> list[ValueFormat]:
    """The format of a ``strptime`` pattern."""
    kind = DATE
    if any(f"%{letter}" in pattern for letter in "HIMSfp"):
        kind = TIMESTAMP
    if "%z" in pattern:
        kind = TIMESTAMPTZ
    value = f"try_strptime({column}, {literal(pattern)})"
    return [ValueFormat(kind, pattern, f"{value} IS NOT NULL", value, option, pattern)]


def _days(column: str, reading: Reading) -> Iterator[ValueFormat]:
    dates = reading.dates
    if dates is not None and "%" in dates:
        yield from pattern_forms(column, dates)
    # Without a declared order, all orders are tried.
    for order in (dates,) if dates in _ORDERS else (DMY, MDY, YMD):
        yield from _of_order(column, str(order), _ORDERS[str(order)], _SEPARATORS[str(order)])
    for order in (DMY, MDY, YMD) if dates is None else ():
        short = tuple(part.lower() for part in _ORDERS[order])
        for separator in "./-" if order == DMY else "/-":
            yield from _of_order(column, order, short, separator)
    yield from _named_months(column, dates)


def day_forms(column: str, order: str, separator: str) -> Iterator[ValueFormat]:
    """The formats of dates in an order with one separator, with and without a time of day."""
    yield from _of_order(column, order, _ORDERS[order], separator)


def _of_order(
    column: str, order: str, parts: tuple[str, ...], separators: Iterable[str]
) -> Iterator[ValueFormat]:
    is_short = "y" in parts
    for end, (clock, times) in _TIMES.items():
        if is_short and end:
            continue
        patterns, formats = [], []
        for separator in separators:
            patterns.append(f"[{separator}]".join(_PARTS[part] for part in parts) + clock)
            day = separator.join(f"%{part}" for part in parts)
            formats += [day + time for time in times]
        text = f"replace({column}, 'T', ' ')" if clock else column
        value = f"try_strptime({text}, [{', '.join(map(literal, formats))}])"
        name = next(iter(separators)).join(_LETTERS[part] for part in parts) + end
        yield ValueFormat(
            TIMESTAMP if clock else DATE,
            name,
            _both(fits(column, "|".join(patterns)), f"{value} IS NOT NULL"),
            value,
            "dates",
            formats[0] if is_short else order,
            is_century_open=is_short,
        )


def _named_months(column: str, dates: str | None) -> Iterator[ValueFormat]:
    day, month = "[0-9]{1,2}", "[A-Za-z]{3,9}"
    names = [name.format(mark, "Y") for name in _MONTH_NAMES for mark in _NAME_MARKS]
    names += [f"{name} %d, %Y" for name in ("%b", "%B")]
    value = f"try_strptime({column}, [{', '.join(map(literal, names))}])"
    year = "[0-9]{4}"
    pattern = f"{day}[-/ .]{month}[-/ .]{year}|{month} {day}, {year}"
    yield ValueFormat(
        DATE, "dd-mon-yyyy", _both(fits(column, pattern), f"{value} IS NOT NULL"), value
    )
    for mark in _NAME_MARKS if dates is None else ():
        for name in _MONTH_NAMES:
            form = name.format(mark, "y")
            value = f"try_strptime({column}, {literal(form)})"
            pattern = f"{day}[{mark}]{month}[{mark}][0-9]{{2}}"
            yield ValueFormat(
                DATE,
                f"dd{mark}mon{mark}yy",
                _both(fits(column, pattern), f"{value} IS NOT NULL"),
                value,
                "dates",
                form,
                is_century_open=True,
            )


def compact_day(column: str) -> tuple[str, str]:
    """The condition that digits are a date, yyyymmdd, and its ``strptime`` pattern."""
    pattern = "%Y%m%d"
    value = f"try_strptime({column}, {literal(pattern)})"
    return _both(fits(column, "(18|19|20|21)[0-9]{6}"), f"{value} IS NOT NULL"), pattern
