"""The site: ``make site`` assembles its pages and runs Sphinx, with warnings as errors.

The folders of the repository are mirrored, so that a link means the same in both places. Files that
are no pages are shown as pages of their own; ``reference/`` is written from the code.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from docs.site.contents import DOCS, ROOT, all_pages, contents
from docs.site.reference import pages as reference_pages
from docs.site.requests import requests_of

BUILD = ROOT / "build" / "site"
PICTURES = (".png", ".svg")
LANGUAGES = {
    ".env": "bash",
    ".py": "python",
    ".sh": "bash",
    ".sql": "postgresql",
    ".toml": "toml",
    ".yaml": "yaml",
}
# The page at the root of the site leads to the start.
FIRST = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>dbanon</title>
<meta http-equiv="refresh" content="0; url=docs/index.html">
<p><a href="docs/index.html">dbanon</a></p></html>
"""
# What the sidebar does not list: others link to it.
ORPHAN = "---\norphan: true\n---\n\n"
# A link of Markdown to a file of the repository, with its anchor.
LINK = re.compile(r"(\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(\))")
_FENCED = re.compile(r"(^```.*?^```$)", re.M | re.S)
# Rows of the table of errors begin with their code.
_CODE = re.compile(r"^\| `(\w+)` \|", re.M)
# Sections of the table of contents that have pages made of the code.
MADE = {
    "Reference": [
        "commands", "sql", "python", "job-keys", "methods", "errors/index",
    ],
}  # fmt: skip


class Site:
    """The sources of Sphinx in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown: set[str] = set()

    def assemble(self) -> None:
        """Write all pages."""
        titles = {path: title for section in contents() for title, path in section.pages}
        for name in ["index.md", *all_pages()]:
            path = os.path.normpath(f"docs/{name}")
            text = self._linked(path, (ROOT / path).read_text(encoding="utf-8"))
            if not re.search("^# ", text, re.M):
                text = f"# {titles[name]}\n\n{text}"
            # A page that a list of its own leads to.
            self._write(path, text if name in titles or name == "index.md" else ORPHAN + text)
        for name, text in reference_pages().items():
            listed = name.removesuffix(".md") in MADE["Reference"]
            self._write(f"reference/{name}", text if listed else ORPHAN + text)
        index = self.folder / "docs" / "index.md"
        index.write_text(index.read_text(encoding="utf-8") + self._toctrees(), encoding="utf-8")

    def _write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _toctrees(self) -> str:
        """The lists of the page as Sphinx has them, for the sidebar."""
        parts = []
        for title, named in contents():
            made = [f"/reference/{name}" for name in MADE.get(title, ())]
            pages = [f"{own} <{name.removesuffix('.md')}>" for own, name in named]
            lines = "\n".join([*pages, *made])
            parts.append(f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n{lines}\n```\n")
        return "".join(parts)

    def _linked(self, path: str, text: str) -> str:
        """A page whose links lead to what stands on the site."""

        def link(found: re.Match[str]) -> str:
            opening, target, anchor, closing = found.groups()
            return opening + self._target(path, target) + (anchor or "") + closing

        pieces = _FENCED.split(text)
        text = "".join(p if i % 2 else LINK.sub(link, p) for i, p in enumerate(pieces))
        if path == "docs/errors.md":
            text = _CODE.sub(r"| [`\1`](../reference/errors/\1.md) |", text)
        return text

    def _target(self, path: str, target: str) -> str:
        """Where a link of a page leads; what it names comes along."""
        named = os.path.normpath(os.path.join(os.path.dirname(path), target))
        file = ROOT / named
        if file.suffix == ".md":
            if named == "dbanon/errors/explained.md":
                return os.path.relpath("reference/errors/index.md", os.path.dirname(path))
            return target
        if file.suffix in PICTURES:
            self._copy(named)
            return target
        self._show(named)
        page = f"{named}/index.md" if file.is_dir() else f"{named}.md"
        return os.path.relpath(page, os.path.dirname(path))

    def _copy(self, named: str) -> None:
        place = self.folder / named
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / named, place)

    def _show(self, named: str) -> None:
        """A page for a file that is none, or for a folder."""
        if named in self.shown:
            return
        self.shown.add(named)
        file = ROOT / named
        if file.is_dir():
            files = [one for one in _files(file) if one.suffix not in PICTURES]
            for one in files:
                self._show(one.relative_to(ROOT).as_posix())
            rows = [
                f"- [{one.relative_to(file)}]({one.relative_to(file).as_posix()}.md)"
                for one in files
            ]
            text = f"{ORPHAN}# {named}/\n\n" + "\n".join(rows) + "\n"
            self._write(f"{named}/index.md", text)
            return
        code = file.read_text(encoding="utf-8").rstrip("\n")
        # Templates, and variables of psql, are none of the language's own.
        own = not re.search(r"\{[{%#]|:'|:\"|^\\", code, re.M)
        language = LANGUAGES.get(file.suffix, "text") if own else "text"
        self._write(
            f"{named}.md",
            f"{ORPHAN}# {named}\n\n````{language}\n{code}\n````\n",
        )


def _files(folder: Path) -> Iterator[Path]:
    for one in sorted(folder.rglob("*")):
        if one.is_file() and "__pycache__" not in one.parts and one.suffix != ".md":
            yield one


def build() -> int:
    """Build the site in ``build/site/html``; 0 where all is well."""
    from sphinx.cmd.build import main as sphinx

    source, html = BUILD / "source", BUILD / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    Site(source).assemble()
    options = ["-b", "html", "-W", "--keep-going", "-q", "-j", "auto"]
    places = ["-d", str(BUILD / "doctrees"), "-c", str(DOCS / "site")]
    code = sphinx([*options, *places, str(source), str(html)])
    if code:
        return code
    (html / "index.html").write_text(FIRST, encoding="utf-8")
    if asked := requests_of(html):
        print("The pages would ask other machines:", *asked, sep="\n  ", file=sys.stderr)
        return 1
    pages = sum(1 for _ in html.rglob("*.html"))
    print(f"{pages} pages, 0 warnings, no request to anywhere: {html / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(build())
