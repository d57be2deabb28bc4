"""interval_risk, ID: records whose originals lie in an interval of ranks around what is released.

The released values of an attribute are ranked, n of them; a record is in for p percent when in
**all** attributes its original lies from f(r - h) to f(r + h), h = int(p/100 n/2), f(r) being the
released value of rank r and the ends of the ranks as far as it goes. Equal values are all one rank
wide: from the lowest of the tie less h to the highest and h (numbering them in their order, as the
source does, would depend on the rows' order, which a release draws at random). ID is the mean over
p = 1 to 10; ``columns`` has the share of an attribute's cells, as in J. Domingo-Ferrer and V.
Torra, "Disclosure control methods and information loss for microdata", 2001.

Records without any value are left out. Falling to 0 is not safety: with many columns it is about 0.

Source: Chen and Han 2010, definition 5 and eq. (19).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dbanon.measures.attributes import Flags, Numbers
from dbanon.measures.figure import NO_NUMBERS, NO_ROWS, NOT_ALL_NUMBERS, Figure, Measure, Task
from dbanon.measures.pairs import Pairs


def interval_risk(task: Task) -> Figure:
    """Over the released records; a column's own beside it, and the share for each percentage."""
    pairs, percents = task.pairs, task.parameters.interval_percents
    if not pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    reach = [int(percent * pairs.n / 200) for percent in percents]
    inside = np.ones((len(reach), pairs.n), bool)
    counted = np.zeros(pairs.n, bool)
    columns = {}
    for at, column in enumerate(pairs.numbers):
        held = pairs.cells([column])
        flags = None if held is None else held[:, 0]
        cells = pairs.n if flags is None else int(flags.sum())
        shares = []
        for one, found in zip(inside, _inside(pairs, column, flags, reach), strict=True):
            shares.append(int((found if flags is None else found & flags).sum()) / max(cells, 1))
            one &= found if flags is None else found | ~flags
        if cells:
            columns[column.name] = float(np.mean(shares))
        counted |= True if flags is None else flags
        task.tick((at + 1) / len(pairs.numbers))
    if not pairs.all_numbers:
        return Figure(None, columns, note=NOT_ALL_NUMBERS)
    if not counted.any():
        return Figure(None, note=NO_ROWS)
    curve = [int((one & counted).sum()) / int(counted.sum()) for one in inside]
    parts = {f"{percent:g} %": share for percent, share in zip(percents, curve, strict=True)}
    return Figure(float(np.mean(curve)), columns, parts)


def _inside(
    pairs: Pairs, column: Numbers, held: Flags | None, reach: list[int]
) -> Iterator[NDArray[np.bool_]]:
    """For each reach in ranks bool (n,), whether originals lie in their intervals.

    Anything where the cell does not count.
    """
    labels = pairs.rows
    counts = np.bincount(labels if held is None else labels[held], minlength=pairs.m)
    rows = np.flatnonzero(counts)
    order = rows[np.argsort(column.released[rows], kind="stable")]
    values = column.released[order]
    ranked = np.repeat(values, counts[order])  # f, from rank 0
    after = np.cumsum(counts[order])
    # A tie is as wide as all its rows.
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
