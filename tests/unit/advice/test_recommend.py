"""The recommendation's rule against cases worked out by hand, and the bends of three tables."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.advice.profile import Count
from dbanon.advice.recommend import Point, knee_point, mark_frontier, next_refinement, recommend

# SSE and linkage risk of MDAV for k = 3 to 10, as docs/evaluation.md's figures were made.
MDAV = {
    "tarragona": (
        (0.169326, 0.195460, 0.224619, 0.263252, 0.275184, 0.296929, 0.312146, 0.331929),
        (0.284572, 0.197142, 0.151745, 0.123301, 0.106393, 0.089568, 0.076978, 0.069836),
    ),
    "census": (
        (0.056922, 0.074947, 0.090884, 0.103847, 0.115979, 0.123917, 0.132915, 0.141559),
        (0.293210, 0.209028, 0.160370, 0.130556, 0.108392, 0.093171, 0.080658, 0.072870),
    ),
    "eia": (
        (0.004829, 0.006713, 0.016667, 0.013078, 0.021733, 0.028743, 0.031838, 0.038397),
        (0.279081, 0.205890, 0.144987, 0.132739, 0.104191, 0.090033, 0.080167, 0.074035),
    ),
}


def point(
    k: int, loss: float, risk: float, method: str = "mdav", refine: str | None = None
) -> Point:
    return Point(method, refine, k, loss, risk, 1 / k, Count(0, 100), 100 // k, 0.0)


def curve(name: str) -> list[Point]:
    return [point(3 + at, *both) for at, both in enumerate(zip(*MDAV[name], strict=True))]


@pytest.mark.parametrize(("name", "k"), [("tarragona", 5), ("census", 5), ("eia", 6)])
def test_where_three_tables_bend(name: str, k: int) -> None:
    recommendation = recommend(curve(name))
    assert recommendation is not None
    assert recommendation.point.k == knee_point(curve(name)).k == k
    assert recommendation.bends == {"mdav": k}
    assert f"k = 3..10, the best trade-off, is at k = {k}" in recommendation.rule
    # k beyond the range changes nothing: only bends over the same range compare.
    more = [*curve(name), point(15, 0.5, 0.04), point(20, 0.6, 0.03)]
    assert knee_point(more).k == k


def test_the_refined_point_of_no_more_risk_is_taken() -> None:
    """Census: fast at k = 6 has less risk than mdav at k = 5, and less loss."""
    refined = [
        point(5, 0.0754, 0.189, refine="fast"),
        point(6, 0.0857, 0.156, refine="fast"),
        point(7, 0.0961, 0.137, refine="fast"),
    ]
    recommendation = recommend([*curve("census"), *refined])
    assert recommendation is not None
    assert (recommendation.point.curve, recommendation.point.k) == ("mdav+fast", 6)
    assert recommendation.runner_up is not None
    assert (recommendation.runner_up.curve, recommendation.runner_up.k) == ("mdav", 5)
    assert "mdav+fast with k = 6 has less loss at no more risk" in recommendation.rule


def test_the_runner_up_of_one_curve_is_of_the_next_depth() -> None:
    # Scaled, the chord runs from (1, 0) to (0, 1): depth is 1 - x - y.
    recommendation = recommend(
        [point(3, 0.0, 1.0), point(4, 0.1, 0.5), point(5, 0.4, 0.4), point(6, 1.0, 0.0)]
    )
    assert recommendation is not None
    assert recommendation.point.k == 4
    assert recommendation.runner_up is not None
    assert recommendation.runner_up.k == 5


def test_the_runner_up_of_several_curves_is_the_bend_of_the_least_risk() -> None:
    """Among equal risks the point of less loss is chosen; the order of the curves has no effect."""
    bends = {"b": (0.30, 0.20), "c": (0.40, 0.19), "d": (0.35, 0.19), "e": (0.35, 0.25)}
    expected = [point(5, 0.25, 0.15)]
    for names in permutations(bends):
        recommendation = recommend(
            [*expected, *(point(5, *bends[name], method=name) for name in names)]
        )
        assert recommendation is not None
        assert recommendation.point is expected[0]
        assert recommendation.runner_up is not None
        assert recommendation.runner_up.curve == "d"


@pytest.mark.parametrize(
    "limits", [{"max_risk": 0.5}, {"max_loss": 0.5}, {"max_risk": 0.5, "max_loss": 0.5}]
)
def test_the_runner_up_within_limits_is_the_next_in_order(limits: dict[str, float]) -> None:
    """Ordered by the minimized figure, then by the other one, then by k, then by the curve."""
    ordered = []
    for minimized, other, k, method in (
        (0.1, 0.2, 9, "z"),
        (0.1, 0.3, 3, "z"),
        (0.1, 0.3, 4, "y"),
        (0.1, 0.3, 4, "z"),
        (0.2, 0.1, 3, "a"),
    ):
        loss, risk = (minimized, other) if "max_risk" in limits else (other, minimized)
        ordered.append(point(k, loss, risk, method=method))
    for first in range(len(ordered) - 1):
        for points in permutations(ordered[first:]):
            recommendation = recommend(points, **limits)
            assert recommendation is not None
            assert recommendation.point is ordered[first]
            assert recommendation.runner_up is ordered[first + 1]


def test_a_curve_that_time_cut_has_no_bend() -> None:
    cut = [point(9, 0.12, 0.09, refine="fast"), point(10, 0.13, 0.08, refine="fast")]
    recommendation = recommend([*curve("census"), *cut])
    assert recommendation is not None
    assert recommendation.bends == {"mdav": 5}
    assert recommendation.runner_up is not None
    assert recommendation.runner_up.curve == "mdav"


def test_limits() -> None:
    points = curve("tarragona")
    within_risk = recommend(points, max_risk=0.1)
    assert within_risk is not None
    assert (within_risk.point.k, within_risk.rule) == (
        8,
        "least loss within linkage risk of at most 0.1",
    )
    assert within_risk.runner_up is not None
    assert within_risk.runner_up.k == 9
    within_loss = recommend(points, max_loss=0.28)
    assert within_loss is not None
    assert (within_loss.point.k, within_loss.rule) == (
        7,
        "least linkage risk within loss of at most 0.28",
    )
    both = recommend(points, max_risk=0.13, max_loss=0.3)
    assert both is not None
    assert both.point.k == 6
    assert recommend(points, max_risk=0.05) is None
    assert recommend(points, max_risk=0.1, max_loss=0.2) is None


def test_one_point_is_its_own_bend() -> None:
    recommendation = recommend([point(5, 0.1, 0.1)])
    assert recommendation is not None
    assert recommendation.runner_up is None
    assert "was not tried completely" in recommendation.note


points_of = st.lists(
    st.tuples(st.integers(2, 20), st.floats(0, 1), st.floats(0, 1), st.sampled_from("ab")),
    min_size=1,
    max_size=20,
    unique_by=lambda figures: (figures[0], figures[3]),
).map(lambda rows: [point(k, loss, risk, method) for k, loss, risk, method in rows])
limits = st.one_of(st.none(), st.floats(0, 1))


@given(points_of, limits, limits)
def test_what_is_recommended_is_within_the_limits_and_nothing_better_is(
    points: list[Point], max_risk: float | None, max_loss: float | None
) -> None:
    recommendation = recommend(points, max_risk, max_loss)
    admissible = [
        p
        for p in points
        if (max_risk is None or p.risk <= max_risk) and (max_loss is None or p.loss <= max_loss)
    ]
    assert (recommendation is None) == (not admissible)
    if recommendation is None:
        return
    assert recommendation.point in admissible
    assert recommendation.runner_up is not recommendation.point
    assert (recommendation.runner_up is None) == (len(points) == 1 or len(admissible) == 1)
    if max_risk is not None:
        assert recommendation.point.loss == min(p.loss for p in admissible)
    elif max_loss is not None:
        assert recommendation.point.risk == min(p.risk for p in admissible)
    else:
        start = knee_point([p for p in points if p.curve == points[0].curve])
        assert recommendation.point.risk <= start.risk
        assert recommendation.point.loss == min(
            [start.loss, *(p.loss for p in points if p.risk <= start.risk)]
        )


@given(points_of)
def test_the_frontier_is_marked(points: list[Point]) -> None:
    for candidate in mark_frontier(points):
        beaten = any(
            p.risk <= candidate.risk
            and p.loss <= candidate.loss
            and (p.risk, p.loss) != (candidate.risk, candidate.loss)
            for p in points
        )
        assert not (beaten and candidate.on_frontier)


DEFAULT_KS = (3, 4, 5, 6, 7, 8, 9, 10, 15, 20)
falling = st.lists(st.floats(0.5, 0.99), min_size=len(DEFAULT_KS), max_size=len(DEFAULT_KS))


@given(
    steps=st.tuples(falling, falling),
    refined=st.tuples(st.floats(0.9, 1.0), st.floats(1.0, 1.5)),
    max_risk=st.one_of(st.none(), st.floats(0.01, 0.5)),
    max_loss=st.one_of(st.none(), st.floats(0.01, 0.5)),
)
def test_promising_ones_find_what_all_would(
    steps: tuple[list[float], list[float]],
    refined: tuple[float, float],
    max_risk: float | None,
    max_loss: float | None,
) -> None:
    """If a refinement changes loss and risk equally at each k, as few points as needed are
    tried.
    """
    losses = list(np.cumprod(steps[0][::-1])[::-1])
    risks = 0.5 * np.cumprod(steps[1])
    points = [point(*at) for at in zip(DEFAULT_KS, losses, risks, strict=True)]
    better = {
        ("mdav+fast", p.k): point(p.k, p.loss * refined[0], p.risk * refined[1], refine="fast")
        for p in points
    }
    everything = recommend([*points, *better.values()], max_risk, max_loss)
    left = list(better)
    while (release := next_refinement(points, left, max_risk, max_loss)) is not None:
        left.remove(release)
        points.append(better[release])
    recommendation = recommend(points, max_risk, max_loss)
    assert (recommendation is None) == (everything is None)
    if recommendation is not None and everything is not None:
        of_loss = max_risk is not None or max_loss is None
        figures = [p.loss if of_loss else p.risk for p in (recommendation.point, everything.point)]
        assert figures[0] == pytest.approx(figures[1])


def test_none_is_promising_whose_method_loses_more_at_less_risk() -> None:
    points = [point(3, 0.1, 0.5), point(4, 0.11, 0.2), point(5, 0.5, 0.1)]
    left = [("mdav+fast", 3), ("mdav+fast", 4), ("mdav+fast", 5)]
    # The bend is at 4: a refined 5 would lose .45, and a refined 4 is worth a look.
    assert next_refinement(points, left) == ("mdav+fast", 4)
    tried = point(4, 0.105, 0.25, refine="fast")
    assert next_refinement([*points, tried], [left[0], left[2]]) is None
