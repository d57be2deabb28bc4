"""Columns of CSV files: the types that their texts are written in, and what texts look like."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dbanon.job.reading import COMMA, DMY, MDY, POINT, Reading
from dbanon.sessions.base import AsWritten
from dbanon.sessions.names import quote
from dbanon.stores.duckdb.csv_files import Head
from dbanon.stores.duckdb.dialect import literal

_NULL_WORDS = "null_words"
_ORDERS = {DMY: "{d}{s}{m}{s}{y}", MDY: "{m}{s}{d}{s}{y}"}
_SEPARATORS = {DMY: "./-", MDY: "/-"}
_DAY = {"d": "[0-9]{1,2}", "m": "[0-9]{1,2}", "y": "[0-9]{4}"}
_ISO = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"


def read_arguments(head: Head) -> str:
    """The arguments of DuckDB's ``read_csv``, which has nothing to guess then: all as texts."""
    columns = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in head.names)
    return (
        f"auto_detect = false, header = true, skip = {head.skipped}, comment = '',"
        f" delim = {literal(head.delimiter)}, quote = '\"', escape = '\"',"
        f" nullstr = '', allow_quoted_nulls = false, columns = {{{columns}}}"
    )


def known_texts(head: Head, reading: Reading) -> str:
    """The columns as they are read, NULL where a word stands for it."""
    if not reading.null_words:
        return "*"
    words = ", ".join(map(literal, reading.null_words))
    return ", ".join(
        f"CASE WHEN {name} NOT IN ({words}) THEN {name} END AS {name}"
        for name in map(quote, head.names)
    )


def is_header(head: Head) -> str:
    """True of a row that is the header again, as a condition; with the mark of its file, too."""
    first, *others = (
        (quote(name), literal(cell) if cell else "NULL")
        for name, cell in zip(head.names, head.cells, strict=True)
    )
    conditions = [f"ltrim({first[0]}, chr(65279)) IS NOT DISTINCT FROM {first[1]}"]
    conditions += [f"{name} IS NOT DISTINCT FROM {cell}" for name, cell in others]
    return " AND ".join(conditions)


@dataclass(frozen=True)
class Typed:
    """What a column of texts is read as.

    Parameters
    ----------
    sql_type : of DuckDB.
    value : the column in this type, as SQL.
    by : the option by which it is, as in ``dates: dmy``; empty where it is anyway.
    """

    sql_type: str
    value: str
    by: str = ""


def question(column: str, reading: Reading) -> str:
    """What ``answered`` needs to know of a column, as expressions of one SELECT."""
    known = f"FILTER (WHERE {column} IS NOT NULL)"
    number = _number(reading)
    room = (
        f"max(length(regexp_extract({column}, {literal(number)}, {group})))" for group in (1, 3)
    )
    fits = (f"bool_and({condition}) {known}" for condition, _ in _kinds(column, reading))
    return ", ".join((*fits, *room))


def answered(column: str, reading: Reading, found: Sequence[object]) -> Typed:
    """The narrowest type that holds all values of a column of texts, as they are written."""
    *fits, digits, scale = found
    for fit, (_, kind) in zip(fits, _kinds(column, reading), strict=True):
        if not fit:
            continue
        if kind.sql_type == "DECIMAL":
            # Room for the longest on each side of the point, which need not be of one value.
            before, behind = int(str(digits)), int(str(scale))
            if before + behind > 38:
                continue
            sql_type = f"DECIMAL({before + behind}, {behind})"
            return Typed(sql_type, f"CAST({kind.value} AS {sql_type})", kind.by)
        return kind
    return Typed("VARCHAR", column)


def _number(reading: Reading) -> str:
    point = "," if reading.decimal == COMMA else r"\."
    return f"-?(0|[1-9][0-9]*)({point}([0-9]+))?"


def _kinds(column: str, reading: Reading) -> list[tuple[str, Typed]]:
    """What a column may be, the narrowest first: the condition on each value, and the type."""
    number = _number(reading)
    plain = f"replace({column}, ',', '.')" if reading.decimal == COMMA else column
    by = f'decimal: "{COMMA}"' if reading.decimal == COMMA else ""
    day, moment = f"CAST({column} AS DATE)", f"CAST({column} AS TIMESTAMP)"

    def fits(pattern: str) -> str:
        return f"regexp_full_match({column}, {literal(pattern)})"

    found = [
        (
            f"{fits('-?(0|[1-9][0-9]*)')} AND length({column}) <= 18",
            Typed("BIGINT", f"CAST({column} AS BIGINT)"),
        ),
        (f"{fits(number)} AND length({column}) <= 30", Typed("DECIMAL", plain, by)),
        (fits(f"{number}([eE][-+]?[0-9]+)?"), Typed("DOUBLE", f"CAST({plain} AS DOUBLE)", by)),
        (_both(fits(_ISO), f"TRY_{day} IS NOT NULL"), Typed("DATE", day)),
        (
            _both(fits(f"{_ISO}[ T]{_CLOCK}"), f"TRY_{moment} IS NOT NULL"),
            Typed("TIMESTAMP", moment),
        ),
    ]
    if reading.dates is not None:
        by = f"dates: {reading.dates}"
        for clock, sql_type in (("", "DATE"), (f" {_CLOCK}", "TIMESTAMP")):
            pattern, value = _written(column, reading.dates, clock)
            typed = Typed(sql_type, f"CAST({value} AS {sql_type})", by)
            found.append((_both(fits(pattern), f"{value} IS NOT NULL"), typed))
    truth = Typed("BOOLEAN", f"CAST({column} AS BOOLEAN)")
    return [*found, (f"lower({column}) IN ('true', 'false')", truth)]


def _both(quick: str, slow: str) -> str:
    """Two conditions, of which the second is looked at only where the first is true."""
    return f"CASE WHEN {quick} THEN {slow} ELSE false END"


def _written(column: str, order: str, clock: str, separators: str = "") -> tuple[str, str]:
    """The pattern of dates in an order, and the moment of each; NULL where there is no such day."""
    between = separators or _SEPARATORS[order]
    patterns = [_ORDERS[order].format(s=f"[{one}]", **_DAY) + clock for one in between]
    clocks = (" %H:%M:%S.%f", " %H:%M:%S", " %H:%M") if clock else ("",)
    formats = ", ".join(
        literal(_ORDERS[order].format(s=one, d="%d", m="%m", y="%Y") + time)
        for one in between
        for time in clocks
    )
    return "|".join(patterns), f"try_strptime({column}, [{formats}])"


@dataclass(frozen=True)
class _Look:
    """A way of writing that is not the column's type.

    Parameters
    ----------
    told : in words.
    condition : on each value, as SQL.
    some : on one value at least; empty for no more than the first.
    option : what would read it; empty where nothing does.
    """

    told: str
    condition: str
    some: str = ""
    option: str = ""


def _looks(column: str, reading: Reading) -> list[_Look]:
    def fits(pattern: str) -> str:
        return f"regexp_full_match({column}, {literal(pattern)})"

    found = []
    for order, names in ((DMY, "dd{0}mm{0}yyyy"), (MDY, "mm{0}dd{0}yyyy")):
        option = _NULL_WORDS if reading.dates == order else f"dates: {order}"
        for separator in _SEPARATORS[order]:
            for clock, more in (("", ""), (f" {_CLOCK}", " hh:mm")):
                pattern, value = _written(column, order, clock, separator)
                told = names.format(separator) + more
                condition = _both(fits(pattern), f"{value} IS NOT NULL")
                found.append(_Look(told, condition, option=option))
    comma, point = (rf"-?(0|[1-9][0-9]*)({one}[0-9]+)?" for one in (",", r"\."))
    for mark, pattern, told in ((COMMA, comma, "comma"), (POINT, point, "point")):
        option = _NULL_WORDS if reading.decimal == mark else f'decimal: "{mark}"'
        some = f"contains({column}, '{mark}')"
        found.append(_Look(f"numbers with a decimal {told}", fits(pattern), some, option))
    return [
        *found,
        _Look("dd.mm.yy: write years with four digits", fits(r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{2}")),
        _Look("yyyy-mm-dd", fits(f"{_ISO}([ T]{_CLOCK})?"), option=_NULL_WORDS),
        _Look(
            "numbers with marks between thousands: write them without",
            fits(r"-?[0-9]{1,3}([.,'][0-9]{3})+([.,][0-9]+)?"),
        ),
        _Look("codes, digits with a zero before them", fits("[0-9]+"), f"{column} LIKE '0_%'"),
        _Look("whole numbers", fits("-?(0|[1-9][0-9]*)"), option=_NULL_WORDS),
    ]


def look_question(column: str, reading: Reading) -> str:
    """What ``looked`` needs to know of a column of texts, as expressions of one SELECT."""
    counts = [f"count({column})"]
    for look in _looks(column, reading):
        counts.append(f"count(*) FILTER (WHERE {look.condition})")
        counts.append(f"coalesce(bool_or({look.some or 'true'}), false)")
    return ", ".join(counts)


def looked(name: str, reading: Reading, found: Sequence[object]) -> AsWritten:
    """What most texts of a column look like."""
    known, *rest = found
    best = AsWritten(name, "VARCHAR")
    for look, count, some in zip(_looks(name, reading), rest[::2], rest[1::2], strict=True):
        if some and int(str(count)) > best.alike:
            best = AsWritten(
                name, "VARCHAR", look.told, look.option, int(str(count)), int(str(known))
            )
    return best
