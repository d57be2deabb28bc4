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
    reach = [int(percent / 100 * pairs.n / 2) for percent in percents]
    most = np.zeros(pairs.n, np.int64)
    counted = np.zeros(pairs.n, bool)
    columns = {}
    for at, column in enumerate(pairs.numbers):
        held = pairs.cells([column])
        flags = None if held is None else held[:, 0]
        needed = steps(pairs, column, flags)
        cells = pairs.n if flags is None else int(flags.sum())
        if cells:
            inside = needed if flags is None else needed[flags]
            columns[column.name] = float(np.mean([(inside <= h).mean() for h in reach]))
        np.maximum(most, needed, out=most)
        counted |= True if flags is None else flags
        task.tick((at + 1) / len(pairs.numbers))
    if not pairs.all_numbers:
        return Figure(None, columns, note=NOT_ALL_NUMBERS)
    if not counted.any():
        return Figure(None, note=NO_ROWS)
    curve = [float((most[counted] <= h).mean()) for h in reach]
    parts = {f"{percent:g} %": share for percent, share in zip(percents, curve, strict=True)}
    return Figure(float(np.mean(curve)), columns, parts)


def steps(pairs: Pairs, column: Numbers, held: Flags | None) -> NDArray[np.int64]:
    """How many ranks the interval must reach out to hold each original, int64 (n,).

    0 where the cell does not count; more than n where the original lies outside of all released
    values.
    """
    labels = pairs.partition.labels
    counts = np.bincount(labels if held is None else labels[held], minlength=pairs.m)
    rows = np.flatnonzero(counts)
    order = rows[np.argsort(column.released[rows], kind="stable")]
    values = column.released[order]
    after = np.cumsum(counts[order])  # ranks up to here, of released rows
    total = int(after[-1]) if len(after) else 0
    before = after - counts[order]
    # Ranks from 0; a tie is as wide as all its rows.
    lowest, highest = np.zeros(pairs.m, np.int64), np.zeros(pairs.m, np.int64)
    lowest[order] = before[np.searchsorted(values, values, "left")]
    highest[order] = after[np.searchsorted(values, values, "right") - 1] - 1
    original = column.original
    ranks = np.append(before, total)
    # The first rank of a value at or above the original, and the last of one at or below.
    above = ranks[np.searchsorted(values, original, "left")]
    below = ranks[np.searchsorted(values, original, "right")] - 1
    found = np.maximum(np.maximum(above - highest[labels], lowest[labels] - below), 0)
    found[(above == total) | (below < 0)] = pairs.n + 1
    if held is not None:
        found[~held] = 0
    return np.asarray(found, np.int64)


MEASURE = Measure(
    name="interval_risk",
    symbol="ID",
    run=interval_risk,
    summary="Share of records whose originals lie within narrow ranks of what is released",
    range="0 to 1",
    cost="n p log(n/k)",
    needs="pairs",
)
