"""Orders of values on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dbanon.doors.cli.main import main
from dbanon.doors.cli.options import merge_orders
from dbanon.doors.cli.support import split_list
from dbanon.errors import InvalidParameter
from tests.stores.databases import DuckdbDatabase

SCHOOLS = ["none", "school, part time", "master"]


@pytest.fixture
def database(tmp_path: Path) -> DuckdbDatabase:
    database = DuckdbDatabase(tmp_path / "people.duckdb")
    rows = [(i, i * 37 % 60, SCHOOLS[i % 3]) for i in range(60)]
    database.load("people", {"id": "INTEGER", "age": "INTEGER", "school": "VARCHAR"}, rows)
    return database


def anonymize(url: str, *more: str) -> Result:
    options = ["--table", "people", "--quasi-identifiers", "age,school", "--k", "3"]
    options += ["--output", "release.people", "--if-exists", "replace", *more]
    return CliRunner().invoke(main, ["anonymize", url, *options])


def test_stated_in_place_and_in_a_file(database: DuckdbDatabase, tmp_path: Path) -> None:
    path = tmp_path / "school.txt"
    path.write_text("\n".join(SCHOOLS) + "\n", encoding="utf-8")
    releases = []
    for orders in (
        ("--order", 'school=none, "school, part time", master'),
        ("--order-file", f"school={path}"),
    ):
        done = anonymize(database.url, *orders)
        assert done.exit_code == 0, done.output
        releases.append(sorted(database.rows('SELECT age, school FROM "release"."people"')))
    assert releases[0] == releases[1]
    assert {school for _, school in releases[0]} == set(SCHOOLS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "orders",
    [
        ("--order", "school"),
        ("--order", "school=none,,master"),
        ("--order", "school=none,none,master"),
        ("--order", "school=none,master"),
        ("--order", "nobody=none,master"),
        ("--order", "age=1,2"),
        ("--order-file", "school=/nowhere.txt"),
    ],
)
def test_refused(database: DuckdbDatabase, orders: tuple[str, str]) -> None:
    before = database.state()
    done = anonymize(database.url, *orders)
    assert done.exit_code == 2, done.output
    assert "master" not in done.stderr
    assert database.state() == before


def test_forms(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text(" low\nhigh, or so\n", encoding="utf-8")
    stated = {"a": split_list('x,"y, z"'), "b": split_list("")}
    assert merge_orders(stated, [f"c={path}"]) == {
        "a": ("x", "y, z"),
        "b": (),
        "c": (" low", "high, or so"),
    }
    with pytest.raises(InvalidParameter, match="twice"):
        merge_orders({"c": ("x",)}, [f"c={path}"])
    path.write_text("low\n\nhigh\n", encoding="utf-8")
    with pytest.raises(InvalidParameter, match="empty value"):
        merge_orders({}, [f"c={path}"])
