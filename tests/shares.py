"""How the tests are shared out among processes: files whole, the long ones first."""

from __future__ import annotations

import random
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

TESTS = Path(__file__).parent
SPARK = "tests/spark"

# What is begun last keeps one process at work while the others have nothing left. Longest first,
# files that wait beside such as compute; those of a few seconds are not named.
LONG = (
    SPARK,
    "tests/stores/test_stalled.py",
    "tests/golden/test_golden.py",
    "tests/upgrade/test_upgrade.py",
    "tests/sql/test_attacks_relations.py",
    "tests/stores/test_mariadb.py",
    "tests/stores/test_chain_worlds.py",
    "tests/contracts/test_methods.py",
    "tests/sql/test_long_readers.py",
    "tests/stores/test_chain_kill.py",
    "tests/stores/test_export_kill.py",
    "tests/unit/methods/test_adult_generalization.py",
    "tests/sql/test_attacks_types.py",
    "tests/sql/test_cancel_trees.py",
    "tests/stores/test_kill.py",
    "tests/stores/test_bad_names.py",
    "tests/stores/test_tampering.py",
    "tests/stores/test_chains.py",
    "tests/docs/test_examples.py",
)


class Shares(LoadFileScheduling):
    """Files in the order of collection, each to one process; those on Spark all to the same.

    A process has one session of Spark at a time: a second process would start another, and a
    cluster of its own.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def import_share(config: pytest.Config) -> None:
    """Of several processes that collect all tests import a part each, before all collect all.

    In a fresh clone each would compile each file at the same time as the others: of what one has
    compiled, the others find the result.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    number, of = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in sorted(TESTS.rglob("test_*.py"))[number % of :: of]:
        # Whatever goes wrong does so once more where it is told.
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


def sort_long_first(items: list[pytest.Item]) -> None:
    """Put the tests of long files before the others, which keep their order."""
    items.sort(key=lambda item: _rank(item.nodeid))


def few_of_each(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """At most so many cases of each function, drawn from all: the same ones in every process."""
    cases: dict[str, list[int]] = defaultdict(list)
    for at, item in enumerate(items):
        cases[item.nodeid.partition("[")[0]].append(at)
    chosen: set[int] = set()
    for function, places in cases.items():
        # By the name alone: other functions may come and go.
        chosen.update(random.Random(function).sample(places, min(most, len(places))))
    return [item for at, item in enumerate(items) if at in chosen]


def unit_of(nodeid: str) -> str:
    """What a test is shared out with: its file, or all tests on Spark."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(f"{SPARK}/") else file


def _rank(nodeid: str) -> int:
    unit = unit_of(nodeid)
    return LONG.index(unit) if unit in LONG else len(LONG)
