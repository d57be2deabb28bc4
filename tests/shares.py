"""How tests are distributed to processes: by file, long ones first."""

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

# A long file started last keeps one process busy while the others are idle. Longest first; files
# that mostly wait run next to those that compute. Files of a few seconds are not listed.
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
    """Distribute files in collection order, those on Spark all to one process.

    A process has one Spark session: a second process would start another session and cluster.
    """

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def import_share(config: pytest.Config) -> None:
    """If several processes collect all tests, let each import a part first.

    In a fresh clone all would compile each file at the same time; this way they reuse each other's
    compiled files.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != config.getini("testpaths"):
        return
    number, of = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for file in sorted(TESTS.rglob("test_*.py"))[number % of :: of]:
        # Errors occur again during collection, where they are reported.
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):
            import_module(".".join(file.relative_to(TESTS.parent).with_suffix("").parts))


def sort_long_first(items: list[pytest.Item]) -> None:
    """Move the tests of long files to the front; the others keep their order."""
    items.sort(key=lambda item: _rank(item.nodeid))


def few_of_each(items: list[pytest.Item], most: int) -> list[pytest.Item]:
    """Sample at most so many cases per function, the same in every process."""
    cases: dict[str, list[int]] = defaultdict(list)
    for at, item in enumerate(items):
        cases[item.nodeid.partition("[")[0]].append(at)
    chosen: set[int] = set()
    for function, places in cases.items():
        # Seeded by name only, so that other functions do not matter.
        chosen.update(random.Random(function).sample(places, min(most, len(places))))
    return [item for at, item in enumerate(items) if at in chosen]


def unit_of(nodeid: str) -> str:
    """The group that a test is distributed with: its file, or all tests on Spark."""
    file = nodeid.partition("::")[0]
    return SPARK if file.startswith(f"{SPARK}/") else file


def _rank(nodeid: str) -> int:
    unit = unit_of(nodeid)
    return LONG.index(unit) if unit in LONG else len(LONG)
