"""interval_risk, ID: records whose originals lie in a rank interval around the released values.

Let f(r) be the released value of rank r among n values of an attribute. A record counts for p
percent if in **all** attributes its original lies from f(r - h) to f(r + h), where h =
int(p/100 n/2) and ranks are clipped. Ties are treated as one block, from the lowest rank minus h to
the highest plus h. (The source numbers ties by row order, which releases randomize.) ID is the mean
over p = 1 to 10; ``columns`` has the share of an attribute's cells, as in J. Domingo-Ferrer and V.
Torra, "Disclosure control methods and information loss for microdata", 2001.

Records without any value are left out. A low figure does not imply safety: with many columns it is
close to 0 anyway.

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
    """The figure over released records and by column, and the share for each percentage."""
    pairs, percents = task.pairs, task.parameters.interval_percents
    if not pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    reach = [int(percent * pairs.n / 200) for percent in percents]
    inside = np.ones((len(reach), pairs.n), bool)
    counted = np.zeros(pairs.n, bool)
    columns = {}
    for index, column in enumerate(pairs.numbers):
        present = pairs.cells([column])
        flags = None if present is None else present[:, 0]
        cells = pairs.n if flags is None else int(flags.sum())
        shares = []
        for inside_all, is_inside in zip(inside, _inside(pairs, column, flags, reach), strict=True):
            shares.append(
                int((is_inside if flags is None else is_inside & flags).sum()) / max(cells, 1)
            )
            inside_all &= is_inside if flags is None else is_inside | ~flags
        if cells:
            columns[column.name] = float(np.mean(shares))
        counted |= True if flags is None else flags
        task.tick((index + 1) / len(pairs.numbers))
    if not pairs.all_numbers:
        return Figure(None, columns, note=NOT_ALL_NUMBERS)
    if not counted.any():
        return Figure(None, note=NO_ROWS)
    curve = [int((inside_all & counted).sum()) / int(counted.sum()) for inside_all in inside]
    parts = {f"{percent:g} %": share for percent, share in zip(percents, curve, strict=True)}
    return Figure(float(np.mean(curve)), columns, parts)


def _inside(
    pairs: Pairs, column: Numbers, present: Flags | None, reach: list[int]
) -> Iterator[NDArray[np.bool_]]:
    """For each reach in ranks: bool (n,), True if the original is in its interval.

    Arbitrary for NULL.
    """
    labels = pairs.rows
    counts = np.bincount(labels if present is None else labels[present], minlength=pairs.m)
    rows = np.flatnonzero(counts)
    order = rows[np.argsort(column.released[rows], kind="stable")]
    values = column.released[order]
    ranked = np.repeat(values, counts[order])  # f, from rank 0
    after = np.cumsum(counts[order])
    # A tie spans the ranks of all its rows.
    lowest = (after - counts[order])[np.searchsorted(values, values, "left")]
    highest = after[np.searchsorted(values, values, "right") - 1] - 1
    low, high = np.zeros(pairs.m), np.zeros(pairs.m)
    for h in reach:
        if len(ranked):
            low[order] = ranked[np.maximum(lowest - h, 0)]
            high[order] = ranked[np.minimum(highest + h, len(ranked) - 1)]
        yield (low.take(labels) <= column.original) & (column.original <= high.take(labels))


MEASURE = Measure(
    name="interval_risk",
    symbol="ID",
    run=interval_risk,
    summary="Share of records whose originals lie within narrow ranks of what is released",
    range="0 to 1",
    cost="n p log(n/k)",
)
