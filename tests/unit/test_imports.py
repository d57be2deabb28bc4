"""Inside a database every import costs each connection: which modules are imported, and which are
not.
"""

from __future__ import annotations

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


def loaded_by(code: str) -> set[str]:
    """The modules that an interpreter has once it has run this."""
    report_modules = (
        "import atexit, sys\natexit.register(lambda: print('\\nloaded', *sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", report_modules + code], capture_output=True, text=True, check=False
    )
    assert not done.stderr, done.stderr
    return set(done.stdout.rpartition("\nloaded ")[2].split())


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
    spared = {"sqlalchemy", "alembic", "psycopg", "pandas", "pydantic", "yaml", "jinja2"}
    assert spared.isdisjoint(packages(loaded))
    assert {"pyarrow.compute", "pyarrow.parquet", "rich.progress", "numpy.random"}.isdisjoint(
        loaded
    )
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


def test_nothing_imports_the_entry_point() -> None:
    """It loads the commands by their names, which no check of circles can follow."""
    graph = grimp.build_graph("dbanon", exclude_type_checking_imports=False, cache_dir=None)
    start, main = "dbanon.doors.cli.start", "dbanon.doors.cli.main"
    assert graph.find_modules_that_directly_import(start) == set()
    assert graph.find_modules_that_directly_import(main) == {start}
