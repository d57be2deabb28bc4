"""Recommendation: which of the releases that were tried, by a rule that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbanon.advice.profile import Count


def bend(risks: Sequence[float], losses: Sequence[float]) -> int:
    """Where a curve of releases, in the order of their k, bends most: its place from 0.

    Both axes are scaled to 0 to 1; of all points the one farthest below the chord from the first to
    the last is taken, the first among equals. It moves with the range of k that is looked at: only
    bends over the same range compare.
    """
    return int(np.argmax(depths(risks, losses)))


def depths(risks: Sequence[float], losses: Sequence[float]) -> NDArray[np.float64]:
    """How far below the chord from the first to the last each point of a curve is, float64 (n,).

    Times the length of the chord, both axes being scaled to 0 to 1; above the chord it is negative.
    """
    axes = []
    for values in (risks, losses):
        axis = np.asarray(values, np.float64)
        width = axis.max() - axis.min()
        axes.append((axis - axis.min()) / width if width else np.zeros(len(axis)))
    x, y = axes
    chord = np.array([x[-1] - x[0], y[-1] - y[0]])
    # Below: on the side of the origin, whichever way the curve runs.
    below = (y - y[0]) * chord[0] - (x - x[0]) * chord[1]
    found: NDArray[np.float64] = np.round(below if chord[0] < 0 else -below, 12)
    return found


def frontier(risks: Sequence[float], losses: Sequence[float]) -> list[int]:
    """The places, by rising risk, of those that no other beats in one without losing in the other.

    Of several with the same risk and loss the first.
    """
    order = sorted(range(len(risks)), key=lambda at: (risks[at], losses[at], at))
    found: list[int] = []
    for at in order:
        if not found or losses[at] < losses[found[-1]]:
            found.append(at)
    return found


# The range of k that bends are looked for in: only bends over the same range compare.
BENDS = range(3, 11)


@dataclass(frozen=True)
class Point:
    """One release that was tried.

    Parameters
    ----------
    loss : by the measure of the sweep; of a sample it is at most this.
    estimate : of a sample, about what all rows would lose; None where that is not known.
    risk : linkage_risk.
    class_risk : of the smallest class.
    suppressed : rows that were withheld.
    recoding : where it is not the method's own.
    forecast : about the CPU seconds of finding the classes of all rows; None where nobody knows.
    on_frontier : True when no other point has less of one without more of the other.
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
        """The method with its refinement."""
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
    rule : in words.
    runner_up : None where there is no other.
    bends : by curve, the k where it bends, where that was asked.
    note : what has to be known of it.
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
    """The points, each knowing whether it is on the frontier."""
    best = set(frontier([p.risk for p in points], [p.loss for p in points]))
    return [replace(point, on_frontier=at in best) for at, point in enumerate(points)]


def recommend(
    points: Sequence[Point], max_risk: float | None = None, max_loss: float | None = None
) -> Recommendation | None:
    """The point to start from; None where none is within the limits.

    With limits: within ``max_risk`` the least loss, within ``max_loss`` the least risk, within both
    the least loss. Without: where the first curve bends, or the point of no more risk and the least
    loss, if there is one.
    """
    if max_risk is None and max_loss is None:
        return _by_bend(points)
    within = [
        point
        for point in points
        if (max_risk is None or point.risk <= max_risk)
        and (max_loss is None or point.loss <= max_loss)
    ]
    if not within:
        return None
    by_loss = max_risk is not None
    ordered = sorted(
        within,
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


# What a refinement makes of loss and risk, as long as none was tried: at first those count that
# have less risk without it. And how far a forecast may be off.
_USUAL = ((0.9, 1.05), (0.9, 1.0))
_OFF = 1.02


def promising(
    points: Sequence[Point],
    left: Sequence[tuple[str, int]],
    max_risk: float | None = None,
    max_loss: float | None = None,
) -> tuple[str, int] | None:
    """The refined release to try next; None where none of them is foreseen to be recommended.

    Its loss and risk are foreseen as those of its method without refinement (or of the first curve)
    at the same k, times what the refinement made of them at the nearest k that was tried.

    Parameters
    ----------
    points : what was tried, one or more.
    left : curve and k of those that were not.
    max_risk, max_loss : as of ``recommend``.
    """
    so_far = recommend(points, max_risk, max_loss)
    best = (np.inf, np.inf) if so_far is None else (so_far.point.loss, so_far.point.risk)
    if max_risk is None and max_loss is None:
        max_risk = bent([point for point in points if point.curve == points[0].curve]).risk
    limits = [np.inf if limit is None else _OFF * limit for limit in (max_loss, max_risk)]
    wanted = 0 if max_risk is not None else 1
    for usual in _USUAL:
        found: list[tuple[float, int]] = []
        for at, (name, k) in enumerate(left):
            figures = _foreseen(points, name, k, usual)
            within = all(figure <= limit for figure, limit in zip(figures, limits, strict=True))
            if within and figures[wanted] < best[wanted]:
                found.append((figures[wanted], at))
        if found:
            return left[min(found)[1]]
    return None


def _foreseen(
    points: Sequence[Point], name: str, k: int, usual: tuple[float, float]
) -> tuple[float, float]:
    """About the loss and risk of a refined release; none of both where nothing is known."""
    plain = {p.k: p for p in points if p.curve == points[0].curve and p.refine is None}
    plain |= {p.k: p for p in points if p.curve == name.partition("+")[0]}
    tried = [p for p in points if p.curve == name and p.k in plain]
    if k not in plain:
        return 0.0, 0.0
    loss, risk = usual
    if tried:
        near = min(tried, key=lambda p: (abs(p.k - k), p.k))
        before = plain[near.k]
        loss = near.loss / before.loss if before.loss else 1.0
        risk = near.risk / before.risk if before.risk else 1.0
    return plain[k].loss * loss, plain[k].risk * risk


def bent(curve: Sequence[Point]) -> Point:
    """Where a curve bends, over k = 3 to 10; over all its k where fewer than three are of these."""
    found = _looked_at(curve)
    return found[bend([p.risk for p in found], [p.loss for p in found])]


def _looked_at(curve: Sequence[Point]) -> list[Point]:
    ordered = sorted(curve, key=lambda point: point.k)
    inside = [point for point in ordered if point.k in BENDS]
    return inside if len(inside) >= 3 else ordered


def _next(curve: Sequence[Point]) -> Point:
    """The point of a curve of two or more that is below its chord by the second most."""
    found = _looked_at(curve)
    below = depths([p.risk for p in found], [p.loss for p in found])
    order = sorted(range(len(found)), key=lambda at: (-below[at], at))
    return found[order[1]]


def _by_bend(points: Sequence[Point]) -> Recommendation:
    curves: dict[str, list[Point]] = {}
    for point in points:
        curves.setdefault(point.curve, []).append(point)
    first = next(iter(curves))
    over = [point.k for point in _looked_at(curves[first])]
    # Only bends over the same k compare: time may have left out some of another curve.
    bends = {
        name: bent(curve)
        for name, curve in curves.items()
        if [point.k for point in _looked_at(curve)] == over
    }
    start = bends[first]
    rule = f"the bend of {first} over k = {over[0]}..{over[-1]} is at k = {start.k}"
    better = [p for p in points if p.risk <= start.risk and p.loss < start.loss]
    if better:
        found = min(better, key=lambda p: (p.loss, p.risk, p.k))
        rule += f"; {found.curve} with k = {found.k} has no more risk there and less loss"
        runner_up: Point | None = start
    else:
        found = start
        others = [p for name, p in bends.items() if name != first]
        # The other curves' bend of the least risk; of one curve the point of the next depth.
        if not others and len(curves[first]) > 1:
            others = [_next(curves[first])]
        others = others or [p for p in points if p is not found]
        runner_up = min(others, key=lambda p: (p.risk, p.loss), default=None)
    note = "the bend depends on the range of k that is tried"
    if len(over) != len(BENDS) or over[0] != BENDS[0]:
        note += f"; usual is k = {BENDS[0]}..{BENDS[-1]}, all of which was not tried"
    return Recommendation(found, rule, runner_up, {n: p.k for n, p in bends.items()}, note)
