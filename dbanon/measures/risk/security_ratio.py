"""security_ratio: the share of a class's records that its released value does not give away.

Of one class and column: the share of originals at epsilon or more from the released value, which is
dangerous to the others. The figure is that of the lowest class and column; ``columns`` has each
column's lowest class. Epsilon is in sample standard deviations of the originals. Constant columns
are left out: there is nothing to give away that is not known.

Source: Y. Li, S. Zhu, L. Wang and S. Jajodia, "A privacy-enhanced microaggregation method", FoIKS
2002, definitions 3.1 and 3.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, Figure, Measure, Task

# Of values below 1.
_ROUNDING = 1e-15


def security_ratio(task: Task) -> Figure:
    """Over classes and columns of numbers; ``below half`` is the share of classes under 1/2."""
    pairs, labels = task.pairs, task.pairs.rows
    if not pairs.numbers:
        return Figure(None, note=NO_NUMBERS)
    columns, low, classes = {}, 0, 0
    for column in pairs.numbers:
        if column.scale.constant:
            continue
        held = pairs.cells([column])
        small = -column.scale.exponent
        # What the recoding ``secure`` promises is found, whatever rounding did to its values.
        gap = np.abs(np.ldexp(column.original, small) - np.ldexp(column.released, small)[labels])
        safe = gap >= task.parameters.epsilon * column.scale.deviation - _ROUNDING
        if held is not None:
            safe &= held[:, 0]
        counts = np.bincount(labels if held is None else labels[held[:, 0]], minlength=pairs.m)
        kept = np.bincount(labels, weights=safe, minlength=pairs.m)
        ratios = kept[counts > 0] / counts[counts > 0]
        if ratios.size:
            columns[column.name] = float(ratios.min())
            low, classes = low + int((ratios < 0.5).sum()), classes + ratios.size
    if not columns:
        return Figure(None, note=NO_VARIATION)
    return Figure(min(columns.values()), columns, {"below half": low / classes})


MEASURE = Measure(
    name="security_ratio",
    symbol="gamma",
    run=security_ratio,
    summary="Least share of a class at epsilon or more from its released value",
    range="0 to 1, higher is safer",
    lower=False,
)
