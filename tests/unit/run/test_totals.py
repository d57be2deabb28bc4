"""Sums per class of releases that are never written are those that a database would give."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Role
from dbanon.run.totals import exact_totals_of


def test_cents_are_summed_exactly() -> None:
    # 0.29 * 100 is below 29 in float64.
    texts = ["0.29", "0.57", "1.13", "-0.29", "1.15", "2.30"]
    cost = Attribute("cost", Kind.DECIMAL, Role.QUASI_IDENTIFIER, scale=2)
    numbers = np.array(texts, np.float64).reshape(-1, 1)
    keys = np.arange(len(texts)).reshape(-1, 1)
    microdata = Microdata((cost,), keys, numbers, np.empty((len(texts), 0), np.int32))
    labels = np.array([0, 0, 0, 1, 1, 1], np.int32)
    sums = exact_totals_of(microdata)(Partition(labels), [cost])["cost"]
    expected = [sum(Decimal(text) for text in texts[start : start + 3]) * 100 for start in (0, 3)]
    assert sums.tolist() == expected
