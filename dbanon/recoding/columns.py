"""What recodings take and give: settings, and one value per class and quasi-identifier.

Some recodings release values that occur in their class. Each attribute is recoded by the classes
that it has: those of rows, or its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Levels, MethodResult, Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.hierarchy.tree import Hierarchy

RANGE = "range"
INTERVALS = ("text", "bounds", "midpoint", RANGE)

# SQL type of labels, which are text whatever the column is.
GENERALIZED = "text"

# Exact sums of the classes of wide attributes: Python integers, in units of 10**-scale; NULL is 0.
ExactTotals: TypeAlias = Callable[
    [Partition, Sequence[Attribute]], Mapping[str, NDArray[np.object_]]
]


@dataclass(frozen=True)
class Settings:
    """Settings of recodings; each uses those that it knows.

    Parameters
    ----------
    hierarchies : by column.
    intervals : how a range of numbers is written: ``text``, as in ``[30, 40)``; ``bounds``, two
        columns; ``midpoint``, one number; or ``range``, a value of the database's own range type.
    local_range : True releases a class's own smallest and largest number, which are values of
        members; False the borders of a fixed grid around them.
    steps : width of the grid by column, in the column's unit (days, microseconds); where not
        named, the steps of ``data.grid.grid_for``.
    levels : of a full domain, which are then released: not what a class has in common, but the
        nodes and cells that its records are in. None otherwise.
    """

    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: str = "text"
    local_range: bool = False
    steps: Mapping[str, float] = field(default_factory=dict)
    levels: Levels | None = None


@dataclass(frozen=True)
class ReleasedColumn:
    """What a release says of one quasi-identifier.

    Parameters
    ----------
    attribute : the column as it is written.
    values : one value per class. int64 for integers, decimals (in units of 10**-scale), dates
        (days since 1970-01-01), timestamps (microseconds since then, UTC) and ranks; float64 for
        floats; object (Python integers, units as above) where int64 is too narrow; object (str) for
        text.
    missing : bool (n_classes,), True where NULL is released; None when nowhere.
    unrounded : float64 (n_classes,), the value before rounding to the column's type; None for text.
    lost : float64 (n_classes,), the loss of the class's records in this attribute by the released
        values, 0 to 1 a record; None where the recoding's measure needs it not.
    extent : float64 (n_classes, 2), of labels that are intervals the smallest and the largest value
        that each holds; None elsewhere.
    shares : float64 (n_classes,), of labels of a hierarchy what a record loses by each, the mean of
        the leaves below it; None elsewhere.
    label_alone : True where ``extent`` or ``shares`` follow from the label that is released.
    of : the quasi-identifier it stands for, when that has another name.
    upper : where ranges are released, their upper borders in the form of ``values``, which are the
        lower ones; None elsewhere.
    closed : True when a range, or the column of upper borders, holds that border.
    """

    attribute: Attribute
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None = None
    unrounded: NDArray[np.float64] | None = None
    lost: NDArray[np.float64] | None = None
    of: str | None = None
    upper: NDArray[Any] | None = None
    closed: bool = False
    extent: NDArray[np.float64] | None = None
    shares: NDArray[np.float64] | None = None
    label_alone: bool = True

    @property
    def source(self) -> str:
        """The name of the quasi-identifier it stands for."""
        return self.of or self.attribute.name

    @property
    def parts(self) -> tuple[ReleasedColumn, ...]:
        """What is staged: the column, or the lower and the upper borders of its ranges."""
        if self.upper is None:
            return (self,)
        lower = replace(self, upper=None)
        return lower, replace(lower, values=self.upper)

    def take(self, order: NDArray[np.int64]) -> ReleasedColumn:
        """The column with its classes in another order, int64 (n_classes,)."""
        return replace(
            self,
            values=self.values[order],
            missing=None if self.missing is None else self.missing[order],
            upper=None if self.upper is None else self.upper[order],
            unrounded=None if self.unrounded is None else self.unrounded[order],
            extent=None if self.extent is None else self.extent[order],
            shares=None if self.shares is None else self.shares[order],
        )

    def spelled(self) -> ReleasedColumn:
        """The column with values in place of ranks where it is ordinal, as it is written."""
        if self.attribute.kind is not Kind.ORDINAL:
            return self
        return replace(
            self,
            attribute=replace(self.attribute, kind=Kind.CATEGORY),
            values=np.array(self.attribute.order, object)[self.values],
            unrounded=None,
        )

    def as_float(self) -> NDArray[np.float64]:
        """The released values as the numbers that ``Microdata`` holds, float64 (n_classes,)."""
        unit = 10**self.attribute.scale if self.attribute.kind is Kind.DECIMAL else 1
        if self.values.dtype == object:
            # Python divides integers of any length without rounding them first.
            return np.array([(value or 0) / unit for value in self.values], np.float64)
        return np.asarray(self.values / float(unit))


@dataclass(frozen=True)
class Recoding:
    """A registered recoding.

    Parameters
    ----------
    name : as in calls and commands.
    run : ``(microdata, measures, partition, exact_totals, settings, **parameters) -> released
        columns``; the measures are those of the table that the records are of.
    summary : one line for people.
    measure : what its loss is measured by, a name in ``release.recode``.
    takes_categories : True when attributes may be other than numeric, and have hierarchies.
    takes_ranks : False when attributes must be numbers, not ordinal.
    standardize : how its columns are made comparable, unless the caller names another way; None for
        the method's own.
    method : the only method it belongs to; None when it goes with any that groups rows.
    parameters : the options of that method that ``run`` takes by name as well.
    """

    name: str
    run: Callable[..., tuple[ReleasedColumn, ...]]
    summary: str
    measure: str = "sse"
    takes_categories: bool = False
    takes_ranks: bool = True
    standardize: str | None = None
    method: str | None = None
    parameters: tuple[str, ...] = ()


def require_room(attribute: Attribute, values: NDArray[Any], hint: str) -> None:
    """Check that a column's type holds values that may lie outside of those it has.

    Parameters
    ----------
    values : of integers, or of decimals in units of 10**-scale.

    Raises
    ------
    UnsupportedType : it does not; with this hint.
    """
    if attribute.kind is Kind.INTEGER:
        room = 2.0 ** (attribute.bits - 1)
        fits = (values >= -room) & (values < room)
    elif attribute.kind is Kind.DECIMAL and attribute.precision:
        fits = np.abs(values) < 10.0**attribute.precision
    else:
        return
    if not fits.all():
        raise UnsupportedType(
            f'Column "{attribute.name}" of type {attribute.sql_type} has no room for values that'
            " lie outside of those it holds.",
            hint=hint,
        )


def refuse_wide(microdata: Microdata, recoding: str) -> None:
    """Check that float64 holds all values exactly, for they are released as they are.

    Raises
    ------
    UnsupportedType : an attribute holds values beyond 2**53.
    """
    for name in sorted(microdata.wide):
        raise UnsupportedType(
            f'Column "{name}" holds numbers beyond 2**53: recoding {recoding} cannot take them.',
            hint='Use `recoding="mean"`, or give the column as a smaller type.',
        )


def class_medians(values: NDArray[np.float64], partition: Partition) -> NDArray[np.float64]:
    """The lower median of each class, float64 (n_classes,), of ``values``, float64 (n,)."""
    grouped = values[partition.members]
    ordered = grouped[np.lexsort((grouped, partition.labels[partition.members]))]
    medians: NDArray[np.float64] = ordered[partition.starts + (partition.sizes - 1) // 2]
    return medians


def table_deviation(scale: Scale) -> float:
    """The sample standard deviation of a table's column that varies, in its own unit."""
    return float(np.ldexp(scale.deviation, scale.exponent))


def occurring(
    microdata: Microdata, partition: Partition, position: int, values: NDArray[np.float64]
) -> ReleasedColumn:
    """A column with one of the class's own values for each class.

    Parameters
    ----------
    position : which numeric attribute.
    values : float64 (n_classes,); anything where the class has NULL.
    """
    attribute = microdata.numeric[position]
    valid = microdata.valid_column(attribute.name)
    missing = None
    if valid is not None:
        # A class holds records of one NULL pattern, so its first member speaks for all.
        missing = ~valid[partition.members[partition.starts]]
        values = np.where(missing, 0.0, values)
    if attribute.kind is Kind.FLOAT:
        return ReleasedColumn(attribute, values, missing, values)
    scale = 10.0**attribute.scale if attribute.kind is Kind.DECIMAL else 1.0
    return ReleasedColumn(attribute, np.rint(values * scale).astype(np.int64), missing, values)


def recode_attributes(
    microdata: Microdata,
    classes: MethodResult,
    run: Callable[[Microdata, Partition, ExactTotals], tuple[ReleasedColumn, ...]],
    exact_totals: Callable[[Sequence[Attribute]], Mapping[str, NDArray[np.object_]]],
) -> tuple[ReleasedColumn, ...]:
    """The released columns, with one value for each set of rows that are released alike.

    Parameters
    ----------
    run : a recoding, which gives the columns of the attributes that it sees.
    exact_totals : of sets of rows that are released alike; they are added up here.
    """
    names = [attribute.name for attribute in microdata.attributes]
    rows, places = classes.rows()
    columns: list[ReleasedColumn] = []
    for (own_names, own), of_rows in zip(classes.by_columns(names), places.T, strict=True):
        if not own_names:
            continue

        def totals(
            own: Partition, attributes: Sequence[Attribute], of_rows: NDArray[np.int32] = of_rows
        ) -> Mapping[str, NDArray[np.object_]]:
            found = {}
            for name, parts in exact_totals(attributes).items():
                found[name] = np.zeros(own.n_classes, object)
                np.add.at(found[name], of_rows, parts)
            return found

        seen = microdata if len(own_names) == len(names) else microdata.of_attributes(own_names)
        columns += [_of_rows(column, own, rows, of_rows) for column in run(seen, own, totals)]
    columns.sort(key=lambda column: names.index(column.source))
    return tuple(columns)


def _of_rows(
    column: ReleasedColumn, own: Partition, rows: Partition, of_rows: NDArray[np.int32]
) -> ReleasedColumn:
    """A column of some classes as one of the sets of rows that are released alike.

    Parameters
    ----------
    of_rows : int32 (n_rows,), the class of each set.
    """
    taken = column.take(of_rows.astype(np.int64))
    if column.lost is None or own.n_classes == rows.n_classes:
        return taken
    # All rows of a class have one value, and lose alike by it.
    return replace(taken, lost=(column.lost / own.sizes)[of_rows] * rows.sizes)
