"""Which column is what: roles, kinds and the schema of a job; text that has an order as ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.errors import InvalidParameter, UnsupportedType, ValueNotInOrder

# How texts of an entity are compared: without the white space around them, and without capitals.
TRIM, CASEFOLD = "trim", "casefold"
NORMALIZE = (TRIM, CASEFOLD)
# White space that spreadsheets and forms leave around an identifier.
WHITE_SPACE = " \t\n\v\f\r"


def spelled_alike(text: str, normalize: str) -> str:
    """A text as it is compared."""
    trimmed = text.strip(WHITE_SPACE) if normalize else text
    return trimmed.casefold() if normalize == CASEFOLD else trimmed


# What a caller may say of a column of numbers.
NOMINAL, NUMERIC = "nominal", "numeric"


class Role(str, Enum):
    """What a column is to a release.

    ``IDENTIFIER`` and columns without a role are never copied. ``INSENSITIVE`` columns are those
    that a caller asks to keep.
    """

    IDENTIFIER = "identifier"
    QUASI_IDENTIFIER = "quasi_identifier"
    SENSITIVE = "sensitive"
    INSENSITIVE = "insensitive"


class Kind(str, Enum):
    """The family of a column's type, as far as methods and recodings need to know it."""

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
        """True when a value has a position on a line: it is a number, or has a rank."""
        return self in _NUMBERS or self is Kind.ORDINAL

    @property
    def is_coded(self) -> bool:
        """True when stores read a value by its code in a dictionary, not as a number."""
        return self not in _NUMBERS


_NUMBERS = frozenset({Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True)
class Attribute:
    """One column: its name, its role and its type.

    Parameters
    ----------
    name : the column's name, as the database has it.
    kind : the family of its type.
    role : what it is to the release.
    sql_type : the type's name in its database; empty for a data frame.
    bits : width of an INTEGER (16, 32, 64) or FLOAT (32, 64).
    precision : digits in all, for DECIMAL; 0 when the type sets no limit.
    scale : digits after the point, for DECIMAL. For TIMESTAMP: digits of a second.
    zoned : True for a TIMESTAMP that is an instant, with time zone.
    nullable : False when the database guarantees that no value is NULL.
    order : the values from the lowest to the highest, where the type or the caller states them.
    enum_type : the enumerated type that released values get, where a text must not be cast to it.
    by_output : True where the type's output function makes text, because a cast may be anybody's.
    of_another : the type of another role that the column's is made of; empty where there is none.
    nominal : True for a number that is treated as a category, by its text.
    normalize : of an identifier, how its texts are spelled alike; one of ``NORMALIZE``, or empty.
    """

    name: str
    kind: Kind
    role: Role = Role.INSENSITIVE
    sql_type: str = ""
    bits: int = 64
    precision: int = 0
    scale: int = 0
    zoned: bool = False
    nullable: bool = True
    order: tuple[str, ...] = ()
    enum_type: str = ""
    by_output: bool = False
    of_another: str = ""
    nominal: bool = False
    normalize: str = ""


@dataclass(frozen=True)
class Schema:
    """The attributes of a relation, in the relation's own order."""

    attributes: tuple[Attribute, ...]

    def with_role(self, role: Role) -> tuple[Attribute, ...]:
        """The attributes that have this role."""
        return tuple(attribute for attribute in self.attributes if attribute.role is role)

    @property
    def quasi_identifiers(self) -> tuple[Attribute, ...]:
        """The attributes that could re-identify a person together."""
        return self.with_role(Role.QUASI_IDENTIFIER)


def require_lists(**lists: object) -> None:
    """Check that each is a list and not one text, whose letters would be taken for names.

    Raises
    ------
    InvalidParameter : one is.
    """
    for name, value in lists.items():
        if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
            raise InvalidParameter(
                f"{name} must be a list of {'models' if name == 'models' else 'names'}.",
                hint=f'Write `{name}=["…"]`, also where it is one.' if name != "models" else None,
            )


def with_kinds(attributes: Sequence[Attribute], kinds: Mapping[str, str]) -> tuple[Attribute, ...]:
    """The quasi-identifiers, those that are nominal as categories whose values are texts.

    Raises
    ------
    InvalidParameter : a kind is stated of no quasi-identifier.
    UnsupportedType : a column that is no number is to be numeric.
    """
    known = {attribute.name: attribute for attribute in attributes}
    for name, kind in kinds.items():
        if name not in known:
            raise InvalidParameter(
                f'The kind of "{name}" names no quasi-identifier.',
                hint="State `kinds` of quasi-identifiers only.",
            )
        if kind == NUMERIC and known[name].kind.is_coded:
            raise UnsupportedType(
                f'Column "{name}" of type {known[name].sql_type} is no number, and so not numeric.',
                hint="Leave its kind out, or cast it to a number in a view.",
            )
    return tuple(
        replace(attribute, kind=Kind.CATEGORY, order=(), nominal=not attribute.kind.is_coded)
        if kinds.get(attribute.name) == NOMINAL and attribute.kind is not Kind.OTHER
        else attribute
        for attribute in attributes
    )


def with_orders(
    attributes: Sequence[Attribute], orders: Mapping[str, Sequence[str]]
) -> tuple[Attribute, ...]:
    """The quasi-identifiers, those whose values have an order as ordinal ones.

    An order in ``orders`` goes before that of the column's type; an empty one takes it away.

    Raises
    ------
    InvalidParameter : an order names no quasi-identifier, or a value twice.
    UnsupportedType : an order is stated for a column that is no text.
    """
    for name in orders:
        if name not in [attribute.name for attribute in attributes]:
            raise InvalidParameter(
                f'The order of "{name}" names no quasi-identifier.',
                hint="State `orders` of quasi-identifiers only.",
            )
    return tuple(
        _ordinal(attribute, tuple(orders.get(attribute.name, attribute.order)))
        if attribute.name in orders or attribute.order
        else attribute
        for attribute in attributes
    )


def _ordinal(attribute: Attribute, order: tuple[str, ...]) -> Attribute:
    if attribute.kind is not Kind.CATEGORY:
        raise UnsupportedType(
            f'An order was stated for column "{attribute.name}" of type {attribute.sql_type},'
            " which is no text.",
            hint="Numbers and dates have their own order; cast other types to text in a view.",
        )
    if len(set(order)) != len(order):
        raise InvalidParameter(f'The order of "{attribute.name}" holds a value twice.')
    return replace(attribute, kind=Kind.ORDINAL, order=order) if order else attribute


def ranked(
    attributes: tuple[Attribute, ...],
    numbers: NDArray[np.float64],
    codes: NDArray[np.int32],
    categories: Sequence[Sequence[str]],
) -> tuple[NDArray[np.float64], NDArray[np.int32], list[Sequence[str]]]:
    """Ordinal attributes moved from the codes to the numbers, as ranks.

    Parameters
    ----------
    numbers : float64 (n, p), the attributes that were read as numbers, in their order.
    codes, categories : int32 (n, q) and the dictionaries of the others; -1 where NULL.

    Raises
    ------
    ValueNotInOrder : an ordinal attribute holds a value that its order has not.
    """
    coded = [attribute for attribute in attributes if attribute.kind.is_coded]
    plain = iter(numbers.T)
    columns = [
        _ranks(attribute, codes[:, coded.index(attribute)], categories[coded.index(attribute)])
        if attribute.kind is Kind.ORDINAL
        else next(plain)
        for attribute in attributes
        if attribute.kind.is_numeric
    ]
    kept = [i for i, attribute in enumerate(coded) if attribute.kind is not Kind.ORDINAL]
    return np.column_stack(columns), codes[:, kept], [categories[i] for i in kept]


def _ranks(
    attribute: Attribute, codes: NDArray[np.int32], values: Sequence[str]
) -> NDArray[np.float64]:
    """Places in the attribute's order, float64 (n,); 0 where NULL."""
    rank_of = {value: rank for rank, value in enumerate(attribute.order)}
    # One more place for the code -1 of NULL.
    ranks = np.array([*(rank_of.get(value, -1) for value in values), 0], np.float64)[codes]
    unknown = int((ranks < 0).sum())
    if unknown:
        count = sum(value not in rank_of for value in values)
        raise not_in_order(attribute, (count, len(values)), (unknown, len(ranks)))
    return ranks


def not_in_order(
    attribute: Attribute, values: tuple[int, int], rows: tuple[int, int]
) -> ValueNotInOrder:
    """The error of a column with values that its order has not.

    Parameters
    ----------
    values, rows : how many of how many.
    """
    return ValueNotInOrder(
        f'Column "{attribute.name}" holds values that are not in its order:'
        f" {values[0]} of {values[1]} values, in {rows[0]} of {rows[1]} rows.",
        hint="State all values of the column (`orders`), from the lowest to the highest.",
    )
