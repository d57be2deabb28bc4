"""Publication: losses that readers of a release may see.

An exact loss is an equation in the originals that a reader of the released rows can solve: a loss
of labels for the range of the originals, a sum of squares for the single value that dominates it.
So the published figures avoid what would reveal these:

- labels: widths are shares of the hull of the released labels, not of the originals' range. The
  figure follows from the release alone.
- values: each deviation of an original from its released value counts up to a limit, which follows
  from the released values; the class that loses most in a column counts as if it lost nothing;
  deviations are shares of the released values' own spread; a figure is at least what one class at
  the limit loses; and it is rounded to a step that one class is a share of.

docs/guarantees.md has the argument for each measure. Exact figures are those of ``recode``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, log10
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.hierarchy.tree import Hierarchy
from dbanon.measures import Loss
from dbanon.recoding import ReleasedColumn

if TYPE_CHECKING:
    from dbanon.measures.attributes import ColumnPair, Numbers
    from dbanon.measures.pairs import Pairs

Floats = NDArray[np.float64]

# Limits of deviations, in standard deviations of the released values. The first limit is used at
# which the other classes lose as much as one class can.
_LIMITS = (8.0, 4.0, 2.0)


def step_of(largest: int, n: int) -> float:
    """The rounding step of figures: 1, 2 or 5 times a power of ten, at least a class's share.

    Parameters
    ----------
    largest, n : the number of rows of the largest class, and in total.
    """
    share = min(max(largest, 1) / max(n, 1), 1.0)
    power = 10.0 ** floor(log10(share))
    return next(
        float(f"{factor * power:.0e}")
        for factor in (1.0, 2.0, 5.0, 10.0)
        if factor * power >= share * (1 - 1e-9)
    )


def rounded(value: float, step: float, least: float = 0.0) -> float:
    """Round a figure to steps, to at least one step and not below ``least``."""
    steps = max(round(value / step), ceil(least / step - 1e-9), 1)
    return float(f"{steps * step:.12g}")


@dataclass(frozen=True)
class LimitedDeviations:
    """The limited deviations of a column's originals from their released values.

    Parameters
    ----------
    gaps : float64 (n,), original minus released value, clipped; 0 in the class that loses most.
    least : the minimum published sum of squares, that of one class at the limit.
    limit : of an absolute deviation.
    """

    gaps: Floats
    least: float
    limit: float


def limit_deviations(
    original: Floats, released: Floats, labels: NDArray[np.integer], largest: int
) -> LimitedDeviations:
    """Limit the deviations of n records.

    Parameters
    ----------
    original, released : float64 (n,), in one unit.
    labels : int (n,), the class of each record.
    largest : the rows of the largest class.
    """
    gaps, limit, least = np.zeros(len(original)), 0.0, 0.0
    if not len(original):
        return LimitedDeviations(gaps, least, limit)
    spread = float(released.std())
    for times in _LIMITS:
        limit, least = times * spread, largest * (times * spread) ** 2
        gaps = np.clip(original - released, -limit, limit)
        squares = np.bincount(labels, weights=np.square(gaps))
        gaps[labels == squares.argmax()] = 0.0
        if float(squares.sum() - squares.max()) >= least:
            break
    return LimitedDeviations(gaps, least, limit)


@dataclass(frozen=True)
class PublicSums:
    """The sums behind the published loss of a column; sums of parts of a table can be added.

    Parameters
    ----------
    count : the number of records included.
    mean, squares : of their released values; squares about the mean; 0 for labels.
    low, high : the ends of the released values or labels.
    lost_squares : the loss, in the unit of ``squares`` or of ``low`` and ``high``.
    least : the minimum to publish.
    largest : the number of rows of the largest class.
    exact : True if everything follows from the release alone.
    suppressed : completely lost cells, which no other field includes.
    """

    count: int
    mean: float
    squares: float
    low: float
    high: float
    lost_squares: float
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
            nonempty, empty = (self, other) if self.count else (other, self)
            return replace(nonempty, suppressed=nonempty.suppressed + empty.suppressed)
        count, distance = self.count + other.count, other.mean - self.mean
        return PublicSums(
            count,
            self.mean + distance * other.count / count,
            self.squares + other.squares + distance**2 * self.count * other.count / count,
            min(self.low, other.low),
            max(self.high, other.high),
            self.lost_squares + other.lost_squares,
            max(self.least, other.least),
            max(self.largest, other.largest),
            self.exact and other.exact,
            self.suppressed + other.suppressed,
        )

    def share(self, measure: str) -> tuple[float, float]:
        """The lost share, and the minimum of it to publish."""
        loss, least = self._share_of_values(measure)
        if not self.suppressed:
            return loss, least
        values = self.count / self.cells
        return 1.0 - values * (1.0 - loss), 1.0 - values * (1.0 - least)

    def _share_of_values(self, measure: str) -> tuple[float, float]:
        if not self.count:
            return 0.0, 0.0
        if measure == "sse":
            # A constant released column loses all variance.
            if not self.squares > 0:
                return 1.0, 1.0
            return self.lost_squares / (self.squares + self.lost_squares), self.least / (
                self.squares + self.least
            )
        width = self.count * (self.high - self.low)
        return (self.lost_squares / width, self.least / width) if width > 0 else (0.0, 0.0)


def published_loss(sums: Sequence[PublicSums], measure: str) -> Loss:
    """The public losses by column and over all columns.

    Parameters
    ----------
    measure : as of ``Release``.
    """
    shares = [column_sums.share(measure) for column_sums in sums]
    columns = [
        value
        if column_sums.exact or not column_sums.cells
        else rounded(value, step_of(column_sums.largest, column_sums.cells), least)
        for column_sums, (value, least) in zip(sums, shares, strict=True)
    ]
    count = sum(column_sums.cells for column_sums in sums)
    if not count:
        return Loss(np.array(columns, np.float64), 0.0)
    total, least = (
        sum(
            column_sums.cells * share[position]
            for column_sums, share in zip(sums, shares, strict=True)
        )
        / count
        for position in (0, 1)
    )
    if not all(column_sums.exact for column_sums in sums):
        step = max(
            step_of(column_sums.largest, column_sums.cells)
            for column_sums in sums
            if column_sums.cells
        )
        total = rounded(total, step, least)
    return Loss(np.array(columns, np.float64), float(total))


def public_sums(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    columns: Iterable[ReleasedColumn],
    hierarchies: Mapping[str, Hierarchy],
    measure: str,
    suppressed: Mapping[str, int] = MappingProxyType({}),
    *,
    separate_classes: bool = False,
) -> tuple[PublicSums, ...]:
    """Compute the sums behind the published losses, one per measured column.

    Parameters
    ----------
    measure : as in ``Release``.
    suppressed : completely lost cells, by column.
    separate_classes : True if each column has its own classes: rows that share its value.
    """
    columns = tuple(columns)
    if measure == "iloss":
        columns = tuple(column for column in columns if column.losses is not None)
        sums = tuple(_of_labels(column, partition) for column in columns)
    elif measure == "gower":
        from dbanon.release.evaluation import pairs_of

        pairs = pairs_of(microdata, partition, columns, hierarchies, measures)
        sums = distance_sums(pairs, separate_classes)
    else:
        sums = tuple(
            _of_numbers(microdata, measures, partition, index, column, separate_classes)
            for index, column in enumerate(columns)
        )
    if not suppressed:
        return sums
    return tuple(
        _with_suppressed(column_sums, suppressed.get(column.source, 0), measure)
        for column_sums, column in zip(sums, columns, strict=True)
    )


def _with_suppressed(sums: PublicSums, cells: int, measure: str) -> PublicSums:
    """Add completely lost cells to sums."""
    # Sums of labels already include NULLs.
    count = sums.count - cells if measure == "iloss" else sums.count
    return replace(sums, count=count, suppressed=cells)


def _of_labels(column: ReleasedColumn, partition: Partition) -> PublicSums:
    sizes, present = partition.sizes, np.ones(partition.n_classes, bool)
    if column.missing is not None:
        present = ~column.missing
    n, largest = int(sizes.sum()), int(sizes.max(initial=0))
    if column.extent is None:
        assert column.label_losses is not None
        loss = float((column.label_losses * sizes)[present].sum())
        return PublicSums(n, 0.0, 0.0, 0.0, 1.0, loss, 0.0, largest, column.loss_from_label)
    low, high = column.extent[present].T
    widths = (high - low) * sizes[present]
    if column.loss_from_label:
        ends = float(low.min(initial=np.inf)), float(high.max(initial=-np.inf))
        if not present.any():
            ends = 0.0, 0.0
        return PublicSums(n, 0.0, 0.0, *ends, float(widths.sum()), 0.0, largest, True)
    # Readers see one number per interval.
    values = column.as_float()[present]
    ends = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    loss = float(np.minimum(widths, (ends[1] - ends[0]) * sizes[present]).sum())
    return PublicSums(n, 0.0, 0.0, *ends, loss, largest * (ends[1] - ends[0]), largest, False)


def _of_numbers(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    index: int,
    column: ReleasedColumn,
    separate_classes: bool,
) -> PublicSums:
    name = microdata.numeric[index].name
    down = -measures.numbers[name].exponent
    original = np.ldexp(microdata.numbers[:, index], down)
    released = np.ldexp(column.as_float(), down)
    valid = microdata.valid_column(name)
    return sums_of(
        original, released, partition, valid, squared=True, separate_classes=separate_classes
    )


def classes_of(
    rows: Floats, labels: NDArray[np.integer], separate_classes: bool
) -> tuple[NDArray[np.integer], int]:
    """The class of each record in a column, int (n,), and the size of the largest class.

    Parameters
    ----------
    rows : float64 (n,), the released value of each record.
    labels : int (n,), its class.
    """
    if separate_classes:
        labels = np.unique(rows, return_inverse=True)[1].reshape(-1)
    return labels, int(np.bincount(labels).max(initial=0))


def sums_of(
    original: Floats,
    released: Floats,
    partition: Partition,
    valid: NDArray[np.bool_] | None,
    *,
    squared: bool,
    separate_classes: bool,
) -> PublicSums:
    """Compute the public sums of a number column.

    Parameters
    ----------
    original, released : float64 (n,) and (n_classes,), in one unit.
    valid : bool (n,), the records to include; None for all.
    squared : True for squared deviations, False for absolute ones.
    separate_classes : as in ``public_sums``.
    """
    row_labels = partition.labels.astype(np.intp)
    if valid is not None:
        original, row_labels = original[valid], row_labels[valid]
    rows = released[row_labels]
    labels, largest = classes_of(rows, row_labels, separate_classes)
    count = len(rows)
    if not count:
        return PublicSums(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, largest, False)
    deviations = limit_deviations(original, rows, labels, largest)
    mean, low, high = float(rows.mean()), float(rows.min()), float(rows.max())
    squares = float(np.square(rows - mean).sum()) if high > low else 0.0
    if squared:
        loss, least = float(np.square(deviations.gaps).sum()), deviations.least
    else:
        loss, least = float(np.abs(deviations.gaps).sum()), largest * deviations.limit
    return PublicSums(count, mean, squares, low, high, loss, least, largest, False)


def distance_sums(pairs: Pairs, separate_classes: bool = False) -> tuple[PublicSums, ...]:
    """Compute the sums behind the published ``direct_loss``, one per column."""
    return tuple(_distances(pairs, column, separate_classes) for column in pairs.columns)


def _distances(pairs: Pairs, column: ColumnPair, separate_classes: bool) -> PublicSums:
    numbers = numbers_of(column)
    cells = pairs.cells([column if numbers is None else numbers])
    present = None if cells is None else cells[:, 0]
    if numbers is not None:
        down = -numbers.scale.exponent
        ends = np.ldexp(numbers.original, down), np.ldexp(numbers.released, down)
        sums = sums_of(
            *ends, pairs.partition, present, squared=False, separate_classes=separate_classes
        )
        if column.suppressed is None:
            return sums
        # Suppressed cells count in the total.
        all_cells = pairs.cells([column])
        return replace(sums, count=pairs.n if all_cells is None else int(all_cells.sum()))
    apart = column.distances_ignoring_nulls(np.arange(pairs.n), pairs.labels)
    count = pairs.n if present is None else int(present.sum())
    largest = largest_of(pairs, separate_classes)
    return PublicSums(count, 0.0, 0.0, 0.0, 1.0, float(apart.sum()), float(largest), largest, False)


def numbers_of(column: ColumnPair) -> Numbers | None:
    """The column as numbers, with suppressed cells invalid; None if it holds labels."""
    # Imported here because most releases need neither, and imports slow a backend's first call.
    from dbanon.measures.attributes import Intervals, Numbers

    if isinstance(column, Numbers):
        return column
    hidden = column.suppressed
    if not isinstance(column, Intervals) or hidden is None:
        return None
    if (column.low < column.high)[~hidden].any():
        return None
    return Numbers(
        name=column.name,
        original=column.original,
        scale=column.scale,
        valid=column.valid,
        released_valid=~hidden,
        ordinal=column.ordinal,
        ranks=column.ranks,
        released=column.low,
    )


def largest_of(pairs: Pairs, separate_classes: bool) -> int:
    """The size of the largest class, over all columns if each has its own classes."""
    if not separate_classes:
        return int(pairs.partition.sizes.max(initial=0))
    kinds = [column.released_value_ids[pairs.labels] for column in pairs.columns]
    return max(
        int(np.unique(column_kinds, return_counts=True)[1].max(initial=0)) for column_kinds in kinds
    )


def public_scale(original: Floats, released: Floats) -> Scale:
    """The public scale of a column: ends and mean of the released rows.

    Parameters
    ----------
    original : float64 (n,), with limited deviations; the standard deviation is theirs.
    released : float64 (n,).
    """
    of_original, of_release = Scale.of(original), Scale.of(released)
    power = of_original.exponent - of_release.exponent
    return Scale(
        of_release.count,
        of_release.least,
        of_release.most,
        of_release.mean,
        0.0 if of_release.is_constant else float(np.ldexp(of_original.deviation, power)),
        of_release.is_integral,
    )
