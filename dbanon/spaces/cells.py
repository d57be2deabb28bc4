"""Cells as codes for local suppression: two cells are equal or not, whatever their type.

A cell without a value has a code of its own, ``MISSING``. So records that are NULL in different
columns may share a class, in which all of these columns are released as NULL. If the records of a
person share a class, a column in which they differ is released as NULL, too: its cells count as
cells without a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.hierarchy.leaves import Hierarchies, take_records
from dbanon.hierarchy.tree import flat_hierarchy
from dbanon.spaces.mixed import MixedSpace, mixed_space

# The code of a cell without a value.
MISSING = -1
# The category of these cells. It sorts before those of values, which are not empty.
_MISSING_CATEGORY = ""
# The type of coded columns, which no database has.
_CODED_TYPE = "code of a cell"

# Sets of columns by name, each with the number of records that must share its combined values.
NamedSets = Sequence[tuple[Sequence[str], int]]


@dataclass(frozen=True)
class CellSpace(MixedSpace):
    """Coded records, and the sets of columns that must be k-anonymous by themselves.

    Parameters
    ----------
    column_sets : columns and k of each set; see ``MixedSpace`` for the other fields.
    """

    column_sets: NamedSets = ()


def cell_codes(space: MixedSpace) -> NDArray[np.int32]:
    """Return the codes of a space, int32 (n, d), with ``MISSING`` for cells without a value."""
    codes = space.codes.copy()
    for position, tree in enumerate(space.trees):
        if tree is not None and _MISSING_CATEGORY in tree.positions:
            column = codes[:, position]
            column[column == tree.positions[_MISSING_CATEGORY]] = MISSING
    return codes


def codes_of_cells(coded: Microdata) -> NDArray[np.int32]:
    """Return the codes of microdata, int32 (n, d), with ``MISSING`` for cells without a value.

    Parameters
    ----------
    coded : the result of ``code_cells``.
    """
    codes = coded.codes.copy()
    for position, categories in enumerate(coded.categories):
        # The category of cells without a value has the code 0.
        codes[:, position] -= categories[:1] == (_MISSING_CATEGORY,)
    return codes


def space_of_codes(
    codes: NDArray[np.int32], root_costs: NDArray[np.int64], names: tuple[str, ...]
) -> CellSpace:
    """Build the space of records whose cells are codes, with ``MISSING`` for those without a value.

    Parameters
    ----------
    codes : int32 (n, d), codes from 0.
    root_costs : int64 (d,), the price of a cell of each attribute.
    """
    positions, trees = np.empty_like(codes), []
    for column, values in enumerate(codes.T):
        distinct, positions[:, column] = np.unique(values, return_inverse=True)
        trees.append(flat_hierarchy([_category(code) for code in distinct.tolist()]))
    return CellSpace(positions, root_costs, tuple(trees), names)


def _category(code: int) -> str:
    """Return the category of a code; categories sort as their codes."""
    return _MISSING_CATEGORY if code == MISSING else f"{code:010}"


def code_cells(microdata: Microdata) -> Microdata:
    """Replace the values of all attributes by categories that are equal where the values are.

    NULL becomes a category, so that the result has no NULL. Coded microdata are returned unchanged.

    Raises
    ------
    UnsupportedType : an attribute has numbers that float64 cannot hold exactly.
    """
    if all(attribute.sql_type == _CODED_TYPE for attribute in microdata.attributes):
        return microdata
    for name in sorted(microdata.wide):
        raise UnsupportedType(
            f'Column "{name}" has numbers beyond 2**53, which local_suppression cannot compare.',
            hint="Take them as categories: state their kind as nominal (`kinds`).",
        )
    codes = np.empty((microdata.n_records, len(microdata.attributes)), np.int32)
    numbers, texts = iter(microdata.numbers.T), iter(microdata.codes.T)
    for position, attribute in enumerate(microdata.attributes):
        if attribute.kind.is_numeric:
            values = next(numbers)
            codes[:, position] = np.unique(values, return_inverse=True)[1].reshape(-1)
        else:
            codes[:, position] = next(texts)
    if microdata.valid is not None:
        codes[~microdata.valid] = MISSING
    coded = replace(
        microdata,
        attributes=tuple(
            Attribute(attribute.name, Kind.CATEGORY, attribute.role, _CODED_TYPE)
            for attribute in microdata.attributes
        ),
        numbers=np.empty((microdata.n_records, 0)),
        codes=codes,
        categories=(),
        valid=None,
        wide=frozenset(),
        suppressed=None,
        before_suppression=None,
    )
    units = coded.person_units
    if units is not None:
        codes = np.where(_varies_in_unit(codes, units), np.int32(MISSING), codes)
    # With +1, cells without a value have the category 0, which sorts first.
    categories = tuple(
        tuple(map(_category, range(MISSING, int(column.max(initial=-1)) + 1))) for column in codes.T
    )
    coded = replace(coded, codes=codes + np.int32(1), categories=categories)
    # Leave out the categories that do not occur.
    return take_records(coded, np.arange(coded.n_records))


def _varies_in_unit(codes: NDArray[np.int32], units: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Mark the cells in whose column the records of their unit differ, bool (n, d).

    Parameters
    ----------
    units : int64 (n,), the unit of each record, from 0.
    """
    _, first_records = np.unique(units, return_index=True)
    differs = codes != codes[first_records][units]
    varies = np.zeros((len(first_records), codes.shape[1]), np.bool_)
    np.logical_or.at(varies, units, differs)
    return varies[units]


def cell_space(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    *,
    standardize: str,
    weights: Mapping[str, float],
    hierarchies: Hierarchies,
    column_sets: NamedSets = (),
) -> Callable[[NDArray[np.int64]], CellSpace]:
    """Return a function that builds the space of given records, int64 (m,).

    Parameters
    ----------
    microdata : the records, coded by ``code_cells`` or not.
    column_statistics, standardize, hierarchies : not used, as cells are equal or not.
    weights : the price of a cell of each attribute, by name; 1 for attributes without one.
    column_sets : columns and k of the sets that must be k-anonymous by themselves.

    Raises
    ------
    InvalidParameter : a weight is negative or not finite, or a column is not a quasi-identifier.
    UnsupportedType : as for ``code_cells``.
    """
    coded = code_cells(microdata)
    trees = {
        attribute.name: flat_hierarchy(values)
        for attribute, values in zip(coded.attributes, coded.categories, strict=True)
    }
    build_space = mixed_space(
        coded, column_statistics, standardize=standardize, weights=weights, hierarchies=trees
    )

    def build(records: NDArray[np.int64]) -> CellSpace:
        space = build_space(records)
        return CellSpace(
            space.codes, space.root_costs, space.trees, space.names, column_sets=column_sets
        )

    return build
