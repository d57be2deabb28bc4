"""The interfaces: Python, the command line, SQL, job files and the workbench."""

from dbanon.data.notebook import Drawing, set_drawing


def _import_drawing() -> Drawing:
    """Import the module that renders results in notebooks."""
    from dbanon.doors import notebook

    return notebook


# Results render themselves in notebooks, but must not import the interfaces.
set_drawing(_import_drawing)
