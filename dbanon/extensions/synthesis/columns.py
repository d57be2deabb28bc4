"""The table that is synthesized, and the public domain of each column.

Domains follow from types and options alone: no value is read before its price is paid. The code of
a value depends only on that value and its domain, so one row changes one integer per column, and no
value can make a run fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray, AnyDtype
from dbanon.data.conversion import to_moment
from dbanon.errors import BoundsRequired, InvalidParameter
from dbanon.extensions.synthesis.domains import (
    BOOLEAN_HIERARCHY,
    OTHER_LABEL,
    CategoricalDomain,
    NumericDomain,
    add_other_leaf,
)
from dbanon.hierarchy import builders
from dbanon.hierarchy.spec import HierarchySpec, build_enum_hierarchy
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PrivateOptions

# Returns the values of a column in its type, and which of them are NULL, if its type allows it.
ColumnReader = Callable[[int], "tuple[AnyArray, NDArray[np.bool_] | None]"]


@dataclass(frozen=True, eq=False)
class TypedTable:
    """A table with typed columns that are read on demand.

    Parameters
    ----------
    n : number of rows, or of persons.
    names, dtypes : the name and the type of each column.
    nullable : whether each column may hold NULL.
    read : reads a column by its index.
    read_persons : reads the person identifier of each row as integers; None if each row is a
        person.
    source : description of the table in the guarantee.
    labels : for each column of an enumerated type, the values that the type declares.
    """

    n: int
    names: tuple[str, ...]
    dtypes: tuple[AnyDtype, ...]
    nullable: tuple[bool, ...]
    read: ColumnReader
    read_persons: Callable[[], AnyArray] | None = None
    source: str = "the source"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def number_persons(persons: AnyArray) -> NDArray[np.int64]:
    """Replace the person identifier of each row by a number from 0, int64 (n,)."""
    return np.unique(persons, return_inverse=True)[1].reshape(-1).astype(np.int64)


PublicColumn = NumericDomain | CategoricalDomain

_BOUNDS_HINT = (
    "Name `bounds` that anyone may know without the data, never its smallest and largest value."
)
# Kinds of numpy dtypes: O objects and U text; i, u and f numbers; b booleans; M dates and times.
_TEXT_KINDS = "OU"
_NUMBER_KINDS = "iuf"
_SCALAR_KINDS = "iufbM"


def define_public_columns(table: TypedTable, options: PrivateOptions) -> tuple[PublicColumn, ...]:
    """Determine the public domain of each column without reading any value.

    Raises
    ------
    BoundsRequired : a numeric column has no bounds, or a text column no list of values.
    InvalidParameter : bounds are not two finite numbers in order; a list does not fit; a nullable
        column has no replacement for NULL; an option names an unknown column, or one of another
        kind.
    """
    dtypes = dict(zip(table.names, table.dtypes, strict=True))
    for option, allowed_kinds, description in (
        ("bounds", _SCALAR_KINDS, "numbers, dates, times or booleans"),
        ("hierarchies", _TEXT_KINDS, "text"),
        ("orders", _TEXT_KINDS, "text"),
        ("scale", _NUMBER_KINDS, "numbers"),
        ("null_as", _SCALAR_KINDS + _TEXT_KINDS, "numbers, dates, times, booleans or text"),
    ):
        for name in getattr(options, option):
            if name not in dtypes:
                raise InvalidParameter(f'{option} name "{name}", which is not a column.')
            if dtypes[name].kind not in allowed_kinds:
                raise InvalidParameter(
                    f'{option} name "{name}", but apply only to {description}; the column is of'
                    f" type {dtypes[name]}."
                )
    return tuple(_define_column(table, j, options) for j in range(len(table.names)))


def _define_column(table: TypedTable, j: int, options: PrivateOptions) -> PublicColumn:
    """Determine the public domain of column ``j``, and check that NULL has a replacement."""
    name, dtype = table.names[j], table.dtypes[j]
    column = (
        _define_numeric(name, dtype, options)
        if dtype.kind in "iufM"
        else _define_categorical(table, name, dtype, options)
    )
    if table.nullable[j] and name not in options.null_as:
        raise InvalidParameter(
            f'Column "{name}" may hold NULL, and a release that shows where is not'
            " differentially private.",
            hint="Say which value replaces NULL, even if the column holds none: `null_as`.",
        )
    return column


def _define_numeric(name: str, dtype: AnyDtype, options: PrivateOptions) -> NumericDomain:
    """Determine the domain of a column of numbers, dates or times from its bounds."""
    if name not in options.bounds:
        raise BoundsRequired(f'Column "{name}" has no public bounds.', hint=_BOUNDS_HINT)
    bounds = options.bounds[name]
    if len(bounds) != 2:
        raise InvalidParameter(f'"{name}" needs two bounds: the low one and the high one.')
    low, high = (_to_number(name, dtype, bound) for bound in bounds)
    if not (low < high and np.isfinite(high - low)):
        raise InvalidParameter(
            f'The bounds of "{name}" must be finite, and the low one below the high one.'
        )
    if not _fits_type(dtype, low, high):
        raise InvalidParameter(f'The bounds of "{name}" must be values of its type, {dtype}.')
    if dtype.kind != "f" and np.floor(high) <= np.ceil(low):
        raise InvalidParameter(f'The bounds of "{name}" must include at least two values.')
    is_logarithmic = options.scale.get(name) == "log"
    if is_logarithmic and not (low > 0 or (low == 0 and dtype.kind in "iu")):
        raise InvalidParameter(
            f'A log scale of "{name}" needs a low bound above 0 (of whole numbers: 0 or more).',
            hint="Raise the low bound (`bounds`): smaller values are released as that bound.",
        )
    null_values = options.null_as
    null_value = _to_number(name, dtype, null_values[name]) if name in null_values else None
    if null_value is not None and not low <= null_value <= high:
        raise InvalidParameter(f'null_as of "{name}" must be between its bounds.')
    return NumericDomain(name, dtype, low, high, null_as=null_value, is_logarithmic=is_logarithmic)


def _define_categorical(
    table: TypedTable, name: str, dtype: AnyDtype, options: PrivateOptions
) -> CategoricalDomain:
    """Determine the domain of a column of booleans or text from its list of values."""
    if dtype.kind == "b":
        if name in options.bounds and tuple(options.bounds[name]) != (0, 1):
            raise InvalidParameter(f'Column "{name}" holds Booleans, which need no bounds.')
        null_value = options.null_as.get(name)
        if isinstance(null_value, str):
            # The command line passes booleans as text.
            null_value = {"false": False, "true": True}.get(null_value, null_value)
        if null_value not in (None, False, True):
            raise InvalidParameter(f'null_as of "{name}" must be true or false.')
        return CategoricalDomain(
            name, dtype, BOOLEAN_HIERARCHY, None if null_value is None else int(null_value)
        )
    labels = table.labels.get(name)
    tree = _find_hierarchy(name, labels, options)
    if labels is not None and set(labels) != set(tree.positions):
        # The caller's list replaces the values that the type declares, and the column becomes text.
        labels = None
    # ``positions`` has the labels of leaves, ``labels`` those of all nodes.
    if tree.n_leaves < 2 or OTHER_LABEL in set(tree.labels) - set(tree.positions):
        raise InvalidParameter(
            f'The list of "{name}" must have two values or more, and no inner node'
            f' "{OTHER_LABEL}": that value replaces unlisted ones.'
        )
    # A column of an enumerated type cannot hold unlisted values, and so needs no leaf for them.
    if labels is None:
        tree = add_other_leaf(tree)
    null_value = None
    if name in options.null_as:
        null_label = options.null_as[name]
        if not isinstance(null_label, str) or null_label not in tree.positions:
            raise InvalidParameter(
                f'null_as of "{name}" must be one of its listed values, or "{OTHER_LABEL}".'
            )
        null_value = tree.positions[null_label]
    # Without the leaf for unlisted values, the 0 is never used.
    return CategoricalDomain(name, dtype, tree, null_value, tree.positions.get(OTHER_LABEL, 0))


def _find_hierarchy(
    name: str, labels: tuple[str, ...] | None, options: PrivateOptions
) -> Hierarchy:
    """Find the public values of a text column in the options or in its enumerated type."""
    if name in options.hierarchies and name in options.orders:
        raise InvalidParameter(f'Column "{name}" has both a hierarchy and an order: give only one.')
    hierarchy = options.hierarchies.get(name)
    if isinstance(hierarchy, HierarchySpec) and hierarchy.kind == "enum" and labels:
        return build_enum_hierarchy(hierarchy, labels)
    if isinstance(hierarchy, HierarchySpec):
        raise InvalidParameter(
            f'The hierarchy of "{name}" would be made from the values of the column, or read'
            " from a database.",
            hint="Write out its tree or levels, or load it first: dbanon.load_hierarchy.",
        )
    if hierarchy is not None:
        return hierarchy
    if name in options.orders or labels is not None:
        return builders.ordered(options.orders.get(name) or labels or ())
    raise BoundsRequired(
        f'Column "{name}" has no public list of values.',
        hint="List the values in `orders` or `hierarchies`, as anyone may know them without the"
        " table.",
    )


def _to_number(name: str, dtype: AnyDtype, bound: Any) -> float:
    """Convert a bound to a number; dates and times in units of the type."""
    try:
        if dtype.kind == "M":
            timestamp = to_moment(bound, np.datetime_data(dtype)[0])
            return float("nan") if np.isnat(timestamp) else float(timestamp.astype(np.int64))
        return float(bound)
    except (TypeError, ValueError, OverflowError):
        expected = "a date or time" if dtype.kind == "M" else "a number"
        raise InvalidParameter(f'Bounds and null_as of "{name}" must be {expected}.') from None


def _fits_type(dtype: AnyDtype, low: float, high: float) -> bool:
    """Return whether a type can hold both bounds."""
    if dtype.kind == "f":
        return bool(max(-low, high) <= np.finfo(dtype).max)
    type_limits = np.iinfo(np.int64 if dtype.kind == "M" else dtype)
    # Beyond 2^62, an integer and its rounded float may lie on different sides of a bound.
    return bool(max(type_limits.min, -(2**62)) <= low and high <= min(type_limits.max, 2**62))
