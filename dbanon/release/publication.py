"""Compute the information losses that readers of a release may see.

An exact loss is an equation that a reader of the released rows could solve for originals. From an
exact loss of labels, the reader could compute the range of the originals; from an exact sum of
squares, a single value that dominates the sum. So published losses are computed differently:

- For labels, widths are relative to the range that all released labels cover, not to the range of
  the originals. So the loss follows from the release alone.
- For numbers, deviations of originals from their released values are clipped to a limit that
  follows from the released values, and are relative to the spread of the released values. The class
  with the largest loss in a column counts as if it lost nothing. A published loss is at least that
  of one class whose deviations are all at the limit, and is rounded to steps of at least the
  largest class's share of the rows.

docs/guarantees.md justifies this for each measure. ``recode`` computes the exact figures, and
describes the loss measures ``sse``, ``gower`` and ``iloss``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10, sqrt
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon import kernels
from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.pieces import read_column, split_records
from dbanon.data.scales import Scale
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Loss
from dbanon.recoding import ReleasedColumn

if TYPE_CHECKING:
    from dbanon.measures.attributes import ColumnPair, Numbers
    from dbanon.measures.pairs import Pairs

Floats = NDArray[np.float64]

# Candidate limits of deviations, in standard deviations of the released values, in the order in
# which they are tried. A limit is accepted if all classes together, except the one with the largest
# loss, lose at least as much as one class whose deviations are all at the limit. If none is
# accepted, the last one is used.
_LIMIT_FACTORS = (8.0, 4.0, 2.0)


def choose_rounding_step(largest: int, n: int) -> float:
    """Choose the step to which figures are rounded: 1, 2 or 5 times a power of ten.

    It is the smallest that is not below the largest class's share of the rows.

    Parameters
    ----------
    largest, n : number of rows of the largest class, and in total.
    """
    share = min(max(largest, 1) / max(n, 1), 1.0)
    power = 10.0 ** floor(log10(share))
    return next(
        # Format one digit and parse it, which removes the rounding error of the power.
        float(f"{factor * power:.0e}")
        for factor in (1.0, 2.0, 5.0, 10.0)
        if factor * power >= share * (1 - 1e-9)
    )


def round_to_steps(value: float, step: float, least: float = 0.0) -> float:
    """Round a figure to a multiple of the step: at least one step, and not below ``least``."""
    # ``least`` may exceed a multiple of the step by a rounding error, which must not add a step.
    steps = max(round(value / step), ceil(least / step - 1e-9), 1)
    return float(f"{steps * step:.12g}")


@dataclass(frozen=True)
class LimitedDeviations:
    """The limited deviations of a column's originals from their released values.

    Parameters
    ----------
    deviations : float64 (n,), original minus released value, clipped to the limit; 0 in the class
        with the largest loss.
    min_squares : the smallest sum of squares to publish: that of one class whose deviations are all
        at the limit.
    limit : maximum absolute deviation.
    """

    deviations: Floats
    min_squares: float
    limit: float


def limit_deviations(
    differences: Floats, spread: float, labels: NDArray[np.integer], largest: int
) -> LimitedDeviations:
    """Limit the deviations of n originals from their released values.

    Parameters
    ----------
    differences : float64 (n,), the originals minus their released values; overwritten by the
        result.
    spread : the standard deviation of the released values, in the same unit.
    labels : int (n,), the class of each record, 0 or more.
    largest : number of rows of the largest class.
    """
    if not len(differences):
        return LimitedDeviations(np.zeros(0), 0.0, 0.0)
    deviations = differences
    for factor in _LIMIT_FACTORS:
        limit = factor * spread
        min_squares = largest * limit**2
        # Each limit is below the one before, so values that were clipped already do no harm.
        np.clip(deviations, -limit, limit, out=deviations)
        class_squares = _sum_squares_by_class(deviations, labels)
        if float(class_squares.sum() - class_squares.max()) >= min_squares:
            break
    worst = class_squares.argmax()
    for piece in split_records(len(labels)):
        deviations[piece][labels[piece] == worst] = 0.0
    return LimitedDeviations(deviations, min_squares, limit)


def _sum_squares_by_class(deviations: Floats, labels: NDArray[np.integer]) -> Floats:
    """Add up the squares of each class, float64 (n_classes,), record by record.

    ``np.bincount`` gives the same sums, but copies all labels and squares.
    """
    sums = np.zeros(int(labels.max()) + 1)
    for piece in split_records(len(labels)):
        np.add.at(sums, labels[piece], np.square(deviations[piece]))
    return sums


@dataclass(frozen=True)
class PublicSums:
    """The sums from which a column's published loss is computed.

    Sums of different records of the same column can be added, as those of parts of a table.

    Parameters
    ----------
    count : number of records that the sums include.
    mean : the mean of the released values; 0 for labels.
    squares : the sum of squared deviations of released values from ``mean``; 0 for labels.
    low, high : the smallest and the greatest released value; for labels, the lowest and the highest
        end of their intervals, or 0 and 1 if ``total_loss`` is a sum of shares.
    total_loss : the sum of the losses of records: squared deviations for the measure ``sse``;
        otherwise absolute deviations, widths of intervals, or shares.
    least : the smallest ``total_loss`` to publish.
    largest : number of rows of the largest class.
    exact : whether the loss follows from the release alone, and so is not rounded.
    suppressed : number of suppressed cells, which no other field includes.
    """

    count: int
    mean: float
    squares: float
    low: float
    high: float
    total_loss: float
    least: float
    largest: int
    exact: bool
    suppressed: int = 0

    @property
    def cells(self) -> int:
        """The number of cells, including suppressed ones."""
        return self.count + self.suppressed

    def __add__(self, other: PublicSums) -> PublicSums:
        """Add the sums of two sets of records."""
        if not (self.count and other.count):
            # The means and ranges of no records mean nothing: take those of the other sums.
            nonempty, empty = (self, other) if self.count else (other, self)
            return replace(nonempty, suppressed=nonempty.suppressed + empty.suppressed)
        # Squares are around each mean: move both to the common mean.
        count, distance = self.count + other.count, other.mean - self.mean
        return PublicSums(
            count=count,
            mean=self.mean + distance * other.count / count,
            squares=self.squares + other.squares + distance**2 * self.count * other.count / count,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            total_loss=self.total_loss + other.total_loss,
            least=max(self.least, other.least),
            largest=max(self.largest, other.largest),
            exact=self.exact and other.exact,
            suppressed=self.suppressed + other.suppressed,
        )

    def lost_share(self, measure: str) -> tuple[float, float]:
        """Return the share of information that is lost, and the smallest share to publish.

        Suppressed cells are lost completely. ``measure`` is ``sse``, ``gower`` or ``iloss``.
        """
        loss = least = 0.0
        if self.count and measure == "sse":
            # If all released values are equal, all variance is lost.
            loss = least = 1.0
            if self.squares > 0:
                loss = self.total_loss / (self.squares + self.total_loss)
                least = self.least / (self.squares + self.least)
        elif self.count:
            # The loss if every record were released as the whole range.
            width = self.count * (self.high - self.low)
            if width > 0:
                loss, least = self.total_loss / width, self.least / width
        if not self.suppressed:
            return loss, least
        share_released = self.count / self.cells
        return 1.0 - share_released * (1.0 - loss), 1.0 - share_released * (1.0 - least)


def compute_published_loss(sums: Sequence[PublicSums], measure: str) -> Loss:
    """Compute the public losses by column and over all columns.

    Parameters
    ----------
    measure : the loss measure, see ``Release``.
    """
    columns = []
    n_cells, largest_step, is_exact = 0, 0.0, True
    # The sums of all cells' losses, and of their smallest losses to publish.
    total_loss = total_least = 0.0
    for column_sums in sums:
        cells = column_sums.cells
        loss, least = column_sums.lost_share(measure)
        total_loss += cells * loss
        total_least += cells * least
        n_cells += cells
        is_exact = is_exact and column_sums.exact
        if cells:
            step = choose_rounding_step(column_sums.largest, cells)
            largest_step = max(largest_step, step)
            if not column_sums.exact:
                loss = round_to_steps(loss, step, least)
        columns.append(loss)
    mean_loss = total_loss / n_cells if n_cells else 0.0
    if n_cells and not is_exact:
        mean_loss = round_to_steps(mean_loss, largest_step, total_least / n_cells)
    return Loss(np.array(columns, np.float64), mean_loss)


def public_sums(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    columns: Iterable[ReleasedColumn],
    hierarchies: Mapping[str, Hierarchy],
    measure: str,
    suppressed: Mapping[str, int] = MappingProxyType({}),
    *,
    has_classes_per_column: bool = False,
) -> tuple[PublicSums, ...]:
    """Compute the sums behind the published losses, one per measured column.

    Parameters
    ----------
    measure : the loss measure, see ``Release``.
    suppressed : number of suppressed cells by column.
    has_classes_per_column : whether each column has its own classes, each of which consists of the
        rows with one released value in the column.
    """
    columns = tuple(columns)
    if measure == "iloss":
        columns = tuple(column for column in columns if column.losses is not None)
        sums = tuple(_sums_of_labels(column, partition) for column in columns)
    elif measure == "gower":
        from dbanon.release.evaluation import pairs_of

        pairs = pairs_of(microdata, partition, columns, hierarchies, column_statistics)
        sums = sum_public_distances(pairs, has_classes_per_column)
    else:
        sums = tuple(
            _sums_of_numbers(
                microdata, column_statistics, partition, index, column, has_classes_per_column
            )
            for index, column in enumerate(columns)
        )
    if not suppressed:
        return sums
    return tuple(
        _add_suppressed_cells(column_sums, suppressed.get(column.quasi_identifier, 0), measure)
        for column_sums, column in zip(sums, columns, strict=True)
    )


def _add_suppressed_cells(sums: PublicSums, cells: int, measure: str) -> PublicSums:
    """Add suppressed cells, which are lost completely, to a column's sums."""
    # Sums of labels count all records, including those with a suppressed cell; other sums count
    # only records with a value.
    count = sums.count - cells if measure == "iloss" else sums.count
    return replace(sums, count=count, suppressed=cells)


def _sums_of_labels(column: ReleasedColumn, partition: Partition) -> PublicSums:
    """Compute the public sums of iloss in a column of labels."""
    sizes, is_present = partition.sizes, np.ones(partition.n_classes, bool)
    if column.missing is not None:
        is_present = ~column.missing
    n, largest = int(sizes.sum()), int(sizes.max(initial=0))
    # Labels of a hierarchy: the loss of each is a share already.
    if column.interval_ranges is None:
        assert column.label_losses is not None
        loss = float((column.label_losses * sizes)[is_present].sum())
        return PublicSums(
            count=n,
            mean=0.0,
            squares=0.0,
            low=0.0,
            high=1.0,
            total_loss=loss,
            least=0.0,
            largest=largest,
            exact=column.loss_depends_only_on_label,
        )
    # Intervals, as ranges of numbers.
    low, high = column.interval_ranges[is_present].T
    widths = (high - low) * sizes[is_present]
    if column.loss_depends_only_on_label:
        lowest, highest = float(low.min(initial=np.inf)), float(high.max(initial=-np.inf))
        if not is_present.any():
            lowest, highest = 0.0, 0.0
        return PublicSums(
            count=n,
            mean=0.0,
            squares=0.0,
            low=lowest,
            high=highest,
            total_loss=float(widths.sum()),
            least=0.0,
            largest=largest,
            exact=True,
        )
    # Each interval is released as a number, its midpoint, so readers do not know its width. Widths
    # are relative to the range of the midpoints, and no wider.
    values = column.as_float()[is_present]
    lowest, highest = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    return PublicSums(
        count=n,
        mean=0.0,
        squares=0.0,
        low=lowest,
        high=highest,
        total_loss=float(np.minimum(widths, (highest - lowest) * sizes[is_present]).sum()),
        least=largest * (highest - lowest),
        largest=largest,
        exact=False,
    )


def _sums_of_numbers(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    index: int,
    column: ReleasedColumn,
    has_classes_per_column: bool,
) -> PublicSums:
    """Compute the public sums of squared deviations in the number column with this index."""
    name = microdata.numeric[index].name
    # Scale by a power of two, so that squares of huge values do not overflow.
    power = -column_statistics.scales[name].exponent
    valid = microdata.valid_column(name)
    return compute_public_sums(
        read_column(microdata.numbers, index),
        column.as_float(),
        power,
        partition,
        valid,
        squared=True,
        has_classes_per_column=has_classes_per_column,
    )


def classes_in_column(
    released: Floats, labels: NDArray[np.integer], has_classes_per_column: bool
) -> tuple[NDArray[np.integer], int]:
    """Return the class of each record in a column, int (n,), and the size of the largest class.

    Parameters
    ----------
    released : float64 (n,), the released value of each record in the column.
    labels : int (n,), the class of each record over all columns.
    has_classes_per_column : whether the column has its own classes, which then are the result.
    """
    if has_classes_per_column:
        labels = np.unique(released, return_inverse=True)[1].reshape(-1)
    sizes = kernels.class_sizes(np.ascontiguousarray(labels, np.int32))
    return labels, int(sizes.max(initial=0))


def compute_public_sums(
    original: Floats,
    released: Floats,
    power: int,
    partition: Partition,
    valid: NDArray[np.bool_] | None,
    *,
    squared: bool,
    has_classes_per_column: bool,
) -> PublicSums:
    """Compute the public sums of a number column.

    Parameters
    ----------
    original, released : float64 (n,) and (n_classes,), in the same unit.
    power : the sums are those of the values times 2**power.
    valid : bool (n,), the records to include; None for all.
    squared : whether to add up squared deviations instead of absolute ones.
    has_classes_per_column : see ``public_sums``.
    """
    labels = partition.labels
    if valid is not None:
        original, labels = original[valid], labels[valid]
    # Work in few arrays of all records: they decide how much memory a spilled run needs.
    scaled = np.ldexp(released, power)
    released_rows = scaled[labels]
    column_labels, largest = classes_in_column(released_rows, labels, has_classes_per_column)
    count = len(released_rows)
    if not count:
        return PublicSums(
            count=0,
            mean=0.0,
            squares=0.0,
            low=0.0,
            high=0.0,
            total_loss=0.0,
            least=0.0,
            largest=largest,
            exact=False,
        )
    mean = float(released_rows.mean())
    low, high = float(released_rows.min()), float(released_rows.max())
    released_rows -= mean
    squares = float(np.square(released_rows, out=released_rows).sum())
    differences = released_rows
    for piece in split_records(count):
        differences[piece] = np.ldexp(original[piece], power) - scaled[labels[piece]]
    limited = limit_deviations(differences, sqrt(squares / count), column_labels, largest)
    losses = limited.deviations
    if squared:
        loss, least = float(np.square(losses, out=losses).sum()), limited.min_squares
    else:
        loss, least = float(np.abs(losses, out=losses).sum()), largest * limited.limit
    return PublicSums(
        count=count,
        mean=mean,
        squares=squares if high > low else 0.0,
        low=low,
        high=high,
        total_loss=loss,
        least=least,
        largest=largest,
        exact=False,
    )


def sum_public_distances(
    pairs: Pairs, has_classes_per_column: bool = False
) -> tuple[PublicSums, ...]:
    """Compute the public sums of distances, for ``direct_loss``, one per column."""
    return tuple(_sum_distances(pairs, column, has_classes_per_column) for column in pairs.columns)


def _sum_distances(pairs: Pairs, column: ColumnPair, has_classes_per_column: bool) -> PublicSums:
    """Compute the public sums of the distances between originals and released values."""
    numbers = as_numbers(column)
    # In ``numbers``, suppressed cells are NULL, and so have no value.
    has_value = pairs.valid_cells([column if numbers is None else numbers])
    is_present = None if has_value is None else has_value[:, 0]
    if numbers is not None:
        sums = compute_public_sums(
            numbers.original,
            numbers.released,
            -numbers.scale.exponent,
            pairs.partition,
            is_present,
            squared=False,
            has_classes_per_column=has_classes_per_column,
        )
        if column.suppressed is None:
            return sums
        # ``direct_loss`` divides by the number of all cells, including suppressed ones.
        all_cells = pairs.valid_cells([column])
        return replace(sums, count=pairs.n if all_cells is None else int(all_cells.sum()))
    # The distance, 0 to 1, of each record's value from the label of its class.
    distances = column.distances_ignoring_nulls(np.arange(pairs.n), pairs.labels)
    count = pairs.n if is_present is None else int(is_present.sum())
    largest = largest_class_size(pairs, has_classes_per_column)
    return PublicSums(
        count=count,
        mean=0.0,
        squares=0.0,
        low=0.0,
        high=1.0,
        total_loss=float(distances.sum()),
        least=float(largest),
        largest=largest,
        exact=False,
    )


def as_numbers(column: ColumnPair) -> Numbers | None:
    """Convert a column to released numbers, with suppressed cells as NULL.

    Return None if the column has released labels other than single numbers.
    """
    # Import lazily: few releases need these, and imports slow down the first call of an SQL
    # function.
    from dbanon.measures.attributes import Intervals, Numbers

    if isinstance(column, Numbers):
        return column
    is_suppressed = column.suppressed
    if not isinstance(column, Intervals) or is_suppressed is None:
        return None
    if (column.low < column.high)[~is_suppressed].any():
        return None
    return Numbers(
        name=column.name,
        original=column.original,
        scale=column.scale,
        valid=column.valid,
        released_valid=~is_suppressed,
        is_ordinal=column.is_ordinal,
        ranks=column.ranks,
        released=column.low,
    )


def largest_class_size(pairs: Pairs, has_classes_per_column: bool) -> int:
    """Return the size of the largest class, of any column if each has its own classes."""
    if not has_classes_per_column:
        return int(pairs.partition.sizes.max(initial=0))
    # A column's own classes are the rows with the same released value in it.
    value_ids = [column.released_value_ids[pairs.labels] for column in pairs.columns]
    return max(
        int(np.unique(column_ids, return_counts=True)[1].max(initial=0)) for column_ids in value_ids
    )


def public_scale(original: Floats, released: Floats) -> Scale:
    """Build the public scale of a column.

    Range and mean are those of the released rows. The standard deviation is that of originals with
    limited deviations.

    Parameters
    ----------
    original : float64 (n,), originals with limited deviations.
    released : float64 (n,), the released value of each original.
    """
    original_scale, released_scale = Scale.of(original), Scale.of(released)
    # The deviation of a scale is in units of 2**exponent: convert it to those of the released one.
    power = original_scale.exponent - released_scale.exponent
    return Scale(
        count=released_scale.count,
        least=released_scale.least,
        most=released_scale.most,
        mean=released_scale.mean,
        deviation=0.0
        if released_scale.is_constant
        else float(np.ldexp(original_scale.deviation, power)),
        is_integral=released_scale.is_integral,
    )
