"""Inside a database every import costs each connection: which modules are imported, and which are
not.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import duckdb
import grimp
import pytest

HEAVY = {
    "sqlalchemy",
    "pandas",
    "click",
    "rich",
    "duckdb",
    "pyarrow",
    "psycopg",
    "alembic",
    "jinja2",
    "pydantic",
    "yaml",
}

PARTITION = (
    "import numpy, dbanon;"
    "assert dbanon.partition(numpy.arange(12.0).reshape(6, 2), 3).n_classes == 2"
)


# The most modules of dbanon that a release may import. Each takes a quarter of a millisecond of
# every command and of every connection's first call, so those that few releases need are imported
# where they are used.
MOST_OF_A_COMMAND, MOST_OF_A_BACKEND = 212, 192


def loaded_by(code: str) -> set[str]:
    """The modules that an interpreter has once it has run this, with its output in a pipe."""
    report_modules = (
        "import atexit, sys\natexit.register(lambda: print('\\nloaded', *sorted(sys.modules)))\n"
    )
    # With these variables rich is used as on a terminal.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR")
    }
    done = subprocess.run(
        [sys.executable, "-c", report_modules + code],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert not done.stderr, done.stderr
    return set(done.stdout.rpartition("\nloaded ")[2].split())


def of_dbanon(modules: set[str], room: str = "") -> set[str]:
    """Those of dbanon, or of one of its rooms."""
    prefix = f"dbanon.{room}."
    return {name for name in modules if name.startswith(prefix if room else "dbanon.")}


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize("code", ["import dbanon", "import dbanon.partitioning.classes", PARTITION])
def test_the_core_needs_numpy_only(code: str) -> None:
    loaded = packages(loaded_by(code))
    assert HEAVY.isdisjoint(loaded)
    if code != "import dbanon":
        assert "numpy" in loaded


def command_line(*words: str) -> str:
    return (
        f"import sys; sys.argv = {['dbanon', *words]!r}\n"
        "from dbanon.doors.cli.start import start; start()"
    )


@pytest.mark.parametrize("words", [["--help"], ["--version"]])
def test_help_on_all_commands_loads_none(words: list[str]) -> None:
    loaded = loaded_by(command_line(*words))
    assert (HEAVY - {"click"} | {"numpy"}).isdisjoint(packages(loaded))
    assert not {name for name in loaded if name.startswith("dbanon.job")}


def test_a_command_loads_no_other() -> None:
    loaded = loaded_by(command_line("uninstall", "--help"))
    assert "dbanon.doors.cli.administration" in loaded
    assert "dbanon.doors.cli.anonymize" not in loaded


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [("age,size", "mdav"), ("age,illness", "gaa_cp")])
def test_a_release_on_duckdb_loads_no_other_client(tmp_path: Path, chosen: tuple[str, str]) -> None:
    database_path = tmp_path / "people.duckdb"
    with duckdb.connect(str(database_path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i % 7 AS age, i % 3 AS size, 'x' || i % 4 AS illness"
            " FROM range(50) AS t(i)"
        )
        # That a schema is created is a warning.
        connection.execute("CREATE SCHEMA release")
    loaded = loaded_by(
        command_line(
            *(
                "anonymize",
                f"duckdb:///{database_path}",
                "--table",
                "people",
                "--output",
                "release.people",
            ),
            *("--quasi-identifiers", chosen[0], "--method", chosen[1], "--k", "5"),
        )
    )
    assert "dbanon.stores.duckdb.session" in loaded
    spared = {"sqlalchemy", "alembic", "psycopg", "pandas", "pydantic", "yaml", "jinja2", "rich"}
    assert spared.isdisjoint(packages(loaded))
    # Few rows of numbers need no Arrow, and only the dictionary of texts is written with it.
    assert ("pyarrow" in packages(loaded)) == (chosen[1] == "gaa_cp")
    assert {"pyarrow.compute", "pyarrow.parquet", "numpy.random"}.isdisjoint(loaded)
    assert of_dbanon(loaded, "stores.postgresql") == set()
    # Of all methods only the one that is used.
    used = {f"dbanon.methods.{name}" for name in ("forecast", "registry", chosen[1])}
    assert of_dbanon(loaded, "methods") == used
    assert len(of_dbanon(loaded)) <= MOST_OF_A_COMMAND
    # Those for hierarchies, mixed data, rules and object stores. gaa_cp takes mixed data.
    unused = {"hierarchy.builders", "job.rules", "run.rules", "ledger.releases", "stores.objects"}
    unused |= {"spaces.mixed", "data.grid"} if chosen[1] == "mdav" else set()
    assert {f"dbanon.{name}" for name in unused}.isdisjoint(loaded)
    # Modules that plan, evaluate and export a release.
    assert {"dbanon.run.outlook", "dbanon.release.evaluation", "dbanon.run.export"}.isdisjoint(
        loaded
    )


@pytest.mark.slow
def test_advice_on_duckdb_loads_no_other_client(tmp_path: Path) -> None:
    database_path = tmp_path / "people.duckdb"
    with duckdb.connect(str(database_path)) as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT i % 7 AS age, 'x' || i % 4 AS region"
            " FROM range(50) AS t(i)"
        )
    url = f"duckdb:///{database_path}"
    loaded = loaded_by(
        command_line("advise", url, "--table", "people", "--k", "3", "--format", "json")
    )
    assert "dbanon.run.sweep" in loaded
    spared = {"sqlalchemy", "alembic", "psycopg", "pandas", "pydantic", "yaml", "jinja2"}
    assert spared.isdisjoint(packages(loaded))


@pytest.mark.slow
def test_a_backend_loads_what_a_release_needs() -> None:
    loaded = loaded_by("import dbanon.doors.plpython")
    assert HEAVY.isdisjoint(packages(loaded))
    # Modules for other calls and evaluations, and those only needed by large tables, clients and
    # errors.
    others = {"dbanon.run.advise", "dbanon.advice.request", "dbanon.release.evaluation"}
    libraries = {"numpy.random", "concurrent.futures", "socket", "difflib", "html"}
    assert (others | libraries).isdisjoint(loaded)
    assert not {name for name in loaded if name.startswith("dbanon.measures.risk")}
    assert of_dbanon(loaded, "methods") == {"dbanon.methods.forecast", "dbanon.methods.registry"}
    assert len(of_dbanon(loaded)) <= MOST_OF_A_BACKEND


def test_nothing_imports_the_entry_point() -> None:
    """It loads the commands by their names, which no check of circles can follow."""
    graph = grimp.build_graph("dbanon", exclude_type_checking_imports=False, cache_dir=None)
    start, main = "dbanon.doors.cli.start", "dbanon.doors.cli.main"
    assert graph.find_modules_that_directly_import(start) == set()
    assert graph.find_modules_that_directly_import(main) == {start}
