"""Type inference for columns of CSV files."""

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
    FIRST,
    INTEGER,
    NUMBERS,
    PERCENT,
    TIMESTAMP,
    TIMESTAMPTZ,
    ValueFormat,
    fits,
    other_forms,
    usual_forms,
)
from dbanon.stores.duckdb.dialect import literal

TEXT = "text"
# Columns whose types are inferred in one statement.
_COLUMNS_PER_QUERY = 32
# Values of a text column that are examined before all values are.
_SAMPLE = 2048
# With fewer values, one in another format is not evidence of a mistake.
_MIN_VALUES_WITH_OUTLIER = 20
# Few widths of decimals, so that a larger value rarely changes the type.
_WIDTHS = (15, 18, 38)
_FORM_OF_OTHER_VALUES = "of the form that other values have ({})"
_NUMBER = r"-?([0-9]+)(?:\.([0-9]+))?"


@dataclass(frozen=True)
class TypeProblem:
    """The reason why a column has no type.

    Parameters
    ----------
    expected : the format that some value lacks, in words; empty for an ambiguous column.
    condition : SQL that all values except a few satisfy.
    readings : the possible readings: a description, and the option in a hint.
    other_type : a type that fits all values.
    """

    expected: str = ""
    condition: str = ""
    readings: tuple[tuple[str, str], ...] = ()
    other_type: str = TEXT


@dataclass(frozen=True)
class InferredType:
    """The type that a text column is converted to.

    Parameters
    ----------
    sql_type : the type in DuckDB.
    value : SQL of the converted column.
    by : the option that selected the type, such as ``dates: dmy``; empty if none was needed.
    kind : the type's name in ``types``.
    decided : the option, and its argument, that would give all files this type.
    problem : why the column stays text; None if there is no doubt.
    """

    sql_type: str
    value: str
    by: str = ""
    kind: str = TEXT
    decided: tuple[str, str] | None = None
    problem: TypeProblem | None = None


class ColumnTypes:
    """Infers the column types of a table of texts from all values.

    Parameters
    ----------
    table : the table, as SQL.
    reading : the options for reading the texts.
    is_plain : whether programs wrote the texts, so that only formats without options occur.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: str,
        reading: Reading = DEFAULT_READING,
        *,
        is_plain: bool = False,
    ) -> None:
        self._connection, self._table, self._reading = connection, table, reading
        self._is_plain = is_plain

    def of(self, names: Sequence[str]) -> list[InferredType]:
        """Infer the types of these columns; names are not quoted."""
        types_by_name: dict[str, InferredType] = {}
        declared = [name for name in names if name in self._reading.types]
        for name in declared:
            types_by_name[name] = self._declared_type(name, self._reading.types[name])
        undeclared = [name for name in names if name not in declared]
        for first in range(0, len(undeclared), _COLUMNS_PER_QUERY):
            types_by_name |= self._infer_usual(undeclared[first : first + _COLUMNS_PER_QUERY])
        return [types_by_name[name] for name in names]

    def _row(self, expressions: Sequence[str], table: str = "") -> tuple[object, ...]:
        query = f"SELECT {', '.join(expressions)} FROM {table or self._table}"
        [row] = self._connection.execute(query).fetchall()
        return tuple(row)

    # -- declared types ---------------------------------------------------------------------------

    def _declared_type(self, name: str, kind: str) -> InferredType:
        column = quote(name)
        if kind == TEXT:
            return InferredType("VARCHAR", column)
        forms = _forms_of(column, kind, self._reading)
        counts = self._row(
            [f"count({column})", *(f"count(*) FILTER (WHERE {form.condition})" for form in forms)]
        )
        n_values, *counts_of_forms = (int(str(count)) for count in counts)
        fitting = [
            form for form, count in zip(forms, counts_of_forms, strict=True) if count == n_values
        ]
        if not fitting:
            best = forms[max(range(len(forms)), key=lambda i: counts_of_forms[i])]
            wider = DECIMAL if kind == INTEGER and self._fits_all(name, DECIMAL) else TEXT
            expected = f"of the type that was stated ({kind})"
            problem = TypeProblem(expected, best.condition, other_type=wider)
            return InferredType("VARCHAR", column, problem=problem)
        base_kind = kind.partition("(")[0]
        return replace(self._resolve(name, fitting, kind), by=f"types: {kind}", kind=base_kind)

    def _fits_all(self, name: str, kind: str) -> bool:
        """Whether a format of this type fits all values."""
        column = quote(name)
        forms = _forms_of(column, kind, self._reading)
        not_null = f"FILTER (WHERE {column} IS NOT NULL)"
        return any(self._row([f"bool_and({form.condition}) {not_null}" for form in forms]))

    # -- inferred types ---------------------------------------------------------------------------

    def _infer_usual(self, names: Sequence[str]) -> dict[str, InferredType]:
        """Infer types that need no option; ``_infer_other`` infers the rest."""
        forms = {name: self._first_forms(quote(name)) for name in names}
        expressions = [
            f"bool_and({form.condition}) FILTER (WHERE {quote(name)} IS NOT NULL)"
            for name in names
            for form in forms[name]
        ]
        row = iter(self._row(expressions))
        types_by_name = {}
        for name in names:
            fitting = [form for form in forms[name] if next(row)]
            if self._is_plain:
                column = quote(name)
                types_by_name[name] = (
                    self._type_with_form(column, fitting[0])
                    if fitting
                    else InferredType("VARCHAR", column)
                )
            else:
                types_by_name[name] = (
                    self._type_unless_ambiguous(name, fitting[0])
                    if fitting
                    else self._infer_other(name)
                )
        return types_by_name

    def _first_forms(self, column: str) -> list[ValueFormat]:
        dates = self._reading.dates
        pattern = csv_forms.pattern_forms(column, dates) if dates and "%" in dates else []
        return [*pattern, *usual_forms(column, self._reading)]

    def _type_unless_ambiguous(self, name: str, form: ValueFormat) -> InferredType:
        """Return the type of a format that fits, unless the values have another reading."""
        column = quote(name)
        if form.kind == INTEGER:
            condition, pattern = csv_forms.compact_day(column)
            if self._row([f"bool_and({condition}) FILTER (WHERE {column} IS NOT NULL)"])[0]:
                return _ambiguous(
                    column,
                    ("whole numbers", type_option(name, INTEGER)),
                    ("days (yyyymmdd)", type_option(name, pattern)),
                )
        elif form.kind == DECIMAL and self._reading.decimal is None:
            others = [
                other
                for other in other_forms(column, self._reading)
                if other.thousands == form.decimal
            ]
            expressions = [
                f"bool_and({o.condition}) FILTER (WHERE {column} IS NOT NULL)" for o in others
            ]
            fitting = [o for o, fit in zip(others, self._row(expressions), strict=True) if fit]
            if fitting:
                return self._resolve(name, [form, *fitting])
        return self._type_with_form(column, form)

    def _infer_other(self, name: str) -> InferredType:
        """Infer the type of a column in another format; text if none fits."""
        column = quote(name)
        forms = [*usual_forms(column, self._reading), *other_forms(column, self._reading)]
        expressions = ["count(*)", *(f"count(*) FILTER (WHERE {form.condition})" for form in forms)]
        n_values, *counts = (
            int(str(count)) for count in self._row(expressions, self._sample(column))
        )
        if not n_values:
            return InferredType("VARCHAR", column, kind="")
        best = max(counts)
        likely = [
            form
            for form, count in zip(forms, counts, strict=True)
            if count == best and 10 * count >= 9 * n_values
        ]
        if not likely:
            contradicted = self._text_or_contradiction(name)
            return (
                self._text_or_mixed_forms(name, forms)
                if contradicted.problem is None
                else contradicted
            )
        digits = f"bool_and({fits(column, '[0-9]+')}) FILTER (WHERE {column} IS NOT NULL)"
        expressions = [
            f"count({column})",
            *(f"count(*) FILTER (WHERE {form.condition})" for form in likely),
        ]
        *counts_of_all, is_code = self._row([*expressions, digits])
        n_values, *counts = (int(str(count)) for count in counts_of_all)
        fitting = [form for form, count in zip(likely, counts, strict=True) if count == n_values]
        if fitting:
            return self._resolve(name, fitting)
        contradicted = self._text_or_contradiction(name)
        if contradicted.problem is not None:
            return contradicted
        bad = n_values - max(counts)
        problem = None
        if (
            not is_code
            and n_values >= _MIN_VALUES_WITH_OUTLIER
            and (bad == 1 or 20 * bad < n_values)
        ):
            form = likely[counts.index(max(counts))]
            problem = TypeProblem(_FORM_OF_OTHER_VALUES.format(form.name), form.condition)
        if problem is None:
            return self._text_or_mixed_forms(name, forms)
        return InferredType("VARCHAR", column, problem=problem)

    def _text_or_mixed_forms(self, name: str, forms: Sequence[ValueFormat]) -> InferredType:
        """Return text; with a problem if all values are numbers, or dates, in mixed formats."""
        column = quote(name)
        for kinds in (NUMBERS, (DATE, TIMESTAMP, TIMESTAMPTZ)):
            family = [form for form in forms if form.kind in kinds]
            any_form = " OR ".join(f"({form.condition})" for form in family)
            expressions = [f"bool_and({any_form}) FILTER (WHERE {column} IS NOT NULL)"]
            if not self._row(expressions, self._sample(column))[0] or not self._row(expressions)[0]:
                continue
            expressions = [f"count(*) FILTER (WHERE {form.condition})" for form in family]
            counts = [int(str(count)) for count in self._row(expressions)]
            form = family[counts.index(max(counts))]
            problem = TypeProblem(_FORM_OF_OTHER_VALUES.format(form.name), form.condition)
            return InferredType("VARCHAR", column, problem=problem)
        return InferredType("VARCHAR", column)

    def _sample(self, column: str) -> str:
        return f"(SELECT {column} FROM {self._table} WHERE {column} IS NOT NULL LIMIT {_SAMPLE})"

    def _text_or_contradiction(self, name: str) -> InferredType:
        """Return text; with a problem if all values have a format that the options rule out."""
        column, reading = quote(name), self._reading
        text_type = InferredType("VARCHAR", column)
        if (reading.dates, reading.decimal, reading.thousands) == (None, None, None):
            return text_type
        forms = [form for form in other_forms(column, DEFAULT_READING) if form.argument]
        for table in (self._sample(column), self._table):
            expressions = [f"count({column})"]
            expressions += [f"count(*) FILTER (WHERE {form.condition})" for form in forms]
            n_values, *counts = self._row(expressions, table)
            forms = [form for form, count in zip(forms, counts, strict=True) if count == n_values]
            if not forms or not n_values:
                return text_type
        form = forms[0]
        option = _option(form.option, form.argument)
        if form.option == "dates":
            option = type_option(name, csv_forms.PATTERNS.get(form.argument, form.argument))
        words = f"{form.name}, which the options do not allow"
        return _ambiguous(column, (words, option))

    # -- choosing among formats that fit ----------------------------------------------------------

    def _resolve(self, name: str, forms: Sequence[ValueFormat], kind: str = "") -> InferredType:
        """Return the type of a column that several formats fit; with a problem if they differ.

        Parameters
        ----------
        kind : the declared type; empty if there is none.
        """
        column, first = quote(name), forms[0]
        if first.kind == PERCENT and not kind:
            return _ambiguous(
                column,
                ("12 % as 0.12", type_option(name, PERCENT)),
                ("12 % as 12", type_option(name, DECIMAL)),
            )
        if first.kind in (*NUMBERS, PERCENT):
            row = self._row(
                [
                    f"coalesce(bool_or(contains({column}, '{mark}')), false)"
                    for mark in (COMMA, POINT)
                ]
            )
            for mark, occurs in zip((COMMA, POINT), row, strict=True):
                if occurs and {mark} <= {f.decimal for f in forms} & {f.thousands for f in forms}:
                    mark_name = "a comma" if mark == COMMA else "a point"
                    return _ambiguous(
                        column,
                        (f"numbers with {mark_name} before the decimals", _option("decimal", mark)),
                        (f"numbers with {mark_name} between thousands", _option("thousands", mark)),
                    )
            return self._type_with_form(column, first, kind)
        if first.is_century_open:
            return _ambiguous(
                column,
                *(
                    (f"{form.name} with years from 1969 to 2068", _option("dates", form.argument))
                    for form in forms
                    if form.is_century_open
                ),
            )
        for other in forms[1:]:
            if {first.argument, other.argument} <= {*FIRST}:
                [differs] = self._row([f"coalesce(bool_or({first.value} <> {other.value}), false)"])
                if differs:
                    return _ambiguous(
                        column,
                        *(
                            (
                                f"{form.name} ({FIRST[form.argument]})",
                                _option("dates", form.argument),
                            )
                            for form in (first, other)
                        ),
                    )
        return self._type_with_form(column, first, kind)

    def _type_with_form(self, column: str, form: ValueFormat, kind: str = "") -> InferredType:
        by = f"{form.option}: {_in_job_file(form.argument)}" if form.argument else ""
        decided = (form.option, form.argument) if form.argument else None
        if form.kind == DECIMAL and decided is None and form.decimal == POINT:
            decided = ("decimal", POINT)
        if form.kind not in (DECIMAL, PERCENT):
            value = f"CAST({form.value} AS {form.sql_type})"
            return InferredType(form.sql_type, value, by, form.kind, decided)
        groups = (
            f"coalesce(max(length(regexp_extract({form.value}, {literal(_NUMBER)}, {group}))), 0)"
            for group in (1, 2)
        )
        before, behind = (int(str(length)) for length in self._row([*groups]))
        if not behind and before <= 18 and not kind:
            return InferredType("BIGINT", f"CAST({form.value} AS BIGINT)", by, INTEGER, decided)
        if form.kind == PERCENT and kind == PERCENT:
            behind += 2
        width = next((digits for digits in _WIDTHS if before + behind <= digits), 0)
        if "(" in kind:
            width, behind = map(int, re.findall("[0-9]+", kind))
        if not width:
            return InferredType("DOUBLE", f"CAST({form.value} AS DOUBLE)", by, DOUBLE, decided)
        sql_type = f"DECIMAL({width}, {behind})"
        value = f"CAST({form.value} AS {sql_type})"
        if form.kind == PERCENT and kind == PERCENT:
            value = f"CAST({value} / 100 AS {sql_type})"
        return InferredType(sql_type, value, by, DECIMAL, decided)


def _forms_of(column: str, kind: str, reading: Reading) -> list[ValueFormat]:
    """The formats that a declared type allows, the usual ones first."""
    if "%" in kind:
        return csv_forms.pattern_forms(column, kind, "types")
    usual, others = usual_forms(column, reading), other_forms(column, reading)
    if kind == INTEGER:
        return csv_forms.lenient_integers(column, reading)
    base_kind = kind.partition("(")[0]
    kinds = {DECIMAL: (INTEGER, DECIMAL, PERCENT), DOUBLE: NUMBERS}.get(base_kind, (base_kind,))
    matching = [form for form in (*usual, *others) if form.kind in kinds]
    if base_kind not in (DECIMAL, DOUBLE):
        return matching
    forms = [replace(form, kind=base_kind) for form in matching if form.kind != INTEGER]
    if "(" not in kind:
        return forms
    width, scale = map(int, re.findall("[0-9]+", kind))
    room = f"-?[0-9]{{1,{max(width - scale, 1)}}}" + (rf"(\.[0-9]{{1,{scale}}})?" if scale else "")
    return [
        replace(
            form,
            condition=f"CASE WHEN {form.condition} THEN"
            f" regexp_full_match({form.value}, {literal(room)}) ELSE false END",
        )
        for form in forms
    ]


def _ambiguous(column: str, *readings: tuple[str, str]) -> InferredType:
    return InferredType("VARCHAR", column, problem=TypeProblem(readings=readings))


def _option(name: str, value: object) -> str:
    """Write an option for a hint."""
    return f"`{name}={json_text(value)}`"


def type_option(name: str, kind: str) -> str:
    """Write the option that declares the type of a column, for a hint."""
    return _option("types", {name: kind})


def _in_job_file(argument: str) -> str:
    return argument if re.fullmatch("[a-z]+", argument) else json.dumps(argument)
