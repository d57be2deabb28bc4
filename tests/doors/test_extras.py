"""The core needs only numpy; for any other missing package the error has the install command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dbanon
from dbanon.errors.extras import REQUIREMENTS, quote_requirements
from tests.doors import without
from tests.prerequisites import import_or_skip

_OF_DATABASE: dict[str, dict[str, Any]] = {
    "anonymize": {"table": "t", "output": "o", "k": 3, "quasi_identifiers": ["a"]},
    "attempts": {"job": "j"},
    "budgets": {},
    "chains": {},
    "close_chain": {"name": "c"},
    "create_budget": {"name": "b", "source": "t", "epsilon": 1.0},
    "create_chain": {"name": "c", "table": "t", "entity": "e", "changes": "show"},
    "declare": {"table": "t", "rules": {"a": "quasi_identifier"}},
    "drop": {"release": "r"},
    "drop_hierarchy": {"name": "h"},
    "evaluate_release": {"release": "r"},
    "list_hierarchies": {},
    "load_hierarchy": {"hierarchy": "name:h"},
    "measure_chain": {"name": "c", "key": b"0" * 32},
    "measure_releases": {"releases": ["r", "s"], "entity": "e"},
    "plan": {"table": "t", "k": 3, "output": "o", "quasi_identifiers": ["a"]},
    "refresh": {"release": "r"},
    "releases": {},
    "rules": {},
    "show": {"release": "r"},
    "show_budget": {"name": "b"},
    "show_chain": {"name": "c"},
    "store_hierarchy": {"name": "h", "hierarchy": {"tree": {"a": ["b", "c"]}}},
    "undeclare": {"table": "t"},
    "verify": {"relation": "r", "quasi_identifiers": ["a"]},
    "withdraw": {"name": "c", "entities": [1], "key": b"0" * 32},
}
_ADVICE: dict[str, dict[str, Any]] = {
    "advise": {"table": "t"},
    "certificate": {"k": 3, "table": "t", "quasi_identifiers": ["a"]},
    "disclosure_risk": {"table": "t", "quasi_identifiers": ["a"]},
}
_WITHOUT_EXTRA = (
    "attack",
    "evaluate",
    "generalization_loss",
    "information_loss",
    "lower_bound",
    "partition",
    "synthesize",
)
_FILES = ("anonymize_frame", "compare_analyses", "run_job", "verify_file")
# The extra that each kind of database needs, and such a database.
_DATABASES = {
    "duckdb": ("duckdb:///missing.duckdb", "file:missing.csv"),
    "sqlite": ("sqlite:///missing.db",),
    "postgres": ("postgresql://nobody@127.0.0.1:1/none",),
    "mariadb": ("mysql+pymysql://nobody@127.0.0.1:1/none",),
}
_CALLS = """
import json, sys, types
import dbanon
from dbanon.errors import MissingDependency
found = []
for name, database, arguments in {calls!r}:
    try:
        getattr(dbanon, name)(database, **arguments)
        found.append((name, database, "ran", ""))
    except MissingDependency as error:
        found.append((name, database, error.code, error.hint))
    except Exception as error:
        found.append((name, database, type(error).__name__, str(error)))
print(json.dumps(found))
"""


def test_every_public_function_is_called() -> None:
    functions = {
        name
        for name in dbanon.__all__
        if isinstance(getattr(dbanon, name), type(test_every_public_function_is_called))
    }
    assert functions == {*_OF_DATABASE, *_ADVICE, *_WITHOUT_EXTRA, *_FILES}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("extra", "having"),
    [
        (extra, having)
        for extra in _DATABASES
        for having in ((), ("sqlite",))
        if extra not in having
    ],
)
def test_a_database_names_the_extra_it_needs(extra: str, having: tuple[str, ...]) -> None:
    calls = [
        (name, database, arguments)
        for database in _DATABASES[extra]
        for name, arguments in (_OF_DATABASE | _ADVICE).items()
    ]
    for name, database, code, hint in without.result_of(_CALLS.format(calls=calls), having):
        where = f"{name} {database} {hint}"
        assert code == "missing_dependency", where
        assert f"pip install {quote_requirements(extra)}" in hint, where


def test_frames_and_jobs_say_which_extra_they_need(tmp_path: Path) -> None:
    calls = [
        ("anonymize_frame", None, {"quasi_identifiers": ["a"], "k": 3}),
        ("run_job", str(tmp_path / "job.yaml"), {}),
        ("compare_analyses", None, {"released": None, "analyses": [{"mean": "a"}]}),
    ]
    results = without.result_of(_CALLS.format(calls=calls))
    assert [code for _, _, code, _ in results] == ["missing_dependency"] * 3
    assert "pip install 'pandas>=2.0' 'pyarrow>=15'" in results[0][3]
    assert "pip install 'pydantic>=2.7' 'pyyaml>=6'" in results[1][3]
    assert results[2][3] == results[1][3]


@pytest.mark.slow
def test_rows_of_names_need_pandas() -> None:
    """Column names turn the data into a frame."""
    rows = [{"a": 1.0}, {"a": 2.0}]
    calls = [
        ("partition", rows, {"k": 2}),
        ("lower_bound", rows, {"k": 2}),
        ("evaluate", rows, {"released": rows}),
    ]
    for name, _, code, hint in without.result_of(_CALLS.format(calls=calls)):
        assert code == "missing_dependency", (name, hint)
        assert quote_requirements("frame") in hint


@pytest.mark.slow
def test_noise_needs_its_library() -> None:
    result = without.result_of(
        """
import numpy as np
import dbanon
try:
    dbanon.synthesize(
        np.ones((900, 1)), method="dp_ranks", epsilon=1.0, types="number",
        bounds={"column 0": (0.0, 1.0)}, budget=dbanon.Budget(3.0),
    )
except dbanon.errors.DbanonError as error:
    print(json.dumps([error.code, error.hint]))
"""
    )
    assert (result[0], "pip install 'opendp>=0.16'" in result[1]) == ("missing_dependency", True), (
        result
    )


def test_arrays_need_numpy_alone() -> None:
    results = without.result_of(
        """
import json
import numpy as np
import dbanon
points = np.random.default_rng(0).normal(size=(300, 3))
found = dbanon.partition(points, 5)
loss = dbanon.information_loss(points, found)
assert 0 < dbanon.lower_bound(points, 5) <= loss
from dbanon.doors import plpython
loaded = sorted({name.partition(".")[0] for name in sys.modules} & blocked)
print(json.dumps([found.n_classes, loss, loaded]))
"""
    )
    points = np.random.default_rng(0).normal(size=(300, 3))
    assert results[0] == dbanon.partition(points, 5).n_classes
    assert results[1] == dbanon.information_loss(points, dbanon.partition(points, 5))
    assert results[2] == []


_COMMAND = "sys.argv = {words!r}\nfrom dbanon.doors.cli.start import start\nstart()\n"


def command(*words: str, having: tuple[str, ...]) -> tuple[int, str]:
    done = without.run(_COMMAND.format(words=["dbanon", *words]), having)
    return done.returncode, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "having", "extra"),
    [
        (("--version",), (), "cli"),
        (("releases", "duckdb:///x.duckdb"), (), "cli"),
        (("demo",), ("cli",), "duckdb"),
        (("check", "job.yaml"), ("cli",), "job"),
        (("run", "job.yaml"), ("cli", "duckdb"), "job"),
        (("releases", "duckdb:///x.duckdb"), ("cli",), "duckdb"),
        (("releases", "sqlite:///x.db"), ("cli",), "sqlite"),
        (("releases", "postgresql://nobody@127.0.0.1:1/x"), ("cli",), "postgres"),
        (("install", "postgresql://nobody@127.0.0.1:1/x"), ("cli",), "postgres"),
        (("install", "postgresql://nobody@127.0.0.1:1/x"), ("cli", "sqlite"), "postgres"),
        (("releases", "mysql+pymysql://nobody@127.0.0.1:1/x"), ("cli",), "mariadb"),
        (("advise", "file:x.csv", "--table", "x"), ("cli",), "duckdb"),
    ],
)
def test_a_command_names_the_extra_it_needs(
    words: tuple[str, ...], having: tuple[str, ...], extra: str
) -> None:
    code, stderr = command(*words, having=having)
    assert code == 2
    assert stderr.startswith("Error [missing_dependency]: ")
    assert f"pip install {quote_requirements(extra)}" in stderr
    assert "Traceback" not in stderr


def test_the_json_log_reports_it_too() -> None:
    code, stderr = command("releases", "duckdb:///x", "--log-format", "json", having=())
    lines = [json.loads(line) for line in stderr.splitlines()]
    assert [line["event"] for line in lines] == ["start", "error", "end"]
    assert lines[1]["code"] == "missing_dependency"
    assert lines[2]["exit_code"] == code == 2


@pytest.mark.slow
def test_the_demonstration_needs_its_own_extras(tmp_path: Path) -> None:
    done = without.run(
        f"import os\nos.chdir({str(tmp_path)!r})\n"
        + _COMMAND.format(words=["dbanon", "demo", "--rows", "300"]),
        ("cli", "duckdb", "report"),
    )
    assert done.returncode == 0, done.stderr


def test_all_ways_of_installation_give_the_same_catalog() -> None:
    assert without.packages("all") >= {
        "alembic",
        "click",
        "duckdb",
        "jinja2",
        "pandas",
        "pyarrow",
        "pydantic",
        "rich",
        "sqlalchemy",
        "yaml",
    }
    assert without.packages("all") <= without.packages("dev")


def test_each_package_of_an_extra_has_its_line() -> None:
    from dbanon.errors.extras import _EXTRA_OF_PACKAGE

    packages = {
        package
        for package in without.OPTIONAL_PACKAGES
        if package not in ("psycopg_binary", "_duckdb")
    }
    assert packages == set(_EXTRA_OF_PACKAGE)
    for package, (extra, _) in _EXTRA_OF_PACKAGE.items():
        assert package in without.packages(extra)


def test_hints_install_what_the_extras_do() -> None:
    hinted = set(without.extras()) - {"all", "dev", "bench", "docs"}
    assert {extra: set(packages) for extra, packages in REQUIREMENTS.items()} == {
        extra: without.requirements(extra) for extra in hinted
    }


def test_each_extra_is_explained() -> None:
    text = (without.PROJECT.parent / "docs" / "install.md").read_text()
    rows = {line.partition("|")[2].partition("|")[0] for line in text.splitlines()}
    explained = {name for row in rows for name in row.replace("`", "").replace(",", "").split()}
    assert set(without.extras()) - {"dev", "bench", "docs"} <= explained


@pytest.mark.slow
@pytest.mark.parametrize(
    ("call", "extra"), [("report.page()", "report"), ("create_bar(sys.stderr)", "cli")]
)
def test_packages_that_frames_need_lazily(call: str, extra: str) -> None:
    hints = without.result_of(
        f"""
import sys, pandas as pd, dbanon
from dbanon.doors.progress import create_bar
frame = pd.DataFrame({{"a": range(9)}})
_, report = dbanon.anonymize_frame(frame, quasi_identifiers=["a"], k=3)
try:
    {call}
except dbanon.errors.MissingDependency as error:
    print(__import__("json").dumps(error.hint))
""",
        ("frame",),
    )
    assert f"pip install {quote_requirements(extra)}" in hints


@pytest.mark.slow
def test_spark_needs_no_driver_of_postgresql() -> None:
    code = """
import json
import dbanon.spark
from sqlalchemy import make_url
from dbanon.errors import MissingDependency
from dbanon.run.open import open_postgresql_store
try:
    open_postgresql_store(make_url("postgresql://nobody@127.0.0.1:1/none"))
except MissingDependency as error:
    print(json.dumps([dbanon.spark.anonymize_table.__name__, error.hint]))
"""
    import_or_skip("pyspark")
    name, hint = without.result_of(code, ("spark",))
    assert name == "anonymize_table"
    assert f"pip install {quote_requirements('postgres')}" in hint
