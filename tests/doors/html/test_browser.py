"""The report in a real browser: accessible, silent, readable on a small screen, printable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dbanon.doors.html.page import render_page, write_private_file
from tests.doors.html.pages import HOSTILE, Release, make_release

pytestmark = pytest.mark.slow


def written(folder: Path, release: Release) -> Path:
    text = render_page(release.report, inspection=release.look, tradeoff=release.tradeoff)
    write_private_file(text, folder / "report.html")
    return folder / "report.html"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("page"), make_release())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("hostile"), make_release(HOSTILE))


class OpenedPage:
    """Open a page in its own context, recording its requests and console messages."""

    def __init__(self, browser: Any, path: Path, scheme: str = "light", width: int = 1100) -> None:
        self.context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=False
        )
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.lines: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda line: self.lines.append(line.text))
        self.page.on("pageerror", lambda error: self.lines.append(str(error)))
        self.page.on("dialog", lambda dialog: self.lines.append(dialog.message))
        self.page.goto(path.as_uri())


@pytest.mark.parametrize(
    ("which", "scheme"),
    [
        ("file", "light"),
        # The other page has the same parts and colors.
        pytest.param("file", "dark", marks=pytest.mark.campaign),
        ("hostile", "dark"),
    ],
)
def test_accessible_and_silent(
    browser: Any, axe: Any, request: pytest.FixtureRequest, which: str, scheme: str
) -> None:
    file: Path = request.getfixturevalue(which)
    opened = OpenedPage(browser, file, scheme)
    # Including the tables behind pictures.
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.requests == [file.as_uri()]
    assert opened.lines == []
    assert axe(opened.page) == ""
    opened.context.close()


def test_its_policy_stops_planted_content(browser: Any, file: Path, tmp_path: Path) -> None:
    """Even if escaping had a hole, nothing would run and nothing would be displayed."""
    (tmp_path / "x.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="9"/>')
    hole = "<main><script>document.title = 'run'</script><img src='x.svg'>"
    text, planted = file.read_text(encoding="utf-8"), tmp_path / "planted.html"
    planted.write_text(text.replace("<main>", hole), encoding="utf-8")
    # The image exists and is visible where the policy does not apply.
    (tmp_path / "open.html").write_text(hole, encoding="utf-8")
    for path, width in ((planted, 0), (tmp_path / "open.html", 9)):
        opened = OpenedPage(browser, path)
        assert opened.page.evaluate("document.images[0].naturalWidth") == width
        assert (opened.page.title() == "run") == bool(width)
        opened.context.close()


@pytest.mark.parametrize("which", ["file", "hostile"])
@pytest.mark.parametrize("width", [360, 1100])
def test_no_overflow(browser: Any, request: pytest.FixtureRequest, which: str, width: int) -> None:
    file: Path = request.getfixturevalue(which)
    opened = OpenedPage(browser, file, width=width)
    opened.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.context.close()


def test_labels_of_pictures_do_not_meet(browser: Any, file: Path) -> None:
    opened = OpenedPage(browser, file)
    met = opened.page.evaluate(
        """() => [...document.querySelectorAll('svg[role=img]')].flatMap(picture => {
          const boxes = [...picture.querySelectorAll('text')].map(
            one => [one.textContent, one.getBoundingClientRect()]);
          return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
            p.left < q.right - 1 && q.left < p.right - 1 &&
            p.top < q.bottom - 3 && q.top < p.bottom - 3).map(([b]) => a + ' | ' + b));
        })"""
    )
    assert met == []
    opened.context.close()


def test_prints(browser: Any, file: Path) -> None:
    opened = OpenedPage(browser, file, "dark")
    opened.page.emulate_media(media="print")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    # Sections collapsed on screen are printed.
    heights = opened.page.evaluate(
        "[...document.querySelectorAll('details table')].map(one => one.offsetHeight)"
    )
    assert heights
    assert min(heights) > 0
    assert opened.page.pdf(format="A4").startswith(b"%PDF")
    opened.context.close()
