"""How columns were measured before tables had Measures: each function by the records at hand."""

from __future__ import annotations

from decimal import MIN_EMIN, Decimal, localcontext
from fractions import Fraction

import numpy as np

from dbanon.spaces.mixed import _MAX_EXACT_RANGE


def standardized(numbers, how, valid=None):
    """Exponents, shifts and scales of the columns, and the standardized points."""
    p = numbers.shape[1]
    exponent, shift, scale = np.zeros(p, np.int64), np.zeros(p), np.zeros(p)
    for column in range(p):
        values = numbers[:, column] if valid is None else numbers[valid[:, column], column]
        if not values.size or values.max() == values.min():
            continue
        if how == "none":
            scale[column] = 1.0
            continue
        exponent[column] = np.frexp(np.abs(values).max())[1]
        values = np.ldexp(values, -exponent[column])
        if how in ("zscore", "mahalanobis"):
            shift[column], scale[column] = moments(values)
        else:
            shift[column], scale[column] = values.min(), values.max() - values.min()
        if scale[column] == 0.0:
            shift[column] = 0.0
    points = np.ldexp(numbers, -exponent) - shift
    points /= np.where(scale != 0, scale, 1.0)
    points[:, scale == 0] = 0.0
    return exponent, shift, scale, points


def moments(values):
    """The mean and the sample standard deviation, by fractions, rounded at the end."""
    n, terms = len(values), list(map(Fraction, values.tolist()))
    mean = sum(terms) / n
    variance = sum((x - mean) ** 2 for x in terms) / (n - 1)
    with localcontext() as context:
        context.prec, context.Emin = 900, MIN_EMIN
        deviation = (Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()
    return float(mean), float(deviation)


def steps(values, valid, unit):
    """Numbers as integer steps of the range of these values."""
    present = values if valid is None else values[valid]
    if not present.size or present.max() == present.min():
        return np.zeros(len(values), np.int32)
    low, high = float(present.min()), float(present.max())
    exponent = int(np.frexp(max(abs(low), abs(high)))[1])
    with np.errstate(invalid="ignore", over="ignore"):
        if high - low <= _MAX_EXACT_RANGE and not np.mod(present, 1.0).any():
            codes = (values - low) * (unit // int(high - low))
        else:
            start, end = np.ldexp(low, -exponent), np.ldexp(high, -exponent)
            codes = np.rint((np.ldexp(values, -exponent) - start) / (end - start) * unit)
    if valid is not None:
        codes = np.where(valid, codes, 0.0)
    return np.asarray(codes).astype(np.int32)


def range_loss(numbers, partition, valid=None):
    """iloss of a number, class by class."""
    present = numbers if valid is None else numbers[valid]
    spread = present.max() - present.min() if present.size else 0.0
    loss = 0.0
    for members in np.split(partition.members, partition.starts[1:]):
        if spread and len(members) and (valid is None or valid[members[0]]):
            loss += len(members) * (numbers[members].max() - numbers[members].min()) / spread
    return loss


def released_shares(codes, labels):
    """Codes as places among released values, and the shares of these; no hierarchy."""
    released = labels >= 0
    values, places, counts = np.unique(codes[released], return_inverse=True, return_counts=True)
    codes_out = np.zeros_like(codes)
    codes_out[released] = places.reshape(-1)
    return codes_out, counts / max(int(counts.sum()), 1), values
