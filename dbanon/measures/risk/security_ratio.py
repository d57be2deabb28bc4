"""security_ratio: the share of a class's records that its released value does not approximate.

The ratio of a class and column is the share of originals at distance epsilon or more from the
released value. The figure is the minimum over classes and columns, and ``columns`` has the minimum
of each column. Epsilon is in sample standard deviations of the originals. Constant columns are left
out, since they reveal nothing.

Source: Y. Li, S. Zhu, L. Wang and S. Jajodia, "A privacy-enhanced microaggregation method", FoIKS
2002, definitions 3.1 and 3.2.
"""

from __future__ import annotations

import numpy as np

from dbanon.measures.figure import NO_NUMBERS, NO_VARIATION, EvaluationTask, Figure, Measure

# Tolerance for rounding errors of values below 1.
_ROUNDING_TOLERANCE = 1e-15


def security_ratio(task: EvaluationTask) -> Figure:
    """Compute the minimum over classes and numeric columns.

    The part ``below half`` is the share of all combinations of a class and a column whose ratio is
    below 1/2.
    """
    pairs, labels = task.pairs, task.pairs.labels
    if not pairs.numeric_columns:
        return Figure(None, note=NO_NUMBERS)
    columns, n_below_half, n_ratios = {}, 0, 0
    for column in pairs.numeric_columns:
        if column.scale.is_constant:
            continue
        is_valid = pairs.valid_cells_of(column)
        exponent = -column.scale.exponent
        # ``scale.deviation`` is that of the values times this power of two. Such scaling is exact,
        # so values that the recoding ``secure`` accepts are safe here, too.
        distances = np.abs(
            np.ldexp(column.original, exponent) - np.ldexp(column.released, exponent)[labels]
        )
        threshold = task.parameters.epsilon * column.scale.deviation - _ROUNDING_TOLERANCE
        is_safe = distances >= threshold
        if is_valid is not None:
            is_safe &= is_valid
        valid_labels = labels if is_valid is None else labels[is_valid]
        counts = np.bincount(valid_labels, minlength=pairs.n_classes)
        safe_counts = np.bincount(labels, weights=is_safe, minlength=pairs.n_classes)
        ratios = safe_counts[counts > 0] / counts[counts > 0]
        if ratios.size:
            columns[column.name] = float(ratios.min())
            n_below_half += int((ratios < 0.5).sum())
            n_ratios += ratios.size
    if not columns:
        return Figure(None, note=NO_VARIATION)
    return Figure(min(columns.values()), columns, {"below half": n_below_half / n_ratios})


MEASURE = Measure(
    name="security_ratio",
    symbol="gamma",
    run=security_ratio,
    summary="Smallest share of a class that is epsilon or more from its released value",
    range="0 to 1, higher is safer",
    lower_is_better=False,
)
