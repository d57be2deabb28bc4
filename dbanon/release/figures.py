"""Compute the figures (results of measures) that readers of a release may see.

Measures of original values are computed with modified originals, whose distance to the released
value is limited by ``publication.limit_deviations``, and with scales of the released rows. Shares
of records are rounded to steps of at least the share of the largest class. Figures that follow from
the release alone stay exact. docs/guarantees.md justifies this for each measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

import numpy as np

from dbanon.measures.attributes import ColumnPair, Numbers
from dbanon.measures.catalogue import MEASURES
from dbanon.measures.figure import (
    NOT_FOR_LABELS,
    EvaluationTask,
    Figure,
    Parameters,
    Tick,
    ignore_progress,
)
from dbanon.measures.pairs import Pairs
from dbanon.release.evaluation import cover_hidden_values
from dbanon.release.publication import (
    PublicSums,
    as_numbers,
    choose_rounding_step,
    classes_in_column,
    compute_public_sums,
    compute_published_loss,
    largest_class_size,
    limit_deviations,
    public_scale,
    round_to_steps,
    sum_public_distances,
)

WITHHELD = "not published: it may describe single records"

# Measures of loss that are computed from original values, except those of ``_publish_loss``.
_VALUE_LOSSES = (
    "distance_loss",
    "deviation_loss",
    "moment_loss",
    "structure_loss",
    "covariance_loss",
    "correlation_loss",
)
# Measures that are shares of records, and depend on original values.
_LINKAGE_RISKS = ("linkage_risk", "nearest_linkage_risk", "interval_risk")
# Measures that are computed from published values of other measures.
_COMPOSED_FIGURES = ("statistics_loss", "overall_loss", "disclosure_risk", "score")
# The part of ``structure_loss`` that is not rounded: a count of pairs of columns.
_COUNT_PART = "pairs near 0"


@dataclass(frozen=True)
class _SmallestLosses:
    """The smallest losses to publish, as means over all number columns.

    Parameters
    ----------
    sse_share : the smallest SSE/SST: the loss of a column in which only one class, the largest,
        loses anything, and all its deviations are at the limit.
    deviation_loss : the smallest ``deviation_loss``, with the same deviations.
    """

    sse_share: float
    deviation_loss: float


def publish_figures(
    pairs: Pairs,
    exact_figures: Mapping[str, Figure],
    parameters: Parameters,
    losses: tuple[str, Mapping[str, float], float],
    *,
    has_classes_per_column: bool = False,
    tick: Tick = ignore_progress,
) -> dict[str, Figure]:
    """Convert exact figures to those that readers may see.

    Parameters
    ----------
    pairs : the originals and the released values of all columns, with the classes.
    exact_figures : the exact figures by measure.
    parameters : the parameters of the measures.
    losses : the published loss of the report: name of the loss measure, loss by column, total.
    has_classes_per_column : whether each column has its own classes.
    tick : called with the share of the work that is done.
    """
    figures: dict[str, Figure] = {}
    largest = largest_class_size(pairs, has_classes_per_column)
    step = choose_rounding_step(largest, pairs.n)
    pairs_within_limits, smallest_losses = limit_pairs(pairs, has_classes_per_column)
    has_numbers = any(as_numbers(column) is not None for column in pairs.columns)
    for measure in MEASURES.values():
        name = measure.name
        if name not in exact_figures:
            continue
        figure = exact_figures[name]
        share_done = len(figures) / len(exact_figures)
        task = EvaluationTask(
            pairs_within_limits,
            parameters,
            figures=figures,
            tick=partial(_report_progress_of_part, tick, share_done, len(exact_figures)),
        )
        # Risks of released numbers depend on originals: compute them with the limited ones.
        if name in _LINKAGE_RISKS and has_numbers and figure.value is not None:
            figure = measure.run(task)
        if name in _COMPOSED_FIGURES:
            # Computed from the published figures so far, so nothing is left to limit or round.
            figures[name] = measure.run(replace(task, pairs=pairs))
        elif (figure.value is None and not figure.columns) or name == "class_risk":
            # A missing value has no value to hide, and class sizes follow from the release.
            figures[name] = figure
        elif name in ("sse_loss", "direct_loss", "label_loss"):
            figures[name] = _publish_loss(name, pairs, figure, losses, step, has_classes_per_column)
        elif name in _VALUE_LOSSES:
            figures[name] = _round_value_loss(
                measure.run(task), step, name, smallest_losses, len(pairs.numeric_columns)
            )
        elif name == "linkage_risk":
            figures[name] = _publish_linkage(figure, pairs, step, exact_figures)
        elif figure.note.startswith(NOT_FOR_LABELS):
            # Such figures are 0 or 1 by definition, so they reveal nothing.
            figures[name] = figure
        elif name in ("entropy_change", "entropy_loss"):
            # These count the records of categories, so round them to twice a class's share: see
            # docs/guarantees.md.
            double_step = choose_rounding_step(2 * largest, pairs.n)
            if name == "entropy_change":
                # This measure is in percent.
                figures[name] = _round_figure(figure, 100 * double_step)
            else:
                figures[name] = _round_figure(figure, double_step, most=1.0)
        elif name in _LINKAGE_RISKS:
            figures[name] = _round_figure(figure, step, most=1.0)
        else:
            # Withhold new measures until they are added to one of the groups above.
            figures[name] = Figure(value=None, note=WITHHELD)
    return figures


def _report_progress_of_part(
    tick: Tick, share_done: float, n_parts: int, share_of_part: float
) -> None:
    """Report progress within one of ``n_parts`` equal parts of the work.

    Parameters
    ----------
    share_done : the share of the work that earlier parts have done.
    share_of_part : the share of this part that is done.
    """
    tick(share_done + share_of_part / n_parts)


def limit_pairs(
    pairs: Pairs, has_classes_per_column: bool = False
) -> tuple[Pairs, _SmallestLosses]:
    """Limit the deviations of originals from their released values.

    Returns pairs with modified originals and scales, and the smallest losses to publish.
    """
    columns: list[ColumnPair] = []
    sse_shares, deviation_losses = [], []
    largest = largest_class_size(pairs, has_classes_per_column)
    for original_column in pairs.columns:
        column = as_numbers(original_column)
        if column is None:
            columns.append(original_column)
            continue
        has_value = pairs.valid_cells([column])
        is_present = np.ones(pairs.n, bool) if has_value is None else has_value[:, 0]
        released_rows = column.released[pairs.labels]
        # Where a value is NULL, the result is arbitrary: keep the released one.
        original, exponent = np.array(released_rows, np.float64), column.scale.exponent
        # Scale by a power of two, so that squares of huge values do not overflow.
        scaled_rows = np.ldexp(released_rows[is_present], -exponent)
        labels, _ = classes_in_column(scaled_rows, pairs.labels[is_present], has_classes_per_column)
        differences = np.ldexp(column.original[is_present], -exponent) - scaled_rows
        spread = float(scaled_rows.std()) if len(scaled_rows) else 0.0
        limited = limit_deviations(differences, spread, labels, largest)
        original[is_present] = np.ldexp(scaled_rows + limited.deviations, exponent)
        scale = public_scale(original[is_present], released_rows[is_present])
        ranks = None
        if column.is_ordinal and is_present.any():
            # Readers do not know which ranks occur in the source: assume all between the released.
            ranks = np.arange(released_rows[is_present].min(), released_rows[is_present].max() + 1)
        suppressed_classes = original_column.suppressed
        if suppressed_classes is not None:
            # Clip originals of suppressed cells to the range of other cells, which readers know.
            is_suppressed = suppressed_classes[pairs.labels]
            clipped = np.clip(column.original[is_suppressed], scale.least, scale.most)
            original[is_suppressed] = clipped
        limited_column = replace(column, original=original, scale=scale, ranks=ranks)
        if suppressed_classes is not None:
            columns.append(cover_hidden_values(limited_column, suppressed_classes))
            continue
        columns.append(limited_column)
        if not column.is_ordinal and is_present.any():
            # In the unit of the scaled rows, as ``limited`` is.
            deviation = float(np.ldexp(scale.deviation, scale.exponent - exponent))
            released_squares = float(np.square(scaled_rows - scaled_rows.mean()).sum())
            sse_shares.append(
                limited.min_squares / (released_squares + limited.min_squares)
                if released_squares > 0
                else 0.0
            )
            # The sum of standardized deviations of one class that is at the limit.
            class_deviations = largest * limited.limit / deviation if deviation > 0 else 0.0
            # deviation_loss is in units of sqrt(2) standard deviations.
            deviation_losses.append(class_deviations / (int(is_present.sum()) * np.sqrt(2.0)))
    smallest_losses = _SmallestLosses(
        sse_share=float(np.mean(sse_shares)) if sse_shares else 0.0,
        deviation_loss=float(np.mean(deviation_losses)) if deviation_losses else 0.0,
    )
    return replace(pairs, columns=tuple(columns)), smallest_losses


def _round_value_loss(
    figure: Figure, step: float, name: str, smallest_losses: _SmallestLosses, n_columns: int
) -> Figure:
    """Round a loss of ``_VALUE_LOSSES``, named ``name``; it is at least the smallest to publish."""
    # The mean change of covariances is over n (n + 1) / 2 pairs of columns i <= j. The smallest
    # change is that of the n pairs i = j, the variances, which lose the smallest SSE/SST.
    covariance_change = smallest_losses.sse_share * 2 / (n_columns + 1)
    least = {
        "distance_loss": step,
        "deviation_loss": smallest_losses.deviation_loss,
        # The mean of two changes: of means (at least 0), and of variances.
        "moment_loss": smallest_losses.sse_share / 2,
        # The mean of the changes of covariances and of correlations (at least 0). With one column
        # there are no correlations.
        "structure_loss": covariance_change if n_columns == 1 else covariance_change / 2,
        "covariance_loss": covariance_change,
    }.get(name, 0.0)
    # Of moment_loss, the change of variances; of structure_loss, the change of covariances.
    least_parts = {"variances": smallest_losses.sse_share, "A": covariance_change}
    return _round_figure(figure, step, least, least_parts=least_parts)


def _publish_loss(
    name: str,
    pairs: Pairs,
    figure: Figure,
    losses: tuple[str, Mapping[str, float], float],
    step: float,
    has_classes_per_column: bool,
) -> Figure:
    """Convert ``sse_loss``, ``direct_loss`` or ``label_loss`` to its published form.

    If the report's loss is the same measure, take the published values from ``losses``.

    Parameters
    ----------
    losses : the published loss of the report, as in ``publish_figures``.
    step : the step to which losses of labels are rounded.
    """
    measure, columns, total = losses
    if {"sse": "sse_loss", "gower": "direct_loss", "iloss": "label_loss"}[measure] == name:
        column_losses = {column: columns[column] for column in figure.columns}
        loss = replace(figure, value=total, columns=column_losses)
    elif figure.note.startswith(NOT_FOR_LABELS):
        return figure
    elif name == "label_loss":
        return _round_figure(figure, step, most=1.0)
    elif name == "sse_loss":
        squares = [
            _sum_squares(pairs, column, has_classes_per_column) for column in pairs.ordered_columns
        ]
        loss = _loss_from_sums(figure, pairs.ordered_columns, squares, "sse")
    else:
        loss = _loss_from_sums(
            figure, pairs.columns, sum_public_distances(pairs, has_classes_per_column), "gower"
        )
    if name == "direct_loss":
        has_value = pairs.valid_cells(pairs.columns)
        n_cells = pairs.n * len(pairs.columns) if has_value is None else int(has_value.sum())
        # direct_loss is the mean over all cells; its part ``zil`` is the sum.
        loss = replace(loss, parts={"zil": float(loss.value or 0.0) * n_cells})
    return loss


def _sum_squares(pairs: Pairs, column: Numbers, has_classes_per_column: bool) -> PublicSums:
    """Compute the public sums of squared deviations in a number column."""
    has_value = pairs.valid_cells([column])
    is_present = None if has_value is None else has_value[:, 0]
    return compute_public_sums(
        column.original,
        column.released,
        # Scale by a power of two, so that squares of huge values do not overflow.
        -column.scale.exponent,
        pairs.partition,
        is_present,
        squared=True,
        has_classes_per_column=has_classes_per_column,
    )


def _loss_from_sums(
    figure: Figure, columns: Sequence[ColumnPair], sums: Sequence[PublicSums], measure: str
) -> Figure:
    """Replace a figure's values by the published losses computed from its columns' public sums."""
    loss = compute_published_loss(sums, measure)
    column_losses = {
        column.name: value
        for column, value in zip(columns, loss.columns.tolist(), strict=True)
        if column.name in figure.columns
    }
    return replace(figure, value=loss.total, columns=column_losses)


def _publish_linkage(
    figure: Figure, pairs: Pairs, step: float, exact_figures: Mapping[str, Figure]
) -> Figure:
    """Round a linkage risk to steps of one record, and its parts to ``step``.

    At most one guess per class is right, so a class changes the risk by at most one record. The
    parts are rounded as other shares of records.
    """
    # The risk cannot exceed 1 divided by the size of the smallest class: so cap it there.
    most = exact_figures["class_risk"].value if "class_risk" in exact_figures else 1.0
    linkage = _round_figure(figure, choose_rounding_step(largest=1, n=pairs.n), most=most)
    return replace(linkage, parts=_round_figure(figure, step, most=1.0).parts)


def _round_figure(
    figure: Figure,
    step: float,
    least: float = 0.0,
    most: float | None = None,
    least_parts: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Round the values of a figure to steps, between ``least`` and ``most``.

    Parameters
    ----------
    least_parts : the smallest values of parts, by name; 0 for others.
    """

    def round_value(value: float, least_value: float) -> float:
        rounded = round_to_steps(value, step, least_value)
        return rounded if most is None else min(rounded, most)

    return replace(
        figure,
        value=None if figure.value is None else round_value(figure.value, least),
        columns={name: round_value(value, least) for name, value in figure.columns.items()},
        parts={
            name: value if name == _COUNT_PART else round_value(value, least_parts.get(name, 0.0))
            for name, value in figure.parts.items()
        },
    )
