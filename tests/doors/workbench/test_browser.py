"""The workbench in a real browser: used by keyboard only, and attacked by other pages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from tests.doors.workbench.client import STEPS
from tests.doors.workbench.process import Process, process

pytestmark = pytest.mark.slow


def write_month(folder: Path, month: int, n: int = 240) -> None:
    """Write the file of a month, with invented persons."""
    rng = np.random.default_rng(month)
    lines = ["patient_name,born,ward,height_cm,diagnosis"]
    lines += [
        f"Name {i} of {month},{date(1940, 1, 1) + timedelta(days=int(rng.integers(0, 20_000)))},"
        f"{'NSEW'[int(rng.integers(0, 4))]},{int(rng.normal(170, 9))},"
        f"{('flu', 'gout', 'asthma')[int(rng.integers(0, 3))]}"
        for i in range(n)
    ]
    (folder / "patients.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Process]:
    write_month(tmp_path, 1)
    with process(tmp_path, "file:patients.csv", "--table", "patients") as bench:
        yield bench


class Tab:
    """A tab, with all its requests and console messages."""

    def __init__(self, context: Any, address: str) -> None:
        self.page = context.new_page()
        self.requests: list[str] = []
        self.lines: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda line: self.lines.append(line.text))
        self.page.on("pageerror", lambda error: self.lines.append(str(error)))
        self.page.goto(address)
        self.settle()

    def settle(self) -> None:
        """Wait until the task has ended and the page shows it."""
        self.page.wait_for_selector("[data-live]", state="detached", timeout=60_000)

    def tab_to(self, selector: str) -> None:
        """Move the focus to an element, using only the keyboard."""
        for _ in range(120):
            self.page.keyboard.press("Tab")
            if self.page.evaluate("s => document.activeElement?.matches(s)", selector):
                return
        raise AssertionError(f"the keyboard does not reach {selector}")

    def press(self, selector: str, key: str = "Enter") -> None:
        """Act like a user without a mouse."""
        self.tab_to(selector)
        if self.page.evaluate("document.activeElement.matches('summary')"):
            self.page.keyboard.press(key)
            return
        # A key press does not wait for the page that it requests.
        with self.page.expect_navigation():
            self.page.keyboard.press(key)
        self.settle()

    def text(self) -> str:
        return str(self.page.inner_text("body"))


def unfold(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")


def test_from_a_csv_file_to_a_monthly_run(
    browser: Any, axe: Any, bench: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Use only the keyboard; then the saved job runs on the next month's rows without any page."""
    context = browser.new_context(viewport={"width": 1100, "height": 900})
    tab = Tab(context, bench.address)

    def sound() -> None:
        unfold(tab.page)
        assert axe(tab.page) == ""

    assert "key=" not in tab.page.url
    assert "Proposed: identifier: its name says so." in tab.text()
    sound()
    tab.press("form[action=columns] button")
    assert tab.page.url.endswith("/trees")
    # Arrow keys choose in a list.
    tab.tab_to("#tree-1")
    tab.page.keyboard.press("ArrowDown")
    tab.press("form[action=trees] button")
    assert "calendar: month, year, decade" in tab.text()
    assert "1950s" in tab.text()
    assert tab.page.is_hidden("text=1951")
    tab.press(".tree details details summary")
    assert tab.page.locator(".tree details details[open]").count() == 1
    sound()
    tab.press("a[href=sweep].on")
    tab.press("form[action=sweep] button")
    assert "the knee of the curve for gaa_cp" in tab.text()
    assert tab.page.locator("svg.map").count() == 1
    sound()
    tab.tab_to("input[name=point]")
    tab.page.keyboard.press("ArrowDown")
    tab.press("button[value=compare]")
    assert tab.page.locator("table.two tbody tr").count() >= 6
    tab.press("a[href=job].on")
    tab.tab_to("#risk")
    tab.page.keyboard.press("Space")
    tab.tab_to("#risk-max_global")
    tab.page.keyboard.type("0.9")
    sound()
    tab.press("form[action=job] button")
    assert "risk: {max_global: 0.9, file:" in tab.text()
    assert "hierarchy: {dates: [month, year, decade]}" in tab.text()
    tab.press("form[action=plan] button")
    assert "row-wise k-anonymity" in tab.text()
    tab.press("a[href=run].on")
    tab.press("form[action=run] button")
    assert "Released: release.patients" in tab.text()
    assert tab.page.locator("#disclosure").count() == 1
    assert len(list(tmp_path.glob("private/patients-*.html"))) == 1
    assert f"cd {tmp_path} && /" in tab.text()
    assert "/dbanon run patients.yaml" in tab.text()
    tab.press("a[href=report].on")
    assert tab.page.inner_text("h1") == "release.patients"
    sound()
    assert tab.lines == []
    assert {request.split("/")[2] for request in tab.requests} == {bench.host}
    context.close()
    looks(browser, axe, bench)
    assert released(tmp_path) == 240
    # Next month: another file with the same path, and only the job file.
    write_month(tmp_path, 2, 300)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", "patients.yaml", "--no-progress"])
    assert done.exit_code == 0, done.output
    assert released(tmp_path) == 300
    assert len(list(tmp_path.glob("out/patients/*.csv"))) == 2
    assert len(list(tmp_path.glob("out/patients/*.html"))) == 2


def test_roles_of_many_columns(browser: Any, axe: Any, tmp_path: Path) -> None:
    n = 10
    names = [*(f"lab_{i}" for i in range(n)), *(f"visit_{i}" for i in range(n))]
    lines = [",".join(str((i * 7 + j * 3) % 40) for j in range(2 * n)) for i in range(60)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    with process(tmp_path, "file:wide.csv", "--table", "wide") as bench:
        bench.settled_page("columns")
        context = browser.new_context(viewport={"width": 1100, "height": 900})
        tab = Tab(context, bench.address)
        before = tab.page.input_value(f"#role-{n}")
        tab.page.fill("#filter", "LAB_")
        assert "10 of 20 columns shown." in tab.text()
        assert not tab.page.is_visible(f"#role-{n}")
        assert axe(tab.page) == ""
        tab.page.select_option("#bulk", "drop")
        tab.page.click("#assign")
        tab.page.fill("#filter", "")
        assert {tab.page.input_value(f"#role-{i}") for i in range(n)} == {"drop"}
        assert tab.page.input_value(f"#role-{n}") == before
        context.close()


def looks(browser: Any, axe: Any, bench: Process) -> None:
    """Visit all pages of finished steps on a small screen in dark mode."""
    context = browser.new_context(color_scheme="dark", viewport={"width": 360, "height": 800})
    tab = Tab(context, bench.address)
    compared = "compare?a=t%2Fgaa_cp%2F5&b=r%2Frelease.patients"
    for step in (*STEPS, compared):
        tab.page.goto(f"http://{bench.host}{bench.path}/{step}")
        tab.settle()
        unfold(tab.page)
        assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360, step
        assert axe(tab.page) == ""
    assert "Each bin is empty or contains many rows" in tab.text()
    assert tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 24, 30)"
    )
    context.close()


def released(folder: Path) -> int:
    with duckdb.connect(str(folder / "patients-releases.duckdb"), read_only=True) as connection:
        release = connection.execute(
            "SELECT count(*), min(n) FROM (SELECT count(*) OVER"
            " (PARTITION BY born, ward, height_cm) AS n FROM release.patients)"
        ).fetchone()
    assert release is not None
    assert release[1] >= 3
    return int(release[0])


@contextmanager
def another_page(html: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """A page on another port of this machine: the same site, and cookies ignore ports."""
    headers: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *arguments: Any) -> None:
            """Do not log."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", headers
    finally:
        server.shutdown()
        server.server_close()


def test_other_pages_and_other_tabs(browser: Any, bench: Process) -> None:
    """A page that even knows the path can neither read, frame nor change anything."""
    context = browser.new_context()
    tab = Tab(context, bench.address)
    base = f"http://{bench.host}{bench.path}"
    html = (
        f"<iframe src='{base}/columns'></iframe><form method=post action='{base}/look'>"
        f"<button>go</button></form><a href='{base}/columns'>there</a>"
        f"<script src='{base}/workbench.js'></script>"
    )
    with another_page(html) as (address, headers):
        other = context.new_page()
        other.goto(f"{address}{bench.path}x/")
        assert "cookie" not in headers[0]
        read = other.evaluate(f"fetch('{base}/columns').then(() => 'read', () => 'refused')")
        assert read == "refused"
        assert "Columns" not in (other.frames[1].content() if len(other.frames) > 1 else "")
        other.click("button")
        assert "another page" in other.content()
        other.go_back()
        other.click("a")
        assert "another page" in other.content()
        # The browser must not send our address elsewhere.
        tab.page.evaluate("url => { location.href = url }", f"{address}/")
        tab.page.wait_for_url(f"{address}/")
        assert all(
            bench.host not in request_headers.get("referer", "") for request_headers in headers
        )
        assert len(headers) >= 2
    # Two tabs: the second's decision is kept, the first sees it and keeps its own input.
    first, second = Tab(context, f"{base}/columns"), Tab(context, f"{base}/columns")
    second.page.select_option("#role-2", "drop")
    second.page.click("form[action=columns] button")
    first.page.click("form[action=columns] button")
    assert "perhaps in another tab" in first.text()
    assert first.page.input_value("#role-2") == "quasi_identifier"
    assert "Saved: drop: not released" in first.text()
    # The invalid field has the focus, and a user who goes back may save again.
    first.page.select_option("#role-4", "keep")
    first.page.click("form[action=columns] button")
    first.page.wait_for_selector("#reason-4:focus")
    first.page.fill("#reason-4", "of no person")
    first.page.keyboard.press("Enter")
    first.page.wait_for_url(f"{base}/trees")
    first.page.goto(f"{base}/columns")
    for role in ("quasi_identifier", "drop"):
        first.page.select_option("#role-2", role)
        first.page.select_option("#role-4", "sensitive")
        first.page.click("form[action=columns] button")
        first.page.wait_for_url(f"{base}/trees")
        first.page.go_back()
    # Without scripts the page reloads until its task has ended.
    quiet = browser.new_context(java_script_enabled=False)
    plain = Tab(quiet, bench.address)
    plain.page.goto(f"{base}/sweep")
    plain.page.fill("#to", "4")
    plain.page.click("form[action=sweep] button")
    plain.page.wait_for_selector("form[action=choose]", timeout=60_000)

    # A page reports that its workbench was killed during a task. The kill happens at the first
    # request of the page's script: before, the script may not have been loaded; later, the task may
    # have ended.
    def kill_before_the_first_look(route: Any) -> None:
        if not route.request.is_navigation_request():
            bench.started.kill()
            bench.started.wait()
        route.continue_()

    first.page.goto(f"{base}/sweep")
    first.page.fill("#sample", "100000")
    first.page.fill("#to", "40")
    first.page.check("[name=again]")
    first.page.route(f"{base}/sweep", kill_before_the_first_look)
    first.page.click("form[action=sweep] button")
    first.page.wait_for_selector("text=no longer answers", timeout=30_000)
    context.close()
    quiet.close()
