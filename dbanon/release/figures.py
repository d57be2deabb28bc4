"""Publish the figures of an evaluation that readers of a release may see.

Measures of values are computed with modified originals, whose distance to the released value is
bounded by ``publication.limit_deviations``, and with scales of the released rows. Shares of records
are rounded to a step of at least one class's share. Figures that follow from the release alone stay
exact. docs/guarantees.md has the argument for each measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

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
from dbanon.release.evaluation import covering
from dbanon.release.publication import (
    PublicSums,
    classes_of,
    distance_sums,
    largest_of,
    limit_deviations,
    numbers_of,
    public_scale,
    published_loss,
    rounded,
    step_of,
    sums_of,
)

WITHHELD = "not published: it describes the lowest class, and so single records"

# Measures of original values.
_OF_VALUES = (
    "distance_loss",
    "deviation_loss",
    "moment_loss",
    "structure_loss",
    "covariance_loss",
    "correlation_loss",
)
# Shares of records that depend on original values.
_OF_LINKS = ("linkage_risk", "nearest_linkage_risk", "interval_risk")
# Composed of other figures, so computed from the published ones.
_COMPOSED = ("statistics_loss", "overall_loss", "disclosure_risk", "score")
# This part is a count, so it is not rounded.
_COUNT = "pairs near 0"


@dataclass(frozen=True)
class _Limits:
    """Minimum published losses over all number columns."""

    squares: float
    deviations: float


def published_figures(
    pairs: Pairs,
    exact: Mapping[str, Figure],
    parameters: Parameters,
    losses: tuple[str, Mapping[str, float], float],
    *,
    separate_classes: bool = False,
    tick: Tick = ignore_progress,
) -> dict[str, Figure]:
    """Convert exact figures to the ones that readers may see.

    Parameters
    ----------
    losses : the published loss of the report: measure, by column, and over all columns.
    separate_classes : True if each column has its own classes.
    """
    figures: dict[str, Figure] = {}
    largest = largest_of(pairs, separate_classes)
    step = step_of(largest, pairs.n)
    limited, limits = limited_pairs(pairs, separate_classes)
    has_numbers = any(numbers_of(column) is not None for column in pairs.columns)
    for measure in MEASURES.values():
        name = measure.name
        if name not in exact:
            continue
        figure = exact[name]
        done = len(figures) / len(exact)
        task = EvaluationTask(
            limited,
            parameters,
            figures=figures,
            tick=partial(_tick_part, tick, done, len(exact)),
        )
        if name in _OF_LINKS and has_numbers and figure.value is not None:
            figure = measure.run(task)
        if name in _COMPOSED:
            figures[name] = measure.run(replace(task, pairs=pairs))
        elif (figure.value is None and not figure.columns) or name == "class_risk":
            figures[name] = figure
        elif name in ("sse_loss", "direct_loss", "label_loss"):
            figures[name] = _loss(name, pairs, figure, losses, step, separate_classes)
        elif name in _OF_VALUES:
            figures[name] = _round_value_loss(
                measure.run(task), step, name, limits, len(pairs.numeric_columns)
            )
        elif name == "linkage_risk":
            figures[name] = _linkage(figure, pairs, step, exact)
        elif figure.note.startswith(NOT_FOR_LABELS):
            figures[name] = figure
        elif name in ("entropy_change", "entropy_loss"):
            double_step = step_of(2 * largest, pairs.n)
            full = 100 if name == "entropy_change" else 1
            figures[name] = _rounded(figure, full * double_step, most=None if full > 1 else 1.0)
        elif name in _OF_LINKS:
            figures[name] = _rounded(figure, step, most=1.0)
        else:
            # Withhold new measures until they are added to one of the groups above.
            figures[name] = Figure(None, note=WITHHELD)
    return figures


def _tick_part(tick: Tick, done: float, parts: int, share: float) -> None:
    tick(done + share / parts)


def limited_pairs(pairs: Pairs, separate_classes: bool = False) -> tuple[Pairs, _Limits]:
    """Limit the deviations of originals in pairs; also return the minimum published losses."""
    columns: list[ColumnPair] = []
    squares, deviations = [], []
    largest = largest_of(pairs, separate_classes)
    for original_column in pairs.columns:
        column = numbers_of(original_column)
        if column is None:
            columns.append(original_column)
            continue
        cells = pairs.cells([column])
        present = np.ones(pairs.n, bool) if cells is None else cells[:, 0]
        rows = column.released[pairs.labels]
        original, power = np.array(rows, np.float64), column.scale.exponent
        scaled = np.ldexp(rows[present], -power)
        labels, _ = classes_of(scaled, pairs.labels[present], separate_classes)
        limits = limit_deviations(
            np.ldexp(column.original[present], -power), scaled, labels, largest
        )
        original[present] = np.ldexp(scaled + limits.gaps, power)
        scale = public_scale(original[present], rows[present])
        ranks = None
        if column.ordinal and present.any():
            ranks = np.arange(rows[present].min(), rows[present].max() + 1)
        suppressed = original_column.suppressed
        if suppressed is not None:
            # Clip suppressed cells to the range of the others, which readers know.
            hidden = suppressed[pairs.labels]
            clipped = np.clip(column.original[hidden], scale.least, scale.most)
            original[hidden] = clipped
        limited_column = replace(column, original=original, scale=scale, ranks=ranks)
        if suppressed is not None:
            columns.append(covering(limited_column, suppressed))
            continue
        columns.append(limited_column)
        if not column.ordinal and present.any():
            deviation = float(np.ldexp(scale.deviation, scale.exponent - power))
            between = float(np.square(scaled - scaled.mean()).sum())
            squares.append(limits.least / (between + limits.least) if between > 0 else 0.0)
            farthest = largest * limits.limit / deviation if deviation > 0 else 0.0
            deviations.append(farthest / (int(present.sum()) * np.sqrt(2.0)))
    least = _Limits(
        float(np.mean(squares)) if squares else 0.0,
        float(np.mean(deviations)) if deviations else 0.0,
    )
    return replace(pairs, columns=tuple(columns)), least


def _round_value_loss(
    figure: Figure, step: float, name: str, limits: _Limits, columns: int
) -> Figure:
    # The pairs i <= j include each column's covariance with itself.
    per_pair = limits.squares * 2 / (columns + 1)
    least = {
        "distance_loss": step,
        "deviation_loss": limits.deviations,
        "moment_loss": limits.squares / 2,
        "structure_loss": per_pair if columns == 1 else per_pair / 2,
        "covariance_loss": per_pair,
    }.get(name, 0.0)
    return _rounded(figure, step, least, parts={"variances": limits.squares, "A": per_pair})


def _loss(
    name: str,
    pairs: Pairs,
    figure: Figure,
    losses: tuple[str, Mapping[str, float], float],
    step: float,
    separate_classes: bool,
) -> Figure:
    measure, columns, total = losses
    if {"sse": "sse_loss", "gower": "direct_loss", "iloss": "label_loss"}[measure] == name:
        column_losses = {column: columns[column] for column in figure.columns}
        loss = replace(figure, value=total, columns=column_losses)
    elif figure.note.startswith(NOT_FOR_LABELS):
        return figure
    elif name == "label_loss":
        return _rounded(figure, step, most=1.0)
    elif name == "sse_loss":
        squares = [_squares(pairs, column, separate_classes) for column in pairs.ordered_columns]
        loss = _of_sums(figure, pairs.ordered_columns, squares, "sse")
    else:
        loss = _of_sums(figure, pairs.columns, distance_sums(pairs, separate_classes), "gower")
    if name == "direct_loss":
        cells = pairs.cells(pairs.columns)
        n_cells = pairs.n * len(pairs.columns) if cells is None else int(cells.sum())
        loss = replace(loss, parts={"zil": float(loss.value or 0.0) * n_cells})
    return loss


def _squares(pairs: Pairs, column: Numbers, separate_classes: bool) -> PublicSums:
    cells = pairs.cells([column])
    down = -column.scale.exponent
    values = np.ldexp(column.original, down), np.ldexp(column.released, down)
    present = None if cells is None else cells[:, 0]
    return sums_of(
        *values, pairs.partition, present, squared=True, separate_classes=separate_classes
    )


def _of_sums(
    figure: Figure, columns: Sequence[ColumnPair], sums: Sequence[PublicSums], measure: str
) -> Figure:
    loss = published_loss(sums, measure)
    column_losses = {
        column.name: value
        for column, value in zip(columns, loss.columns.tolist(), strict=True)
        if column.name in figure.columns
    }
    return replace(figure, value=loss.total, columns=column_losses)


def _linkage(figure: Figure, pairs: Pairs, step: float, exact: Mapping[str, Figure]) -> Figure:
    """Round a linkage risk to one record: at most one guess per class is right."""
    most = exact["class_risk"].value if "class_risk" in exact else 1.0
    linkage = _rounded(figure, step_of(1, pairs.n), most=most)
    return replace(linkage, parts=_rounded(figure, step, most=1.0).parts)


def _rounded(
    figure: Figure,
    step: float,
    least: float = 0.0,
    most: float | None = None,
    parts: Mapping[str, float] | None = None,
) -> Figure:
    floors = parts or {}

    def round_value(value: float, floor: float) -> float:
        value_in_steps = rounded(value, step, floor)
        return value_in_steps if most is None else min(value_in_steps, most)

    return replace(
        figure,
        value=None if figure.value is None else round_value(figure.value, least),
        columns={name: round_value(value, least) for name, value in figure.columns.items()},
        parts={
            name: value if name == _COUNT else round_value(value, floors.get(name, 0.0))
            for name, value in figure.parts.items()
        },
    )
