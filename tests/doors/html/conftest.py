from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.conftest import IN_CI

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

# What a browser asks of the network by itself is none of a page's requests.
ARGUMENTS = [
    "--headless=new", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def missing(reason: str) -> None:
    # A build that looks at no page must not look like one that does.
    if IN_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium of this machine, driven by playwright; skips where there is none."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        missing("no browser here: on Debian, .ci/prepare.sh browser installs chromium")
    sync_api = pytest.importorskip("playwright.sync_api")
    # A sandbox needs rights that root in a container has not.
    arguments = [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=found, args=arguments, timeout=60_000)
        yield opened
        # What was seen is seen.
        with suppress(sync_api.Error):
            opened.close()
