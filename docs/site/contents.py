"""The table of contents: the lists of links in ``docs/index.md``, which readers see there, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
# Sections of the page that are no part of the table of contents have other headings.
_SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.M | re.S)
_ENTRY = re.compile(r"^\s*- \[([^\]]+)\]\(([^)#]+\.md)\)", re.M)


class Section(NamedTuple):
    """A heading of the table of contents, and the pages below it: titles, paths from ``docs/``."""

    title: str
    pages: tuple[tuple[str, str], ...]


def contents() -> list[Section]:
    """The sections of ``docs/index.md`` whose lists begin with links to pages."""
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    found = [Section(title, tuple(_ENTRY.findall(body))) for title, body in _SECTION.findall(text)]
    return [section for section in found if section.pages]


def all_pages() -> list[str]:
    """Every page that belongs on the site, from ``docs/``."""
    own = [file.name for file in sorted(DOCS.glob("*.md")) if file.name != "index.md"]
    decisions = [f"decisions/{file.name}" for file in sorted((DOCS / "decisions").glob("*.md"))]
    results = [
        f"../benchmarks/results/{file.name}"
        for file in sorted((ROOT / "benchmarks" / "results").glob("*.md"))
    ]
    roots = ["../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md", "../SECURITY.md"]
    return [*own, *decisions, *results, *roots]
