"""How far a call travels through the package: files, functions and depth, and the session's size.

Every call runs twice; the second run is traced. Only the package's own Python functions count.
Depth is the longest chain of them on the stack. Figures of the source text follow: how many classes
of the package a session of PostgreSQL has in its MRO, and how many lines mention ``Any``.
"""

from __future__ import annotations

import inspect
import re
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import duckdb
import numpy as np
import pandas as pd
from click.testing import CliRunner

import dbanon
from benchmarks.markdown import table
from dbanon.doors.cli.main import main
from dbanon.sessions.session import Session
from dbanon.stores.postgresql.client import PsycopgSession

PACKAGE = Path(dbanon.__file__).parent
N = 2_000
JOB = """
version: 1
source:
  url: {url}
jobs:
  - name: people
    table: people
    releases: independent
    output: {{table: {output}, if_exists: replace}}
    k: 5
    columns:
      age: {{role: quasi_identifier}}
      size: {{role: quasi_identifier}}
"""


class Trace:
    """The package's functions that a call enters, from ``sys.setprofile``."""

    def __init__(self) -> None:
        self.functions: set[CodeType] = set()
        self.depth = 0
        self._now = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)):
            return
        if event == "call":
            self._now += 1
            self.functions.add(code)
            self.depth = max(self.depth, self._now)
        elif event == "return":
            self._now -= 1

    @property
    def files(self) -> set[str]:
        """The files of these functions."""
        return {code.co_filename for code in self.functions}


def traced(call: Callable[[], object]) -> Trace:
    """The trace of a call that ran once before."""
    call()
    trace = Trace()
    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return trace


def calls(path: Path) -> dict[str, Callable[[], object]]:
    """The calls, by name, with a database in this directory."""
    random = np.random.default_rng(1)
    people = pd.DataFrame({"age": random.integers(0, 90, N), "size": random.normal(170, 10, N)})
    url = f"duckdb:///{path}/calls.duckdb"
    with duckdb.connect(str(path / "calls.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS FROM people")
    (path / "job.yaml").write_text(JOB.format(url=url, output="job_output"))

    def release(output: str) -> object:
        return dbanon.anonymize(
            url, table="people", quasi_identifiers=["age", "size"], k=5, output=output,
            if_exists="replace",
        )  # fmt: skip

    def command(*arguments: str) -> object:
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        return result

    array = people.to_numpy(float)
    options = ("--table", "people", "--quasi-identifiers", "age,size", "--k", "5")
    return {
        "`dbanon.partition(array, 5)`": lambda: dbanon.partition(array, 5),
        "`dbanon.anonymize_frame`": lambda: dbanon.anonymize_frame(
            people, quasi_identifiers=["age", "size"], k=5
        ),
        f"`dbanon.anonymize` on DuckDB, {N:,} rows": lambda: release("python_output"),
        "`dbanon anonymize`": lambda: command(
            "anonymize", url, *options, "--output", "command_output", "--if-exists", "replace"
        ),
        "`dbanon run job.yaml`": lambda: command("run", str(path / "job.yaml")),
    }


def lines_with(pattern: str) -> int:
    """The number of lines of the package's Python that match."""
    expression = re.compile(pattern)
    texts = (file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py"))
    return sum(bool(expression.search(line)) for text in texts for line in text.splitlines())


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Trace the calls and count the source's figures; return Markdown."""
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as directory, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, call in calls(Path(directory)).items():
            trace = traced(call)
            rows.append([name, len(trace.files), len(trace.functions), trace.depth])
    package_classes = [c for c in PsycopgSession.__mro__ if c.__module__.startswith("dbanon")]
    # The parts of a session are attributes of its instances.
    parts = re.findall(r"^        self\.([a-z]\w*) = ", inspect.getsource(Session.__init__), re.M)
    public = {*parts, *(name for name in dir(PsycopgSession) if not name.startswith("_"))}
    source = [
        ["classes of the package in the MRO of `PsycopgSession`", len(package_classes)],
        ["its public names", len(public)],
        ["lines of Python", lines_with("")],
        ["lines with `Any`", lines_with(r"\bAny\b")],
        ["lines with `dict[str, Any]`", lines_with(r"dict\[str, Any\]")],
    ]
    return "\n\n".join(
        [
            "The package's own functions that a second call enters:",
            table(["call", "files", "functions", "depth"], rows),
            table(["of the source", "figure"], source),
        ]
    )
