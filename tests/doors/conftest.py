from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.browser import NoBrowserError, opened_browser
from tests.prerequisites import import_or_skip, skip_or_fail


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """An installed browser; skips if there is none."""
    with ExitStack() as stack:
        try:
            opened = stack.enter_context(opened_browser())
        except NoBrowserError as error:
            skip_or_fail(str(error))
        yield opened


@pytest.fixture(scope="session")
def axe(browser: Any) -> Any:
    """The checks of axe-core as a function of an open page, which returns the violations
    as text.
    """
    Axe = import_or_skip("axe_playwright_python.sync_playwright").Axe

    def run(page: Any) -> str:
        violations = Axe().run(page)
        return str(violations.generate_report()) if violations.violations_count else ""

    return run
