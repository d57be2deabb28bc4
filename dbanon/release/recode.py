"""Recode classes into a release: the values of each class, and the information loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import ClusteringResult, Partition
from dbanon.data.pieces import choose_column_map
from dbanon.data.scales import Standardization
from dbanon.data.schema import Kind
from dbanon.hierarchy.leaves import ANY, TreeBuilder, leaf_codes, take_records, trees_of
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import Loss, iloss, loss_from_sums, scaled_sums
from dbanon.recoding import (
    GENERALIZED,
    ExactTotals,
    ReleasedColumn,
    find_recoding,
    recode_attributes,
)
from dbanon.release.publication import PublicSums, public_sums


def recode(
    microdata: Microdata,
    clustering: ClusteringResult,
    policy: Policy,
    exact_totals: ExactTotals,
    trees: TreeBuilder | None = None,
) -> Release:
    """Compute the released values of each class, and their information loss.

    Only released records are used. If some records are withheld, ``trees`` builds the hierarchies
    of the others; None keeps those of the policy.

    The classes of a release are rows with equal released values. If attributes are grouped
    separately, these are rows that share their class in every attribute.
    """
    recoding = find_recoding(str(policy.recoding))
    parameters = {name: policy.options[name] for name in recoding.parameters}
    settings = policy.settings
    if not policy.options.get("contract"):
        settings = replace(settings, levels=clustering.levels)

    all_names = {attribute.name for attribute in microdata.attributes}

    def run(
        microdata: Microdata, partition: Partition, exact_totals: ExactTotals
    ) -> tuple[ReleasedColumn, ...]:
        assert measures is not None
        names = {attribute.name for attribute in microdata.attributes}
        run_settings = settings
        if names < all_names:
            # Drop the steps and hierarchies of other columns.
            others = all_names - names
            steps = {n: step for n, step in settings.steps.items() if n not in others}
            remaining_trees = {n: t for n, t in settings.hierarchies.items() if n not in others}
            run_settings = replace(settings, steps=steps, hierarchies=remaining_trees)
        return recoding.run(
            microdata, measures, partition, exact_totals, run_settings, **parameters
        )

    classes, measures = clustering.classes, clustering.measures
    by_rows, _ = classes.row_classes()
    if by_rows.n_suppressed:
        records = np.flatnonzero(by_rows.labels >= 0)
        microdata, classes = take_records(microdata, records), classes.of(records)
        if trees is not None:
            policy = replace(policy, hierarchies=trees(microdata))
        settings = replace(
            settings,
            hierarchies=policy.hierarchies,
            levels=None if settings.levels is None else settings.levels.of(records),
        )
    measures = measures or Measures.of(microdata)
    # Exact totals use the classes of all records read, as stores have them.
    columns = recode_attributes(microdata, classes, run, lambda wide: exact_totals(by_rows, wide))
    released, _ = classes.row_classes()
    before, after = _losses(microdata, measures, released, policy, columns, recoding.measure)
    names = [attribute.name for attribute in microdata.attributes]
    separate_classes = len(classes.classes_by_columns(names)) > 1
    recoded = microdata, measures, released, columns, policy.hierarchies, recoding.measure
    suppressed = suppressed_cells(microdata)
    measured = [
        column for column in columns if recoding.measure != "iloss" or column.losses is not None
    ]
    return Release(
        partition=by_rows,
        columns=tuple(column.spelled() for column in columns),
        losses=tuple(
            ColumnLoss(column.source, float(before.columns[i]), float(after.columns[i]))
            for i, column in enumerate(measured)
        ),
        loss_before_rounding=before.total,
        loss=after.total,
        measure=recoding.measure,
        measures=measures,
        hierarchies=policy.hierarchies,
        sums=(before.sums, after.sums),
        public=public_sums(*recoded, suppressed, separate_classes=separate_classes),
        separate_classes=separate_classes,
        suppressed_cells=suppressed,
    )


def find_lost_columns(
    columns: Sequence[ReleasedColumn], hierarchies: Mapping[str, Hierarchy]
) -> tuple[str, ...]:
    """The quasi-identifiers released as the root of their hierarchy (or ``*``) in every row."""
    lost_columns = []
    for column in columns:
        if column.attribute.sql_type != GENERALIZED or column.losses is None:
            continue
        tree = hierarchies.get(column.source)
        root = ANY if tree is None else tree.labels[0]
        labels = column.values if column.missing is None else column.values[~column.missing]
        # A hierarchy that consists of its root loses nothing.
        if len(labels) and bool((labels == root).all()) and column.losses.any():
            lost_columns.append(column.source)
    return tuple(lost_columns)


def _sse(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """SSE/SST on z-scores before and after rounding."""
    del policy
    valid = microdata.numeric_valid()
    scales = [measures.numbers[attribute.name] for attribute in microdata.numeric]
    n_values = microdata.numbers.size if valid is None else int(valid.sum())
    is_partial = sum(scale.count for scale in scales) != n_values

    def sums(index: int) -> tuple[tuple[float, float], tuple[float, float]]:
        column = columns[index]
        transform = Standardization.of([scales[index]])
        present = None if microdata.valid is None or valid is None else valid[:, index]
        released = _require_values(column.unrounded), column.as_float()
        values = microdata.numbers[:, index]
        return scaled_sums(values, partition, released, transform, present, is_partial=is_partial)

    loss_sums = list(choose_column_map(microdata.numbers)(sums, range(len(scales))))
    before, after = [exact for exact, _ in loss_sums], [rounded for _, rounded in loss_sums]
    return loss_from_sums(before), loss_from_sums(after)


def _iloss(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """iloss per cell on the classes' own ranges, and as released."""
    records = max(int(partition.sizes.sum()), 1)
    own_ranges = class_losses(microdata, measures, partition, policy.hierarchies) / records
    released = np.array([column.losses.sum() for column in columns if column.losses is not None])
    released /= records
    before, after = (
        Loss(
            losses,
            float(losses.mean()),
            tuple((float(x) * records, float(records)) for x in losses),
        )
        for losses in (own_ranges, released)
    )
    return before, after


def _gower(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """Gower's distance per cell, as ``direct_loss`` measures it, before and after rounding."""
    # Imported here because most releases need neither, and imports slow a backend's first call.
    from dbanon.measures.direct_loss import direct_loss
    from dbanon.measures.figure import EvaluationTask
    from dbanon.release.evaluation import pairs_of

    def loss(released: Sequence[ReleasedColumn]) -> Loss:
        pairs = pairs_of(microdata, partition, released, policy.hierarchies, measures)
        figure = direct_loss(EvaluationTask(pairs))
        column_losses = [
            figure.columns.get(attribute.name, 0.0) for attribute in microdata.attributes
        ]
        cells = [_cells(microdata, partition, attribute.name) for attribute in microdata.attributes]
        sums = tuple(
            (column_loss * count, count)
            for column_loss, count in zip(column_losses, cells, strict=True)
        )
        return Loss(np.array(column_losses), float(figure.value or 0.0), sums)

    before = [
        replace(column, attribute=replace(column.attribute, kind=Kind.FLOAT), values=exact)
        if (exact := column.unrounded) is not None
        and column.attribute.kind is not Kind.ORDINAL
        and column.source not in policy.hierarchies
        else column
        for column in columns
    ]
    return loss(before), loss(columns)


def _cells(microdata: Microdata, partition: Partition, name: str) -> float:
    """The number of released records with a value of an attribute."""
    valid, released = microdata.valid_column(name), partition.labels >= 0
    return float(released.sum() if valid is None else (valid & released).sum())


def _losses(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
    measure: str,
) -> tuple[Loss, Loss]:
    """The loss before and after rounding, counting suppressed cells as completely lost."""
    before, after = _LOSSES[measure](microdata, measures, partition, policy, columns)
    counts = suppressed_cells(microdata)
    if not counts:
        return before, after
    suppressed = [counts.get(attribute.name, 0) for attribute in microdata.attributes]
    return _with_suppressed(before, suppressed, measure), _with_suppressed(
        after, suppressed, measure
    )


def _with_suppressed(loss: Loss, counts: Sequence[int], measure: str) -> Loss:
    """Add completely lost cells, ``counts`` by column, to a loss.

    On z-scores a cell replaced by the column mean loses 1 on average, of a total of 1. For iloss,
    NULL cells are already counted as cells that lose nothing.
    """
    sums = []
    for (loss_sum, total), count in zip(loss.sums, counts, strict=True):
        sums.append((loss_sum + count, total if measure == "iloss" else total + count))
    total_loss = loss_from_sums(sums)
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


_LOSSES = {"sse": _sse, "iloss": _iloss, "gower": _gower}


def class_losses(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    hierarchies: Mapping[str, Hierarchy],
) -> NDArray[np.float64]:
    """iloss of each attribute on the classes' own ranges, float64 (d,), summed over records."""
    losses = []
    trees = trees_of(microdata.attributes, hierarchies, measures)
    for attribute, tree in zip(microdata.attributes, trees, strict=True):
        valid = microdata.valid_column(attribute.name)
        if tree is None:
            values = microdata.numbers[:, microdata.numeric.index(attribute)]
            losses.append(iloss(values, measures.numbers[attribute.name], partition, valid))
        else:
            leaves = leaf_codes(microdata, attribute, tree)
            losses.append(iloss(leaves, tree, partition, valid))
    return np.array(losses)


def _require_values(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None
    return values


@dataclass(frozen=True)
class ColumnLoss:
    """Information loss of one column: SSE/SST on z-scores, or iloss per record."""

    name: str
    before_rounding: float
    released: float


@dataclass(frozen=True)
class Release:
    """Classes and their released values, ready to be written.

    Parameters
    ----------
    partition : the classes, in record order.
    columns : the released quasi-identifiers.
    losses : one entry per measured quasi-identifier.
    loss_before_rounding, loss : over all columns; ``loss`` is that of the written values.
    measure : ``sse``: SSE/SST on z-scores; ``gower``: Gower's distance per cell; ``iloss``: iloss
        per cell, ``loss_before_rounding`` being that of the classes' own ranges.
    measures, hierarchies : of the released records, used for recoding.
    sums : of the losses before rounding and as released, as in ``Loss``.
    public : sums for the losses that readers may see, one per entry of ``losses``.
    separate_classes : True if attributes are grouped separately.
    suppressed_cells : released NULL cells that have a value in the source, by column.
    """

    partition: Partition
    columns: tuple[ReleasedColumn, ...]
    losses: tuple[ColumnLoss, ...]
    loss_before_rounding: float
    loss: float
    measure: str = "sse"
    measures: Measures | None = None
    hierarchies: Mapping[str, Hierarchy] = field(default_factory=dict)
    sums: tuple[tuple[tuple[float, float], ...], ...] = ((), ())
    public: tuple[PublicSums, ...] = ()
    separate_classes: bool = False
    suppressed_cells: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released quasi-identifiers."""
        return tuple(column.attribute.name for column in self.columns)


def combinations(microdata: Microdata, release: Release) -> NDArray[np.int32]:
    """Number the combinations of released values of classes, int32 (n_classes,).

    Classes with equal released values get the same number: readers cannot distinguish them.
    """
    partition, parts = release.partition, []
    for column in release.columns:
        for part in column.parts:
            _, codes = np.unique(part.values.astype(str), return_inverse=True)
            missing = part.missing
            parts.append(codes.reshape(-1) if missing is None else np.where(missing, -1, codes))
    if microdata.strata is not None:
        parts.append(microdata.strata[partition.members[partition.starts]])
    _, combination = np.unique(np.column_stack(parts), axis=0, return_inverse=True)
    return combination.reshape(-1).astype(np.int32)
