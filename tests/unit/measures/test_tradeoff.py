"""Loss against risk."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.recommend import knee_index, pareto_frontier

some = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=12)


def test_bend_is_the_point_farthest_below_the_chord():
    risks, losses = [1.0, 0.5, 0.2, 0.1, 0.0], [0.0, 0.1, 0.2, 0.6, 1.0]
    assert knee_index(risks, losses) == 2
    assert knee_index(risks[::-1], losses[::-1]) == 2
    # Units do not matter, nor does where an axis begins.
    assert knee_index([100 * r + 7 for r in risks], [0.01 * x for x in losses]) == 2


def test_bend_of_little():
    assert knee_index([0.5], [0.5]) == 0
    assert knee_index([1.0, 0.0], [0.0, 1.0]) == 0
    assert knee_index([0.5, 0.5, 0.5], [0.1, 0.2, 0.3]) == 0
    # A straight line has no bend: the first.
    assert knee_index(np.linspace(1, 0, 8), np.linspace(0, 1, 8)) == 0


@pytest.mark.parametrize("points", [[(0.3, 0.1)], [(0.1, 0.3), (0.3, 0.1), (0.2, 0.2)]])
def test_frontier_of_little(points):
    risks, losses = zip(*points, strict=True)
    assert sorted(pareto_frontier(risks, losses)) == list(range(len(points)))


@given(some)
def test_frontier_holds_what_nothing_beats(points):
    risks, losses = zip(*points, strict=True)
    knee = pareto_frontier(risks, losses)
    assert [risks[at] for at in knee] == sorted(risks[at] for at in knee)

    def beats(point, other):
        a, b = points[point], points[other]
        return a != b and a[0] <= b[0] and a[1] <= b[1]

    places = range(len(points))
    best = {points[at] for at in places if not any(beats(other, at) for other in places)}
    assert {points[at] for at in knee} == best
    assert len(knee) == len(best)
    assert all(points.index(points[at]) == at for at in knee)
