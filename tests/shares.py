"""How the tests are shared out among processes: files whole, the long ones first."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK = "tests/spark"

# What is begun last keeps one process at work while the others have nothing left. Longest first;
# files of a few seconds are not named.
LONG = (SPARK,)


class Shares(LoadFileScheduling):
    """Files in the order of collection, each to one process; those on Spark all to the same.

    A process has one session of Spark at a time: a second process would start another, and a
    cluster of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _unit(nodeid)


def sort_long_first(items: list[pytest.Item]) -> None:
    """Put the tests of long files before the others, which keep their order."""
    items.sort(key=lambda item: _place(item.nodeid))


def _unit(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(f"{SPARK}/") else file


def _place(nodeid: str) -> int:
    unit = _unit(nodeid)
    return LONG.index(unit) if unit in LONG else len(LONG)
