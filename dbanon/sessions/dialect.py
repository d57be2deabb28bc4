"""How a database's values and types are written in SQL, without asking the database.

Source rows have the alias s in all SQL, and the staged values of classes the alias c.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from dbanon.data.array_types import AnyArray
from dbanon.data.date_range import date_limits
from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Kind, Role
from dbanon.errors import InvalidName, UnsupportedType
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.names import DOUBLE_QUOTE, quote


class Dialect(ABC):
    """The SQL of one database system; each store has a subclass."""

    # The mark around names in statements that users run, whatever the settings of their session.
    quotation_mark: ClassVar[str] = DOUBLE_QUOTE
    # The maximum length of a name in bytes; None for no limit.
    name_limit: ClassVar[int | None] = None
    # SQL that follows the definition of a temporary table.
    staging_suffix: ClassVar[str] = ""
    # SQL of a random number from 0 to 1, another one for each row.
    random_number: ClassVar[str] = "random()"
    # Lower-case column names that views cannot have.
    unsupported_in_views: ClassVar[frozenset[str]] = frozenset()

    # -- values of the source ---------------------------------------------------------------------

    @abstractmethod
    def text_of(self, attribute: Attribute) -> str:
        """SQL for a column's values as text that sorts by code point."""

    def value_of(self, attribute: Attribute) -> str:
        """SQL for an attribute's values as the dictionary of ``stage_values`` stores them.

        Identifiers are compared as the database compares their type, other values as texts.
        """
        if attribute.role is Role.IDENTIFIER:
            return self.normalized_sql(attribute, f"s.{quote(attribute.name)}")
        return self.text_of(attribute)

    def value_joins(self, attributes: Sequence[Attribute]) -> str:
        """JOINs with the dictionaries that ``stage_values`` staged, for a query that reads rows."""
        return "".join(
            statements.join_values(position, self.value_of(attribute))
            for position, attribute in enumerate(attributes)
            if attribute.kind.is_coded
        )

    def normalized_sql(self, attribute: Attribute, value: str) -> str:
        """SQL for an identifier's value, normalized so that spellings of one person are equal."""
        # Empty if spellings are not unified. Otherwise spaces are trimmed, and with CASEFOLD upper
        # and lower case are unified, too.
        if not attribute.normalize:
            return value
        # The first of these characters is the plain space, by which the others are replaced.
        for space in WHITE_SPACE[1:]:
            value = f"replace({value}, '{space}', ' ')"
        value = f"trim({value})"
        return self.lowercase_sql(value) if attribute.normalize == CASEFOLD else value

    def lowercase_sql(self, text: str) -> str:
        """SQL for a text in lowercase."""
        return f"lower({text})"

    def grouping_sql(self, attribute: Attribute) -> str:
        """SQL that GROUP BY uses to distinguish a column's values."""
        if attribute.kind is Kind.OTHER:
            return self.text_of(attribute)
        return f"s.{quote(attribute.name)}"

    def sort_key(self, attribute: Attribute) -> str:
        """SQL of a key column that sorts texts by code point, regardless of the collation."""
        return f"s.{quote(attribute.name)}"

    def retained_value(self, attribute: Attribute) -> str:
        """SQL for a retained column in its released type."""
        return f"s.{quote(attribute.name)}"

    def matches(self, text: str, pattern: str) -> str:
        """SQL that is true if a text matches the format of an identifier (see ``advice.forms``).

        Parameters
        ----------
        text : SQL of the text.
        pattern : the regular expression. It contains no quote or backslash, so that no setting of
            the database changes what it means.
        """
        return f"{text} ~ '{pattern}'"

    def count_distinct_sql(self, value: str) -> str:
        """SQL that counts distinct values, ignoring NULL, for at most a few thousand rows.

        Values that are equal only by the column's collation may be counted separately.
        """
        return f"count(DISTINCT {value})"

    @abstractmethod
    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        """SQL for a number, boolean, date or timestamp as a double.

        The SQL never fails: if a conversion could fail, values beyond a bound are first replaced by
        that bound. Otherwise, values are not clipped, and may lie outside the bounds. The SQL is
        NULL for NULL, NaN and values that do not match the column's type. Dates are days and
        timestamps microseconds since 1970.

        Parameters
        ----------
        low, high : the bounds, as text in the column's SQL type.
        """

    def coded_number(self, attribute: Attribute) -> str:
        """SQL of a copied number, which is compared with thresholds before its text is released."""
        return f"s.{quote(attribute.name)}"

    @abstractmethod
    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        """SQL for quotient and remainder of a value divided by the number of rows in its class.

        This number is ``n.size``; n is the alias of the relation of classes. The sums of quotients
        and of remainders give the exact total of a class, and do not overflow.

        The value is an integer: a decimal without its point, or a timestamp in its smallest unit.
        """

    def day_of(self, attribute: Attribute) -> str:
        """SQL for the day of a date or timestamp."""
        return f"CAST(s.{quote(attribute.name)} AS DATE)"

    def date_limits(self, attribute: Attribute) -> tuple[str, str]:
        """The first and the last day that a column of dates or timestamps can hold, as text."""
        return date_limits(attribute)

    # -- values of the release --------------------------------------------------------------------

    @abstractmethod
    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        """SQL that converts a class value from the staging table of classes to its released type.

        Parameters
        ----------
        position : the index of the (first) staging column that holds the value.
        column : the released column.
        """

    @abstractmethod
    def shifted_date(self, attribute: Attribute, days: str) -> str:
        """SQL for a retained date or timestamp, shifted by days of 24 hours.

        Parameters
        ----------
        days : SQL of the number of days, which may be negative.
        """

    @abstractmethod
    def type_of(self, attribute: Attribute) -> str:
        """Return this database's SQL type for a column that may come from another one.

        Raises
        ------
        UnsupportedType : this database has no such type.
        """

    def declared_type(self, sql_type: str) -> str:
        """Return a column's type in a form that CREATE TABLE accepts."""
        return sql_type

    def range_type(self, attribute: Attribute, borders: Sequence[AnyArray] = ()) -> str:
        """Return the SQL type of a column's ranges.

        Parameters
        ----------
        borders : arrays of lower and upper ends, (n_classes,) each, for which the type must be wide
            enough.

        Raises
        ------
        UnsupportedType : this database has no range types.
        """
        raise UnsupportedType(
            f'Column "{attribute.name}" cannot be released as ranges: this database has no range'
            " types.",
            hint='Use `intervals="text"`, `intervals="bounds"` or `intervals="midpoint"`.',
        )

    def require_names_allowed_in_views(self, names: Sequence[str]) -> None:
        """Check that views, and subqueries in FROM, can have columns with these names.

        Raises
        ------
        InvalidName : the database would rename one.
        """
        unsupported_names = [
            quote(name) for name in names if name.lower() in self.unsupported_in_views
        ]
        if unsupported_names:
            first_name = unsupported_names[0]
            # The rows are chosen by the job's option ``where``. SQLite would rename the column.
            raise InvalidName(
                "This database cannot have a view, or a query of chosen rows, with a column of"
                f" this name: {', '.join(unsupported_names)}. It would name it column1, column2 ….",
                hint="Release a table of all rows, or give the column another name in a view and"
                f' anonymize the view: SELECT …, {first_name} AS "is_{first_name[1:-1].lower()}".',
            )

    # -- parameters -------------------------------------------------------------------------------

    def cast_parameter(self, sql_type: str) -> str:
        """SQL that casts a bind parameter, a text, to a type."""
        return f"CAST(? AS {sql_type})"

    @abstractmethod
    def texts_query(self, values: Sequence[str]) -> tuple[str, object]:
        """SQL for a query that returns these texts, and the bind parameter for it."""
