"""How tests are distributed: by file, Spark's as one group, long files first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import shares
from tests.shares import LONG, Shares, few_of_each, import_share, sort_long_first

ROOT = Path(__file__).parents[1]


class Item:
    """A test with this name."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


@pytest.mark.parametrize("name", LONG)
def test_named_files_exist(name: str) -> None:
    assert (ROOT / name).exists()


def test_spark_is_one_share() -> None:
    split = Shares._split_scope
    node_ids = ["tests/spark/test_a.py::test_x[1::2]", "tests/spark/test_b.py::test_y"]
    assert {split(None, nodeid) for nodeid in node_ids} == {"tests/spark"}  # type: ignore[arg-type]
    assert split(None, "tests/unit/test_a.py::A::test_x") == "tests/unit/test_a.py"  # type: ignore[arg-type]


def test_long_ones_come_first_and_all_keep_their_order() -> None:
    names = [f"tests/unit/test_a.py::{x}" for x in "ba"]
    names += [f"{LONG[-1]}::{x}" for x in "dc"] + [f"tests/spark/test_{x}.py::x" for x in "fe"]
    items = [Item(name) for name in names]
    sort_long_first(items)  # type: ignore[arg-type]
    order = names[4:] + names[2:4] + names[:2]
    assert [item.nodeid for item in items] == order


def test_few_cases_of_each_function_are_the_same_ones_every_time() -> None:
    many = [Item(f"tests/a.py::test_x[{at}::[{at}]]") for at in range(40)]
    few = [Item("tests/a.py::test_y"), *(Item(f"tests/a.py::test_z[{x}]") for x in "cab")]
    sample = few_of_each([*few, *many], 5)  # type: ignore[list-item]
    assert sample[:4] == few
    assert len(sample) == 4 + 5
    assert sample[4:] == few_of_each(many, 5)  # type: ignore[arg-type]
    assert sample[4:] == sorted(sample[4:], key=many.index)


# Errors during a module's import: tests/prerequisites.py skips a file, or fails in CI.
ENDINGS = [ImportError, pytest.skip.Exception, pytest.fail.Exception]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(("workers", "args"), [(3, ["tests"]), (3, ["tests/unit"]), (0, ["tests"])])
def test_each_process_imports_its_part_of_all_tests(
    monkeypatch: pytest.MonkeyPatch, workers: int, args: list[str], ending: type[BaseException]
) -> None:
    named: list[str] = []

    def imported(name: str) -> None:
        named.append(name)
        raise ending("for want of a package")

    monkeypatch.setattr(shares, "import_module", imported)
    for number in range(max(workers, 1)):
        worker = {"workerid": f"gw{number}", "workercount": workers}
        config: Any = SimpleNamespace(args=args, getini=lambda _: ["tests"])
        if workers:
            config.workerinput = worker
        import_share(config)
    assert len(named) == len(set(named))
    full_run = workers and args == ["tests"]
    assert ("tests.unit.data.test_partitions" in named) == bool(full_run)
    assert (__name__ in named) == bool(full_run)
