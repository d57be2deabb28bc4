"""Cheap checks of the site: all pages are listed, links work, nothing is fetched.

``make site`` runs Sphinx itself, with warnings as errors.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dbanon
from dbanon.doors.cli.main import main
from dbanon.doors.sql_script import functions_script
from dbanon.errors.explanations import load_explanations
from dbanon.methods import METHODS
from docs.site.build import LINK, Site
from docs.site.contents import all_pages, contents
from docs.site.reference import pages
from docs.site.requests import requests_of


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    Site(folder).assemble()
    return folder


def test_every_page_is_in_the_table_of_contents_once() -> None:
    listed = [path for section in contents() for _, path in section.pages]
    # The list of decisions links to each.
    expected = [path for path in all_pages() if not re.match(r"decisions/\d", path)]
    assert sorted(listed) == sorted(expected)
    titles = [section.title for section in contents()]
    assert titles == ["How-to guides", "Reference", "Explanation", "Measured", "Project"]


def test_links_between_pages_of_the_site_lead_somewhere(site: Path) -> None:
    missing = []
    n_links = 0
    for page in sorted(site.rglob("*.md")):
        text = re.sub(r"^(`{3,}).*?^\1$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        text = re.sub(r"`[^`\n]*`", "", text)
        for link in LINK.finditer(text):
            n_links += 1
            if not (page.parent / link[2]).exists():
                missing.append(f"{page.relative_to(site)}: {link[2]}")
    assert missing == []
    assert n_links > 500


def test_the_row_of_an_error_leads_to_its_page(site: Path) -> None:
    table = (site / "docs" / "errors.md").read_text(encoding="utf-8")
    for code in set(load_explanations()) - {"unexpected"}:
        assert f"[`{code}`](../reference/errors/{code}.md)" in table
        assert (site / "reference" / "errors" / f"{code}.md").exists()


def test_the_reference_is_complete() -> None:
    reference = pages()
    assert all(f"## `dbanon {name}`" in reference["commands.md"] for name in main.commands)
    assert "## `dbanon chain create`" in reference["commands.md"]
    functions = re.findall(r"(?:FUNCTION|PROCEDURE) (dbanon\.[a-z]\w*)\(", functions_script([]))
    assert len(set(functions)) > 50
    assert all(f"## `{name}`" in reference["sql.md"] for name in functions)
    assert all(f"## `{name}`" in reference["methods.md"] for name in METHODS)
    plain = set(dbanon.__all__) - {"METHODS", "errors"}
    assert all(f"### `dbanon.{name}`" in reference["python.md"] for name in plain)
    keys = reference["job-keys.md"]
    assert all(f"| `{name}` |" in keys for name in ("on_new_column", "keep_last", "webhook"))


def test_external_requests_are_detected(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text(
        '<a href="https://example.org">out</a><img src="x.png"><script src="_static/a.js"></script>'
        '<link rel="stylesheet" href="_static/a.css"><img src="data:image/png;base64,AA">'
    )
    (tmp_path / "good.css").write_text("a { background: url(x.svg) } b { src: url('data:x') }")
    (tmp_path / "good.js").write_text("fetch('searchindex.js'); // see https://example.org")
    assert requests_of(tmp_path) == []
    bad = {
        "a.html": '<script src="https://example.org/a.js"></script>',
        "b.html": '<link rel="stylesheet" href="//example.org/a.css">',
        "c.html": '<p style="background: url(http://example.org/a.png)">',
        "d.css": "@import 'https://example.org/font.css';",
        "e.css": "a { src: url(https://example.org/a.woff2) }",
        "f.js": 'fetch("https://example.org/beacon")',
        "g.html": '<img srcset="a.png 1x, https://example.org/a.png 2x">',
    }
    for name, text in bad.items():
        (tmp_path / name).write_text(text)
    assert [request.partition(":")[0] for request in requests_of(tmp_path)] == sorted(bad)
