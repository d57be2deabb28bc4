"""The page on k shows the output of its own example."""

from __future__ import annotations

import contextlib
import io
import re

from tests.house import ROOT

PAGE = (ROOT / "docs" / "what-k-means.md").read_text()


def test_the_page_shows_its_examples_output() -> None:
    [code] = re.findall(r"<!-- runnable -->\n```python\n(.*?)```", PAGE, re.S)
    [expected] = re.findall(r"<!-- printed -->\n```text\n(.*?)```", PAGE, re.S)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == expected
