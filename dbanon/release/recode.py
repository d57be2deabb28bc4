"""From classes to a release: the values of each class, and what they lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.data.frozen import dataclass
from dbanon.data.measures import Measures
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Found, Partition
from dbanon.data.pieces import by_column
from dbanon.data.scales import Standardization
from dbanon.data.schema import Kind
from dbanon.hierarchy.leaves import ANY, Trees, leaf_codes, take_records, trees_of
from dbanon.hierarchy.tree import Hierarchy
from dbanon.job.policy import Policy
from dbanon.measures import Loss, iloss, loss_of, scaled_sums
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
    found: Found,
    policy: Policy,
    exact_totals: ExactTotals,
    trees: Trees | None = None,
) -> Release:
    """Give every class its released values, and measure what they lose.

    Both look at released records only, as if there were no others: ``trees`` makes the hierarchies
    of these where some are withheld; None for those of the policy.

    The classes of a release are rows that are released alike: where attributes are grouped by
    themselves, those that share their class in each.
    """
    recoding = find_recoding(str(policy.recoding))
    parameters = {name: policy.options[name] for name in recoding.parameters}
    settings = policy.settings
    if not policy.options.get("contract"):
        settings = replace(settings, levels=found.levels)

    all_names = {attribute.name for attribute in microdata.attributes}

    def run(
        microdata: Microdata, partition: Partition, exact_totals: ExactTotals
    ) -> tuple[ReleasedColumn, ...]:
        assert measures is not None
        names = {attribute.name for attribute in microdata.attributes}
        own = settings
        if names < all_names:
            # A step or a hierarchy of another column names none of these.
            others = all_names - names
            steps = {n: step for n, step in settings.steps.items() if n not in others}
            trees_here = {n: t for n, t in settings.hierarchies.items() if n not in others}
            own = replace(settings, steps=steps, hierarchies=trees_here)
        return recoding.run(microdata, measures, partition, exact_totals, own, **parameters)

    classes, measures = found.classes, found.measures
    rows, _ = classes.rows()
    if rows.n_suppressed:
        records = np.flatnonzero(rows.labels >= 0)
        microdata, classes = take_records(microdata, records), classes.of(records)
        if trees is not None:
            policy = replace(policy, hierarchies=trees(microdata))
        settings = replace(
            settings,
            hierarchies=policy.hierarchies,
            levels=None if settings.levels is None else settings.levels.of(records),
        )
    measures = measures or Measures.of(microdata)
    # Stores have the classes of all records that were read.
    columns = recode_attributes(microdata, classes, run, lambda wide: exact_totals(rows, wide))
    released, _ = classes.rows()
    before, after = _losses(microdata, measures, released, policy, columns, recoding.measure)
    each_apart = len(classes.by_columns([one.name for one in microdata.attributes])) > 1
    made_of = microdata, measures, released, columns, policy.hierarchies, recoding.measure
    suppressed = suppressed_cells(microdata)
    measured = [
        column for column in columns if recoding.measure != "iloss" or column.losses is not None
    ]
    return Release(
        partition=rows,
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
        public=public_sums(*made_of, suppressed, each_apart=each_apart),
        each_apart=each_apart,
        suppressed_cells=suppressed,
    )


def lost_completely(
    columns: Sequence[ReleasedColumn], hierarchies: Mapping[str, Hierarchy]
) -> tuple[str, ...]:
    """The quasi-identifiers of which every row has the root of its hierarchy, ``*`` without one."""
    found = []
    for column in columns:
        if column.attribute.sql_type != GENERALIZED or column.losses is None:
            continue
        tree = hierarchies.get(column.source)
        root = ANY if tree is None else tree.labels[0]
        told = column.values if column.missing is None else column.values[~column.missing]
        # A tree may be a root alone, which then loses nothing.
        if len(told) and bool((told == root).all()) and column.losses.any():
            found.append(column.source)
    return tuple(found)


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
    part = sum(scale.count for scale in scales) != n_values

    def sums(place: int) -> tuple[tuple[float, float], tuple[float, float]]:
        column = columns[place]
        transform = Standardization.of([scales[place]])
        kept = None if microdata.valid is None or valid is None else valid[:, place]
        released = _filled(column.unrounded), column.as_float()
        values = microdata.numbers[:, place]
        return scaled_sums(values, partition, released, transform, kept, part=part)

    found = list(by_column(microdata.numbers)(sums, range(len(scales))))
    before, after = [own for own, _ in found], [told for _, told in found]
    return loss_of(before), loss_of(after)


def _iloss(
    microdata: Microdata,
    measures: Measures,
    partition: Partition,
    policy: Policy,
    columns: tuple[ReleasedColumn, ...],
) -> tuple[Loss, Loss]:
    """iloss per cell on the classes' own ranges, and as released."""
    records = max(int(partition.sizes.sum()), 1)
    own = class_losses(microdata, measures, partition, policy.hierarchies) / records
    released = np.array([column.losses.sum() for column in columns if column.losses is not None])
    released /= records
    before, after = (
        Loss(lost, float(lost.mean()), tuple((float(x) * records, float(records)) for x in lost))
        for lost in (own, released)
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
    # Most releases need neither: a backend's first call would take a tenth longer.
    from dbanon.measures.direct_loss import direct_loss
    from dbanon.measures.figure import EvaluationTask
    from dbanon.release.evaluation import pairs_of

    def loss(released: Sequence[ReleasedColumn]) -> Loss:
        pairs = pairs_of(microdata, partition, released, policy.hierarchies, measures)
        figure = direct_loss(EvaluationTask(pairs))
        own = [figure.columns.get(attribute.name, 0.0) for attribute in microdata.attributes]
        cells = [_cells(microdata, partition, attribute.name) for attribute in microdata.attributes]
        sums = tuple((lost * count, count) for lost, count in zip(own, cells, strict=True))
        return Loss(np.array(own), float(figure.value or 0.0), sums)

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
    """The released records that have a value of an attribute."""
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
    """The loss before and after rounding, in which suppressed cells are lost as a whole."""
    before, after = _LOSSES[measure](microdata, measures, partition, policy, columns)
    counts = suppressed_cells(microdata)
    if not counts:
        return before, after
    own = [counts.get(attribute.name, 0) for attribute in microdata.attributes]
    return _with_suppressed(before, own, measure), _with_suppressed(after, own, measure)


def _with_suppressed(loss: Loss, counts: Sequence[int], measure: str) -> Loss:
    """A loss in which so many more cells of each column are lost as a whole.

    As a cell that the column's mean stands for: on z-scores such cells lose 1 on average, of a sum
    of 1. Of iloss per cell NULLs count as cells that lose nothing.
    """
    sums = []
    for (lost, most), count in zip(loss.sums, counts, strict=True):
        sums.append((lost + count, most if measure == "iloss" else most + count))
    found = loss_of(sums)
    return found if measure != "iloss" else replace(found, total=float(found.columns.mean()))


def suppressed_cells(microdata: Microdata) -> dict[str, int]:
    """How many cells have a value in the source and are NULL here, of columns that have such."""
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


def _filled(values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    assert values is not None
    return values


@dataclass(frozen=True)
class ColumnLoss:
    """Information lost in one column: SSE/SST on z-scores, or iloss per record. See ``Lost``."""

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
    losses : one entry a numeric quasi-identifier.
    loss_before_rounding, loss : over all columns; ``loss`` is of the values that are written.
    measure : ``sse``: SSE/SST on z-scores; ``gower``: Gower's distance per cell; ``iloss``: iloss
        per cell, ``loss_before_rounding`` being that of the classes' own ranges.
    measures, hierarchies : of the released records, as they were recoded with.
    sums : of the losses before rounding and as released, as in ``Loss``.
    public : what the losses that readers may see are made of, one each entry of ``losses``.
    each_apart : True where each attribute is grouped by itself.
    suppressed_cells : by column, the released cells that are NULL and have a value in the source,
        where there are any.
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
    each_apart: bool = False
    suppressed_cells: Mapping[str, int] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the released quasi-identifiers."""
        return tuple(column.attribute.name for column in self.columns)


def combinations(microdata: Microdata, release: Release) -> NDArray[np.int32]:
    """The combination of released values of each class, int32 (n_classes,).

    Classes that are released alike are one: readers cannot tell them apart.
    """
    partition, parts = release.partition, []
    for column in release.columns:
        for part in column.parts:
            _, codes = np.unique(part.values.astype(str), return_inverse=True)
            missing = part.missing
            parts.append(codes.reshape(-1) if missing is None else np.where(missing, -1, codes))
    if microdata.strata is not None:
        parts.append(microdata.strata[partition.members[partition.starts]])
    _, alike = np.unique(np.column_stack(parts), axis=0, return_inverse=True)
    return alike.reshape(-1).astype(np.int32)
