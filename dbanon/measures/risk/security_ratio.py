"""security_ratio: the share of a class's records that its released value does not approximate.

For a class and column: the share of originals at distance epsilon or more from the released value.
The figure is the minimum over classes and columns; ``columns`` has the minimum of each column.
Epsilon is in sample standard deviations of the originals. Constant columns are left out, since they
reveal nothing.

Source: Y. Li, S. Zhu, L. Wang and S. Jajodia, "A privacy-enhanced microaggregation method", FoIKS
2002, definitions 3.1 and 3.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure

# Rounding error of values below 1.
_ROUNDING = 1e-15


def security_ratio(task: EvaluationTask) -> Figure:
    """The minimum over classes and numeric columns; ``below half``: the share of classes < 1/2."""
    pairs, labels = task.pairs, task.pairs.labels
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    columns, low, classes = {}, 0, 0
    for column in pairs.numeric_columns:
        if column.scale.constant:
            continue
        present = pairs.cells([column])
        exponent = -column.scale.exponent
        # Scaling and slack ensure that results of the recoding ``secure`` pass despite rounding.
        gap = np.abs(
            np.ldexp(column.original, exponent) - np.ldexp(column.released, exponent)[labels]
        )
        safe = gap >= task.parameters.epsilon * column.scale.deviation - _ROUNDING
        if present is not None:
            safe &= present[:, 0]
        counts = np.bincount(
            labels if present is None else labels[present[:, 0]], minlength=pairs.m
        )
        safe_counts = np.bincount(labels, weights=safe, minlength=pairs.m)
        ratios = safe_counts[counts > 0] / counts[counts > 0]
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
    lower_is_better=False,
)
