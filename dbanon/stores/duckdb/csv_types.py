"""Type inference for columns of CSV files.

Columns are loaded as text. A column gets the type of a format that all of its values match. SQL
counts the matching values, so that no value is read here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import duckdb

from dbanon.data.words import json_text
from dbanon.job.reading import COMMA, DEFAULT_READING, POINT, Reading
from dbanon.sessions.names import quote
from dbanon.stores.duckdb import csv_forms
from dbanon.stores.duckdb.csv_forms import (
    DATE,
    DECIMAL,
    DOUBLE,
    INTEGER,
    NUMBER_KINDS,
    ORDER_NAMES,
    PERCENT,
    TIMESTAMP,
    TIMESTAMPTZ,
    ValueFormat,
    matches_pattern,
    unusual_formats,
    usual_formats,
)
from dbanon.stores.duckdb.dialect import literal

TEXT = "text"
# The number of columns whose types are inferred in one statement.
_COLUMNS_PER_QUERY = 32
# The number of first values of a column that are examined before all of its values.
_N_SAMPLED_VALUES = 2048
# In a column with fewer values, a single value in another format is not treated as a mistake.
_MIN_VALUES_WITH_OUTLIER = 20
# The precisions that decimals get. There are few of them so that larger values next time rarely
# change the type.
_DECIMAL_WIDTHS = (15, 18, 38)
# ``TypeProblem.expected`` for values that differ from most others in format.
_FORMAT_OF_OTHER_VALUES = "of the form that other values have ({})"
# Groups 1 and 2 are the digits before and after the point.
_DECIMAL_PATTERN = r"-?([0-9]+)(?:\.([0-9]+))?"


@dataclass(frozen=True)
class TypeProblem:
    """The reason why the type of a column is in doubt: ambiguous or malformed values.

    Parameters
    ----------
    expected : the format that malformed values do not have, in words; empty if ambiguous.
    condition : SQL that is false for malformed values; empty if ambiguous.
    interpretations : the ways to read ambiguous values, as pairs of a description and the option
        that chooses it; empty if values are malformed.
    other_type : a type that fits all values.
    """

    expected: str = ""
    condition: str = ""
    interpretations: tuple[tuple[str, str], ...] = ()
    other_type: str = TEXT


@dataclass(frozen=True)
class InferredType:
    """The type that a text column is converted to.

    Parameters
    ----------
    sql_type : the type in DuckDB.
    value : SQL of the converted column.
    selected_by : the option that selected the type, for display to users, such as ``dates: dmy``;
        empty if none did.
    kind : the name of the type in the option ``types``; empty if all values are NULL.
    deciding_option : name and value of an option for job files, by which numbers or dates of later
        files are read in the same format; None if there is none.
    problem : why the column stays text; None if there is no doubt.
    """

    sql_type: str
    value: str
    selected_by: str = ""
    kind: str = TEXT
    deciding_option: tuple[str, str] | None = None
    problem: TypeProblem | None = None


class TypeInference:
    """Infers the types of the columns of a table of texts from all values.

    Parameters
    ----------
    table : the table, as SQL.
    reading : the options for reading the texts.
    is_machine_written : whether a program wrote the texts, so that only the usual formats occur.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        reading: Reading = DEFAULT_READING,
        *,
        is_machine_written: bool = False,
    ) -> None:
        self._connection, self._table, self._reading = connection, table, reading
        self._is_machine_written = is_machine_written

    def infer_types(self, names: Sequence[str]) -> list[InferredType]:
        """Infer the types of these columns; names are not quoted."""
        types_by_name: dict[str, InferredType] = {}
        declared_names = [name for name in names if name in self._reading.types]
        for name in declared_names:
            types_by_name[name] = self._declared_type(name, self._reading.types[name])
        undeclared_names = [name for name in names if name not in declared_names]
        for start in range(0, len(undeclared_names), _COLUMNS_PER_QUERY):
            types_by_name |= self._infer_by_usual_formats(
                undeclared_names[start : start + _COLUMNS_PER_QUERY]
            )
        return [types_by_name[name] for name in names]

    def _select_row(self, expressions: Sequence[str], table: str = "") -> tuple[object, ...]:
        """Select aggregates of the table, or of a subquery.

        The results are typed as objects, so callers convert counts by ``int(str(count))``.
        """
        query = f"SELECT {', '.join(expressions)} FROM {table or self._table}"
        [row] = self._connection.execute(query).fetchall()
        return tuple(row)

    # -- declared types ---------------------------------------------------------------------------

    def _declared_type(self, name: str, kind: str) -> InferredType:
        """Return the declared type, with a problem if some value does not have it."""
        column = quote(name)
        if kind == TEXT:
            return InferredType("VARCHAR", column)
        formats = _formats_of_declared_type(column, kind, self._reading)
        counts = self._select_row(
            [
                f"count({column})",
                *(f"count(*) FILTER (WHERE {value_format.condition})" for value_format in formats),
            ]
        )
        n_values, *format_counts = (int(str(count)) for count in counts)
        matching_formats = [
            value_format
            for value_format, count in zip(formats, format_counts, strict=True)
            if count == n_values
        ]
        if not matching_formats:
            best_format = formats[max(range(len(formats)), key=lambda i: format_counts[i])]
            wider_kind = DECIMAL if kind == INTEGER and self._fits_all(name, DECIMAL) else TEXT
            expected = f"of the type that was stated ({kind})"
            problem = TypeProblem(expected, best_format.condition, other_type=wider_kind)
            return InferredType("VARCHAR", column, problem=problem)
        # The name without precision and scale: ``decimal`` for ``decimal(10,2)``.
        base_kind = kind.partition("(")[0]
        return replace(
            self._type_of_matching_formats(name, matching_formats, kind),
            selected_by=f"types: {kind}",
            kind=base_kind,
        )

    def _fits_all(self, name: str, kind: str) -> bool:
        """Whether a format of this type fits all values."""
        column = quote(name)
        formats = _formats_of_declared_type(column, kind, self._reading)
        not_null = f"FILTER (WHERE {column} IS NOT NULL)"
        return any(
            self._select_row(
                [f"bool_and({value_format.condition}) {not_null}" for value_format in formats]
            )
        )

    # -- inferred types ---------------------------------------------------------------------------

    def _infer_by_usual_formats(self, names: Sequence[str]) -> dict[str, InferredType]:
        """Infer the types of columns by the usual formats; try others where none of these fits."""
        formats = {name: self._usual_formats(quote(name)) for name in names}
        expressions = [
            f"bool_and({value_format.condition}) FILTER (WHERE {quote(name)} IS NOT NULL)"
            for name in names
            for value_format in formats[name]
        ]
        row = iter(self._select_row(expressions))
        types_by_name = {}
        for name in names:
            # The row has a truth value for each format of each column, in this order.
            matching_formats = [value_format for value_format in formats[name] if next(row)]
            if self._is_machine_written:
                column = quote(name)
                types_by_name[name] = (
                    self._type_of_format(column, matching_formats[0])
                    if matching_formats
                    else InferredType("VARCHAR", column)
                )
            else:
                types_by_name[name] = (
                    self._type_unless_ambiguous(name, matching_formats[0])
                    if matching_formats
                    else self._infer_by_all_formats(name)
                )
        return types_by_name

    def _usual_formats(self, column: str) -> list[ValueFormat]:
        """The formats to try first: the usual ones, and a ``strptime`` pattern of the options."""
        dates = self._reading.dates
        pattern = (
            csv_forms.formats_of_strptime_pattern(column, dates) if dates and "%" in dates else []
        )
        return [*pattern, *usual_formats(column, self._reading)]

    def _type_unless_ambiguous(self, name: str, value_format: ValueFormat) -> InferredType:
        """Return the type of a format that fits; it has a problem if another type fits, too."""
        column = quote(name)
        # Whole numbers such as 20240131 may be dates.
        if value_format.kind == INTEGER:
            condition, pattern = csv_forms.compact_date_format(column)
            if self._select_row([f"bool_and({condition}) FILTER (WHERE {column} IS NOT NULL)"])[0]:
                return _ambiguous(
                    column,
                    ("whole numbers", type_option(name, INTEGER)),
                    ("days (yyyymmdd)", type_option(name, pattern)),
                )
        elif value_format.kind == DECIMAL and self._reading.decimal is None:
            # The decimal mark of this format may be a separator of thousands in another one.
            other_formats = [
                other_format
                for other_format in unusual_formats(column, self._reading)
                if other_format.thousands == value_format.decimal
            ]
            expressions = [
                f"bool_and({other_format.condition}) FILTER (WHERE {column} IS NOT NULL)"
                for other_format in other_formats
            ]
            matching_formats = [
                other_format
                for other_format, all_match in zip(
                    other_formats, self._select_row(expressions), strict=True
                )
                if all_match
            ]
            if matching_formats:
                return self._type_of_matching_formats(name, [value_format, *matching_formats])
        return self._type_of_format(column, value_format)

    def _infer_by_all_formats(self, name: str) -> InferredType:
        """Infer the type of a column that no usual format fits; text if no format does."""
        column = quote(name)
        formats = [*usual_formats(column, self._reading), *unusual_formats(column, self._reading)]
        expressions = [
            "count(*)",
            *(f"count(*) FILTER (WHERE {value_format.condition})" for value_format in formats),
        ]
        n_values, *counts = (
            int(str(count))
            for count in self._select_row(expressions, self._sample_subquery(column))
        )
        # All values are NULL, so the type is unknown.
        if not n_values:
            return InferredType("VARCHAR", column, kind="")
        # Nine tenths of the sampled values must match.
        best_count = max(counts)
        likely_formats = [
            value_format
            for value_format, count in zip(formats, counts, strict=True)
            if count == best_count and 10 * count >= 9 * n_values
        ]
        if not likely_formats:
            excluded_format_type = self._text_or_excluded_format(name)
            return (
                self._text_or_mixed_formats(name, formats)
                if excluded_format_type.problem is None
                else excluded_format_type
            )
        only_digits_sql = (
            f"bool_and({matches_pattern(column, '[0-9]+')}) FILTER (WHERE {column} IS NOT NULL)"
        )
        expressions = [
            f"count({column})",
            *(
                f"count(*) FILTER (WHERE {value_format.condition})"
                for value_format in likely_formats
            ),
        ]
        *count_results, has_only_digits = self._select_row([*expressions, only_digits_sql])
        n_values, *counts = (int(str(count)) for count in count_results)
        matching_formats = [
            value_format
            for value_format, count in zip(likely_formats, counts, strict=True)
            if count == n_values
        ]
        if matching_formats:
            return self._type_of_matching_formats(name, matching_formats)
        excluded_format_type = self._text_or_excluded_format(name)
        if excluded_format_type.problem is not None:
            return excluded_format_type
        n_outliers = n_values - max(counts)
        problem = None
        # Columns of digits only, such as codes, are text without a problem. In others, one outlier,
        # or fewer than one in twenty values, is taken for a mistake.
        if (
            not has_only_digits
            and n_values >= _MIN_VALUES_WITH_OUTLIER
            and (n_outliers == 1 or 20 * n_outliers < n_values)
        ):
            value_format = likely_formats[counts.index(max(counts))]
            problem = TypeProblem(
                _FORMAT_OF_OTHER_VALUES.format(value_format.name), value_format.condition
            )
        if problem is None:
            return self._text_or_mixed_formats(name, formats)
        return InferredType("VARCHAR", column, problem=problem)

    def _text_or_mixed_formats(self, name: str, formats: Sequence[ValueFormat]) -> InferredType:
        """Return text; it has a problem if all values are numbers, or dates, in mixed formats."""
        column = quote(name)
        for kinds in (NUMBER_KINDS, (DATE, TIMESTAMP, TIMESTAMPTZ)):
            formats_of_kinds = [
                value_format for value_format in formats if value_format.kind in kinds
            ]
            any_condition = " OR ".join(
                f"({value_format.condition})" for value_format in formats_of_kinds
            )
            expressions = [f"bool_and({any_condition}) FILTER (WHERE {column} IS NOT NULL)"]
            if (
                not self._select_row(expressions, self._sample_subquery(column))[0]
                or not self._select_row(expressions)[0]
            ):
                continue
            expressions = [
                f"count(*) FILTER (WHERE {value_format.condition})"
                for value_format in formats_of_kinds
            ]
            counts = [int(str(count)) for count in self._select_row(expressions)]
            value_format = formats_of_kinds[counts.index(max(counts))]
            problem = TypeProblem(
                _FORMAT_OF_OTHER_VALUES.format(value_format.name), value_format.condition
            )
            return InferredType("VARCHAR", column, problem=problem)
        return InferredType("VARCHAR", column)

    def _sample_subquery(self, column: str) -> str:
        """A subquery of the first non-NULL values of a column."""
        return (
            f"(SELECT {column} FROM {self._table} WHERE {column} IS NOT NULL"
            f" LIMIT {_N_SAMPLED_VALUES})"
        )

    def _text_or_excluded_format(self, name: str) -> InferredType:
        """Return text; it has a problem if all values match a format that the options exclude."""
        column, reading = quote(name), self._reading
        text_type = InferredType("VARCHAR", column)
        # Options that are not set exclude no format.
        if (reading.dates, reading.decimal, reading.thousands) == (None, None, None):
            return text_type
        formats = [
            value_format
            for value_format in unusual_formats(column, DEFAULT_READING)
            if value_format.argument
        ]
        for table in (self._sample_subquery(column), self._table):
            expressions = [f"count({column})"]
            expressions += [
                f"count(*) FILTER (WHERE {value_format.condition})" for value_format in formats
            ]
            n_values, *counts = self._select_row(expressions, table)
            formats = [
                value_format
                for value_format, count in zip(formats, counts, strict=True)
                if count == n_values
            ]
            if not formats or not n_values:
                return text_type
        value_format = formats[0]
        option = _option(value_format.option, value_format.argument)
        if value_format.option == "dates":
            option = type_option(
                name, csv_forms.STRPTIME_PATTERNS.get(value_format.argument, value_format.argument)
            )
        description = f"{value_format.name}, which the options do not allow"
        return _ambiguous(column, (description, option))

    # -- choosing among formats that fit ----------------------------------------------------------

    def _type_of_matching_formats(
        self, name: str, formats: Sequence[ValueFormat], kind: str = ""
    ) -> InferredType:
        """Return the type of a column whose values match all of these formats.

        The result has a problem if the formats convert some values differently.

        Parameters
        ----------
        kind : the declared type; empty if there is none.
        """
        column, first_format = quote(name), formats[0]
        if first_format.kind == PERCENT and not kind:
            return _ambiguous(
                column,
                ("12 % as 0.12", type_option(name, PERCENT)),
                ("12 % as 12", type_option(name, DECIMAL)),
            )
        if first_format.kind in (*NUMBER_KINDS, PERCENT):
            row = self._select_row(
                [
                    f"coalesce(bool_or(contains({column}, '{mark}')), false)"
                    for mark in (COMMA, POINT)
                ]
            )
            # Is a mark that occurs a decimal mark in one format, and between thousands in another?
            for mark, occurs in zip((COMMA, POINT), row, strict=True):
                if occurs and {mark} <= {f.decimal for f in formats} & {
                    f.thousands for f in formats
                }:
                    mark_name = "a comma" if mark == COMMA else "a point"
                    return _ambiguous(
                        column,
                        (f"numbers with {mark_name} before the decimals", _option("decimal", mark)),
                        (f"numbers with {mark_name} between thousands", _option("thousands", mark)),
                    )
            return self._type_of_format(column, first_format, kind)
        if first_format.has_two_digit_year:
            return _ambiguous(
                column,
                *(
                    (
                        f"{value_format.name} with years from 1969 to 2068",
                        _option("dates", value_format.argument),
                    )
                    for value_format in formats
                    if value_format.has_two_digit_year
                ),
            )
        for other_format in formats[1:]:
            # Compare only formats whose argument is an order of day, month and year.
            if {first_format.argument, other_format.argument} <= {*ORDER_NAMES}:
                [converts_differently] = self._select_row(
                    [f"coalesce(bool_or({first_format.value} <> {other_format.value}), false)"]
                )
                if converts_differently:
                    return _ambiguous(
                        column,
                        *(
                            (
                                f"{value_format.name} ({ORDER_NAMES[value_format.argument]})",
                                _option("dates", value_format.argument),
                            )
                            for value_format in (first_format, other_format)
                        ),
                    )
        return self._type_of_format(column, first_format, kind)

    def _type_of_format(
        self, column: str, value_format: ValueFormat, kind: str = ""
    ) -> InferredType:
        """Return the type of a column whose values all match a format.

        Parameters
        ----------
        kind : the declared type; empty if there is none.
        """
        selected_by = (
            f"{value_format.option}: {_to_yaml(value_format.argument)}"
            if value_format.argument
            else ""
        )
        deciding_option = (
            (value_format.option, value_format.argument) if value_format.argument else None
        )
        if (
            value_format.kind == DECIMAL
            and deciding_option is None
            and value_format.decimal == POINT
        ):
            # Say that the point is the decimal mark, as it may separate thousands in other files.
            deciding_option = ("decimal", POINT)
        if value_format.kind not in (DECIMAL, PERCENT):
            value = f"CAST({value_format.value} AS {value_format.sql_type})"
            return InferredType(
                value_format.sql_type, value, selected_by, value_format.kind, deciding_option
            )
        pattern = literal(_DECIMAL_PATTERN)
        group_lengths = (
            f"coalesce(max(length(regexp_extract({value_format.value}, {pattern}, {group}))), 0)"
            for group in (1, 2)
        )
        n_integer_digits, n_decimals = (
            int(str(length)) for length in self._select_row([*group_lengths])
        )
        # Numbers without decimals become BIGINT, which holds all numbers of 18 digits.
        if not n_decimals and n_integer_digits <= 18 and not kind:
            return InferredType(
                "BIGINT",
                f"CAST({value_format.value} AS BIGINT)",
                selected_by,
                INTEGER,
                deciding_option,
            )
        # Percentages are divided by 100 if their type is declared as percent, not as decimal.
        if value_format.kind == PERCENT and kind == PERCENT:
            n_decimals += 2
        n_digits = next(
            (digits for digits in _DECIMAL_WIDTHS if n_integer_digits + n_decimals <= digits), 0
        )
        # The declared type has precision and scale, as in ``decimal(10,2)``.
        if "(" in kind:
            n_digits, n_decimals = map(int, re.findall("[0-9]+", kind))
        if not n_digits:
            return InferredType(
                "DOUBLE",
                f"CAST({value_format.value} AS DOUBLE)",
                selected_by,
                DOUBLE,
                deciding_option,
            )
        sql_type = f"DECIMAL({n_digits}, {n_decimals})"
        value = f"CAST({value_format.value} AS {sql_type})"
        if value_format.kind == PERCENT and kind == PERCENT:
            value = f"CAST({value} / 100 AS {sql_type})"
        return InferredType(sql_type, value, selected_by, DECIMAL, deciding_option)


def _formats_of_declared_type(column: str, kind: str, reading: Reading) -> list[ValueFormat]:
    """The formats that a declared type allows, usual ones first."""
    if "%" in kind:
        return csv_forms.formats_of_strptime_pattern(column, kind, "types")
    usual, other_formats = usual_formats(column, reading), unusual_formats(column, reading)
    if kind == INTEGER:
        return csv_forms.lenient_integer_formats(column, reading)
    base_kind = kind.partition("(")[0]
    # Declared as decimal, 12 % is read as 12.
    kinds = {DECIMAL: (INTEGER, DECIMAL, PERCENT), DOUBLE: NUMBER_KINDS}.get(
        base_kind, (base_kind,)
    )
    matching = [
        value_format for value_format in (*usual, *other_formats) if value_format.kind in kinds
    ]
    if base_kind not in (DECIMAL, DOUBLE):
        return matching
    # The formats of decimals also match whole numbers, so those of integers are not needed.
    formats = [
        replace(value_format, kind=base_kind)
        for value_format in matching
        if value_format.kind != INTEGER
    ]
    if "(" not in kind:
        return formats
    n_digits, scale = map(int, re.findall("[0-9]+", kind))
    integer_pattern = f"[0-9]{{1,{n_digits - scale}}}" if n_digits > scale else "0"
    size_pattern = f"-?{integer_pattern}" + (rf"(\.[0-9]{{1,{scale}}})?" if scale else "")
    return [
        replace(
            value_format,
            condition=f"CASE WHEN {value_format.condition} THEN"
            f" regexp_full_match({value_format.value}, {literal(size_pattern)}) ELSE false END",
        )
        for value_format in formats
    ]


def _ambiguous(column: str, *interpretations: tuple[str, str]) -> InferredType:
    """Return text, with a problem for values that can be read in several ways.

    Parameters
    ----------
    interpretations : the ways to read the values: a description of each, and the option that
        chooses it.
    """
    return InferredType("VARCHAR", column, problem=TypeProblem(interpretations=interpretations))


def _option(name: str, value: object) -> str:
    """Write an option for a hint."""
    return f"`{name}={json_text(value)}`"


def type_option(name: str, kind: str) -> str:
    """Write the option that declares the type of a column, for a hint."""
    return _option("types", {name: kind})


def _to_yaml(argument: str) -> str:
    """Write an option's value as in a job file (YAML)."""
    return argument if re.fullmatch("[a-z]+", argument) else json.dumps(argument)
