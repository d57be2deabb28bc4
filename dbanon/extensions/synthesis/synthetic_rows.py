"""Synthetic rows in a database: reading the original values, writing rows, and recounting.

Columns are read as numbers between public bounds, or as indexes into a public list of values.
Unlisted values are not read. Numbers outside the bounds may be read, and are clipped before they
are used. Neither can make a query fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import InvalidParameter, RecountFailed, UnsupportedType
from dbanon.extensions.synthesis.enumerated_column import (
    ListedColumn,
    drop_lists,
    index_expression,
    stage_lists,
)
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Output, Relation
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.session import Session

# The kinds of person identifiers: of these, all databases agree on which values are equal.
_PERSON_KINDS = (Kind.INTEGER, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP, Kind.CATEGORY)
_SUPPORTED_KINDS = (
    Kind.INTEGER,
    Kind.DECIMAL,
    Kind.FLOAT,
    Kind.BOOLEAN,
    Kind.DATE,
    Kind.TIMESTAMP,
    Kind.CATEGORY,
)
# 0001-01-01 and 9999-12-31, in days since 1970.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_MICROSECONDS_PER_DAY = 86_400_000_000
# If a bound is this many units of its type, or more, values are computed with exact Python numbers.
_MAX_FLOAT_UNITS = 2**62


# A column with bounds, or one with a list of values.
AnyColumn: TypeAlias = "SyntheticColumn | ListedColumn"


@dataclass(frozen=True)
class SyntheticColumn:
    """A column between public bounds, in the source and in the release.

    Parameters
    ----------
    attribute : the column with its type in the release.
    source : the column as the source has it.
    low, high : the bounds of released values as SQL text; empty for booleans. Values that are read
        may lie outside.
    unit_bounds : the bounds in units of the type, such as cents for a decimal with scale 2; None
        for floating point and booleans.
    """

    attribute: Attribute
    source: Attribute
    low: str
    high: str
    unit_bounds: tuple[int, int] | None

    @property
    def bounds(self) -> list[str]:
        """The bounds as SQL text, low and high; empty for booleans."""
        return [self.low, self.high] if self.low else []

    def to_released(self, values: AnyArray) -> ReleasedColumn:
        """Convert generated values to a column for staging, clipped to the bounds.

        Parameters
        ----------
        values : the values, (n_rows,), in the dtype of the source column; see ``numpy_dtype``.
        """
        kind = self.attribute.kind
        if kind is Kind.BOOLEAN:
            return ReleasedColumn(self.attribute, np.where(values, "1", "0").astype(object))
        if kind is Kind.FLOAT:
            return ReleasedColumn(self.attribute, np.asarray(values, np.float64))
        assert self.unit_bounds is not None
        low, high = self.unit_bounds
        step = _smallest_step(self.attribute)
        if kind in (Kind.DATE, Kind.TIMESTAMP):
            units = np.rint(values.astype(np.int64) / step).astype(np.int64).clip(low, high) * step
        elif max(-low, high) >= _MAX_FLOAT_UNITS:
            scaled = [round(Decimal(float(value)) * 10**self.attribute.scale) for value in values]
            units = np.array([min(max(value, low), high) for value in scaled], object)
        else:
            units = np.rint(np.asarray(values, np.float64) * 10**self.attribute.scale)
            # Clip again as integers: as floats, large bounds are rounded.
            units = units.clip(low, high).astype(np.int64).clip(low, high)
        return ReleasedColumn(self.attribute, units)


def require_kind(attribute: Attribute) -> None:
    """Check that a column can have public bounds, or a public list of values.

    Raises
    ------
    UnsupportedType : it is not a number, boolean, date, timestamp or text.
    """
    if attribute.kind not in _SUPPORTED_KINDS:
        raise UnsupportedType(
            f'Column "{attribute.name}"'
            f" of type {attribute.sql_type} is not a number, Boolean, date, timestamp or text, as"
            " dp_ranks needs.",
            hint="Leave the column out of `quasi_identifiers`.",
        )


def numpy_dtype(attribute: Attribute) -> AnyDtype:
    """Return the NumPy type for a column's values; object for text and unsupported types."""
    kind = attribute.kind
    if kind is Kind.INTEGER:
        return np.dtype({16: np.int16, 32: np.int32}.get(attribute.bits, np.int64))
    if kind is Kind.DATE:
        return np.dtype("datetime64[D]")
    if kind is Kind.TIMESTAMP:
        return np.dtype("datetime64[us]")
    if kind is Kind.FLOAT:
        return np.dtype(np.float32 if attribute.bits == 32 else np.float64)
    dtypes = {Kind.DECIMAL: np.float64, Kind.BOOLEAN: np.bool_}
    return np.dtype(dtypes.get(kind, np.object_))


def to_synthetic_column(
    session: Session, source: Attribute, bounds: tuple[float, float]
) -> SyntheticColumn:
    """Choose the type of a column with public bounds in the release.

    Parameters
    ----------
    bounds : days or microseconds since 1970 for dates and timestamps; ignored for booleans.

    Raises
    ------
    InvalidParameter : the type does not have two values between the bounds.
    """
    kind = source.kind
    # The values of a decimal without a declared scale are generated as floats: the scale of the
    # actual values is not public.
    has_unknown_scale = kind is Kind.DECIMAL and source.scale < 0
    attribute = replace(
        source,
        kind=Kind.FLOAT if has_unknown_scale else kind,
        bits=64 if has_unknown_scale else source.bits,
        sql_type=session.dialect.type_of(replace(source, scale=0) if has_unknown_scale else source),
        nullable=False,
    )
    if kind is Kind.BOOLEAN:
        return SyntheticColumn(attribute, source, "", "", None)
    if attribute.kind is Kind.FLOAT:
        is_single_precision = source.bits == 32 and not has_unknown_scale
        low, high = (
            # Round to float32 if the source has it. Of a decimal, a float preserves 15 digits.
            repr(float(np.float32(bound)))
            if is_single_precision
            else f"{bound:.15g}"
            if has_unknown_scale
            else repr(float(bound))
            for bound in bounds
        )
        return SyntheticColumn(attribute, source, low, high, None)
    unit_bounds = _units_of_bounds(attribute, bounds)
    if unit_bounds[0] >= unit_bounds[1] or not _type_holds(attribute, unit_bounds):
        raise InvalidParameter(
            f'The bounds of "{source.name}" must be within its type, {source.sql_type}, and include'
            " at least two of its values."
        )
    low, high = (_sql_text(attribute, unit_bound) for unit_bound in unit_bounds)
    return SyntheticColumn(attribute, source, low, high, unit_bounds)


def _smallest_step(attribute: Attribute) -> int:
    """The smallest step of a timestamp, in microseconds; 1 for other columns, such as dates."""
    return int(10 ** (6 - attribute.scale)) if attribute.kind is Kind.TIMESTAMP else 1


def _units_of_bounds(attribute: Attribute, bounds: tuple[float, float]) -> tuple[int, int]:
    """Convert the bounds to whole units of the type; the lower is rounded up, the upper down."""
    low, high = (Decimal(repr(float(bound))) for bound in bounds)
    scale = Decimal(10) ** attribute.scale if attribute.kind is Kind.DECIMAL else Decimal(1)
    step = _smallest_step(attribute)
    return (
        int((low * scale / step).to_integral_value(ROUND_CEILING)),
        int((high * scale / step).to_integral_value(ROUND_FLOOR)),
    )


def _type_holds(attribute: Attribute, unit_bounds: tuple[int, int]) -> bool:
    """Whether the type can hold these bounds, given in its units."""
    low, high = unit_bounds
    if attribute.kind is Kind.DECIMAL:
        return not attribute.precision or max(-low, high) < 10**attribute.precision
    if attribute.kind is Kind.DATE:
        return low >= _FIRST_DAY and high <= _LAST_DAY
    if attribute.kind is Kind.TIMESTAMP:
        step = _smallest_step(attribute)
        return (
            low * step >= _FIRST_DAY * _MICROSECONDS_PER_DAY
            and high * step < (_LAST_DAY + 1) * _MICROSECONDS_PER_DAY
        )
    return True


def _sql_text(attribute: Attribute, units: int) -> str:
    """Write a number, date or timestamp, given in units of its type, as SQL text."""
    if attribute.kind is Kind.DATE:
        return str(np.datetime64(units, "D"))
    if attribute.kind is Kind.TIMESTAMP:
        timestamp = str(np.datetime64(units * _smallest_step(attribute), "us")).replace("T", " ")
        if attribute.scale == 0:
            timestamp = timestamp.partition(".")[0]
        return timestamp + ("+00" if attribute.has_time_zone else "")
    if attribute.kind is Kind.DECIMAL:
        return f"{Decimal(units).scaleb(-attribute.scale):f}"
    return str(units)


# -- reading --------------------------------------------------------------------------------------


def require_entity(entity: Attribute) -> None:
    """Check that a column can identify the person that a row belongs to.

    Raises
    ------
    UnsupportedType : it may be NULL, or databases may disagree on which values are equal.
    """
    # The last two are set if other database users may have defined casts or code of the type.
    if entity.kind not in _PERSON_KINDS or entity.uses_output_function or entity.type_of_other_role:
        raise UnsupportedType(
            f'Column "{entity.name}" of type {entity.sql_type} cannot be used to identify persons.',
            hint="Anonymize a copy of the table in which the column is text and NOT NULL.",
        )
    if entity.nullable:
        raise UnsupportedType(
            f'Column "{entity.name}" identifies persons, and may be NULL.',
            hint="Declare the column NOT NULL. If it has NULL, anonymize a copy of the table"
            " without these rows in which it is NOT NULL.",
        )


def count_privacy_units(session: Session, relation: Relation, person_names: Sequence[str]) -> int:
    """Count the privacy units: persons, or rows if there is no person column.

    The count is published without noise.

    Parameters
    ----------
    person_names : the name of the person column as the only element; empty if there is none.
    """
    person_expressions = [f"DISTINCT s.{quote(name)}" for name in person_names]
    query = f"SELECT count({', '.join(person_expressions) or '*'}) FROM {relation.name.quoted} AS s"
    return int(session.rows(query)[0][0])


def read_numbers(
    session: Session,
    relation: Relation,
    columns: Sequence[AnyColumn],
    person_names: Sequence[str],
    chunk_rows: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
    """Read the columns as numbers, and assign a number to each person.

    Columns with a list are read as indexes into the list, or ``UNLISTED`` for values that are not
    in it. Returns two arrays:

    - the columns, float64 (n_columns, n_rows), NaN for NULL;
    - the number of each row's person, from 1, int64 (n_rows,), or None without a person column.

    Parameters
    ----------
    person_names : the name of the person column as the only element; empty if there is none.
    chunk_rows : the number of rows to fetch at once.
    """
    listed_columns = [column for column in columns if isinstance(column, ListedColumn)]
    expressions: list[str] = []
    joins: list[str] = []
    for column in columns:
        if isinstance(column, ListedColumn):
            expression, join = index_expression(session, len(joins), column)
            joins.append(join)
        else:
            # SQL that converts the value to a double and cannot fail: what a double cannot hold is
            # clipped to the bounds first.
            expression = session.dialect.bounded_number(column.source, column.low, column.high)
        expressions.append(expression)
    for name in person_names:
        person_number_sql = f"dense_rank() OVER (ORDER BY s.{quote(name)})"
        expressions.append(f"CAST({person_number_sql} AS DOUBLE PRECISION)")
    query = "SELECT " + ", ".join(
        f"{expression} AS c{i}" for i, expression in enumerate(expressions)
    )
    query += f" FROM {relation.name.quoted} AS s{''.join(joins)}"
    if listed_columns:
        stage_lists(session, listed_columns)
    chunks = list(session.read_numbers(query, chunk_rows))
    if listed_columns:
        drop_lists(session)
    numbers = np.concatenate(chunks) if chunks else np.empty((0, len(expressions)))
    person_numbers = numbers[:, -1].astype(np.int64) if person_names else None
    return np.ascontiguousarray(numbers[:, : len(columns)].T), person_numbers


# -- writing --------------------------------------------------------------------------------------


def write_rows(
    session: Session,
    output: Output,
    columns: Sequence[AnyColumn],
    rows: Mapping[str, AnyArray],
) -> None:
    """Write rows to a table that readers do not see yet, in the order in which they were generated.

    Parameters
    ----------
    rows : the generated values, (n_rows,), by column name.
    """
    # Creates the schema of the output if it is missing.
    session.publication.ensure_schema(output.name)
    released_columns = [column.to_released(rows[column.attribute.name]) for column in columns]
    # Each row is staged like a class of its own.
    session.load_classes(released_columns, len(released_columns[0].values))
    session.publication.create_table(
        output,
        [(column.attribute.name, column.attribute.sql_type) for column in columns],
        output.release_id,
    )
    # SQL that converts each staged value to its released type.
    values = [
        session.dialect.released_expression(i, column) for i, column in enumerate(released_columns)
    ]
    session.run(
        f"INSERT INTO {output.staging_name.quoted}"
        f" ({quote_list(column.attribute.name for column in columns)})"
        f" SELECT {', '.join(values)} FROM {quote(statements.CLASSES)} AS c ORDER BY c.class"
    )
    # Up-to-date planner statistics speed up the recount.
    session.analyze(output.staging_name)


@dataclass(frozen=True)
class ColumnDomain:
    """The allowed values of a released column, which the recount checks.

    Parameters
    ----------
    attribute : the released column.
    low, high : the bounds as SQL text; empty for booleans and listed values.
    allowed_values : the values of a column with a list; empty for a column with bounds.
    """

    attribute: Attribute
    low: str = ""
    high: str = ""
    allowed_values: tuple[str, ...] = ()

    @classmethod
    def of(cls, column: AnyColumn) -> ColumnDomain:
        """The allowed values of a column to release."""
        if isinstance(column, ListedColumn):
            return cls(column.attribute, allowed_values=column.labels)
        return cls(column.attribute, column.low, column.high)


def recount(
    session: Session, relation: RelationName, domains: Sequence[ColumnDomain]
) -> tuple[int, int]:
    """Count the rows of a relation, and those with a NULL or a value outside its domain."""
    invalid_conditions: list[str] = []
    values: list[object] = []
    for domain in domains:
        column = f"s.{quote(domain.attribute.name)}"
        invalid_conditions.append(f"{column} IS NULL")
        if domain.low:
            bound = session.dialect.cast_parameter(domain.attribute.sql_type)
            invalid_conditions.append(f"{column} < {bound} OR {column} > {bound}")
            values += [domain.low, domain.high]
        if domain.allowed_values:
            texts, parameter = session.dialect.texts_query(domain.allowed_values)
            invalid_conditions.append(
                f"{session.dialect.text_of(domain.attribute)} NOT IN ({texts})"
            )
            values.append(parameter)
    [(n_rows, n_invalid)] = session.rows(
        f"SELECT count(*), count(CASE WHEN {' OR '.join(invalid_conditions)} THEN 1 END)"
        f" FROM {relation.quoted} AS s",
        values,
    )
    return int(n_rows), int(n_invalid)


def require_recount(
    session: Session, relation: RelationName, domains: Sequence[ColumnDomain], n_expected: int
) -> None:
    """Recount the written rows.

    Raises
    ------
    RecountFailed : rows or columns are missing, or a row has a NULL or a value outside its domain.
    """
    names = [name for name, _ in session.catalog.list_columns(relation)]
    n_rows, n_invalid = recount(session, relation, domains)
    if n_rows != n_expected or n_invalid or names != [domain.attribute.name for domain in domains]:
        raise RecountFailed(
            f"The table has {n_rows} synthetic rows, where {n_expected} were written, and"
            f" {n_invalid} of them have a NULL or a value outside its bounds; nothing was"
            " published.",
            hint="This is an error in dbanon: please report it.",
        )
