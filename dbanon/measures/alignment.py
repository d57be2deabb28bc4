"""Whether released rows stand beside their originals: the pairing is tried against chance.

Of n pairs (of a sample where there are more than ``MOST``) T is the sum of the distances of each
original from its own released row, those of ``attributes.py``. Were the rows paired at random, all
n! pairings being as likely, T would have the mean sum(d) / n and the variance sum(c^2) / (n - 1),
c being the n by n distances d less the means of their rows and columns, plus that of all. ``gain``
is how many of its deviations T lies below that mean, ``share`` how much of the way from there to
the smallest sum that any pairing could have: 0 at chance, 1 at the best, which is seldom to be had.

Few pairs cannot have many deviations, and many heavily disturbed ones have a small share: only
where both are small the rows are taken for unrelated. docs/evaluation.md has the measured rates.

Source: W. Hoeffding, "A combinatorial central limit theorem", Annals of Mathematical Statistics 22
(1951), for mean and variance.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from dbanon.measures.attributes import Floats
from dbanon.measures.pairs import Pairs

# Pairs that are tried, and what unrelated rows stay below.
MOST, DEVIATIONS, SHARE = 1000, 3.0, 0.4
# A spread of sums that is of rounding.
_ROUNDING = 1e-9


def unrelated(pairs: Pairs, seed: int = 0) -> bool:
    """True where released rows are no nearer to their originals than rows paired at random.

    False, too, where all pairings are alike, as in one class: there is nothing to tell then.
    """
    found = against_chance(pairs, seed)
    return found is not None and found[0] < DEVIATIONS and found[1] < SHARE


def against_chance(pairs: Pairs, seed: int = 0) -> tuple[float, float] | None:
    """``gain`` and ``share`` of the pairing; None where all pairings have one sum."""
    records = np.arange(pairs.n)
    if pairs.n > MOST:
        records = np.random.default_rng(seed).choice(pairs.n, MOST, replace=False)
    rows, n = pairs.rows[records], len(records)
    if n < 2:
        return None
    apart: Floats = np.zeros((n, n))
    for column in pairs.columns:
        apart += column.apart(records[:, None], rows[None, :])
    by_record, by_row = apart.mean(axis=1), apart.mean(axis=0)
    chance, own = n * float(by_row.mean()), float(np.trace(apart))
    # No pairing is below either: each record at its nearest row, each row at its nearest record.
    least = max(float(apart.min(axis=1).sum()), float(apart.min(axis=0).sum()))
    apart -= by_record[:, None]
    apart -= by_row[None, :] - by_row.mean()
    spread = sqrt(float(np.square(apart, out=apart).sum()) / (n - 1))
    if spread <= _ROUNDING * chance or chance <= least:
        return None
    return (chance - own) / spread, (chance - own) / (chance - least)
