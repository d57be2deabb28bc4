"""Random columns of every number type, as in frames and as numbers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np

from dbanon.data.schema import Attribute, Kind

RANKS = [f"r{i:02}" for i in range(40)]
EPOCH = dt.date(1970, 1, 1)
ATTRIBUTES = {
    "integer": Attribute("x", Kind.INTEGER),
    "decimal": Attribute("x", Kind.DECIMAL, scale=2),
    "float": Attribute("x", Kind.FLOAT),
    "whole": Attribute("x", Kind.FLOAT),
    "date": Attribute("x", Kind.DATE),
    "timestamp": Attribute("x", Kind.TIMESTAMP),
    "ordinal": Attribute("x", Kind.ORDINAL, order=tuple(RANKS)),
}


def column(rng, kind, n):
    """The values of a column as in a frame, and the corresponding numbers."""
    wide = 10.0 ** rng.uniform(0.5, 5)
    start = rng.uniform(-2, 2) * wide
    numbers = np.clip(rng.normal(start, wide / 4, n), start - wide, start + wide)
    if kind == "float":
        return numbers, numbers
    if kind == "decimal":
        cents = np.rint(numbers * 100).astype(int).tolist()
        return [Decimal(c).scaleb(-2) for c in cents], np.array(cents) / 100
    if kind == "ordinal":
        ranks = np.clip(np.rint(rng.normal(20, 8, n)), 0, 39).astype(int)
        return [RANKS[rank] for rank in ranks], ranks.astype(float)
    numbers = np.rint(np.clip(numbers, -150_000, 150_000))
    if kind == "date":
        return [EPOCH + dt.timedelta(days=int(day)) for day in numbers], numbers
    if kind == "timestamp":
        micros = (numbers * 3_600_000_000).astype(np.int64)
        return micros.astype("datetime64[us]"), micros.astype(float)
    return numbers.astype(np.int64 if kind == "integer" else float), numbers
