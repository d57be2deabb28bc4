"""Numbers as the whole steps that spaces of generalization count in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dbanon.data.scales import Scale

# Up to this many steps between minimum and maximum whole numbers keep equal distances equal.
_GRID_STEPS = 1 << 17


def number_codes(
    values: NDArray[np.float64], valid: NDArray[np.bool_] | None, scale: Scale, unit: int
) -> NDArray[np.int32]:
    """Numbers as whole steps from 0 at the minimum to ``unit`` at the maximum; 0 where NULL.

    A number beyond them is at the end that it is nearest to.
    """
    if scale.constant:
        return np.zeros(len(values), np.int32)
    low, high = scale.least, scale.most
    with np.errstate(invalid="ignore", over="ignore"):
        if scale.whole and high - low <= _GRID_STEPS:
            codes = (values - low) * (unit // int(high - low))
        else:
            # A power of two first, so that the width of huge numbers does not overflow.
            start, end = np.ldexp([low, high], -scale.exponent)
            codes = np.rint((np.ldexp(values, -scale.exponent) - start) / (end - start) * unit)
    if valid is not None:
        codes = np.where(valid, codes, 0.0)
    # Records that came later may be beyond the range that the table had.
    return np.clip(codes, 0, unit).astype(np.int32)
