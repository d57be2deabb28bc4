"""What a notebook shows of a result: a card, and a plot on demand.

Results stand below the doors, and what draws is a door's. So the doors say here who draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Drawing(Protocol):
    """Who draws."""

    def card(self, shown: Any) -> str: ...

    def plot(self, shown: Any, axes: Any) -> Any: ...


_drawing: Callable[[], Drawing] | None = None


def drawn_by(found: Callable[[], Drawing]) -> None:
    """Say who draws; called when something is to be drawn."""
    global _drawing
    _drawing = found


class Shown:
    """What a notebook shows as a card: text and a picture, in HTML that runs and loads nothing."""

    def _repr_html_(self) -> str | None:
        """The card; None, for which a notebook takes ``repr``, where no door was opened."""
        return None if _drawing is None else _drawing().card(self)


class Plotted(Shown):
    """What can be plotted, too."""

    def plot(self, axes: Any = None) -> Any:
        """Plot it with matplotlib, and return the axes.

        Parameters
        ----------
        axes : matplotlib's, to draw on; None for a figure of its own.

        Raises
        ------
        MissingDependency : matplotlib is not installed.
        """
        assert _drawing is not None
        return _drawing().plot(self, axes)
