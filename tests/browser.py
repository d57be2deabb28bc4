"""An installed browser driven by playwright, for tests of pages and for pictures of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The same list as in .ci/prepare.sh, which installs the first one on Debian.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# The browser's own network requests must not be mistaken for a page's.
ARGUMENTS = [
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class NoBrowserError(Exception):
    """No usable browser; the message says what to do."""


@contextmanager
def opened_browser() -> Iterator[Any]:
    """A browser with a new, empty profile."""
    browser_path = next(filter(None, map(shutil.which, NAMES)), None)
    if browser_path is None:
        raise NoBrowserError("no browser here: on Debian, .ci/prepare.sh browser installs chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowserError("no playwright here: make setup") from None
    # The sandbox needs rights that root in a container lacks.
    arguments = [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=browser_path, args=arguments, timeout=60_000
        )
        try:
            yield browser
        finally:
            browser.close()
