"""interval_risk, ID: records whose originals lie in a rank interval around the released values.

Let f(r) be the released value of rank r among n values of an attribute. A record counts for p
percent if in **all** attributes its original lies from f(r - h) to f(r + h). Here h = int(p/100
n/2), and ranks are clipped to 1 and n. The interval of tied values reaches from their lowest rank
minus h to their highest rank plus h. (The source numbers ties by row order, which releases
randomize.) ID is the mean over p = 1 to 10. ``columns`` has the figures of single attributes, as in
J. Domingo-Ferrer and V. Torra, "Disclosure control methods and information loss for microdata",
2001.

Records without any value are left out. A low figure does not imply safety: with many columns it is
always close to 0.

Source: Chen and Han 2010, definition 5 and eq. (19).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Flags, Numbers
from dbanon.measures.figure import (
    NO_NUMBERS,
    NO_ROWS,
    NOT_ALL_NUMBERS,
    EvaluationTask,
    Figure,
    Measure,
)
from dbanon.measures.pairs import Pairs


def interval_risk(task: EvaluationTask) -> Figure:
    """Compute the figure over released records and by column, and the share for each percentage."""
    pairs, percents = task.pairs, task.parameters.interval_percents
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    # p/100 n/2, rounded down.
    half_widths = [int(percent * pairs.n / 200) for percent in percents]
    is_inside_all = np.ones((len(half_widths), pairs.n), bool)
    has_values = np.zeros(pairs.n, bool)
    columns = {}
    for index, column in enumerate(pairs.numeric_columns):
        is_valid = pairs.valid_cells_of(column)
        n_valid = pairs.n if is_valid is None else int(is_valid.sum())
        shares = []
        for i, is_inside in enumerate(_is_inside(pairs, column, is_valid, half_widths)):
            n_inside = int((is_inside if is_valid is None else is_inside & is_valid).sum())
            shares.append(n_inside / max(n_valid, 1))
            is_inside_all[i] &= is_inside if is_valid is None else is_inside | ~is_valid
        if n_valid:
            columns[column.name] = float(np.mean(shares))
        has_values |= True if is_valid is None else is_valid
        task.tick((index + 1) / len(pairs.numeric_columns))
    if not pairs.is_all_numeric:
        return Figure(None, columns, note=NOT_ALL_NUMBERS)
    if not has_values.any():
        return Figure(None, note=NO_ROWS)
    n_counted = int(has_values.sum())
    risks = [int((is_inside & has_values).sum()) / n_counted for is_inside in is_inside_all]
    parts = {f"{percent:g} %": risk for percent, risk in zip(percents, risks, strict=True)}
    return Figure(float(np.mean(risks)), columns, parts)


def _is_inside(
    pairs: Pairs, column: Numbers, is_valid: Flags | None, half_widths: list[int]
) -> Iterator[NDArray[np.bool_]]:
    """Yield bool (n,) for each half width in ranks: True if the original is in its interval.

    The result is arbitrary for NULL.

    Parameters
    ----------
    is_valid : bool (n,), False for NULL before or after release; None if there are no NULLs.
    half_widths : half the width of an interval, in ranks.
    """
    labels = pairs.labels
    counts = np.bincount(
        labels if is_valid is None else labels[is_valid], minlength=pairs.n_classes
    )
    classes = np.flatnonzero(counts)
    order = classes[np.argsort(column.released[classes], kind="stable")]
    values = column.released[order]
    value_of_rank = np.repeat(values, counts[order])
    end_ranks = np.cumsum(counts[order])
    # A tie spans the ranks of all its rows.
    lowest_ranks = (end_ranks - counts[order])[np.searchsorted(values, values, "left")]
    highest_ranks = end_ranks[np.searchsorted(values, values, "right") - 1] - 1
    low, high = np.zeros(pairs.n_classes), np.zeros(pairs.n_classes)
    for h in half_widths:
        if len(value_of_rank):
            low[order] = value_of_rank[np.maximum(lowest_ranks - h, 0)]
            high[order] = value_of_rank[np.minimum(highest_ranks + h, len(value_of_rank) - 1)]
        yield (low.take(labels) <= column.original) & (column.original <= high.take(labels))


MEASURE = Measure(
    name="interval_risk",
    symbol="ID",
    run=interval_risk,
    summary="Share of records whose originals have nearly the ranks of the released values",
    range="0 to 1",
    cost="n p log(n/k)",
)
