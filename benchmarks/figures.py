"""Line plots as small SVG files; equal numbers produce equal bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

# By curve, its x and y values.
Curves = Mapping[str, tuple[Sequence[float], Sequence[float]]]

_STYLE = {
    # Keep text as text, and make ids deterministic.
    "svg.fonttype": "none",
    "svg.hashsalt": "dbanon",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 4,
}
_MARKERS = "os^Dvx+*"


def draw(path: Path, panels: Mapping[str, Curves], x_label: str, y_label: str) -> None:
    """Draw panels, by title, with the same curves next to each other; y is logarithmic."""
    with plt.rc_context(_STYLE):
        size = (3.1 * len(panels) + 0.4, 3.2)
        figure, axes = plt.subplots(1, len(panels), figsize=size, squeeze=False, sharey=True)
        for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
            for marker, (name, (x, y)) in zip(_MARKERS, curves.items(), strict=False):
                axis.plot(x, y, marker=marker, label=name)
            axis.set_title(title)
            axis.set_xlabel(x_label)
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes[0, 0].set_ylabel(y_label)
        names = axes[0, 0].get_legend_handles_labels()
        figure.legend(*names, loc="lower center", ncols=len(names[0]), frameon=False)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        plt.close(figure)
