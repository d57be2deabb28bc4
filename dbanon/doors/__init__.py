"""Where requests come from: Python, the command line, SQL."""

from dbanon.data.notebook import Drawing, drawn_by


def _drawing() -> Drawing:
    """Who draws what a notebook shows; loaded when it is asked for."""
    from dbanon.doors import notebook

    return notebook


drawn_by(_drawing)
