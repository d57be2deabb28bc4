"""Results in a notebook: cards in HTML, plots by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbanon.advice.answer import Advice, Sweep
from dbanon.advice.recommend import Point
from dbanon.doors.html.card import LOSS_NAMES, render_card, split_advice
from dbanon.errors import MissingDependency

_MARKERS = "os^D"


def card(result: Any) -> str:
    """Render a result as a card: escaped HTML without scripts and external resources."""
    return render_card(result)


def plot(result: Advice | Sweep, axes: Any = None) -> Any:
    """Loss against risk of the releases that were tried, a line for each method.

    The recommended release has a ring. Filled marks are releases that no other beats in both.

    Parameters
    ----------
    axes : the axes of matplotlib to draw on; None for a new figure.

    Raises
    ------
    MissingDependency : matplotlib is not installed.
    """
    sweep, chosen = split_advice(result)
    if axes is None:
        axes = _figure().subplots()
    labelled: list[Point] = []
    for index, name in enumerate(dict.fromkeys(point.curve for point in sweep.points)):
        curve = [point for point in sweep.points if point.curve == name]
        risks, losses = [point.risk for point in curve], [point.loss for point in curve]
        frontier = [i for i, point in enumerate(curve) if point.on_frontier]
        marker = _MARKERS[index % len(_MARKERS)]
        [line] = axes.plot(risks, losses, f"-{marker}", label=name, markerfacecolor="none")
        axes.plot(
            [risks[i] for i in frontier],
            [losses[i] for i in frontier],
            marker,
            color=line.get_color(),
        )
        for point in (curve[0], curve[-1]):
            if any(_is_near(point, neighbour, sweep.points) for neighbour in labelled):
                continue
            labelled.append(point)
            axes.annotate(
                f"k = {point.k}",
                (point.risk, point.loss),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize="small",
            )
    if chosen is not None:
        axes.plot(
            chosen.risk,
            chosen.loss,
            "o",
            markersize=16,
            markerfacecolor="none",
            markeredgecolor="black",
            label=f"recommended: {chosen.curve}, k = {chosen.k}",
        )
    axes.set_xlabel("linkage risk")
    axes.set_ylabel(LOSS_NAMES[sweep.measure])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def _is_near(a: Point, b: Point, points: Sequence[Point]) -> bool:
    """True if the labels of both points would overlap."""
    wide, high = max(p.risk for p in points) or 1.0, max(p.loss for p in points) or 1.0
    return abs(a.risk - b.risk) < 0.12 * wide and abs(a.loss - b.loss) < 0.06 * high


def _figure() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependency.of_extra("A plot", "matplotlib", "plot") from None
    # Notebooks show figures of pyplot at the end of a cell.
    return plt.figure(layout="constrained")
