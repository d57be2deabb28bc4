"""README and the guide for statistical offices are accurate: all their blocks are run."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.readme import BLOCK, PAGE, PAGES, mask, run_and_fill, session

TEXT = PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_top_to_bottom_from_a_fresh_clone(page: Path) -> None:
    before, after = run_and_fill(page)
    assert mask(before) == mask(after), "python -m tests.docs.readme writes it anew"


def test_every_block_has_a_kind() -> None:
    fences = len(re.findall(r"^```\w+$", TEXT, re.M))
    assert fences == len(BLOCK.findall(TEXT))
    kinds = [match[2] for match in BLOCK.finditer(TEXT)]
    assert kinds[0] == "runnable"
    assert {"runnable", "printed", "psql"} == set(kinds)
    assert all(before == "runnable" for before, kind in pairwise(kinds) if kind == "printed")
    # Nothing looks like a command without being run.
    assert not re.search(r"^ {4}(make|dbanon|pip) ", TEXT, re.M)


def test_the_psql_session_is_that_of_the_examples() -> None:
    parts = [match for match in BLOCK.finditer(TEXT) if match[2] == "psql"]
    assert parts
    for match in parts:
        assert match[6] == session(match[3], match[4])


def test_varying_values_are_not_compared() -> None:
    page = "release 7dd3b143-6614-41b7-9604-1fb2909ae4b8\n read 0.34, total\n 0.74"
    other = "release 8dd3b143-6614-41b7-9604-1fb2909ae4b9 read 12.1, total 0.75"
    assert mask(page) == mask(other)
    assert mask(page) != mask(page.replace("read", "cluster"))
