"""Where requests come from: Python, the command line, SQL."""

from dbanon.data.notebook import Drawing, set_drawing


def _drawing() -> Drawing:
    """Who draws what a notebook shows; loaded when it is asked for."""
    from dbanon.doors import notebook

    return notebook


set_drawing(_drawing)
