"""Processes in which some packages cannot be imported, as if an extra were not installed."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
# Import names that differ from the distribution's name.
_IMPORTED = {
    "pyyaml": ("yaml",),
    "psycopg": ("psycopg", "psycopg_binary"),
    "pydantic": ("pydantic", "pydantic_core"),
    "duckdb": ("duckdb", "_duckdb"),
    "pyiceberg[sql-sqlite]": ("pyiceberg",),
    "scikit-learn": ("sklearn",),
    "python-calamine": ("python_calamine",),
    "pyspark": ("pyspark", "py4j"),
}
_BLOCKING = """
import importlib.util, json, sys
blocked = set({blocked!r})
class Without:
    def __init__(self, finder):
        self._finder = finder
    def __getattr__(self, name):
        return getattr(self._finder, name)
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in blocked:
            return self._finder.find_spec(name, path, target)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
"""


def extras() -> dict[str, list[str]]:
    with PROJECT.open("rb") as file:
        declared: dict[str, list[str]] = tomllib.load(file)["project"]["optional-dependencies"]
    return declared


def packages(extra: str) -> set[str]:
    """The packages that an extra makes importable."""
    names = set()
    for requirement in extras()[extra]:
        name = requirement
        for end in "[><=~! ;":
            name = name.partition(end)[0]
        if name == "dbanon":
            names |= packages(requirement.partition("[")[2].partition("]")[0])
        else:
            names |= set(_IMPORTED.get(name, (name,)))
    return names


def requirements(extra: str) -> set[str]:
    """The requirements of an extra, including those of extras that it includes."""
    lines: set[str] = set()
    for requirement in extras()[extra]:
        included = requirement.removeprefix("dbanon[").removesuffix("]")
        lines |= requirements(included) if requirement == f"dbanon[{included}]" else {requirement}
    return lines


OPTIONAL_PACKAGES = frozenset().union(
    *(
        packages(extra)
        for extra in (
            "all",
            "postgres",
            "mariadb",
            "bound",
            "dp",
            "xlsx",
            "statistics",
            "plot",
            "sklearn",
            "delta",
            "iceberg",
        )
    )
)


def run(
    code: str, having: Iterable[str] = (), hidden: Iterable[str] = OPTIONAL_PACKAGES
) -> subprocess.CompletedProcess[str]:
    """Run Python with only numpy and the packages of some extras.

    Parameters
    ----------
    hidden : the packages that are hidden unless one of these extras provides them.
    """
    allowed = set().union(*(packages(extra) for extra in having))
    program = _BLOCKING.format(blocked=sorted({*hidden} - allowed)) + code
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )


def result_of(
    code: str, having: Iterable[str] = (), hidden: Iterable[str] = OPTIONAL_PACKAGES
) -> Any:
    """The JSON that such a program prints.

    It ends without freeing what it has imported, which takes a quarter of its time.
    """
    done = run(f"{code}\nimport os\nsys.stdout.flush()\nos._exit(0)\n", having, hidden)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
