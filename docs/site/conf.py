"""Sphinx's settings of the site; ``docs/site/build.py`` assembles the pages and runs it."""

from __future__ import annotations

import re
from typing import Any

import dbanon

project = "dbanon"
version = release = dbanon.__version__
project_copyright = "the authors of dbanon, Apache-2.0"
html_title = f"dbanon {version}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
exclude_patterns: list[str] = []

# As GitHub makes anchors of headings, so that a link means the same in both places.
myst_heading_anchors = 5
# Some pages begin a part of a list with a heading of the third level.
suppress_warnings = ["myst.header"]
# psql sessions, and output of programs.
highlight_language = "text"

autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = True
napoleon_google_docstring = False

html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
# Options begin with two hyphens.
smartquotes = False

# In docstrings of this house what stands behind a parameter's colon is what it means, not its type.
_NAMED = re.compile(r"^(\s*)([\w*.]+(?:, [\w*.]+)*) : (.+)$")


def _meanings(app: Any, what: str, name: str, of: Any, options: Any, lines: list[str]) -> None:
    """Write ``name : meaning`` of a docstring in two lines, before Napoleon reads it."""
    in_section = False
    found = []
    for place, line in enumerate(lines):
        underlined = place + 1 < len(lines) and re.fullmatch(r"\s*-{3,}", lines[place + 1])
        in_section = in_section or bool(underlined)
        if in_section and (named := _NAMED.match(line)):
            found += [named[1] + named[2], f"{named[1]}    {named[3]}"]
        else:
            found.append(line)
    lines[:] = found


def setup(app: Any) -> None:
    """Connect what reads docstrings."""
    app.connect("autodoc-process-docstring", _meanings, priority=100)
