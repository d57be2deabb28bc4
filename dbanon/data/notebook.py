"""Cards and plots of results in notebooks.

A card is the display of a result in a notebook: text and a picture, in static HTML. The module that
draws cards and plots depends on the results, so results cannot import it: it registers itself here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Drawing(Protocol):
    """The module that draws cards and plots."""

    def card(self, result: Any) -> str:
        """The card of a result as HTML."""

    def plot(self, result: Any, axes: Any) -> Any:
        """Plot a result, and return the matplotlib axes."""


_load_drawing: Callable[[], Drawing] | None = None


def set_drawing(load_drawing: Callable[[], Drawing]) -> None:
    """Register the drawing module.

    Parameters
    ----------
    load_drawing : a function that imports and returns the module; it is called on first use.
    """
    global _load_drawing
    _load_drawing = load_drawing


class NotebookCard:
    """A result that notebooks display as a card."""

    def _repr_html_(self) -> str | None:
        """Return the card as HTML.

        None if no drawing module is registered; notebooks then display ``repr``.
        """
        return None if _load_drawing is None else _load_drawing().card(self)


class NotebookPlot(NotebookCard):
    """A result that also has a plot."""

    def plot(self, axes: Any = None) -> Any:
        """Plot the result with matplotlib, and return the axes.

        Parameters
        ----------
        axes : matplotlib axes to draw on; None for a new figure.

        Raises
        ------
        MissingDependency : matplotlib is not installed.
        """
        # Callers get results with a plot from a door, and importing the doors registers the module.
        assert _load_drawing is not None
        return _load_drawing().plot(self, axes)
