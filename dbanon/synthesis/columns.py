"""What dp_ranks reads, and what is public of it, from the columns' types and the options alone.

No value is looked at before it is paid for.

What a value becomes depends on that value and on public figures alone, so that one row changes one
whole number; and no value ends a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.conversion import to_moment
from dbanon.errors import BoundsRequired, InvalidParameter, UnsupportedType
from dbanon.hierarchy import builders
from dbanon.hierarchy.spec import HierarchySpec, enum_tree
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.synthesis import Private
from dbanon.synthesis.domains import OTHER, TRUTHS, Leaves, Line, with_other

# The values of a column in its type, and which of them are NULL, where its type says so.
Read = Callable[[int], "tuple[NDArray[Any], NDArray[np.bool_] | None]"]


@dataclass(frozen=True, eq=False)
class Table:
    """Columns by their types.

    Parameters
    ----------
    n : the number of rows, or persons.
    names, dtypes, nullable : of the columns.
    read : gives a column by its place.
    whose : gives whose each row is, whole numbers; None where each is somebody's of their own.
    source : what the guarantee calls it.
    labels : the values of columns of an enumerated type, as the type itself states them.
    """

    n: int
    names: tuple[str, ...]
    dtypes: tuple[np.dtype[Any], ...]
    nullable: tuple[bool, ...]
    read: Read
    whose: Callable[[], NDArray[Any]] | None = None
    source: str = "the source"
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def numbered(whose: NDArray[Any]) -> NDArray[np.int64]:
    """Which person each row is of, int64 (n,), from 0."""
    return np.unique(whose, return_inverse=True)[1].reshape(-1).astype(np.int64)


PublicColumn = Line | Leaves

_NEVER = "Say what anyone may know: never the smallest and the largest value of the data."
_TEXT = "OU"


def public_columns(table: Table, wished: Private) -> tuple[PublicColumn, ...]:
    """What is public of the columns of a table; no value is looked at.

    Raises
    ------
    BoundsRequired : a column of numbers has no bounds, one of text no list of values.
    InvalidParameter : bounds are no two finite ones in their order, a list does not fit; a column
        may hold NULL and nothing says what stands for it; an option names no column, or none of
        its kind.
    UnsupportedType : a column holds neither numbers, moments, truths nor text.
    """
    kinds = dict(zip(table.names, table.dtypes, strict=True))
    for option, takes, what in (
        ("bounds", "iufbM", "numbers, moments or truths"),
        ("hierarchies", _TEXT, "text"),
        ("orders", _TEXT, "text"),
        ("scale", "iuf", "numbers"),
        ("null_as", "iufbM" + _TEXT, "numbers, moments, truths or text"),
    ):
        for name in getattr(wished, option):
            if name not in kinds:
                raise InvalidParameter(f'{option} name "{name}", which is no column.')
            if kinds[name].kind not in takes:
                raise InvalidParameter(
                    f'{option} name "{name}", and are of {what}; the column is of type'
                    f" {kinds[name]}."
                )
    return tuple(_public(table, j, wished) for j in range(len(table.names)))


def _public(table: Table, j: int, wished: Private) -> PublicColumn:
    name, dtype = table.names[j], table.dtypes[j]
    if dtype.kind not in "iufbM" + _TEXT:
        raise UnsupportedType(
            f'Column "{name}" is of type {dtype}; dp_ranks takes numbers, moments, truths, text.',
            hint="Leave it out: a column without a public range cannot be released.",
        )
    column = (
        _line(name, dtype, wished) if dtype.kind in "iufM" else _leaves(table, name, dtype, wished)
    )
    if table.nullable[j] and name not in wished.null_as:
        raise InvalidParameter(
            f'Column "{name}" may hold NULL, and a release that shows where is not private.',
            hint="Say which value replaces NULL, even if the column holds none: `null_as`.",
        )
    return column


def _line(name: str, dtype: np.dtype[Any], wished: Private) -> Line:
    if name not in wished.bounds:
        raise BoundsRequired(f'Column "{name}" has no public bounds.', hint=_NEVER)
    pair = wished.bounds[name]
    if len(pair) != 2:
        raise InvalidParameter(f'The bounds of "{name}" must be two: the low and the high.')
    low, high = (_number(name, dtype, bound) for bound in pair)
    if not (low < high and np.isfinite(high - low)):
        raise InvalidParameter(f'The bounds of "{name}" must be finite, the low below the high.')
    if not _fits(dtype, low, high):
        raise InvalidParameter(f'The bounds of "{name}" must be values of its type, {dtype}.')
    if dtype.kind != "f" and np.floor(high) <= np.ceil(low):
        raise InvalidParameter(f'No two values of "{name}" are between its bounds.')
    log = wished.scale.get(name) == "log"
    if log and not (low > 0 or (low == 0 and dtype.kind in "iu")):
        raise InvalidParameter(
            f'Logarithms of "{name}" need a low bound above 0, of whole numbers 0 or more.',
            hint="Take as low what differences below are of no use: smaller values become it.",
        )
    given = wished.null_as
    missing = _number(name, dtype, given[name]) if name in given else None
    if missing is not None and not low <= missing <= high:
        raise InvalidParameter(f'null_as of "{name}" must be between its bounds.')
    return Line(name, dtype, low, high, missing, log)


def _leaves(table: Table, name: str, dtype: np.dtype[Any], wished: Private) -> Leaves:
    if dtype.kind == "b":
        if name in wished.bounds and tuple(wished.bounds[name]) != (0, 1):
            raise InvalidParameter(f'Column "{name}" holds truths, which need no bounds.')
        missing = wished.null_as.get(name)
        if isinstance(missing, str):
            # As a command line has it.
            missing = {"false": False, "true": True}.get(missing, missing)
        if missing not in (None, False, True):
            raise InvalidParameter(f'null_as of "{name}" must be true or false.')
        return Leaves(name, dtype, TRUTHS, None if missing is None else int(missing))
    labels = table.labels.get(name)
    tree = _listed(name, labels, wished)
    if labels is not None and set(labels) != set(tree.positions):
        # A list of the caller's own goes before that of the type, and the column becomes text.
        labels = None
    if tree.n_leaves < 2 or OTHER in set(tree.labels) - set(tree.positions):
        raise InvalidParameter(
            f'The list of "{name}" must have two values or more, and no node "{OTHER}" that is'
            " none of them: what is in no list becomes it."
        )
    if labels is None:
        tree = with_other(tree)
    missing = None
    if name in wished.null_as:
        given = wished.null_as[name]
        if not isinstance(given, str) or given not in tree.positions:
            raise InvalidParameter(f'null_as of "{name}" must be one of its list, or "{OTHER}".')
        missing = tree.positions[given]
    return Leaves(name, dtype, tree, missing, tree.positions.get(OTHER, 0))


def _listed(name: str, labels: tuple[str, ...] | None, wished: Private) -> Hierarchy:
    """The public values of a column of text, as they were given or its type states them."""
    if name in wished.hierarchies and name in wished.orders:
        raise InvalidParameter(f'Column "{name}" has a hierarchy and an order: one will do.')
    given = wished.hierarchies.get(name)
    if isinstance(given, HierarchySpec) and given.kind == "enum" and labels:
        return enum_tree(given, labels)
    if isinstance(given, HierarchySpec):
        raise InvalidParameter(
            f'The hierarchy of "{name}" would be made from the values of the column, or read'
            " from a database.",
            hint="Write the tree or the levels out, or load it first.",
        )
    if given is not None:
        return given
    if name in wished.orders or labels is not None:
        return builders.ordered(wished.orders.get(name) or labels or ())
    raise BoundsRequired(
        f'Column "{name}" has no public list of values.',
        hint="Give `orders` or `hierarchies`: what anyone may know, never the values it holds.",
    )


def _number(name: str, dtype: np.dtype[Any], given: Any) -> float:
    """A bound as a number; of moments in units of the type."""
    try:
        if dtype.kind == "M":
            moment = to_moment(given, np.datetime_data(dtype)[0])
            return float("nan") if np.isnat(moment) else float(moment.astype(np.int64))
        return float(given)
    except (TypeError, ValueError, OverflowError):
        what = "a date or time" if dtype.kind == "M" else "a number"
        raise InvalidParameter(f'Bounds and null_as of "{name}" must be {what}.') from None


def _fits(dtype: np.dtype[Any], low: float, high: float) -> bool:
    if dtype.kind == "f":
        return bool(max(-low, high) <= np.finfo(dtype).max)
    held = np.iinfo(np.int64 if dtype.kind == "M" else dtype)
    # Whole numbers beyond 2^62 and their floats do not agree on what is inside.
    return bool(max(held.min, -(2**62)) <= low and high <= min(held.max, 2**62))
