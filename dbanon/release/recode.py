"""Recode classes: compute the released values of each class, and the information loss.

A loss has one of three measures. ``sse`` is SSE/SST on z-scores, for released numbers. ``gower`` is
Gower's distance between originals and released values, for columns of any kind. ``iloss`` is the
share of a column's range that an interval covers or, in a hierarchy, the share of the edges from a
value up to the root that are below its label.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import ColumnStatistics
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.pieces import choose_column_map, read_column
from dbanon.data.scales import Standardization
from dbanon.data.schema import Kind
from dbanon.hierarchy.leaves import (
    ANY,
    Hierarchies,
    TreeBuilder,
    encode_leaves,
    resolve_hierarchies,
    take_records,
)
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import Loss, exact_and_rounded_sums, iloss, loss_from_sums
from dbanon.methods import find_method
from dbanon.recoding import (
    GENERALIZED,
    ExactTotals,
    ReleasedColumn,
    Settings,
    find_recoding,
    recode_attributes,
)
from dbanon.release.publication import PublicSums, public_sums


def recode(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    exact_totals: ExactTotals,
    build_trees: TreeBuilder | None = None,
) -> Release:
    """Compute the released values of each class, and their information loss.

    Only released records are used. If the method suppresses cells, cells whose values the records
    of a class do not share are replaced by NULL first. In the result, all rows of a class have
    equal released values.

    Parameters
    ----------
    microdata : all records, including withheld ones.
    clustering : the classes, and what the method chose while it built them. If each attribute has
        its own classes, they are also combined into classes of rows with equal released values.
    exact_totals : has the source compute the sums of classes in attributes whose values float64
        cannot represent exactly.
    build_trees : builds the hierarchies from microdata; called with the released records if others
        are withheld.
    """
    recoding = find_recoding(str(policy.recoding))
    if find_method(policy.method).suppresses_cells:
        microdata, clustering = _suppress_cells(microdata, clustering, policy.hierarchies)
    parameters = {name: policy.options[name] for name in recoding.parameters}
    # The levels of generalization that full_domain chose; None for other methods. With its option
    # ``contract``, labels depend on the values of each class alone, not on the levels.
    chosen_levels = None if policy.options.get("contract") else clustering.levels
    names = [attribute.name for attribute in microdata.attributes]

    # Called with all attributes or, if each attribute has its own classes, with one at a time.
    def recode_columns(
        microdata: Microdata, partition: Partition, exact_totals: ExactTotals
    ) -> tuple[ReleasedColumn, ...]:
        assert column_statistics is not None
        other_names = set(names).difference([a.name for a in microdata.attributes])
        column_settings = _drop_columns(settings, other_names) if other_names else settings
        return recoding.run(
            microdata, column_statistics, partition, exact_totals, column_settings, **parameters
        )

    classes, column_statistics = clustering.classes, clustering.column_statistics
    row_partition, _ = classes.combine_into_row_partition()
    released_partition = row_partition
    if row_partition.n_suppressed:
        records = np.flatnonzero(row_partition.labels >= 0)
        microdata, classes = take_records(microdata, records), classes.take(records)
        released_partition, _ = classes.combine_into_row_partition()
        if build_trees is not None:
            policy = replace(policy, hierarchies=build_trees(microdata))
        if chosen_levels is not None:
            chosen_levels = chosen_levels.take(records)
    settings = replace(policy.settings, chosen_levels=chosen_levels)
    column_statistics = column_statistics or ColumnStatistics.of(microdata)
    columns = recode_attributes(
        microdata,
        classes,
        recode_columns,
        # The source computes exact sums by the rows that it returned, so it needs the partition of
        # all of them, including withheld ones.
        lambda inexact_attributes: exact_totals(row_partition, inexact_attributes),
    )
    loss_before, loss_after = _LOSS_FUNCTIONS[recoding.measure](
        microdata, column_statistics, released_partition, policy, columns
    )
    suppressed = suppressed_cells(microdata)
    if suppressed:
        counts = [suppressed.get(name, 0) for name in names]
        loss_before = _add_suppressed_cells(loss_before, counts, recoding.measure)
        loss_after = _add_suppressed_cells(loss_after, counts, recoding.measure)
    has_classes_per_column = len(classes.classes_by_columns(names)) > 1  # else one group of columns
    return Release(
        partition=row_partition,
        columns=tuple(column.replace_ranks_with_values() for column in columns),
        losses=_losses_by_column(columns, recoding.measure, loss_before, loss_after),
        loss_before_rounding=loss_before.total,
        loss=loss_after.total,
        measure=recoding.measure,
        column_statistics=column_statistics,
        hierarchies=policy.hierarchies,
        sums=(loss_before.sums, loss_after.sums),
        public_sums=public_sums(
            microdata,
            column_statistics,
            released_partition,
            columns,
            policy.hierarchies,
            recoding.measure,
            suppressed,
            has_classes_per_column=has_classes_per_column,
        ),
        has_classes_per_column=has_classes_per_column,
        suppressed_cells=suppressed,
    )


def _suppress_cells(
    microdata: Microdata, clustering: ClusteringResult, hierarchies: Hierarchies
) -> tuple[Microdata, ClusteringResult]:
    """Replace cells by NULL that a class has no common value for; drop the statistics of before."""
    from dbanon.release.cells import suppress_differing_cells

    suppressed = suppress_differing_cells(microdata, clustering, hierarchies)
    return suppressed, replace(clustering, column_statistics=None)


def _losses_by_column(
    columns: Sequence[ReleasedColumn], measure: str, before: Loss, after: Loss
) -> tuple[ColumnLoss, ...]:
    """Return the losses of the columns that have one, before and after rounding."""
    measured_columns = columns
    if measure == "iloss":
        measured_columns = [column for column in columns if column.losses is not None]
    return tuple(
        ColumnLoss(
            column.quasi_identifier, before_rounding=float(loss), released=float(released_loss)
        )
        for column, loss, released_loss in zip(
            measured_columns, before.columns, after.columns, strict=True
        )
    )


def _drop_columns(settings: Settings, names: Collection[str]) -> Settings:
    """Return the settings for recoding all columns except these."""
    steps = {name: step for name, step in settings.grid_steps.items() if name not in names}
    hierarchies = {name: tree for name, tree in settings.hierarchies.items() if name not in names}
    return replace(settings, grid_steps=steps, hierarchies=hierarchies)


def find_lost_columns(
    columns: Sequence[ReleasedColumn], hierarchies: Mapping[str, Hierarchy]
) -> tuple[str, ...]:
    """Find quasi-identifiers released as the root of their hierarchy, or ``*``, in every row."""
    lost_columns = []
    for column in columns:
        # Only columns of labels can be lost as a whole.
        if column.attribute.sql_type != GENERALIZED or column.losses is None:
            continue
        tree = hierarchies.get(column.quasi_identifier)
        root = ANY if tree is None else tree.labels[0]
        labels = column.values if column.missing is None else column.values[~column.missing]
        # If a hierarchy consists of its root only, nothing is lost.
        if len(labels) and bool((labels == root).all()) and column.losses.any():
            lost_columns.append(column.quasi_identifier)
    return tuple(lost_columns)


def _sse_losses(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """Compute SSE/SST on z-scores, first before and then after rounding."""
    # Not needed: it is a parameter because all functions in ``_LOSS_FUNCTIONS`` have the same ones.
    del policy
    valid = microdata.numeric_valid()
    scales = [column_statistics.scales[attribute.name] for attribute in microdata.numeric]
    n_values = microdata.numbers.size if valid is None else int(valid.sum())
    # The scales may describe a larger table, of which these records are a part.
    is_part_of_table = sum(scale.count for scale in scales) != n_values

    def sum_losses(index: int) -> tuple[tuple[float, float], tuple[float, float]]:
        column = columns[index]
        transform = Standardization.of([scales[index]])
        is_present = None if microdata.valid is None or valid is None else valid[:, index]
        assert column.unrounded is not None
        released = column.unrounded, column.as_float()  # exact and rounded
        values = read_column(microdata.numbers, index)
        return exact_and_rounded_sums(
            values, partition, released, transform, is_present, is_part_of_table=is_part_of_table
        )

    # A ``map`` over columns, with threads for large tables.
    loss_sums = list(choose_column_map(microdata.numbers)(sum_losses, range(len(scales))))
    before, after = [exact for exact, _ in loss_sums], [rounded for _, rounded in loss_sums]
    return loss_from_sums(before), loss_from_sums(after)


def _iloss_losses(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """Compute iloss per cell, first for the ranges of classes and then for released labels."""
    # Each record loses 0 to 1 in each column, so the loss of a column is a mean over records.
    n_records = max(int(partition.sizes.sum()), 1)
    range_losses = (
        class_losses(microdata, column_statistics, partition, policy.hierarchies) / n_records
    )
    label_losses = np.array(
        [column.losses.sum() for column in columns if column.losses is not None]
    )
    label_losses /= n_records
    before, after = (
        Loss(
            columns=losses,
            total=float(losses.mean()),
            sums=tuple((float(loss) * n_records, float(n_records)) for loss in losses),
        )
        for losses in (range_losses, label_losses)
    )
    return before, after


def _gower_losses(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """Compute Gower's distance per cell, as ``direct_loss`` does, before and after rounding."""
    # Import lazily: few releases need these, and imports slow down the first call of an SQL
    # function.
    from dbanon.measures.direct_loss import direct_loss
    from dbanon.measures.figure import EvaluationTask
    from dbanon.release.evaluation import pairs_of

    def measure_loss(released: Sequence[ReleasedColumn]) -> Loss:
        pairs = pairs_of(microdata, partition, released, policy.hierarchies, column_statistics)
        figure = direct_loss(EvaluationTask(pairs))
        column_losses = [
            figure.columns.get(attribute.name, 0.0) for attribute in microdata.attributes
        ]
        n_cells = [
            _count_values(microdata, partition, attribute.name)
            for attribute in microdata.attributes
        ]
        sums = tuple(
            (column_loss * count, count)
            for column_loss, count in zip(column_losses, n_cells, strict=True)
        )
        return Loss(np.array(column_losses), float(figure.value or 0.0), sums)

    # Released numbers before rounding are floats. Ranks and labels of hierarchies are not rounded.
    before = [
        replace(column, attribute=replace(column.attribute, kind=Kind.FLOAT), values=exact)
        if (exact := column.unrounded) is not None
        and column.attribute.kind is not Kind.ORDINAL
        and column.quasi_identifier not in policy.hierarchies
        else column
        for column in columns
    ]
    return measure_loss(before), measure_loss(columns)


def _count_values(microdata: Microdata, partition: Partition, name: str) -> float:
    """Count the released records with a value of an attribute."""
    valid, is_released = microdata.valid_column(name), partition.labels >= 0
    return float(is_released.sum() if valid is None else (valid & is_released).sum())


def _add_suppressed_cells(loss: Loss, counts: Sequence[int], measure: str) -> Loss:
    """Add suppressed cells, which are lost completely, to a loss; ``counts`` has one per column.

    On z-scores, a cell that is replaced by the column's mean loses 1 on average, and adds 1 to the
    total. For iloss, the total already includes NULL cells, as cells that lose nothing.
    """
    sums = []
    # The loss of a column is ``loss_sum`` divided by ``total``: SSE by SST, or a sum by its cells.
    for (loss_sum, total), count in zip(loss.sums, counts, strict=True):
        sums.append((loss_sum + count, total if measure == "iloss" else total + count))
    total_loss = loss_from_sums(sums)
    # The total of iloss is the mean over columns.
    return (
        total_loss
        if measure != "iloss"
        else replace(total_loss, total=float(total_loss.columns.mean()))
    )


def suppressed_cells(microdata: Microdata) -> dict[str, int]:
    """Count, by column, the cells that have a value in the source and are NULL in the release."""
    if microdata.suppressed is None:
        return {}
    counts = microdata.suppressed.sum(axis=0).tolist()
    return {
        attribute.name: count
        for attribute, count in zip(microdata.attributes, counts, strict=True)
        if count
    }


_LOSS_FUNCTIONS = {"sse": _sse_losses, "iloss": _iloss_losses, "gower": _gower_losses}


def class_losses(
    microdata: Microdata,
    column_statistics: ColumnStatistics,
    partition: Partition,
    hierarchies: Mapping[str, Hierarchy],
) -> NDArray[np.float64]:
    """Sum the iloss of all records for the ranges of their classes: float64 (d,), by attribute."""
    losses = []
    trees = resolve_hierarchies(microdata.attributes, hierarchies, column_statistics)
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            losses.append(iloss(values, column_statistics.scales[attribute.name], partition, valid))
        else:
            leaves = encode_leaves(microdata, attribute, tree)
            losses.append(iloss(leaves, tree, partition, valid))
    return np.array(losses)


@dataclass(frozen=True)
class ColumnLoss:
    """Information loss of one column, by the measure of its release; see ``Release``.

    Parameters
    ----------
    name : the quasi-identifier.
    before_rounding : the loss of the values before they were rounded to the column's type.
    released : the loss of the values as released.
    """

    name: str
    before_rounding: float
    released: float


@dataclass(frozen=True)
class Release:
    """Classes and their released values, ready to be written.

    Parameters
    ----------
    partition : the classes of all records, in the records' order.
    columns : the released quasi-identifiers.
    losses : the losses of the measured quasi-identifiers.
    loss_before_rounding, loss : the loss over all columns, before rounding and as written.
    measure : the loss measure. ``sse``: SSE/SST on z-scores; ``gower``: Gower's distance per cell;
        ``iloss``: iloss per cell, where ``loss_before_rounding`` is computed for the ranges of the
        classes instead of the released labels.
    column_statistics, hierarchies : those of the released records, which recoding uses.
    sums : the sums of the losses before rounding and as released, by column; see ``Loss``.
    public_sums : the sums for the losses that readers may see, one per entry of ``losses``.
    has_classes_per_column : whether each attribute has its own classes.
    suppressed_cells : number of cells released as NULL that have a value in the source, by column.
    weight : the released design weight, if each class has one, its mean; otherwise None.
    """

    partition: Partition
    columns: tuple[ReleasedColumn, ...]
    losses: tuple[ColumnLoss, ...]
    loss_before_rounding: float
    loss: float
    measure: str = "sse"
    column_statistics: ColumnStatistics | None = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    sums: tuple[tuple[tuple[float, float], ...], ...] = ((), ())
    public_sums: tuple[PublicSums, ...] = ()
    has_classes_per_column: bool = False
    suppressed_cells: Mapping[str, int] = field(default_factory=dict)
    weight: ReleasedColumn | None = None

    @property
    def class_values(self) -> tuple[ReleasedColumn, ...]:
        """All columns with one value per class: quasi-identifiers, and a design weight."""
        return self.columns if self.weight is None else (*self.columns, self.weight)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released quasi-identifiers."""
        return tuple(column.attribute.name for column in self.columns)


def number_combinations(microdata: Microdata, release: Release) -> NDArray[np.int32]:
    """Number the combinations of released values of classes, int32 (n_classes,).

    Classes with equal released values get the same number, since readers cannot distinguish them.
    """
    partition, codes_of_columns = release.partition, []
    for column in release.columns:
        for part in column.written_columns:
            _, codes = np.unique(part.values.astype(str), return_inverse=True)
            missing = part.missing  # True where NULL is released
            codes_of_columns.append(
                codes.reshape(-1) if missing is None else np.where(missing, -1, codes)
            )
    if microdata.strata is not None:
        # Stratum columns are released, too. All members of a class are in one stratum.
        codes_of_columns.append(microdata.strata[partition.members[partition.starts]])
    _, combination = np.unique(np.column_stack(codes_of_columns), axis=0, return_inverse=True)
    return combination.reshape(-1).astype(np.int32)
