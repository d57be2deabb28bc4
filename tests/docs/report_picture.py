"""Generates ``docs/report.png``, the report in light and dark: ``make picture``."""

from __future__ import annotations

import base64
import tempfile
import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import dbanon
from dbanon.doors.cli.demo import KEEP, QUASI_IDENTIFIERS, SENSITIVE
from dbanon.doors.cli.demo_data import generate_persons
from dbanon.doors.html.page import render_page, write_private_file
from dbanon.errors import PrivacyWarning
from dbanon.run.inspect_release import inspect_release
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation
from tests.browser import opened_browser
from tests.doors.html.pages import sweep

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "report.png"
WIDE, HIGH = 960, 1120


def report() -> str:
    """The page of an evaluated release of the demonstration's persons, with a sweep."""
    connection = duckdb.connect()
    connection.register("persons", pa.table(generate_persons(5000, 1)))
    for statement in (
        "CREATE SCHEMA app",
        "CREATE SCHEMA release",
        "CREATE TABLE app.person AS SELECT * REPLACE ("
        "CAST(weight_kg AS DECIMAL(5,1)) AS weight_kg,"
        " CAST(commute_km AS DECIMAL(6,1)) AS commute_km) FROM persons",
    ):
        connection.execute(statement)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        release = dbanon.anonymize(
            connection,
            table="app.person",
            quasi_identifiers=QUASI_IDENTIFIERS,
            k=5,
            sensitive=SENSITIVE,
            keep=KEEP,
            output="release.person",
            evaluate=True,
        )
    numbers = ", ".join(
        f"CAST({name} - DATE '1970-01-01' AS DOUBLE)"
        if name == "birth_date"
        else f"CAST({name} AS DOUBLE)"
        for name in QUASI_IDENTIFIERS
    )
    columns = connection.execute(f"SELECT {numbers} FROM app.person").fetchnumpy()
    points = np.column_stack(list(columns.values()))
    inspection = inspect_release(open_store(connection), parse_relation("release.person"))
    return render_page(release, inspection=inspection, tradeoff=sweep(points, QUASI_IDENTIFIERS))


def screenshot(browser: Any, path: Path, scheme: str, from_section: str | None) -> str:
    """A screenshot of a part of the page, as a data URL."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": WIDE, "height": HIGH}, device_scale_factor=1
    )
    opened = context.new_page()
    opened.goto(path.as_uri())
    top = 0
    if from_section:
        script = "id => document.getElementById(id).parentElement.getBoundingClientRect().top"
        top = opened.evaluate(script, from_section)
    clip = {"x": 0, "y": top, "width": WIDE, "height": HIGH}
    shot = opened.screenshot(full_page=True, clip=clip)
    context.close()
    return "data:image/png;base64," + base64.b64encode(shot).decode()


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, opened_browser() as browser:
        path = Path(folder) / "report.html"
        write_private_file(report(), path)
        left = screenshot(browser, path, "light", None)
        right = screenshot(browser, path, "dark", "tradeoff")
        both = browser.new_page(viewport={"width": 2 * WIDE, "height": HIGH})
        both.set_content(
            "<body style='margin: 0; display: flex'>"
            f"<img src='{left}' width={WIDE}><img src='{right}' width={WIDE}>"
        )
        both.wait_for_function("[...document.images].every(image => image.complete)")
        both.screenshot(path=PICTURE)


if __name__ == "__main__":
    main()
