"""Generates ``docs/workbench.png``, two steps of the workbench: ``make picture``."""

from __future__ import annotations

import base64
import csv
import tempfile
from pathlib import Path
from typing import Any

from dbanon.doors.cli.demo_data import generate_persons
from tests.browser import opened_browser
from tests.doors.workbench.process import process

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "workbench.png"
WIDE, HIGH = 900, 1000
# Few enough of the demonstration's columns for a page.
COLUMNS = ("birth_date", "sex", "region", "height_cm", "income", "diagnosis")


def write_persons(folder: Path) -> None:
    """Write a CSV file of invented persons."""
    persons = generate_persons(3000, 1)
    with (folder / "persons.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows(zip(*(list(persons[name]) for name in COLUMNS), strict=True))


def screenshot(page: Any, top: str) -> str:
    """A screenshot of a page, starting at an element, as a data URL."""
    y = page.evaluate("s => document.querySelector(s).getBoundingClientRect().top", top)
    shot = page.screenshot(
        full_page=True, clip={"x": 0, "y": y, "width": WIDE, "height": HIGH}, scale="css"
    )
    return "data:image/png;base64," + base64.b64encode(shot).decode()


def steps(browser: Any, address: str) -> list[str]:
    """Trial releases in light, and a hierarchy in dark."""
    context = browser.new_context(viewport={"width": WIDE, "height": HIGH})
    page = context.new_page()

    def go(press: str) -> None:
        page.click(press)
        page.wait_for_selector("[data-live]", state="detached", timeout=120_000)

    page.goto(address)
    page.wait_for_selector("form[action=columns]")
    go("form[action=columns] button")
    page.select_option("#tree-0", "dates")
    go("form[action=trees] button")
    page.emulate_media(color_scheme="dark")
    page.click(".tree details details summary")
    tree = screenshot(page, "body")
    page.emulate_media(color_scheme="light")
    page.click("a[href=sweep].on")
    go("form[action=sweep] button")
    pictures = [screenshot(page, "body"), tree]
    context.close()
    return pictures


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        write_persons(Path(folder))
        with process(Path(folder), "file:persons.csv", "--table", "persons") as bench:
            left, right = steps(browser, bench.address)
        both = browser.new_page(viewport={"width": 2 * WIDE, "height": HIGH})
        both.set_content(
            "<body style='margin: 0; display: flex'>"
            f"<img src='{left}' width={WIDE}><img src='{right}' width={WIDE}>"
        )
        both.wait_for_function("[...document.images].every(image => image.complete)")
        both.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
