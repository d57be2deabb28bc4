"""Links to a heading lead to an existing heading; checked without building the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "benchmarks", "examples", "dbanon/errors")
PAGES = sorted([*ROOT.glob("*.md"), *(p for f in FOLDERS for p in (ROOT / f).rglob("*.md"))])
FENCED = re.compile(r"^( *`{3,}).*?^\1$", re.M | re.S)
LINK = re.compile(r"\]\((?!\w+:)([^)\s#]*)#([^)\s]+)\)")
# MyST creates anchors for headings of these levels (`myst_heading_anchors` in docs/site/conf.py).
HEADING = re.compile(r"^#{1,5} +(.+?) *#*$", re.M)


def anchors(text: str) -> set[str]:
    """The anchors of a page: those that GitHub and MyST derive from headings, and explicit ones."""
    headings: list[str] = []
    for heading in HEADING.findall(FENCED.sub("", text)):
        heading_text = re.sub(r"[`*]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        slug = re.sub(r"[^\w\- ]", "", heading_text.strip().casefold()).replace(" ", "-")
        before = sum(
            re.fullmatch(rf"{re.escape(slug)}(-\d+)?", had) is not None for had in headings
        )
        headings.append(f"{slug}-{before}" if slug in headings else slug)
    return {*headings, *re.findall(r"\bid=\"([^\"]+)\"", text)}


def broken(page: Path) -> list[str]:
    """A page's links to headings or files that do not exist."""
    missing = []
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    for file, anchor in LINK.findall(text):
        target = page.parent / file if file else page
        if not target.is_file() or anchor not in anchors(target.read_text(encoding="utf-8")):
            missing.append(f"{file}#{anchor}")
    return missing


def test_links_to_headings_lead_to_a_heading() -> None:
    pages = {page.relative_to(ROOT).as_posix(): broken(page) for page in PAGES}
    assert {page: missing for page, missing in pages.items() if missing} == {}
    assert sum(len(LINK.findall(page.read_text(encoding="utf-8"))) for page in PAGES) > 250


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("other.md#a-heading-with-code-and-a-link", True),
        ("#here", True),
        ("#here-1", True),
        ("other.md#named", True),
        ("other.md#a-heading", False),
        ("#here-2", False),
        ("missing.md#here", False),
        ("other.md#in-code", False),
    ],
)
def test_broken_links_are_reported(tmp_path: Path, link: str, leads: bool) -> None:
    other = '## A heading, with `code` and [a link](x.md)\n\n<a id="named"></a>\n'
    (tmp_path / "other.md").write_text(f"{other}\n```\n# In code\n```\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Here\n\nSee [it]({link}), not `[that](#gone)`.\n\n## Here\n")
    assert broken(page) == ([] if leads else [link])
