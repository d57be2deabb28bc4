"""Recommendation of a trial release, by a stated rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Count


def knee_index(risks: Sequence[float], losses: Sequence[float]) -> int:
    """The index of the knee of a curve of releases, ordered by k.

    Both axes are scaled to 0 to 1. The knee is the point farthest below the chord from the first to
    the last point, the first in a tie. It depends on the range of k, so only knees over the same
    range are comparable.
    """
    return int(np.argmax(depths(risks, losses)))


def depths(risks: Sequence[float], losses: Sequence[float]) -> NDArray[np.float64]:
    """The depth of each point below the chord from the first to the last point, float64 (n,).

    Both axes are scaled to 0 to 1, and depths are multiplied by the length of the chord. Points
    above the chord have negative depths.
    """
    axes = []
    for values in (risks, losses):
        axis = np.asarray(values, np.float64)
        width = axis.max() - axis.min()
        axes.append((axis - axis.min()) / width if width else np.zeros(len(axis)))
    x, y = axes
    chord = np.array([x[-1] - x[0], y[-1] - y[0]])
    # Below means on the side of the origin, for either direction of the curve.
    below = (y - y[0]) * chord[0] - (x - x[0]) * chord[1]
    depth: NDArray[np.float64] = np.round(below if chord[0] < 0 else -below, 12)
    return depth


def frontier(risks: Sequence[float], losses: Sequence[float]) -> list[int]:
    """The indices of the Pareto-optimal points, by rising risk.

    Of several points with equal risk and loss, the first is included.
    """
    order = sorted(range(len(risks)), key=lambda index: (risks[index], losses[index], index))
    positions: list[int] = []
    for index in order:
        if not positions or losses[index] < losses[positions[-1]]:
            positions.append(index)
    return positions


# The range of k for knees; only knees over the same range are comparable.
KNEES = range(3, 11)


@dataclass(frozen=True)
class Point:
    """One trial release.

    Parameters
    ----------
    loss : by the measure of the sweep; for a sample, an upper bound of the loss of all rows.
    estimate : for a sample, the approximate loss of all rows; None if unknown.
    risk : linkage_risk.
    class_risk : the risk in the smallest class.
    suppressed : number of withheld rows.
    recoding : None for the method's own.
    forecast : approximate CPU seconds to build the classes of all rows; None if unknown.
    on_frontier : True if no other point has less risk or loss without more of the other.
    """

    method: str
    refine: str | None
    k: int
    loss: float
    risk: float
    class_risk: float
    suppressed: Count
    classes: int
    seconds: float
    estimate: float | None = None
    recoding: str | None = None
    forecast: float | None = None
    on_frontier: bool = False

    @property
    def curve(self) -> str:
        """The method and its refinement."""
        return f"{self.method}+{self.refine}" if self.refine else self.method

    def __str__(self) -> str:
        """The point in words."""
        return f"{self.curve}, k = {self.k}: loss {self.loss:.4g}, linkage risk {self.risk:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        plain = dict(vars(self))
        return plain | {"suppressed": self.suppressed.to_dict()}


@dataclass(frozen=True)
class Recommendation:
    """A point by a rule, and the next best.

    Parameters
    ----------
    rule : the rule, as text.
    runner_up : None if there is no other point.
    bends : the k of each curve's knee, if the rule uses knees.
    note : a remark on the recommendation.
    """

    point: Point
    rule: str
    runner_up: Point | None
    bends: dict[str, int]
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "point": self.point.to_dict(),
            "rule": self.rule,
            "runner_up": None if self.runner_up is None else self.runner_up.to_dict(),
            "bends": dict(self.bends),
            "note": self.note,
        }


def with_frontier(points: Sequence[Point]) -> list[Point]:
    """Copy the points with ``on_frontier`` set."""
    best = set(frontier([p.risk for p in points], [p.loss for p in points]))
    return [replace(point, on_frontier=at in best) for at, point in enumerate(points)]


def recommend(
    points: Sequence[Point], max_risk: float | None = None, max_loss: float | None = None
) -> Recommendation | None:
    """Recommend a point to start from; None if no point is within the limits.

    With ``max_risk`` or both limits it is the point of least loss within them, with ``max_loss``
    that of least risk. Without limits it is the knee of the first curve, or the point of least loss
    with at most the same risk, if it has less loss.
    """
    if max_risk is None and max_loss is None:
        return _choose_by_knee(points)
    eligible = [
        point
        for point in points
        if (max_risk is None or point.risk <= max_risk)
        and (max_loss is None or point.loss <= max_loss)
    ]
    if not eligible:
        return None
    by_loss = max_risk is not None
    ordered = sorted(
        eligible,
        key=lambda p: ((p.loss, p.risk) if by_loss else (p.risk, p.loss), p.k, p.curve),
    )
    limits = [
        f"linkage risk of at most {max_risk:g}" if max_risk is not None else "",
        f"loss of at most {max_loss:g}" if max_loss is not None else "",
    ]
    rule = f"{'least loss' if by_loss else 'least linkage risk'} within " + " and ".join(
        limit for limit in limits if limit
    )
    return Recommendation(ordered[0], rule, ordered[1] if len(ordered) > 1 else None, {})


# Assumed factors on loss and risk before any refinement was tried; the first pair prefers releases
# whose risk is well within the limit without refinement. And the tolerance of a forecast.
_USUAL = ((0.9, 1.05), (0.9, 1.0))
_OFF = 1.02


def next_refinement(
    points: Sequence[Point],
    untried: Sequence[tuple[str, int]],
    max_risk: float | None = None,
    max_loss: float | None = None,
) -> tuple[str, int] | None:
    """The refined release to try next; None if none is predicted to be recommended.

    Its loss and risk are predicted from its method without refinement (or from the first curve) at
    the same k, times the effect of the refinement at the nearest k that was tried.

    Parameters
    ----------
    points : trial releases, at least one.
    untried : curve and k of the releases not yet tried.
    max_risk, max_loss : as in ``recommend``.
    """
    so_far = recommend(points, max_risk, max_loss)
    best = (np.inf, np.inf) if so_far is None else (so_far.point.loss, so_far.point.risk)
    if max_risk is None and max_loss is None:
        max_risk = knee_point([point for point in points if point.curve == points[0].curve]).risk
    limits = [np.inf if limit is None else _OFF * limit for limit in (max_loss, max_risk)]
    target = 0 if max_risk is not None else 1
    for usual in _USUAL:
        candidates: list[tuple[float, int]] = []
        for at, (name, k) in enumerate(untried):
            figures = _foreseen(points, name, k, usual)
            is_within = all(figure <= limit for figure, limit in zip(figures, limits, strict=True))
            if is_within and figures[target] < best[target]:
                candidates.append((figures[target], at))
        if candidates:
            return untried[min(candidates)[1]]
    return None


def _foreseen(
    points: Sequence[Point], name: str, k: int, usual: tuple[float, float]
) -> tuple[float, float]:
    """The predicted loss and risk of a refined release; zeros if nothing is known."""
    plain = {p.k: p for p in points if p.curve == points[0].curve and p.refine is None}
    plain |= {p.k: p for p in points if p.curve == name.partition("+")[0]}
    tried = [p for p in points if p.curve == name and p.k in plain]
    if k not in plain:
        return 0.0, 0.0
    loss, risk = usual
    if tried:
        nearest = min(tried, key=lambda p: (abs(p.k - k), p.k))
        unrefined = plain[nearest.k]
        loss = nearest.loss / unrefined.loss if unrefined.loss else 1.0
        risk = nearest.risk / unrefined.risk if unrefined.risk else 1.0
    return plain[k].loss * loss, plain[k].risk * risk


def knee_point(curve: Sequence[Point]) -> Point:
    """The knee of a curve over k = 3 to 10, or over all k if fewer than three are in this range."""
    points = _comparable_points(curve)
    return points[knee_index([p.risk for p in points], [p.loss for p in points])]


def _comparable_points(curve: Sequence[Point]) -> list[Point]:
    ordered = sorted(curve, key=lambda point: point.k)
    inside = [point for point in ordered if point.k in KNEES]
    return inside if len(inside) >= 3 else ordered


def _next(curve: Sequence[Point]) -> Point:
    """The second deepest point below the chord, of a curve with two or more points."""
    points = _comparable_points(curve)
    below = depths([p.risk for p in points], [p.loss for p in points])
    order = sorted(range(len(points)), key=lambda index: (-below[index], index))
    return points[order[1]]


def _choose_by_knee(points: Sequence[Point]) -> Recommendation:
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    first = next(iter(curves))
    k_range = [point.k for point in _comparable_points(curves[first])]
    # Knees are comparable over the same k only; the time limit may have skipped some of a curve.
    bends = {
        name: knee_point(curve)
        for name, curve in curves.items()
        if [point.k for point in _comparable_points(curve)] == k_range
    }
    start = bends[first]
    rule = (
        f"the knee of the curve for {first} over k = {k_range[0]}..{k_range[-1]}, the best"
        f" trade-off, is at k = {start.k}"
    )
    better = [p for p in points if p.risk <= start.risk and p.loss < start.loss]
    if better:
        recommended = min(better, key=lambda p: (p.loss, p.risk, p.k))
        rule += f"; {recommended.curve} with k = {recommended.k} has less loss at no more risk"
        runner_up: Point | None = start
    else:
        recommended = start
        others = [p for name, p in bends.items() if name != first]
        # The knee of least risk among other curves; with one curve, its second deepest point.
        if not others and len(curves[first]) > 1:
            others = [_next(curves[first])]
        others = others or [p for p in points if p is not recommended]
        runner_up = min(others, key=lambda p: (p.risk, p.loss), default=None)
    note = "the knee depends on the range of k that is tried"
    if len(k_range) != len(KNEES) or k_range[0] != KNEES[0]:
        note += f"; the usual range, k = {KNEES[0]}..{KNEES[-1]}, was not tried completely"
    return Recommendation(recommended, rule, runner_up, {n: p.k for n, p in bends.items()}, note)
