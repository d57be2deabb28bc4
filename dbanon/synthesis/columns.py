"""The input of dp_ranks, and the public domain of each column, from types and options alone.

No value is read before its price is paid.

A value's code depends only on that value and public figures, so one row changes one integer, and no
value can make a run fail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.conversion import to_moment
from dbanon.errors import BoundsRequired, InvalidParameter
from dbanon.hierarchy import builders
from dbanon.hierarchy.spec import HierarchySpec, enum_tree
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import PrivateOptions
from dbanon.synthesis.domains import OTHER, TRUTHS, CategoricalDomain, NumericDomain, add_other_leaf

# Returns the values of a column in its type, and which of them are NULL, if its type allows it.
ColumnReader = Callable[[int], "tuple[NDArray[Any], NDArray[np.bool_] | None]"]


@dataclass(frozen=True, eq=False)
class Table:
    """A table with typed columns that are read on demand.

    Parameters
    ----------
    n : number of rows, or of persons.
    names, dtypes, nullable : of the columns.
    read : reads a column by its index.
    read_persons : reads the integer person identifier of each row; None if each row is a person.
    source : description of the table in the guarantee.
    labels : the values of columns of an enumerated type, as the type declares them.
    """

    n: int
    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    nullable: tuple[bool, ...]
    read: ColumnReader
    read_persons: Callable[[], NDArray[Any]] | None = None
    source: str = "the source"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def number_persons(persons: NDArray[Any]) -> NDArray[np.int64]:
    """Number the person of each row from 0, int64 (n,)."""
    return np.unique(persons, return_inverse=True)[1].reshape(-1).astype(np.int64)


PublicColumn = NumericDomain | CategoricalDomain

_NEVER = (
    "Name `bounds` that anyone may know without the data, never its smallest and largest value."
)
_TEXT = "OU"


def public_columns(table: Table, options: PrivateOptions) -> tuple[PublicColumn, ...]:
    """Determine the public domain of each column without reading any value.

    Raises
    ------
    BoundsRequired : a numeric column has no bounds, or a text column no list of values.
    InvalidParameter : bounds are not two finite numbers in order; a list does not fit; a nullable
        column has no replacement for NULL; an option names an unknown column, or one of another
        kind.
    """
    kinds = dict(zip(table.names, table.dtypes, strict=True))
    for option, type_kinds, description in (
        ("bounds", "iufbM", "numbers, moments or truths"),
        ("hierarchies", _TEXT, "text"),
        ("orders", _TEXT, "text"),
        ("scale", "iuf", "numbers"),
        ("null_as", "iufbM" + _TEXT, "numbers, moments, truths or text"),
    ):
        for name in getattr(options, option):
            if name not in kinds:
                raise InvalidParameter(f'{option} name "{name}", which is not a column.')
            if kinds[name].kind not in type_kinds:
                raise InvalidParameter(
                    f'{option} name "{name}", and are of {description}; the column is of type'
                    f" {kinds[name]}."
                )
    return tuple(_public(table, j, options) for j in range(len(table.names)))


def _public(table: Table, j: int, options: PrivateOptions) -> PublicColumn:
    name, dtype = table.names[j], table.dtypes[j]
    column = (
        _line(name, dtype, options)
        if dtype.kind in "iufM"
        else _leaves(table, name, dtype, options)
    )
    if table.nullable[j] and name not in options.null_as:
        raise InvalidParameter(
            f'Column "{name}" may hold NULL, and a release that shows where is not'
            " differentially private.",
            hint="Say which value replaces NULL, even if the column holds none: `null_as`.",
        )
    return column


def _line(name: str, dtype: np.dtype[Any], options: PrivateOptions) -> NumericDomain:
    if name not in options.bounds:
        raise BoundsRequired(f'Column "{name}" has no public bounds.', hint=_NEVER)
    pair = options.bounds[name]
    if len(pair) != 2:
        raise InvalidParameter(f'The bounds of "{name}" must be two: the low and the high.')
    low, high = (_number(name, dtype, bound) for bound in pair)
    if not (low < high and np.isfinite(high - low)):
        raise InvalidParameter(f'The bounds of "{name}" must be finite, the low below the high.')
    if not _fits_type(dtype, low, high):
        raise InvalidParameter(f'The bounds of "{name}" must be values of its type, {dtype}.')
    if dtype.kind != "f" and np.floor(high) <= np.ceil(low):
        raise InvalidParameter(f'No two values of "{name}" are between its bounds.')
    log = options.scale.get(name) == "log"
    if log and not (low > 0 or (low == 0 and dtype.kind in "iu")):
        raise InvalidParameter(
            f'Logarithms of "{name}" need a low bound above 0, of whole numbers 0 or more.',
            hint="Raise the low bound (`bounds`): smaller values are released as that bound.",
        )
    null_values = options.null_as
    missing = _number(name, dtype, null_values[name]) if name in null_values else None
    if missing is not None and not low <= missing <= high:
        raise InvalidParameter(f'null_as of "{name}" must be between its bounds.')
    return NumericDomain(name, dtype, low, high, missing, log)


def _leaves(
    table: Table, name: str, dtype: np.dtype[Any], options: PrivateOptions
) -> CategoricalDomain:
    if dtype.kind == "b":
        if name in options.bounds and tuple(options.bounds[name]) != (0, 1):
            raise InvalidParameter(f'Column "{name}" holds Booleans, which need no bounds.')
        missing = options.null_as.get(name)
        if isinstance(missing, str):
            # Command lines pass booleans as text.
            missing = {"false": False, "true": True}.get(missing, missing)
        if missing not in (None, False, True):
            raise InvalidParameter(f'null_as of "{name}" must be true or false.')
        return CategoricalDomain(name, dtype, TRUTHS, None if missing is None else int(missing))
    labels = table.labels.get(name)
    tree = _public_values(name, labels, options)
    if labels is not None and set(labels) != set(tree.positions):
        # The caller's list replaces that of the type, and the column becomes text.
        labels = None
    if tree.n_leaves < 2 or OTHER in set(tree.labels) - set(tree.positions):
        raise InvalidParameter(
            f'The list of "{name}" must have two values or more, and no node "{OTHER}" that is'
            " none of them: what is in no list becomes it."
        )
    if labels is None:
        tree = add_other_leaf(tree)
    missing = None
    if name in options.null_as:
        null_value = options.null_as[name]
        if not isinstance(null_value, str) or null_value not in tree.positions:
            raise InvalidParameter(f'null_as of "{name}" must be one of its list, or "{OTHER}".')
        missing = tree.positions[null_value]
    return CategoricalDomain(name, dtype, tree, missing, tree.positions.get(OTHER, 0))


def _public_values(name: str, labels: tuple[str, ...] | None, options: PrivateOptions) -> Hierarchy:
    """The public values of a text column, from the options or its enumerated type."""
    if name in options.hierarchies and name in options.orders:
        raise InvalidParameter(f'Column "{name}" has both a hierarchy and an order: give only one.')
    hierarchy = options.hierarchies.get(name)
    if isinstance(hierarchy, HierarchySpec) and hierarchy.kind == "enum" and labels:
        return enum_tree(hierarchy, labels)
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


def _number(name: str, dtype: np.dtype[Any], bound: Any) -> float:
    """Convert a bound to a number; dates and times in units of the type."""
    try:
        if dtype.kind == "M":
            timestamp = to_moment(bound, np.datetime_data(dtype)[0])
            return float("nan") if np.isnat(timestamp) else float(timestamp.astype(np.int64))
        return float(bound)
    except (TypeError, ValueError, OverflowError):
        expected = "a date or time" if dtype.kind == "M" else "a number"
        raise InvalidParameter(f'Bounds and null_as of "{name}" must be {expected}.') from None


def _fits_type(dtype: np.dtype[Any], low: float, high: float) -> bool:
    if dtype.kind == "f":
        return bool(max(-low, high) <= np.finfo(dtype).max)
    type_limits = np.iinfo(np.int64 if dtype.kind == "M" else dtype)
    # Beyond 2^62, integers and their floats may fall on different sides of a bound.
    return bool(max(type_limits.min, -(2**62)) <= low and high <= min(type_limits.max, 2**62))
