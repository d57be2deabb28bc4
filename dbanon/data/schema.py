"""Schemas: the roles and kinds of columns, and ordinal texts as ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dbanon.data.bands import Bands
from dbanon.data.frozen import dataclass
from dbanon.data.groups import Groups
from dbanon.errors import InvalidParameter, UnsupportedType, ValueNotInOrder

# How different spellings of a person identifier are unified: TRIM removes surrounding white space,
# CASEFOLD also ignores case.
TRIM, CASEFOLD = "trim", "casefold"
NORMALIZE = (TRIM, CASEFOLD)
# White space that spreadsheets and forms leave around identifiers.
WHITE_SPACE = " \t\n\v\f\r"


def normalize_spelling(text: str, normalize: str) -> str:
    """Normalize a text for comparison.

    Parameters
    ----------
    normalize : one of ``NORMALIZE``; empty to leave the text unchanged.
    """
    trimmed = text.strip(WHITE_SPACE) if normalize else text
    return trimmed.casefold() if normalize == CASEFOLD else trimmed


# Kinds that a caller may state for a column: codes, which are compared as texts; or numbers, which
# is the default for columns of numbers.
NOMINAL, NUMERIC = "nominal", "numeric"


class Role(str, Enum):
    """The role of a column in a release.

    - ``IDENTIFIER``: identifies a person by itself; never copied to the release, like columns
      without a role.
    - ``QUASI_IDENTIFIER``: could identify a person together with others; anonymized.
    - ``SENSITIVE``: what readers should not learn about a person; copied, while privacy
      models may limit what classes reveal of it.
    - ``INSENSITIVE``: none of these; copied if the caller requests it.
    """

    IDENTIFIER = "identifier"
    QUASI_IDENTIFIER = "quasi_identifier"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


class Kind(str, Enum):
    """The family of a column's type. Methods and recodings treat each family differently.

    ``ORDINAL`` is text with an order, ``CATEGORY`` is text without one. ``OTHER`` is any other
    type: a few uses read its values as text, most refuse it.
    """

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    ORDINAL = "ordinal"
    CATEGORY = "category"
    OTHER = "other"

    @property
    def is_numeric(self) -> bool:
        """True if values are numbers or ranks."""
        return self in _NUMBER_KINDS or self is Kind.ORDINAL

    @property
    def is_coded(self) -> bool:
        """True if values are read as codes of a dictionary of texts, not as numbers."""
        return self not in _NUMBER_KINDS


_NUMBER_KINDS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its role and its type.

    Parameters
    ----------
    name : the column's name in the database.
    kind : the family of its type.
    role : its role in the release.
    sql_type : the name of its type in the database; empty for a data frame.
    bits : the width of an INTEGER (16, 32, 64, or more if the database has wider ones) or FLOAT
        (32 or 64) in bits.
    precision : for DECIMAL, the number of digits; 0 if the type sets no limit.
    scale : for DECIMAL, the number of digits after the point; for TIMESTAMP, the number of digits
        in the fraction of a second.
    has_time_zone : True for a TIMESTAMP with time zone, whose values are instants.
    nullable : False if the database guarantees that no value is NULL.
    order : the values from the lowest to the highest, if the type or the caller states them.
    enum_type : the enumerated type of released values, if a cast of text to it could run another
        user's code; released texts are then looked up among the type's values. Otherwise empty.
    uses_output_function : True to convert values to text by the type's output function instead of a
        cast, because any database user can define a cast.
    type_of_other_role : a type that another database user owns and that the column's type is based
        on, so that its code could run with the rights of this user; empty if there is none.
    nominal : True for a number that is treated as a category with its text as value.
    normalize : for an identifier, how spellings are unified: one of ``NORMALIZE``, or empty.
    bands : for a column of numbers that was coded, its bands, whose labels are ``order``; otherwise
        None.
    groups : for a column whose values were coded as groups, these groups; otherwise None.
    """

    name: str
    kind: Kind
    role: Role = Role.INSENSITIVE
    sql_type: str = ""
    bits: int = 64
    precision: int = 0
    scale: int = 0
    has_time_zone: bool = False
    nullable: bool = True
    order: tuple[str, ...] = ()
    enum_type: str = ""
    uses_output_function: bool = False
    type_of_other_role: str = ""
    nominal: bool = False
    normalize: str = ""
    bands: Bands | None = None
    groups: Groups | None = None

    @property
    def has_single_precision(self) -> bool:
        """Whether it holds floating-point numbers of 32 bits.

        Held in 64 bits, 1.3 is then 1.2999999523162842.
        """
        return self.kind is Kind.FLOAT and self.bits == 32


@dataclass(frozen=True)
class Schema:
    """The attributes of a relation, in the order of its columns."""

    attributes: tuple[Attribute, ...]

    def with_role(self, role: Role) -> tuple[Attribute, ...]:
        """The attributes that have this role."""
        return tuple(attribute for attribute in self.attributes if attribute.role is role)

    @property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """The attributes that together could re-identify a person."""
        return self.with_role(Role.QUASI_IDENTIFIER)


def require_lists(**lists: object) -> None:
    """Check that each argument is a list: the letters of a string would count as single names.

    Raises
    ------
    InvalidParameter : a value is a string, or is not iterable.
    """
    for name, value in lists.items():
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            # Privacy models are objects, so they get no hint with texts.
            raise InvalidParameter(
                f"{name} must be a list of {'models' if name == 'models' else 'names'}.",
                hint=f'Write `{name}=["…"]`, even for a single value.'
                if name != "models"
                else None,
            )


def apply_kinds(attributes: Sequence[Attribute], kinds: Mapping[str, str]) -> tuple[Attribute, ...]:
    """Turn the quasi-identifiers that are stated to be nominal into categories, with text values.

    Parameters
    ----------
    attributes : the quasi-identifiers. All of them are returned, in the same order.
    kinds : ``NOMINAL`` or ``NUMERIC``, by column.

    Raises
    ------
    InvalidParameter : a kind is stated for a column that is not a quasi-identifier.
    UnsupportedType : the kind numeric is stated for a column without numbers.
    """
    if not kinds:
        return tuple(attributes)
    attributes_by_name = {attribute.name: attribute for attribute in attributes}
    for name, kind in kinds.items():
        if name not in attributes_by_name:
            raise InvalidParameter(
                f'Column "{name}", named in `kinds`, is not a quasi-identifier.',
                hint="State `kinds` of quasi-identifiers only.",
            )
        if kind == NUMERIC and attributes_by_name[name].kind.is_coded:
            raise UnsupportedType(
                f'Column "{name}"'
                f" of type {attributes_by_name[name].sql_type} is not a number, so it cannot be"
                " numeric.",
                hint="Leave its kind out, or cast it to a number in a view.",
            )
    # OTHER remains OTHER: its values are read as text anyway, and most uses refuse it.
    return tuple(
        replace(attribute, kind=Kind.CATEGORY, order=(), nominal=not attribute.kind.is_coded)
        if kinds.get(attribute.name) == NOMINAL and attribute.kind is not Kind.OTHER
        else attribute
        for attribute in attributes
    )


def apply_orders(
    attributes: Sequence[Attribute], orders: Mapping[str, Sequence[str]]
) -> tuple[Attribute, ...]:
    """Turn the quasi-identifiers that have an order into ordinal ones.

    Parameters
    ----------
    attributes : the quasi-identifiers. All of them are returned, in the same order.
    orders : by column, all values in order; overrides the order of the column's type. With an empty
        order, the column is not made ordinal.

    Raises
    ------
    InvalidParameter : an order is stated for a column that is not a quasi-identifier, or contains
        a value twice.
    UnsupportedType : an order is stated for a column that is not text.
    """
    for name in orders:
        if name not in [attribute.name for attribute in attributes]:
            raise InvalidParameter(
                f'Column "{name}", named in `orders`, is not a quasi-identifier.',
                hint="State `orders` of quasi-identifiers only.",
            )
    return tuple(
        _as_ordinal(attribute, tuple(orders.get(attribute.name, attribute.order)))
        if attribute.name in orders or attribute.order
        else attribute
        for attribute in attributes
    )


def _as_ordinal(attribute: Attribute, order: tuple[str, ...]) -> Attribute:
    """Turn an attribute into an ordinal one; with an empty order, it is not made ordinal.

    Raises
    ------
    UnsupportedType : the attribute is not text.
    InvalidParameter : the order contains a value twice.
    """
    if attribute.kind is not Kind.CATEGORY:
        raise UnsupportedType(
            f'An order was stated for column "{attribute.name}" of type {attribute.sql_type},'
            " which is not text.",
            hint="Numbers and dates have their own order; cast other types to text in a view.",
        )
    if len(set(order)) != len(order):
        raise InvalidParameter(f'The order of "{attribute.name}" contains a value twice.')
    return replace(attribute, kind=Kind.ORDINAL, order=order) if order else attribute


def move_ordinals_to_numbers(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    codes: NDArray[np.int32],
    categories: Sequence[Sequence[str]],
) -> tuple[NDArray[np.float64], NDArray[np.int32], list[Sequence[str]]]:
    """Move ordinal attributes from the codes to the numbers, as ranks.

    Returns numbers, codes and categories after the move.

    Parameters
    ----------
    numbers : float64 (n, p), the attributes that were read as numbers, in order.
    codes : int32 (n, q), the other attributes in order, as positions in ``categories``; -1 for
        NULL.
    categories : the dictionary of each of the q other attributes.

    Raises
    ------
    ValueNotInOrder : an ordinal attribute has a value that is missing from its order.
    """
    coded_attributes = [attribute for attribute in attributes if attribute.kind.is_coded]
    number_columns = iter(numbers.T)
    all_number_columns = [
        _convert_to_ranks(
            attribute,
            codes[:, coded_attributes.index(attribute)],
            categories[coded_attributes.index(attribute)],
        )
        if attribute.kind is Kind.ORDINAL
        else next(number_columns)
        for attribute in attributes
        if attribute.kind.is_numeric
    ]
    nominal_positions = [
        i for i, attribute in enumerate(coded_attributes) if attribute.kind is not Kind.ORDINAL
    ]
    nominal_categories = [categories[i] for i in nominal_positions]
    return np.column_stack(all_number_columns), codes[:, nominal_positions], nominal_categories


def _convert_to_ranks(
    attribute: Attribute, codes: NDArray[np.int32], values: Sequence[str]
) -> NDArray[np.float64]:
    """Convert codes of texts to ranks in the attribute's order, float64 (n,); 0 for NULL.

    Raises
    ------
    ValueNotInOrder : a value is missing from the order.
    """
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # The last entry is for NULL, whose code is -1.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)[codes]
    n_unknown_rows = int((ranks < 0).sum())
    if n_unknown_rows:
        n_unknown = sum(value not in rank_of for value in values)
        raise not_in_order_error(
            attribute, values=(n_unknown, len(values)), rows=(n_unknown_rows, len(ranks))
        )
    return ranks


def not_in_order_error(
    attribute: Attribute, values: tuple[int, int], rows: tuple[int, int]
) -> ValueNotInOrder:
    """Build the error for a column with values that are missing from its order.

    Parameters
    ----------
    values : the number of distinct values that are missing from the order, and of all distinct
        values.
    rows : the number of rows with such values, and of all rows.
    """
    (n_values, total_values), (n_rows, total_rows) = values, rows
    return ValueNotInOrder(
        f'Column "{attribute.name}" holds values that are not in its order:'
        f" {n_values} of {total_values} values, in {n_rows} of {total_rows} rows.",
        hint="State all values of the column (`orders`), from the lowest to the highest.",
    )


def as_identifier(attribute: Attribute, normalize: str | None = None) -> Attribute:
    """Return the entity column as a category, so that equal values are read as equal codes.

    Parameters
    ----------
    normalize : how texts are normalized before they are compared. ``trim`` removes white space
        around them, and ``casefold`` also ignores case. None to compare them as they are.

    Raises
    ------
    UnsupportedType : databases compare values of its type differently.
    """
    if attribute.kind is Kind.OTHER:
        raise UnsupportedType(
            f'The entity column "{attribute.name}" is of type {attribute.sql_type}.',
            hint="Cast it to text or to a number in a view.",
        )
    normalization = str(normalize or "") if attribute.kind is Kind.CATEGORY else ""
    return replace(attribute, kind=Kind.CATEGORY, role=Role.IDENTIFIER, normalize=normalization)
