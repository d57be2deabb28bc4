"""Results in a notebook: HTML cards and matplotlib plots.

A ``Point`` is a trial release, drawn at its risk and loss. A curve has the points of one method
with its refinement, if any. The frontier has the Pareto-optimal points: every point with less loss
has more risk, and every point with less risk has more loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dbanon.advice.answer import Advice, Sweep
from dbanon.advice.recommend import Point
from dbanon.doors.html.card import LOSS_NAMES, render_card, split_advice
from dbanon.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Matplotlib's markers, one per method; a fifth method gets the first again.
_MARKERS = "os^D"
# Width and height of a label, as fractions of the axes.
_LABEL_WIDTH, _LABEL_HEIGHT = 0.12, 0.06


def card(result: object) -> str:
    """Render a result as a card: escaped HTML without scripts or external resources."""
    return render_card(result)


def plot(result: Advice | Sweep, axes: Axes | None = None) -> Axes:
    """Plot loss against risk of trial releases, with a line for each method.

    The recommended release is circled. Filled markers are Pareto-optimal releases: every
    release with less loss has more risk, and every release with less risk has more loss.

    Parameters
    ----------
    result : advice, or its sweep, i.e. the trial releases with several methods and k.
    axes : matplotlib axes to draw on; None for a new figure.

    Raises
    ------
    MissingDependency : matplotlib is not installed.
    """
    sweep, recommended_point = split_advice(result)
    if axes is None:
        axes = _create_figure().subplots()
    labelled_points: list[Point] = []
    for index, curve_name in enumerate(dict.fromkeys(point.curve for point in sweep.points)):
        curve_points = [point for point in sweep.points if point.curve == curve_name]
        risks = [point.risk for point in curve_points]
        losses = [point.loss for point in curve_points]
        frontier_indexes = [i for i, point in enumerate(curve_points) if point.on_frontier]
        marker = _MARKERS[index % len(_MARKERS)]
        [line] = axes.plot(risks, losses, f"-{marker}", label=curve_name, markerfacecolor="none")
        axes.plot(
            [risks[i] for i in frontier_indexes],
            [losses[i] for i in frontier_indexes],
            marker,
            color=line.get_color(),
        )
        # Label both ends of the curve with their k.
        for point in (curve_points[0], curve_points[-1]):
            if any(_is_near(point, neighbour, sweep.points) for neighbour in labelled_points):
                continue
            labelled_points.append(point)
            axes.annotate(
                f"k = {point.k}",
                (point.risk, point.loss),
                xytext=(6, 6),
                textcoords="offset points",
                fontsize="small",
            )
    if recommended_point is not None:
        axes.plot(
            recommended_point.risk,
            recommended_point.loss,
            "o",
            markersize=16,
            markerfacecolor="none",
            markeredgecolor="black",
            label=f"recommended: {recommended_point.curve}, k = {recommended_point.k}",
        )
    axes.set_xlabel("linkage risk")
    axes.set_ylabel(LOSS_NAMES[sweep.measure])
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    return axes


def _is_near(point: Point, neighbour: Point, points: Sequence[Point]) -> bool:
    """Return True if the labels of two points would overlap in a plot of ``points``."""
    max_risk = max(plotted_point.risk for plotted_point in points) or 1.0
    max_loss = max(plotted_point.loss for plotted_point in points) or 1.0
    return (
        abs(point.risk - neighbour.risk) < _LABEL_WIDTH * max_risk
        and abs(point.loss - neighbour.loss) < _LABEL_HEIGHT * max_loss
    )


def _create_figure() -> Figure:
    """Create a figure of matplotlib; raises MissingDependency."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise MissingDependency.of_extra("A plot", "matplotlib", "plot") from None
    # Notebooks display figures that pyplot created at the end of a cell.
    return plt.figure(layout="constrained")
