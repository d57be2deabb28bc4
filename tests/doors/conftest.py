from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NoReturn

import pytest

from tests.browser import NoBrowserError, opened_browser
from tests.conftest import IN_CI


def missing(reason: str) -> NoReturn:
    # A build that looks at no page must not look like one that does.
    if IN_CI:
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser of this machine; skips where there is none."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(opened_browser())
        except NoBrowserError as error:
            missing(str(error))
        yield found


@pytest.fixture(scope="session")
def axe(browser: Any) -> Any:
    """The checks of axe-core, as a function of an open page: what it finds wrong, in words."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("no axe-playwright-python: install dbanon[dev]")

    def run(page: Any) -> str:
        found = Axe().run(page)
        return str(found.generate_report()) if found.violations_count else ""

    return run
