"""Sphinx's settings of the site; ``docs/site/build.py`` assembles the pages and runs it."""

from __future__ import annotations

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
