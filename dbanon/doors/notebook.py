"""What a notebook shows of results: cards in HTML, plots by matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbanon.advice.answer import Advice, Sweep
from dbanon.advice.recommend import Point
from dbanon.doors.html.card import LOSSES, tried
from dbanon.doors.html.card import card as drawn
from dbanon.errors import MissingDependency

_MARKERS = "os^D"


def card(shown: Any) -> str:
    """A result as a card: HTML without scripts that loads nothing, every text escaped."""
    return drawn(shown)


def plot(shown: Advice | Sweep, axes: Any = None) -> Any:
    """Loss against risk of the releases that were tried, a line for each method.

    The release that is recommended has a ring. Releases that no other beats in both are filled.

    Parameters
    ----------
    axes : matplotlib's, to draw on; None for a figure of its own.

    Raises
    ------
    MissingDependency : matplotlib is not installed.
    """
    sweep, chosen = tried(shown)
    if axes is None:
        axes = _figure().subplots()
    named: list[Point] = []
    for place, name in enumerate(dict.fromkeys(point.curve for point in sweep.points)):
        own = [point for point in sweep.points if point.curve == name]
        risks, losses = [point.risk for point in own], [point.loss for point in own]
        filled = [at for at, point in enumerate(own) if point.on_frontier]
        marker = _MARKERS[place % len(_MARKERS)]
        [line] = axes.plot(risks, losses, f"-{marker}", label=name, markerfacecolor="none")
        axes.plot(
            [risks[at] for at in filled],
            [losses[at] for at in filled],
            marker,
            color=line.get_color(),
        )
        for point in (own[0], own[-1]):
            if any(_is_near(point, other, sweep.points) for other in named):
                continue
            named.append(point)
            axes.annotate(
                f"k = {point.k}", (point.risk, point.loss), xytext=(6, 6),
                textcoords="offset points", fontsize="small",
            )  # fmt: skip
    if chosen is not None:
        axes.plot(
            chosen.risk, chosen.loss, "o", markersize=16, markerfacecolor="none",
            markeredgecolor="black", label=f"recommended: {chosen.curve}, k = {chosen.k}",
        )  # fmt: skip
    axes.set_xlabel("linkage risk")
    axes.set_ylabel(LOSSES[sweep.measure])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def _is_near(one: Point, other: Point, points: Sequence[Point]) -> bool:
    """Whether labels of both would cover each other."""
    wide, high = max(p.risk for p in points) or 1.0, max(p.loss for p in points) or 1.0
    return abs(one.risk - other.risk) < 0.12 * wide and abs(one.loss - other.loss) < 0.06 * high


def _figure() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependency.of_extra("A plot", "matplotlib", "plot") from None
    # By pyplot, which a notebook shows at the end of a cell.
    return plt.figure(layout="constrained")
