"""Start-up: a command and the first SQL call of a connection, on a table of 1,000 rows.

Seconds are those of the CPU. They include starting the process, all imports, and the end. On a busy
machine they are higher, so the least of several runs in turn counts. The floor of a command imports
what no release on DuckDB can do without, and opens a database.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks.beside import Version, versions
from benchmarks.main_job import make_duckdb
from benchmarks.markdown import table
from benchmarks.plpython import installed_versions, small_calls
from tests.postgres_server import NoServerError

COMMAND = """
import sys
from dbanon.doors.cli.start import start
sys.argv[1:] = ["anonymize", sys.argv[1], "--table", "app.people", "--quasi-identifiers",
                "a,b,c,d,e", "--k", "5", "--keep", "t1,t2", "--output", "release.people"]
start()
"""

FLOOR = """
import sys
import click, duckdb, numpy, pyarrow
duckdb.connect(sys.argv[1].removeprefix("duckdb:///")).execute("SELECT 1").fetchall()
"""

# Prints how many modules of dbanon a program imports.
COUNT = """
import atexit, sys
atexit.register(lambda: print(sum(name.partition(".")[0] == "dbanon" for name in sys.modules)))
"""


def run(quick: bool = False, other_python: str | None = None) -> str:
    """Measure, also with another version in turn; return Markdown."""
    known_versions = versions(other_python)
    text = (
        "# Start-up: 1,000 rows, 5 float8 quasi-identifiers, 2 kept text columns, MDAV, k = 5\n\n"
    )
    text += _commands(known_versions, 2 if quick else 20)
    try:
        with installed_versions(known_versions) as (_, urls):
            return f"{text}\nSQL, CPU seconds of the backend:\n\n{small_calls(urls)}"
    except NoServerError as error:
        return f"{text}\nSQL: {error}\n"


def _commands(known_versions: list[Version], n_runs: int) -> str:
    """Tabulate the CPU seconds of ``dbanon anonymize`` on DuckDB, and of the floor."""
    programs = [(version, version.name, COMMAND) for version in known_versions]
    programs.append((known_versions[0], "floor", FLOOR))
    seconds: dict[str, list[float]] = {name: [] for _, name, _ in programs}
    n_modules: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as directory:
        original, path = Path(directory) / "original.duckdb", Path(directory) / "people.duckdb"
        make_duckdb(original, 1000)
        for version, name, code in programs:
            shutil.copy(original, path)
            n_modules[name] = version.run(COUNT + code, f"duckdb:///{path}").split()[-1]
        for _ in range(n_runs):
            for version, name, code in programs:
                shutil.copy(original, path)
                seconds[name].append(_cpu_seconds(version.python, code, f"duckdb:///{path}"))
    return table(
        ["dbanon anonymize", "modules of dbanon", "least CPU s", "median CPU s"],
        [
            [name, n_modules[name], min(measured), statistics.median(measured)]
            for name, measured in seconds.items()
        ],
    )


def _cpu_seconds(python: str, code: str, argument: str) -> float:
    """Run a program, and return the CPU seconds of its process."""
    process = subprocess.Popen(
        [python, "-I", "-c", code, argument], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    # The process is gone, so tell its object how it ended.
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"The program ended with {process.returncode}.")
    return usage.ru_utime + usage.ru_stime
