"""The trial against chance: its moments are those of all pairings, and its rates are small."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from benchmarks.alignment import KINDS, classified_as_unrelated, columns, means
from dbanon.data.partition import Partition
from dbanon.data.scales import Scale
from dbanon.measures.attributes import Numbers
from dbanon.measures.pairs import Pairs
from dbanon.release.alignment import compare_with_chance


def paired(before: np.ndarray, after: np.ndarray) -> Pairs:
    release = tuple(
        Numbers(name=str(j), original=x, scale=Scale.of(x), released=y)
        for j, (x, y) in enumerate(zip(before.T, after.T, strict=True))
    )
    return Pairs(release, Partition(np.arange(len(before), dtype=np.int32)))


def test_mean_deviation_and_least_sum_are_those_of_all_pairings() -> None:
    rng = np.random.default_rng(4)
    before = rng.normal(size=(6, 2))
    after = before + rng.normal(size=(6, 2))
    width = np.ptp(before, axis=0)
    apart = (np.abs(before[:, None] - after[None]) / width).sum(axis=2)
    sums = np.array([apart[range(6), order].sum() for order in permutations(range(6))])
    rate = compare_with_chance(paired(before, after))
    assert rate is not None
    own_rows = np.trace(apart)
    assert rate[0] == pytest.approx((sums.mean() - own_rows) / sums.std())
    least = max(apart.min(axis=0).sum(), apart.min(axis=1).sum())
    assert least <= sums.min()
    assert rate[1] == pytest.approx((sums.mean() - own_rows) / (sums.mean() - least))


def test_pairings_that_are_all_equal_are_not_refused() -> None:
    x = np.arange(40.0).reshape(-1, 1)
    assert compare_with_chance(paired(x, np.full((40, 1), 19.5))) is None
    assert compare_with_chance(paired(x[:1], x[:1])) is None
    assert not classified_as_unrelated(x, np.full((40, 1), 19.5))


@pytest.mark.slow
@pytest.mark.parametrize("n", [40, 1500])
def test_releases_pass_and_shuffled_ones_do_not(n: int) -> None:
    """For 240 and 24 trials; 0.5 % of shuffled releases passed when the rates were measured."""
    rng = np.random.default_rng(1)
    aligned = shuffled = 0
    for kind in KINDS:
        for p in (1, 4, 13):
            for _ in range(20 if n < 100 else 2):
                before = columns(kind, n, p, rng)
                after = means(before, 10, "mdav")
                aligned += classified_as_unrelated(before, after)
                shuffled += not classified_as_unrelated(before, after[rng.permutation(n)])
    assert aligned == 0
    assert shuffled <= 4
