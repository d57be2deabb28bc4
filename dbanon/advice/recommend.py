"""Recommendation of one of several trial releases, by an explicit rule.

The trial releases of a method, with one refinement or none, form a curve: risk and loss by k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Count
from dbanon.data.types import JsonObject


def knee_index(risks: Sequence[float], losses: Sequence[float]) -> int:
    """Return the index of the knee of a curve: the best trade-off between loss and risk.

    Both axes are scaled to the range from 0 to 1. The knee is the point farthest below the chord
    from the first to the last point; of several such points, the first. Because it depends on the
    range of k, knees are comparable only over the same range.

    Parameters
    ----------
    risks, losses : the risk and the loss of each release, ordered by k.
    """
    return int(np.argmax(depths_below_chord(risks, losses)))


def depths_below_chord(risks: Sequence[float], losses: Sequence[float]) -> NDArray[np.float64]:
    """The depth of each point below the chord from the first to the last point, float64 (n,).

    Both axes are scaled to 0 to 1. The result is the distance from the chord times the length of
    the chord. Points above the chord have negative depths.

    Parameters
    ----------
    risks, losses : the risk and the loss of each of n releases, ordered by k.
    """
    scaled_axes = []
    for values in (risks, losses):
        axis = np.asarray(values, np.float64)
        axis_range = axis.max() - axis.min()
        scaled_axes.append((axis - axis.min()) / axis_range if axis_range else np.zeros(len(axis)))
    x, y = scaled_axes
    chord_x, chord_y = x[-1] - x[0], y[-1] - y[0]
    # Below means on the side of the origin, whether the risk falls or rises along the curve.
    cross_products = (y - y[0]) * chord_x - (x - x[0]) * chord_y
    depths: NDArray[np.float64] = np.round(cross_products if chord_x < 0 else -cross_products, 12)
    return depths


def pareto_frontier(risks: Sequence[float], losses: Sequence[float]) -> list[int]:
    """The indices of the Pareto-optimal points, by rising risk.

    Of several points with equal risk and loss, the first is included.
    """
    order = sorted(range(len(risks)), key=lambda index: (risks[index], losses[index], index))
    frontier: list[int] = []
    for index in order:
        if not frontier or losses[index] < losses[frontier[-1]]:
            frontier.append(index)
    return frontier


# Knees are determined over this range of k, so that the knees of different curves are comparable.
KNEE_RANGE = range(3, 11)


@dataclass(frozen=True)
class Point:
    """A trial release, as a point in a plot of loss against risk.

    Parameters
    ----------
    method : the name of the method.
    refine : the refinement; None without one.
    k : the size of the smallest class that is allowed.
    loss : the loss, by the measure of the sweep; if measured on a sample, an upper bound of the
        loss of all rows.
    risk : the linkage risk, 0 to 1: the measure ``linkage_risk``.
    class_risk : the risk in the smallest class, 0 to 1.
    suppressed : number of withheld rows, as a ``Count``: a small number is displayed as a range.
    classes : number of classes.
    seconds : CPU seconds of the trial.
    estimate : if measured on a sample, the approximate loss of all rows; None if unknown.
    recoding : how values are replaced; None for the default of the method.
    forecast : approximate CPU seconds to build the classes of all rows; None if unknown.
    on_frontier : True if the point is Pareto-optimal: every point with less loss has more risk, and
        every point with less risk has more loss.
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
        """The method, with its refinement if it has one, as ``method+refinement``."""
        return f"{self.method}+{self.refine}" if self.refine else self.method

    def __str__(self) -> str:
        """Describe the point."""
        return f"{self.curve}, k = {self.k}: loss {self.loss:.4g}, linkage risk {self.risk:.4g}"

    def to_dict(self) -> JsonObject:
        """As plain values."""
        plain = dict(vars(self))
        return plain | {"suppressed": self.suppressed.to_dict()}


@dataclass(frozen=True)
class Recommendation:
    """A recommended trial release, and the next best.

    Parameters
    ----------
    point : the recommended release.
    rule : the rule that selected it, as text.
    runner_up : the next best release; None if there is no other.
    bends : by curve, the k of its knee; empty if the rule uses no knees.
    note : a remark on the recommendation; empty if there is none.
    """

    point: Point
    rule: str
    runner_up: Point | None
    bends: dict[str, int]
    note: str = ""

    def to_dict(self) -> JsonObject:
        """As plain values."""
        return {
            "point": self.point.to_dict(),
            "rule": self.rule,
            "runner_up": None if self.runner_up is None else self.runner_up.to_dict(),
            "bends": dict(self.bends),
            "note": self.note,
        }


def mark_frontier(points: Sequence[Point]) -> list[Point]:
    """Copy the points with ``on_frontier`` set."""
    frontier = set(pareto_frontier([p.risk for p in points], [p.loss for p in points]))
    return [replace(point, on_frontier=index in frontier) for index, point in enumerate(points)]


def recommend(
    points: Sequence[Point], max_risk: float | None = None, max_loss: float | None = None
) -> Recommendation | None:
    """Recommend a point to start from; None if no point is within the limits.

    - With ``max_risk``, or with both limits: the point within the limits with the least loss.
    - With only ``max_loss``: the point within the limit with the least risk.
    - Without limits: the knee of the first curve, or, if there are points with less loss at no more
      risk, the point with the least loss among them.
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
    minimizes_loss = max_risk is not None
    ordered_points = sorted(
        eligible,
        key=lambda p: ((p.loss, p.risk) if minimizes_loss else (p.risk, p.loss), p.k, p.curve),
    )
    limits = [
        f"linkage risk of at most {max_risk:g}" if max_risk is not None else "",
        f"loss of at most {max_loss:g}" if max_loss is not None else "",
    ]
    rule = f"{'least loss' if minimizes_loss else 'least linkage risk'} within " + " and ".join(
        limit for limit in limits if limit
    )
    runner_up = ordered_points[1] if len(ordered_points) > 1 else None
    return Recommendation(ordered_points[0], rule, runner_up, bends={})


# Assumed effect of a refinement that was not tried yet: pairs of a factor on the loss and a factor
# on the risk. The first pair assumes that a refinement raises the risk by 5 %. If this leaves no
# candidate within the limits, the second pair assumes that the risk stays the same.
_ASSUMED_FACTORS = ((0.9, 1.05), (0.9, 1.0))
# A predicted loss or risk may exceed its limit by this factor.
_PREDICTION_TOLERANCE = 1.02


def next_refinement(
    points: Sequence[Point],
    untried: Sequence[tuple[str, int]],
    max_risk: float | None = None,
    max_loss: float | None = None,
) -> tuple[str, int] | None:
    """Choose the refined release to try next; None if none is predicted to be recommended.

    Loss and risk of a candidate are predicted from the release with the same k and method without
    refinement (or, if there is none, from the first curve). They are multiplied by the effect that
    the refinement had at the nearest k that was tried.

    Parameters
    ----------
    points : the trial releases so far, at least one.
    untried : the curve and the k of each release not yet tried.
    max_risk, max_loss : the limits of the recommendation; None for no limit.
    """
    current = recommend(points, max_risk, max_loss)
    best_loss_and_risk = (
        (np.inf, np.inf) if current is None else (current.point.loss, current.point.risk)
    )
    # Without limits, ``recommend`` prefers less loss at no more risk than the first curve's knee.
    if max_risk is None and max_loss is None:
        max_risk = knee_point([point for point in points if point.curve == points[0].curve]).risk
    limits = [
        np.inf if limit is None else _PREDICTION_TOLERANCE * limit for limit in (max_loss, max_risk)
    ]
    # Minimize the loss, at index 0, or the risk, at index 1.
    objective = 0 if max_risk is not None else 1
    for factors in _ASSUMED_FACTORS:
        # Pairs of the predicted objective, and the index in ``untried``.
        candidates: list[tuple[float, int]] = []
        for index, (name, k) in enumerate(untried):
            loss_and_risk = _predict_loss_and_risk(points, name, k, factors)
            is_within_limits = all(
                value <= limit for value, limit in zip(loss_and_risk, limits, strict=True)
            )
            if is_within_limits and loss_and_risk[objective] < best_loss_and_risk[objective]:
                candidates.append((loss_and_risk[objective], index))
        if candidates:
            _, best_index = min(candidates)
            return untried[best_index]
    return None


def _predict_loss_and_risk(
    points: Sequence[Point], name: str, k: int, assumed_factors: tuple[float, float]
) -> tuple[float, float]:
    """Predict loss and risk of a refined release.

    Both are 0 if there is no release to predict them from, so that the refined release is tried.

    Parameters
    ----------
    points : the trial releases so far, at least one.
    name : the curve of the release.
    k : the k of the release.
    assumed_factors : factors on loss and risk, used if no release of the curve was tried.
    """
    # By k, the releases to predict from: those of the first curve, unless the method without the
    # refinement was tried.
    unrefined_points = {p.k: p for p in points if p.curve == points[0].curve and p.refine is None}
    unrefined_points |= {p.k: p for p in points if p.curve == name.partition("+")[0]}
    tried_points = [p for p in points if p.curve == name and p.k in unrefined_points]
    if k not in unrefined_points:
        return 0.0, 0.0
    loss_factor, risk_factor = assumed_factors
    if tried_points:
        nearest_point = min(tried_points, key=lambda p: (abs(p.k - k), p.k))
        unrefined_point = unrefined_points[nearest_point.k]
        loss_factor = nearest_point.loss / unrefined_point.loss if unrefined_point.loss else 1.0
        risk_factor = nearest_point.risk / unrefined_point.risk if unrefined_point.risk else 1.0
    return unrefined_points[k].loss * loss_factor, unrefined_points[k].risk * risk_factor


def knee_point(curve: Sequence[Point]) -> Point:
    """Return the knee of a curve: by its points with k in ``KNEE_RANGE``, if there are enough."""
    points = _comparable_points(curve)
    return points[knee_index([p.risk for p in points], [p.loss for p in points])]


def _comparable_points(curve: Sequence[Point]) -> list[Point]:
    """Return a curve's points with k in ``KNEE_RANGE``, or all if fewer than three; by rising k."""
    ordered_points = sorted(curve, key=lambda point: point.k)
    points_in_range = [point for point in ordered_points if point.k in KNEE_RANGE]
    return points_in_range if len(points_in_range) >= 3 else ordered_points


def _second_deepest(curve: Sequence[Point]) -> Point:
    """Return the point with the second largest depth below the chord, of two or more points."""
    points = _comparable_points(curve)
    depths = depths_below_chord([p.risk for p in points], [p.loss for p in points])
    order = sorted(range(len(points)), key=lambda index: (-depths[index], index))
    return points[order[1]]


def _choose_by_knee(points: Sequence[Point]) -> Recommendation:
    """Recommend a point as ``recommend`` does without limits."""
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    first_curve = next(iter(curves))
    k_range = [point.k for point in _comparable_points(curves[first_curve])]
    # Only knees over the same k are comparable, and the time limit may have skipped some.
    knees = {
        name: knee_point(curve)
        for name, curve in curves.items()
        if [point.k for point in _comparable_points(curve)] == k_range
    }
    first_knee = knees[first_curve]
    rule = (
        f"the knee of the curve for {first_curve} over k = {k_range[0]}..{k_range[-1]}, the best"
        f" trade-off, is at k = {first_knee.k}"
    )
    better_points = [p for p in points if p.risk <= first_knee.risk and p.loss < first_knee.loss]
    if better_points:
        best_point = min(better_points, key=lambda p: (p.loss, p.risk, p.k))
        rule += f"; {best_point.curve} with k = {best_point.k} has less loss at no more risk"
        runner_up: Point | None = first_knee
    else:
        best_point = first_knee
        candidates = [knee for name, knee in knees.items() if name != first_curve]
        # The runner-up is the knee with the least risk among the other curves, or, if there is only
        # one curve, its second deepest point.
        if not candidates and len(curves[first_curve]) > 1:
            candidates = [_second_deepest(curves[first_curve])]
        candidates = candidates or [p for p in points if p is not best_point]
        runner_up = min(candidates, key=lambda p: (p.risk, p.loss), default=None)
    note = "the knee depends on the range of k that is tried"
    if len(k_range) != len(KNEE_RANGE) or k_range[0] != KNEE_RANGE[0]:
        note += (
            f"; the usual range, k = {KNEE_RANGE[0]}..{KNEE_RANGE[-1]}, was not tried completely"
        )
    bends = {name: knee.k for name, knee in knees.items()}
    return Recommendation(best_point, rule, runner_up, bends, note)
