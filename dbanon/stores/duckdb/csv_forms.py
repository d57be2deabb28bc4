"""Formats in which CSV files write numbers, dates and timestamps.

A format consists of an SQL condition that its values satisfy, and SQL that converts them. Usual
formats, such as ISO dates, need no option; the others are tried if no usual format fits. The values
of a column may match several formats; ``csv_types`` chooses among them. A ``Reading`` holds the
options with which the user describes a file; an option that is None is not set.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dbanon.job.reading import APOSTROPHE, COMMA, DMY, MDY, POINT, SPACE, YMD, Reading
from dbanon.stores.duckdb.dialect import literal

# The kinds of formats: the names of types that users write in the option ``types``.
INTEGER, DECIMAL, DOUBLE, PERCENT = "integer", "decimal", "double", "percent"
DATE, TIMESTAMP, TIMESTAMPTZ, BOOLEAN = "date", "timestamp", "timestamptz", "boolean"
NUMBER_KINDS = (INTEGER, DECIMAL, DOUBLE)
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
_INTEGER_PATTERN = "(0|[1-9][0-9]*)"
# A plus sign with more than six digits probably begins a telephone number.
_SIGNED_INTEGER_PATTERN = "[-+](0|[1-9][0-9]{0,5})"
_ISO_DATE_PATTERN = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
# Spreadsheets write hours before ten with one digit.
_TIME_PATTERN = r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_TIME_ZONE_PATTERN = r"(Z| ?[-+][0-9]{2}(:?[0-9]{2})?)"
# Patterns of decimal marks and thousands separators; a space may be a no-break space.
_MARK_PATTERNS = {APOSTROPHE: "['\u2019]", SPACE: "[ \u00a0\u202f]", COMMA: ",", POINT: r"\."}
_MARK_NAMES = {APOSTROPHE: "apostrophe", SPACE: "space", COMMA: "comma", POINT: "point"}

# The parts of dates: y is a year of two digits, Y of four.
_DATE_PART_PATTERNS = {"d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "y": "[0-9]{2}", "Y": "[0-9]{4}"}
_DATE_PART_NAMES = {"d": "dd", "m": "mm", "y": "yy", "Y": "yyyy"}
_DATE_PARTS = {DMY: ("d", "m", "Y"), MDY: ("m", "d", "Y"), YMD: ("Y", "m", "d")}
_DATE_SEPARATORS = {DMY: "/.-", MDY: "/-", YMD: "/.-"}
# A pattern of ``strptime`` for each order of day, month and year, with its first separator.
STRPTIME_PATTERNS = {DMY: "%d/%m/%Y", MDY: "%m/%d/%Y", YMD: "%Y/%m/%d"}
ORDER_NAMES = {DMY: "day first", MDY: "month first", YMD: "year first"}
# Formats of a time of day after a date: a regular expression, and patterns of ``strptime``. The key
# is appended to the name of the date's format.
_TIME_FORMATS = {
    "": ("", ("",)),
    " hh:mm": (f"[ T]{_TIME_PATTERN}", (" %H:%M:%S.%f", " %H:%M:%S", " %H:%M")),
    " hh:mm AM": (
        "[ T][0-9]{1,2}:[0-9]{2}(:[0-9]{2})? ?[AaPp][Mm]",
        (" %I:%M:%S %p", " %I:%M %p", " %I:%M:%S%p", " %I:%M%p"),
    ),
}
# Dates with names of months: {0} stands for the separator, {1} for the directive of the year.
_NAMED_MONTH_PATTERNS, _NAMED_MONTH_SEPARATORS = ("%d{0}%b{0}%{1}", "%d{0}%B{0}%{1}"), "-/ ."


@dataclass(frozen=True)
class ValueFormat:
    """A format of values in a text column.

    Parameters
    ----------
    kind : the name of the type in the option ``types``.
    name : a description, such as ``dd/mm/yyyy``.
    condition : SQL that is true for matching values, and true or NULL for NULL.
    value : SQL of the converted value.
    option, argument : the option of ``Reading`` that selects the format, and the option's value;
        empty if the format needs no option.
    decimal, thousands : the decimal mark and the separator of thousands; empty for none.
    has_two_digit_year : whether the year has two digits, so that the century is unknown.
    """

    kind: str
    name: str
    condition: str
    value: str
    option: str = ""
    argument: str = ""
    decimal: str = ""
    thousands: str = ""
    has_two_digit_year: bool = False

    @property
    def sql_type(self) -> str:
        """The type in DuckDB; decimals have no precision and scale yet."""
        return SQL_TYPES[self.kind]


def matches_pattern(column: str, pattern: str) -> str:
    """Build the condition that a text matches a pattern completely."""
    return f"regexp_full_match({column}, {literal(pattern)})"


def _if_then(condition: str, consequence: str) -> str:
    """Build SQL for AND that evaluates the second condition only if the first one is true."""
    return f"CASE WHEN {condition} THEN {consequence} ELSE false END"


def find_decimal_mark(reading: Reading) -> str:
    """The decimal mark of the usual formats: a point, unless the options imply a comma."""
    if reading.decimal is None:
        return COMMA if reading.thousands == POINT else POINT
    return reading.decimal


def usual_formats(column: str, reading: Reading) -> list[ValueFormat]:
    """The formats that need no option, most specific first."""
    mark = find_decimal_mark(reading)
    number = f"-?{_INTEGER_PATTERN}({_MARK_PATTERNS[mark]}([0-9]+))?"
    decimal_point_sql = f"replace({column}, ',', '.')" if mark == COMMA else column
    option, argument = ("decimal", mark) if mark == COMMA else ("", "")
    # BIGINT holds all numbers of 18 characters, and DECIMAL all of 30.
    return [
        ValueFormat(
            INTEGER,
            "whole numbers",
            f"{matches_pattern(column, f'-?{_INTEGER_PATTERN}')} AND length({column}) <= 18",
            column,
        ),
        ValueFormat(
            DECIMAL,
            "numbers",
            f"{matches_pattern(column, number)} AND length({column}) <= 30",
            decimal_point_sql,
            option=option,
            argument=argument,
            decimal=mark,
        ),
        ValueFormat(
            DOUBLE,
            "numbers",
            matches_pattern(column, f"{number}([eE][-+]?[0-9]+)?"),
            decimal_point_sql,
            option=option,
            argument=argument,
            decimal=mark,
        ),
        _iso_format(column, DATE, "yyyy-mm-dd", _ISO_DATE_PATTERN),
        _iso_format(
            column, TIMESTAMP, "yyyy-mm-dd hh:mm", f"{_ISO_DATE_PATTERN}[ T]{_TIME_PATTERN}"
        ),
        _iso_format(
            column,
            TIMESTAMPTZ,
            "yyyy-mm-dd hh:mm with a time zone",
            f"{_ISO_DATE_PATTERN}[ T]{_TIME_PATTERN}{_TIME_ZONE_PATTERN}",
        ),
        ValueFormat(BOOLEAN, "true and false", f"lower({column}) IN ('true', 'false')", column),
    ]


def _iso_format(column: str, kind: str, name: str, pattern: str) -> ValueFormat:
    """The format of ISO 8601 dates or timestamps; invalid ones do not match."""
    text = f"replace({column}, ' +', '+')" if kind == TIMESTAMPTZ else column
    is_valid = f"TRY_CAST({text} AS {SQL_TYPES[kind]}) IS NOT NULL"
    return ValueFormat(kind, name, _if_then(matches_pattern(column, pattern), is_valid), text)


def unusual_formats(column: str, reading: Reading) -> list[ValueFormat]:
    """The other formats of numbers and dates that the options allow."""
    return [*_number_formats(column, reading), *_allowed_date_formats(column, reading)]


# -- numbers --------------------------------------------------------------------------------------


def _number_formats(column: str, reading: Reading) -> Iterator[ValueFormat]:
    """The unusual formats of numbers, for each decimal mark that the options allow."""
    for mark in (POINT, COMMA):
        if reading.decimal in (mark, None) and reading.thousands != mark:
            yield from _formats_with_decimal_mark(column, reading, mark)


def _formats_with_decimal_mark(column: str, reading: Reading, mark: str) -> Iterator[ValueFormat]:
    """The unusual formats of numbers with a decimal mark."""
    decimals = f"({_MARK_PATTERNS[mark]}([0-9]+))?"
    decimal_point_sql = f"replace({column}, ',', '.')" if mark == COMMA else column
    number = f"-?{_INTEGER_PATTERN}{decimals}"
    if mark != find_decimal_mark(reading):
        yield ValueFormat(
            DECIMAL,
            f"numbers with a decimal {_MARK_NAMES[mark]}",
            f"{matches_pattern(column, number)} AND length({column}) <= 30",
            decimal_point_sql,
            option="decimal",
            argument=mark,
            decimal=mark,
        )
    yield ValueFormat(
        DECIMAL,
        "numbers with a plus sign",
        matches_pattern(column, f"({_SIGNED_INTEGER_PATTERN}|0|[1-9][0-9]{{0,5}}){decimals}"),
        f"ltrim({decimal_point_sql}, '+')",
        decimal=mark,
    )
    for thousands in (COMMA, POINT, APOSTROPHE, SPACE):
        if thousands == mark or reading.thousands not in (thousands, None):
            continue
        separator = _MARK_PATTERNS[thousands]
        removed_marks = literal(f"[+]|{separator}")
        group = f"[1-9][0-9]{{0,2}}({separator}[0-9]{{3}})+"
        grouped = f"-?(0|[1-9][0-9]*|{group}){decimals}"
        # A plus sign before groups with spaces may begin a telephone number.
        if thousands != SPACE:
            grouped += f"|({_SIGNED_INTEGER_PATTERN}|[-+]{group}){decimals}"
        yield ValueFormat(
            DECIMAL,
            f"numbers with a {_MARK_NAMES[thousands]} between thousands",
            f"{matches_pattern(column, grouped)} AND length({column}) <= 40",
            f"replace(regexp_replace({column}, {removed_marks}, '', 'g'), ',', '.')",
            option="thousands",
            argument=thousands,
            decimal=mark,
            thousands=thousands,
        )
    # The value of "12 %" is 12 here. ``csv_types`` divides it by 100 if the user declares percent.
    percent = matches_pattern(column, f"[-+]?{_INTEGER_PATTERN}{decimals} ?%")
    yield ValueFormat(
        PERCENT,
        "numbers with %",
        percent,
        f"rtrim(ltrim({decimal_point_sql}, '+'), '% ')",
        decimal=mark,
    )


def lenient_integer_formats(column: str, reading: Reading) -> list[ValueFormat]:
    """The formats for a column that is declared as integer; they also accept leading zeros."""
    formats = [
        ValueFormat(
            INTEGER,
            "whole numbers",
            matches_pattern(column, "[-+]?[0-9]{1,18}"),
            f"ltrim({column}, '+')",
        )
    ]
    for thousands in (COMMA, POINT, APOSTROPHE, SPACE):
        # A comma or a point could also be a decimal mark.
        is_unambiguous = reading.decimal is not None or thousands in (APOSTROPHE, SPACE)
        if reading.decimal != thousands and (
            reading.thousands == thousands or (reading.thousands is None and is_unambiguous)
        ):
            separator = _MARK_PATTERNS[thousands]
            pattern = f"-?[1-9][0-9]{{0,2}}({separator}[0-9]{{3}})*"
            value = f"regexp_replace({column}, {literal(separator)}, '', 'g')"
            formats.append(
                ValueFormat(
                    INTEGER,
                    "whole numbers",
                    matches_pattern(column, pattern),
                    value,
                    option="thousands",
                    argument=thousands,
                    thousands=thousands,
                )
            )
    return formats


# -- dates ----------------------------------------------------------------------------------------


def formats_of_strptime_pattern(
    column: str, pattern: str, option: str = "dates"
) -> list[ValueFormat]:
    """The format that a ``strptime`` pattern defines, as a list of one element.

    Parameters
    ----------
    option : the option that the pattern comes from: ``dates`` or ``types``.
    """
    kind = DATE
    # The directives of a time of day.
    if any(f"%{letter}" in pattern for letter in "HIMSfp"):
        kind = TIMESTAMP
    if "%z" in pattern:
        kind = TIMESTAMPTZ
    value = f"try_strptime({column}, {literal(pattern)})"
    return [
        ValueFormat(kind, pattern, f"{value} IS NOT NULL", value, option=option, argument=pattern)
    ]


def _allowed_date_formats(column: str, reading: Reading) -> Iterator[ValueFormat]:
    """The unusual formats of dates that the option ``dates`` allows."""
    dates = reading.dates
    if dates is not None and "%" in dates:
        yield from formats_of_strptime_pattern(column, dates)
    # If no order is declared, try all orders.
    for order in (dates,) if dates in _DATE_PARTS else (DMY, MDY, YMD):
        yield from _formats_of_date_order(
            column, str(order), _DATE_PARTS[str(order)], _DATE_SEPARATORS[str(order)]
        )
    # Formats whose years have two digits never convert values, because the century is unknown. They
    # are tried only so that the user can be asked for the format.
    for order in (DMY, MDY, YMD) if dates is None else ():
        short_parts = tuple(part.lower() for part in _DATE_PARTS[order])
        for separator in "./-" if order == DMY else "/-":
            yield from _formats_of_date_order(column, order, short_parts, separator)
    yield from _named_month_formats(column, dates)


def date_formats(column: str, order: str, separator: str) -> Iterator[ValueFormat]:
    """The formats of dates in an order with one separator, with and without a time of day."""
    yield from _formats_of_date_order(column, order, _DATE_PARTS[order], separator)


def _formats_of_date_order(
    column: str, order: str, parts: tuple[str, ...], separators: Iterable[str]
) -> Iterator[ValueFormat]:
    """The formats of dates with these parts, optionally followed by a time of day.

    Parameters
    ----------
    order : ``dmy``, ``mdy`` or ``ymd``.
    parts : the parts in this order, as keys of ``_DATE_PART_PATTERNS``.
    separators : the characters that may separate the parts.
    """
    has_two_digit_year = "y" in parts
    for name_suffix, (time_pattern, time_strptime_patterns) in _TIME_FORMATS.items():
        # Timestamps need a year with four digits.
        if has_two_digit_year and name_suffix:
            continue
        patterns, strptime_patterns = [], []
        for separator in separators:
            patterns.append(
                f"[{separator}]".join(_DATE_PART_PATTERNS[part] for part in parts) + time_pattern
            )
            date_pattern = separator.join(f"%{part}" for part in parts)
            strptime_patterns += [date_pattern + time for time in time_strptime_patterns]
        text = f"replace({column}, 'T', ' ')" if time_pattern else column
        value = f"try_strptime({text}, [{', '.join(map(literal, strptime_patterns))}])"
        name = next(iter(separators)).join(_DATE_PART_NAMES[part] for part in parts) + name_suffix
        yield ValueFormat(
            TIMESTAMP if time_pattern else DATE,
            name,
            _if_then(matches_pattern(column, "|".join(patterns)), f"{value} IS NOT NULL"),
            value,
            option="dates",
            argument=strptime_patterns[0] if has_two_digit_year else order,
            has_two_digit_year=has_two_digit_year,
        )


def _named_month_formats(column: str, dates: str | None) -> Iterator[ValueFormat]:
    """The formats of dates with English names of months."""
    day, month = "[0-9]{1,2}", "[A-Za-z]{3,9}"
    strptime_patterns = [
        template.format(separator, "Y")
        for template in _NAMED_MONTH_PATTERNS
        for separator in _NAMED_MONTH_SEPARATORS
    ]
    strptime_patterns += [f"{month_directive} %d, %Y" for month_directive in ("%b", "%B")]
    value = f"try_strptime({column}, [{', '.join(map(literal, strptime_patterns))}])"
    year = "[0-9]{4}"
    pattern = f"{day}[-/ .]{month}[-/ .]{year}|{month} {day}, {year}"
    yield ValueFormat(
        DATE,
        "dd-mon-yyyy",
        _if_then(matches_pattern(column, pattern), f"{value} IS NOT NULL"),
        value,
    )
    for separator in _NAMED_MONTH_SEPARATORS if dates is None else ():
        for template in _NAMED_MONTH_PATTERNS:
            strptime_pattern = template.format(separator, "y")
            value = f"try_strptime({column}, {literal(strptime_pattern)})"
            pattern = f"{day}[{separator}]{month}[{separator}][0-9]{{2}}"
            yield ValueFormat(
                DATE,
                f"dd{separator}mon{separator}yy",
                _if_then(matches_pattern(column, pattern), f"{value} IS NOT NULL"),
                value,
                option="dates",
                argument=strptime_pattern,
                has_two_digit_year=True,
            )


def compact_date_format(column: str) -> tuple[str, str]:
    """SQL that is true if a text of digits is a date (yyyymmdd), and its ``strptime`` pattern."""
    pattern = "%Y%m%d"
    value = f"try_strptime({column}, {literal(pattern)})"
    return _if_then(
        matches_pattern(column, "(18|19|20|21)[0-9]{6}"), f"{value} IS NOT NULL"
    ), pattern
