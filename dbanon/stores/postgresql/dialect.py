"""SQL and types of columns on PostgreSQL, also for columns that come from or go to other databases.

Several functions return SQL of a value that is computed for each class. Such values are staged in
columns that are named by their position.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np

from dbanon.data.array_types import AnyArray
from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Kind
from dbanon.data.words import json_text
from dbanon.errors import InvalidName
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Locator, uncopyable_type_error
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.names import literal, quote

# Type of a range's bounds, by range type.
_BOUND_TYPES = {
    "int4range": "integer",
    "int8range": "bigint",
    "numrange": "numeric",
    "daterange": "date",
    "tsrange": "timestamp",
    "tstzrange": "timestamptz",
}
_LARGEST_INTEGER = 2**31 - 1
# Maximum bytes of a name.
NAME_LIMIT = 63
_SYSTEM_COLUMNS = frozenset({"tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"})


def as_text(attribute: Attribute) -> str:
    """SQL of a column's values as text; the relation has the alias s.

    User-defined types are converted by their output function, which only a superuser can create,
    never by a cast, which the type's owner can create. NULL stays NULL, even for row types.
    """
    column = f"s.{quote(attribute.name)}"
    if not attribute.uses_output_function:
        return f"{column}::text"
    return f"CASE WHEN {column} IS DISTINCT FROM NULL THEN format('%s', {column}) END"


def _enum_value(label: str, enum_type: str) -> str:
    """SQL of the enum value with a label: looked up by position, since a cast could run code."""
    values = f"enum_range(NULL::{enum_type})"
    labels = f"SELECT array_agg(format('%s', e) ORDER BY e) FROM unnest({values}) AS e"
    return f"(SELECT {values})[array_position(({labels}), {label})]"


def as_portable(attribute: Attribute) -> str:
    """SQL of a retained column for another database: text if its type may be unknown there."""
    if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
        return as_text(attribute)
    return f"s.{quote(attribute.name)}"


def keys_as_integers(locator: Locator) -> list[str]:
    """SQL for the columns of a row's key, as the integers of ``Microdata.keys``."""
    return [
        {
            "tid": f"(({key}::text::point)[0]::bigint << 16) | ({key}::text::point)[1]::bigint",
            "oid": f"{key}::bigint",
        }.get(key_type, f"({key})::bigint")
        for key, key_type in zip(locator.expressions, locator.types, strict=True)
    ]


def staged_columns(columns: Sequence[ReleasedColumn]) -> list[tuple[str, str, AnyArray]]:
    """Return name, SQL type and values (n_classes,) of each staging column of class values.

    Dates, timestamps and decimals are staged as integers: days or microseconds since 1970, or the
    number without its decimal point.
    """
    staging_columns: list[tuple[str, str, AnyArray]] = []
    for position, column in enumerate(columns):
        name = statements.value_column(position)
        if column.values.dtype == object:
            staging_columns.append((name, "text", column.values))
        elif column.values.dtype == np.float64:
            staging_columns.append((name, "double precision", column.values))
        else:
            staging_columns.append((name, "bigint", column.values))
        if column.missing is not None:
            staging_columns.append((f"{name}_null", "boolean", column.missing))
    return staging_columns


# Quoted names, texts and comments, which may contain question marks that are no parameters.
NO_PARAMETERS = r'"(?:[^"]|"")*"|\'(?:[^\']|\'\')*\'|--[^\n]*|/\*.*?\*/'
_NO_PARAMETERS_OR_PARAMETER = re.compile(rf"{NO_PARAMETERS}|\?", re.S)


def to_psycopg(sql: str) -> str:
    """Return a statement with psycopg's marks for parameters in place of question marks."""
    return _NO_PARAMETERS_OR_PARAMETER.sub(
        lambda match: "%s" if match[0] == "?" else match[0], sql.replace("%", "%%")
    )


class PostgresqlDialect(Dialect):
    """The SQL of PostgreSQL."""

    name_limit = NAME_LIMIT
    staging_suffix = " ON COMMIT DROP"

    def text_of(self, attribute: Attribute) -> str:
        return f'{as_text(attribute)} COLLATE "C"'

    def value_of(self, attribute: Attribute) -> str:
        if attribute.normalize:
            # btrim keeps the column's collation; not all collations support replace().
            trimmed = f"btrim({as_text(attribute)}, '{WHITE_SPACE}')"
            return self.lowercase_sql(trimmed) if attribute.normalize == CASEFOLD else trimmed
        # Compare user-defined types as text: resolving their = operator could use their owner's
        # casts.
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else super().value_of(attribute)
        )

    def value_of_key(self, attribute: Attribute) -> str:
        """SQL of a key column in a form that can be compared."""
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else f"s.{quote(attribute.name)}"
        )

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        # Sort texts by their bytes, so that the order depends on no collation. A uuid needs no
        # conversion; user-defined types may have any name.
        is_uuid = "uuid" in attribute.sql_type and not attribute.uses_output_function
        if attribute.uses_output_function or (attribute.kind is Kind.CATEGORY and not is_uuid):
            return self.text_of(attribute)
        return column

    def grouping_sql(self, attribute: Attribute) -> str:
        # As in ``value_of``, user-defined types are compared as text.
        return (
            self.text_of(attribute)
            if attribute.uses_output_function
            else super().grouping_sql(attribute)
        )

    def retained_value(self, attribute: Attribute) -> str:
        """SQL of a retained column, converted so that storing it needs no user-defined cast.

        Only a column of a user-defined type that is released as text is converted, such as another
        role's enum.
        """
        if attribute.uses_output_function and attribute.sql_type == "text":
            return as_text(attribute)
        return f"s.{quote(attribute.name)}"

    def texts_query(self, values: Sequence[str]) -> tuple[str, object]:
        return "SELECT jsonb_array_elements_text(CAST(? AS jsonb))", json_text(values)

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        column, kind = f"s.{quote(attribute.name)}", attribute.kind
        if kind is Kind.BOOLEAN:
            return f"{column}::integer::double precision"
        if kind is Kind.INTEGER:
            return f"{column}::double precision"
        # Clip before computing, since infinite or huge values would raise an error.
        bound_type = {
            Kind.DECIMAL: "numeric",
            Kind.FLOAT: "double precision",
            Kind.DATE: "date",
            Kind.TIMESTAMP: "timestamptz" if attribute.has_time_zone else "timestamp",
        }[kind]
        lower, upper = f"{literal(low)}::{bound_type}", f"{literal(high)}::{bound_type}"
        clipped = f"LEAST(GREATEST({column}, {lower}), {upper})"
        if kind is Kind.DATE:
            number = f"({clipped} - date '1970-01-01')"
        elif kind is Kind.TIMESTAMP:
            number = f"extract(epoch FROM {clipped}) * 1000000"
        else:
            return f"CASE WHEN {column} <> 'NaN' THEN ({clipped})::double precision END"
        return f"CASE WHEN {column} IS NOT NULL THEN ({number})::double precision END"

    def coded_number(self, attribute: Attribute) -> str:
        # Compared directly, a real becomes the double that is nearest to its binary value, not to
        # its text: 1.3 would be below 1.3.
        if attribute.has_single_precision:
            return f"{as_text(attribute)}::double precision"
        return super().coded_number(attribute)

    def shifted_date(self, attribute: Attribute, days: str) -> str:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.DATE:
            return f"{column} + {days}"
        # An interval of days would follow the clocks of the session's time zone.
        return f"{column} + {days} * interval '24 hours'"

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        if column.upper is not None:
            # Only columns that are released as ranges have upper bounds.
            return self._range_expression(position, column)
        attribute, name = column.attribute, f"c.{statements.value_column(position)}"
        if attribute.kind is Kind.INTEGER:
            # Integers of more than 64 bits are staged as texts.
            value = f"{name}::numeric" if column.values.dtype == object else name
        elif attribute.kind is Kind.DECIMAL:
            value = f"{name}::numeric * {Decimal(1).scaleb(-attribute.scale):f}"
        elif attribute.kind is Kind.DATE:
            value = f"date '1970-01-01' + {name}::integer"
        elif attribute.kind is Kind.TIMESTAMP:
            timestamp_type = "timestamptz" if attribute.has_time_zone else "timestamp"
            # Split into days and microseconds, since intervals are multiplied in floating point.
            days = f"({name} / 86400000000)::integer * interval '1 day'"
            micros = f"({name} % 86400000000)::double precision * interval '1 microsecond'"
            value = f"{timestamp_type} 'epoch' + {days} + {micros}"
        elif attribute.enum_type:
            value = _enum_value(name, attribute.enum_type)
        else:
            value = name
        value = f"({value})::{attribute.sql_type}"
        if column.missing is None:
            # No class is released with NULL.
            return value
        return f"CASE WHEN {name}_null THEN NULL ELSE {value} END"

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.TIMESTAMP:
            column = f"extract(epoch FROM {column})"
        # The product is a whole number; trunc removes its digits after the decimal point.
        column = f"trunc({column}::numeric * {10**attribute.scale})"
        return f"div({column}, n.size)", f"mod({column}, n.size)"

    def type_of(self, attribute: Attribute) -> str:
        if attribute.name in _SYSTEM_COLUMNS:
            raise InvalidName(
                f'In PostgreSQL every table has a system column "{attribute.name}".',
                hint="Rename the column in a view, and anonymize the view.",
            )
        if attribute.kind is Kind.INTEGER:
            return {16: "smallint", 32: "integer", 64: "bigint"}.get(attribute.bits, "numeric")
        if attribute.kind is Kind.DECIMAL:
            digits = f"({attribute.precision},{attribute.scale})" if attribute.precision else ""
            return f"numeric{digits}"
        if attribute.kind is Kind.FLOAT:
            return "real" if attribute.bits == 32 else "double precision"
        if attribute.kind is Kind.TIMESTAMP:
            time_zone = " with time zone" if attribute.has_time_zone else ""
            return f"timestamp({min(attribute.scale, 6)}){time_zone}"
        if attribute.kind is Kind.OTHER:
            raise uncopyable_type_error(attribute)
        return {Kind.DATE: "date", Kind.BOOLEAN: "boolean", Kind.CATEGORY: "text"}[attribute.kind]

    def range_type(self, attribute: Attribute, borders: Sequence[AnyArray] = ()) -> str:
        if attribute.kind is Kind.INTEGER:
            # The server stores the closed range [1,2] as [1,3), so an int4range cannot end with the
            # largest integer.
            needs_bigint = attribute.bits > 32 or any(
                len(values) and max(-int(values.min()), int(values.max())) >= _LARGEST_INTEGER
                for values in borders
            )
            return "int8range" if needs_bigint else "int4range"
        if attribute.kind is Kind.TIMESTAMP:
            return "tstzrange" if attribute.has_time_zone else "tsrange"
        return "daterange" if attribute.kind is Kind.DATE else "numrange"

    def _range_expression(self, position: int, column: ReleasedColumn) -> str:
        """SQL of a range whose bounds are staged at this position and the next one."""
        # ``written_columns`` are the lower and the upper bounds. NULLs are handled for the range,
        # below.
        range_type_name = column.attribute.sql_type
        bound_attribute = replace(column.attribute, sql_type=_BOUND_TYPES[range_type_name])
        lower, upper = (
            self.released_expression(
                position + i, replace(bound, attribute=bound_attribute, missing=None)
            )
            for i, bound in enumerate(column.written_columns)
        )
        value = f"{range_type_name}({lower}, {upper}, '{'[]' if column.is_closed else '[)'}')"
        if column.missing is None:
            return value
        return f"CASE WHEN c.{statements.value_column(position)}_null THEN NULL ELSE {value} END"
