"""Generates the pictures of docs/microdata.md from a run of the page: ``make picture``.

``docs/figures/risk-map.svg`` is the map of loss against risk, and ``docs/risk.png`` shows the
pictures of the owner's page.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.browser import opened_browser
from tests.docs.readme import ROOT, clone, run_page

PAGE = ROOT / "docs" / "microdata.md"
MAP, RISK = ROOT / "docs" / "figures" / "risk-map.svg", ROOT / "docs" / "risk.png"


def main() -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        checkout, empty = clone(Path(folder)), Path(folder) / "empty"
        empty.mkdir()
        run_page(PAGE.read_text(encoding="utf-8"), checkout, empty)
        shutil.copy2(empty / "map.svg", MAP)
        page = browser.new_page(viewport={"width": 960, "height": 800})
        page.goto((empty / "risk-private.html").as_uri())
        pictures = page.locator("figure")
        boxes = [pictures.nth(index).bounding_box() for index in range(pictures.count())]
        top = min(box["y"] for box in boxes) - 40
        bottom = max(box["y"] + box["height"] for box in boxes) + 10
        clip = {"x": 0, "y": top, "width": 740, "height": bottom - top}
        page.screenshot(path=RISK, full_page=True, clip=clip)


if __name__ == "__main__":
    main()
