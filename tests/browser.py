"""A browser of this machine, driven by playwright: for tests of pages, and for pictures of them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The same as in .ci/prepare.sh, which installs the first on Debian.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# What a browser asks of the network by itself is none of a page's requests.
ARGUMENTS = [
    "--headless=new",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


class NoBrowserError(Exception):
    """There is none that could be used; the message says what to do."""


@contextmanager
def opened_browser() -> Iterator[Any]:
    """The browser, with an empty profile of its own."""
    browser_path = next(filter(None, map(shutil.which, NAMES)), None)
    if browser_path is None:
        raise NoBrowserError("no browser here: on Debian, .ci/prepare.sh browser installs chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowserError("no playwright here: make setup") from None
    # A sandbox needs rights that root in a container has not.
    arguments = [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=browser_path, args=arguments, timeout=60_000
        )
        try:
            yield browser
        finally:
            browser.close()
