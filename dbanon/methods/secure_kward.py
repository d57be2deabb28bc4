"""Secure-k-Ward: k-Ward, with released values that are far enough from most original values.

A released value that is close to the originals of a class reveals them. The security ratio of a
released value is the share of the class's records at distance epsilon or more from it. If the ratio
of the class mean is below gamma0, the recoding ``secure`` (the default of this method) releases
another value. The classes are those of k-Ward, so ``epsilon`` and ``gamma0`` only affect the
recoding. The source treats a single attribute. With several attributes, k-Ward uses all of them,
and the released values of each attribute are made secure separately.

Source: Y. Li, S. Zhu, L. Wang and S. Jajodia, "A privacy-enhanced microaggregation method", FoIKS
2002, LNCS 2284.
Classes: k to 2k-1.
Cost: that of k-Ward, plus O(m^2) for the values of each class of m records.
"""

from __future__ import annotations

import numpy as np

from dbanon.data.option import Option, Parameter
from dbanon.data.partition import Partition
from dbanon.methods.kward import kward
from dbanon.methods.registry import Method, Tick
from dbanon.spaces.numeric import Space


def secure_kward(
    space: Space,
    k: int,
    *,
    tick: Tick,
    rng: np.random.Generator,
    epsilon: float,
    gamma0: float,
) -> Partition:
    """Partition the points of ``space``, float64 (n, p), into classes of k to 2k-1 records."""
    return kward(space, k, tick=tick, rng=rng)


METHOD = Method(
    name="secure_kward",
    run=secure_kward,
    summary="k-Ward, released with values that keep away from the originals",
    data="numeric",
    cost="O(n^2) at worst, about O(n^1.3) for few attributes",
    reference="Li, Zhu, Wang & Jajodia 2002",
    recoding="secure",
    options=(
        Parameter(
            "epsilon",
            float,
            0.1,
            Option(
                "Distance from the released value, in sample standard deviations of the attribute.",
                minimum=0.0,
            ),
        ),
        Parameter(
            "gamma0",
            float,
            0.5,
            Option(
                "Least share of a class's records that must be at that distance or farther.",
                minimum=0.0,
                maximum=1.0,
            ),
        ),
    ),
)
