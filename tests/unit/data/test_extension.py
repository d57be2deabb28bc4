"""Extensions are found by name; those of other packages add to the core and replace nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.data import extension
from dbanon.data.extension import Command, Database, Extension, TableFormat
from dbanon.doors.cli.main import main
from dbanon.errors import InvalidParameter, MissingDependency
from dbanon.run.open import supports_chains, supports_view_releases
from dbanon.stores.duckdb.store import DuckdbStore

MODULE = "toy_extension"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package outside of dbanon, installed with one entry point."""
    module = ModuleType(MODULE)
    point = EntryPoint("toy", f"{MODULE}:EXTENSION", extension.ENTRY_POINTS)
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: (point,))
    extension.installed_extensions.cache_clear()
    yield module
    extension.installed_extensions.cache_clear()


def open_toy_store(url: object, on_sql: object) -> DuckdbStore:
    """The file of DuckDB that a URL names."""
    return DuckdbStore(url.database, on_sql)  # type: ignore[attr-defined,arg-type]


def test_a_store_of_another_package_releases(
    toy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqlalchemy.dialects import registry
    from sqlalchemy.dialects.sqlite.base import SQLiteDialect

    class ToyDialect(SQLiteDialect):
        name = "toy"

    monkeypatch.setattr(toy, "ToyDialect", ToyDialect, raising=False)
    registry.register("toy", MODULE, "ToyDialect")
    monkeypatch.setattr(toy, "open_toy_store", open_toy_store, raising=False)
    toy.EXTENSION = Extension(
        "toy",
        databases=(Database(("toy",), f"{MODULE}:open_toy_store", label="Toy", has_views=False),),
    )
    path = tmp_path / "people.toy"
    import duckdb

    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS age FROM range(20) AS t(i)")
    report = dbanon.anonymize(
        f"toy:///{path}", table="people", quasi_identifiers=["age"], k=4, output="released"
    )
    assert report.k_achieved >= 4
    assert not supports_view_releases(f"toy:///{path}")
    assert supports_chains(f"toy:///{path}")


def test_a_command_of_another_package_runs_and_is_listed(toy: ModuleType) -> None:
    import click

    @click.command()
    def greet() -> None:
        click.echo("hello")

    toy.greet = greet
    toy.EXTENSION = Extension("toy", commands={"greet": Command(f"{MODULE}:greet", "Say hello.")})
    assert CliRunner().invoke(main, ["greet"]).output == "hello\n"
    assert "Say hello." in CliRunner().invoke(main, ["--help"]).output


def test_a_broken_package_hides_no_other(toy: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint(name, value, extension.ENTRY_POINTS)
        for name, value in (("broken", "no_such_module:X"), ("toy", f"{MODULE}:EXTENSION"))
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    toy.EXTENSION = Extension("toy", commands={"greet": Command(f"{MODULE}:greet", "Say hello.")})
    listed = CliRunner().invoke(main, ["--help"])
    assert "Say hello." in listed.stdout
    assert "The extension broken cannot be loaded" in listed.stderr


def test_nothing_of_the_core_is_replaced(toy: ModuleType) -> None:
    toy.EXTENSION = Extension(
        "toy",
        databases=(Database(("mariadb",), f"{MODULE}:none", label="Toy"),),
        commands={name: Command(f"{MODULE}:none", "Mine.") for name in ("verify", "workbench")},
    )
    assert "Mine." not in CliRunner().invoke(main, ["--help"]).output
    mariadb = extension.find_database("mariadb")
    assert mariadb is not None
    assert mariadb.label == "MariaDB"


def test_dbanon_works_next_to_a_package_that_cannot_be_imported(
    toy: ModuleType, tmp_path: Path
) -> None:
    [error] = extension.installed_extensions().errors
    assert "cannot be loaded" in error.message
    assert MODULE in (error.hint or "")
    listed = CliRunner().invoke(main, ["--help"])
    assert (listed.exit_code, "verify" in listed.stdout) == (0, True)
    assert "extension_invalid" in listed.stderr
    assert CliRunner().invoke(main, ["methods"]).exit_code == 0
    with pytest.raises(InvalidParameter, match="The extension toy cannot be loaded"):
        dbanon.verify("oracle+oracledb://anna@host/app", "release.people")


def test_an_entry_point_must_name_an_extension(toy: ModuleType) -> None:
    toy.EXTENSION = "toy"
    [error] = extension.installed_extensions().errors
    assert "does not refer to an Extension" in error.message


def test_an_unknown_kind_of_database_is_refused_as_before() -> None:
    with pytest.raises(InvalidParameter, match=r"There is no store for|fetched"):
        dbanon.verify("oracle+oracledb://anna@host/app", "release.people")


def test_every_location_in_the_records_leads_to_a_function() -> None:
    """A renamed function would otherwise be missed only where it is used."""
    locations = [
        location
        for built_in in extension.built_in_extensions()
        for location in (
            *(database.open_store for database in built_in.databases),
            *(table_format.open_origin for table_format in built_in.table_formats),
            *(
                table_format.parse_destination
                for table_format in built_in.table_formats
                if table_format.parse_destination
            ),
            *(command.location for command in built_in.commands.values()),
            *built_in.engines.values(),
            *built_in.evaluations.values(),
            *built_in.runners.values(),
        )
    ]
    assert len(locations) >= len(extension.BUILT_IN)
    for location in locations:
        with suppress(MissingDependency):
            assert extension.load(location) is not None


def test_a_prefix_of_the_core_is_nobody_elses(toy: ModuleType, tmp_path: Path) -> None:
    """And packages are not even loaded to look for it."""
    toy.EXTENSION = Extension(
        "toy",
        databases=(Database(("duckdb",), f"{MODULE}:none", label="Toy"),),
        table_formats=(TableFormat("file:", "Toy", f"{MODULE}:none"),),
    )
    (tmp_path / "people.csv").write_text("age\n" + "30\n" * 9)
    plan = dbanon.plan(
        f"file:{tmp_path / 'people.csv'}",
        table="people",
        quasi_identifiers=["age"],
        k=3,
        output="released",
        target=f"duckdb:///{tmp_path / 'released.duckdb'}",
    )
    assert plan.rows == 9
    assert not extension.installed_extensions.cache_info().currsize


@pytest.mark.parametrize(
    ("location", "label"),
    [
        ("delta:///srv/people", "Delta"),
        ("delta:people", "Delta"),
        ("iceberg:here/clinic.people", "Iceberg"),
        ("s3://bucket/people.parquet", None),
        ("duckdb:///people.duckdb", None),
        ("file:people.csv", None),
        ("out/a:b.parquet", None),
        ("people.csv", None),
    ],
)
def test_a_prefix_names_a_kind_of_table(toy: ModuleType, location: str, label: str | None) -> None:
    toy.EXTENSION = Extension("toy")
    table_format = extension.find_table_format(location)
    assert (table_format and table_format.label) == label
    # None of these needs a look at other packages.
    assert not extension.installed_extensions.cache_info().currsize


def test_a_source_of_a_package_that_cannot_be_imported_names_it(toy: ModuleType) -> None:
    with pytest.raises(InvalidParameter, match="The extension toy cannot be loaded"):
        dbanon.verify("lines:people.jsonl", "release.people")


def test_importing_the_records_imports_no_driver() -> None:
    import subprocess

    code = (
        "import sys; from dbanon.data.extension import built_in_extensions as e; e();"
        "print([m for m in ('sqlalchemy', 'pymysql', 'click', 'jinja2') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
