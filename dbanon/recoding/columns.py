"""The interface of recodings: their settings, and released columns with one value per class.

All attributes share the classes of rows, or each attribute has its own classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from dbanon.data.array_types import AnyArray
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Levels, MethodResult, Partition
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import UnsupportedType
from dbanon.hierarchy.tree import Hierarchy

RANGE = "range"
# Formats of released intervals; ``Settings.intervals`` describes them.
INTERVALS = ("text", "bounds", "midpoint", RANGE)

# SQL type of generalized values, for columns of any type.
GENERALIZED = "text"

# A function that returns the exact class sums of some wide attributes (those with values that
# float64 cannot represent). By name of the attribute, the result has Python integers (n_classes,),
# in units of the column's last digit, 10**-scale. NULL counts as 0.
ExactTotals: TypeAlias = Callable[
    [Partition, Sequence[Attribute]], Mapping[str, NDArray[np.object_]]
]


@dataclass(frozen=True)
class Settings:
    """Settings of recodings; each recoding ignores those it does not use.

    Parameters
    ----------
    hierarchies : hierarchies by quasi-identifier.
    intervals : format of intervals: ``text``, as in ``[30, 40)``; ``bounds``, two columns;
        ``midpoint``, one number; or ``range``, a value of the database's range type.
    local_range : True to release the smallest and largest number of each class, which are values
        of members; False to release the enclosing borders of a fixed grid.
    grid_steps : grid width by column, in the column's unit (days for dates, microseconds for
        timestamps). For other columns ``data.grid.grid_for`` chooses the width.
    chosen_levels : the partition of a full-domain search, with the level that the search has chosen
        for each attribute. The nodes or cells on these levels are released. None for other methods.
    """

    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    intervals: str = "text"
    local_range: bool = False
    grid_steps: Mapping[str, float] = field(default_factory=dict)
    chosen_levels: Levels | None = None


@dataclass(frozen=True)
class ReleasedColumn:
    """A released column of a quasi-identifier, with one value per class.

    Parameters
    ----------
    attribute : the released column.
    values : one value per class. int64 for integers, decimals (in units of 10**-scale), dates
        (days since 1970-01-01), timestamps (microseconds since then, UTC) and ranks; float64 for
        floats; object (Python integers, units as above) where int64 is too narrow; object (str) for
        text.
    missing : bool (n_classes,), True if NULL is released; None if it never is.
    unrounded : float64 (n_classes,), the value before rounding to the column's type; None for text.
    losses : float64 (n_classes,), the loss of each class in this attribute: the sum of the losses
        of its records, 0 to 1 each. None unless the recoding's loss measure (``Recoding.measure``)
        is ``iloss``, which adds them up, and None for the second of two columns of bounds.
    interval_ranges : float64 (n_classes, 2), the smallest and largest value in each interval; None
        for other labels.
    label_losses : float64 (n_classes,), the loss per record of a hierarchy's label, averaged over
        the leaves below it; None for other labels.
    loss_depends_only_on_label : True if all records with the same label have the same loss: the
        width of ``interval_ranges``, or ``label_losses``. False for midpoints, and for hierarchies
        whose leaves have different depths.
    renamed_from : the name of the quasi-identifier, if the column has another name; else None.
    upper : upper borders of ranges, whose lower borders are ``values``; None otherwise.
    is_closed : True if intervals include their upper border.
    """

    attribute: Attribute
    values: AnyArray
    missing: NDArray[np.bool_] | None = None
    unrounded: NDArray[np.float64] | None = None
    losses: NDArray[np.float64] | None = None
    renamed_from: str | None = None
    upper: AnyArray | None = None
    is_closed: bool = False
    interval_ranges: NDArray[np.float64] | None = None
    label_losses: NDArray[np.float64] | None = None
    loss_depends_only_on_label: bool = True

    @property
    def quasi_identifier(self) -> str:
        """The name of the quasi-identifier."""
        return self.renamed_from or self.attribute.name

    @property
    def written_columns(self) -> tuple[ReleasedColumn, ...]:
        """The columns to write: the column, or the lower and the upper borders of its ranges."""
        if self.upper is None:
            return (self,)
        lower = replace(self, upper=None)
        return lower, replace(lower, values=self.upper)

    def take(self, order: NDArray[np.int64]) -> ReleasedColumn:
        """Return the column for other classes; ``losses`` is not changed.

        Parameters
        ----------
        order : int64 (m,), for each new class, the index of the class here whose values it gets.
        """
        return replace(
            self,
            values=self.values[order],
            missing=None if self.missing is None else self.missing[order],
            upper=None if self.upper is None else self.upper[order],
            unrounded=None if self.unrounded is None else self.unrounded[order],
            interval_ranges=None if self.interval_ranges is None else self.interval_ranges[order],
            losses=None if self.losses is None else self.losses[order],
            label_losses=None if self.label_losses is None else self.label_losses[order],
        )

    def take_values(self, order: NDArray[np.int64]) -> ReleasedColumn:
        """Return the column as ``take`` does, without the losses and figures of its classes."""
        values_alone = replace(
            self, unrounded=None, interval_ranges=None, losses=None, label_losses=None
        )
        return values_alone.take(order)

    def replace_ranks_with_values(self) -> ReleasedColumn:
        """Return the column with ranks replaced by the values of the ordinal attribute.

        Columns of other kinds are returned unchanged.
        """
        if self.attribute.kind is not Kind.ORDINAL:
            return self
        return replace(
            self,
            attribute=replace(self.attribute, kind=Kind.CATEGORY),
            values=np.array(self.attribute.order, object)[self.values],
            unrounded=None,
        )

    def as_float(self) -> NDArray[np.float64]:
        """Convert the released values to the units of ``Microdata``, float64 (n_classes,)."""
        divisor = 10**self.attribute.scale if self.attribute.kind is Kind.DECIMAL else 1
        if self.values.dtype == object:
            # Python divides long integers with a single rounding.
            return np.array([(value or 0) / divisor for value in self.values], np.float64)
        return np.asarray(self.values / float(divisor))


@dataclass(frozen=True)
class Recoding:
    """A registered recoding.

    Parameters
    ----------
    name : the value of the option ``recoding``.
    run : a function that returns the released columns, ``(microdata, column_statistics, partition,
        exact_totals, settings, **parameters)``. The statistics are those of the whole table.
    summary : a description for users, in one line.
    measure : the loss measure: ``sse`` (squared errors of numbers), ``iloss`` (generality of
        labels) or ``gower`` (mean distance from the originals, for mixed columns).
    takes_categories : True if attributes may be text and have hierarchies.
    takes_ranks : True if attributes may be ordinal, that is, ranks.
    standardize : the default standardization of columns; None for that of the method.
    method : the only method it works with; None for any method that groups rows.
    parameters : options of that method that ``run`` also takes.
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


def require_fit(attribute: Attribute, values: AnyArray, hint: str) -> None:
    """Check that released values, which may lie outside the column's range, fit into its type.

    Parameters
    ----------
    values : integers, or decimals in units of 10**-scale.
    hint : the hint of the error.

    Raises
    ------
    UnsupportedType : a value does not fit.
    """
    if attribute.kind is Kind.INTEGER:
        limit = 2.0 ** (attribute.bits - 1)
        fits = (values >= -limit) & (values < limit)
    elif attribute.kind is Kind.DECIMAL and attribute.precision:
        fits = np.abs(values) < 10.0**attribute.precision
    else:
        return
    if not fits.all():
        raise UnsupportedType(
            f'Column "{attribute.name}"'
            f" of type {attribute.sql_type} cannot hold a value that would be released.",
            hint=hint,
        )


def refuse_inexact_numbers(microdata: Microdata, recoding: str) -> None:
    """Refuse values that float64 cannot hold exactly, for recodings that release original values.

    Parameters
    ----------
    recoding : the name of the recoding, for the message.

    Raises
    ------
    UnsupportedType : an attribute holds values beyond 2**53.
    """
    for name in sorted(microdata.wide):
        raise UnsupportedType(
            f'Column "{name}" has numbers beyond 2**53, which recoding {recoding}'
            " cannot represent.",
            hint='Use `recoding="mean"`, or give the column as a smaller type.',
        )


def compute_class_medians(values: NDArray[np.float64], partition: Partition) -> NDArray[np.float64]:
    """Compute the lower median of each class, float64 (n_classes,), of ``values``, float64 (n,)."""
    medians = np.empty(partition.n_classes)
    # Work piece by piece to save memory.
    for classes in partition.split_classes():
        members = partition.members_of(classes)
        grouped = values[members]
        ordered = grouped[np.lexsort((grouped, partition.labels[members]))]
        starts = partition.starts[classes] - partition.starts[classes.start]
        medians[classes] = ordered[starts + (partition.sizes[classes] - 1) // 2]
    return medians


def compute_sample_deviation(scale: Scale) -> float:
    """Compute the sample standard deviation of a non-constant column, in its unit."""
    return float(np.ldexp(scale.deviation, scale.exponent))


def release_member_values(
    microdata: Microdata, partition: Partition, position: int, values: NDArray[np.float64]
) -> ReleasedColumn:
    """Create a released column in which each class has the value of one of its members.

    Parameters
    ----------
    position : the index of the attribute in ``microdata.numeric``.
    values : float64 (n_classes,); ignored for classes with NULL.
    """
    attribute = microdata.numeric[position]
    valid = microdata.valid_column(attribute.name)
    missing = None
    if valid is not None:
        # All records of a class have the same NULL pattern.
        missing = ~valid[partition.members[partition.starts]]
        values = np.where(missing, 0.0, values)
    if attribute.kind is Kind.FLOAT:
        return ReleasedColumn(attribute, values, missing, unrounded=values)
    scale = 10.0**attribute.scale if attribute.kind is Kind.DECIMAL else 1.0
    released = np.rint(values * scale).astype(np.int64)
    return ReleasedColumn(attribute, released, missing, unrounded=values)


def release_record_values(
    microdata: Microdata, partition: Partition, attribute: Attribute, records: NDArray[np.int64]
) -> ReleasedColumn:
    """Release the values of these records, int64 (n_classes,), one per class.

    float64 must hold all numbers exactly; see ``refuse_inexact_numbers``.
    """
    if attribute.kind.is_numeric:
        position = microdata.numeric.index(attribute)
        return release_member_values(
            microdata, partition, position, microdata.numbers[records, position]
        )
    column = microdata.categorical.index(attribute)
    # Index -1, the code of NULL, selects the appended text.
    values = np.array([*microdata.categories[column], ""], object)
    codes = microdata.codes[records, column]
    missing = None if not (codes < 0).any() else codes < 0
    # The released values are texts, also if a number was read as a category (``nominal``).
    if attribute.kind is not Kind.CATEGORY or attribute.nominal:
        attribute = replace(attribute, kind=Kind.CATEGORY, sql_type=GENERALIZED, nominal=False)
    return ReleasedColumn(attribute, values[codes], missing)


def recode_attributes(
    microdata: Microdata,
    classes: MethodResult,
    run: Callable[[Microdata, Partition, ExactTotals], tuple[ReleasedColumn, ...]],
    exact_totals: Callable[[Sequence[Attribute]], Mapping[str, NDArray[np.object_]]],
) -> tuple[ReleasedColumn, ...]:
    """Recode all attributes.

    The result has one value for each row set. A row set holds the rows that share the class in
    every attribute. If all attributes share the classes of rows, row sets are the classes.

    Parameters
    ----------
    classes : the classes of rows, or of each attribute separately.
    run : a recoding; it is called for each group of attributes that share their classes.
    exact_totals : a function that returns the exact sums of wide attributes for each row set; they
        are added up by class.
    """
    names = [attribute.name for attribute in microdata.attributes]
    groups = classes.classes_by_columns(names)
    if len(groups) == 1:
        # All attributes share the classes of rows, which are the row sets.
        partition = groups[0][1]
        recoded = run(microdata, partition, lambda _, attributes: exact_totals(attributes))
        return tuple(sorted(recoded, key=lambda column: names.index(column.quasi_identifier)))
    columns: list[ReleasedColumn] = []
    row_sets, classes_of_row_sets = classes.combine_into_row_partition()
    for (column_names, partition), row_classes in zip(groups, classes_of_row_sets.T, strict=True):
        if not column_names:
            continue

        def sum_totals(
            partition: Partition,
            attributes: Sequence[Attribute],
            # Bind the value of this iteration.
            row_classes: NDArray[np.int32] = row_classes,
        ) -> Mapping[str, NDArray[np.object_]]:
            totals = {}
            for name, row_totals in exact_totals(attributes).items():
                totals[name] = np.zeros(partition.n_classes, object)
                np.add.at(totals[name], row_classes, row_totals)
            return totals

        columns += [
            _expand_to_rows(column, partition, row_sets, row_classes)
            for column in run(microdata.select_attributes(column_names), partition, sum_totals)
        ]
    columns.sort(key=lambda column: names.index(column.quasi_identifier))
    return tuple(columns)


def _expand_to_rows(
    column: ReleasedColumn,
    partition: Partition,
    row_sets: Partition,
    row_classes: NDArray[np.int32],
) -> ReleasedColumn:
    """Expand a column from its classes to row sets.

    Parameters
    ----------
    partition : the classes of the column.
    row_sets : the row sets: each holds the rows that share the class in every attribute.
    row_classes : int32 (n_sets,), the class of each row set in ``partition``.
    """
    expanded = column.take(row_classes.astype(np.int64))
    if column.losses is None or partition.n_classes == row_sets.n_classes:
        return expanded
    # All rows of a class share its value, and so its loss per row.
    return replace(expanded, losses=(column.losses / partition.sizes)[row_classes] * row_sets.sizes)
