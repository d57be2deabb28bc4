"""Whether two stores are one database: then a run is one transaction, else two."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dbanon.run.open import open_store


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_a_file_is_the_same_by_whatever_name(kind: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "people.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "people.db")
    (tmp_path / "other.db").touch()
    database = open_store(f"{kind}:///{tmp_path}/people.db")
    for name in ("people.db", "link.db", "inner/../people.db"):
        assert database.is_same_database(open_store(f"{kind}:///{tmp_path}/{name}")), name
    assert not database.is_same_database(open_store(f"{kind}:///{tmp_path}/other.db"))
    other_kind = {"duckdb": "sqlite", "sqlite": "duckdb"}[kind]
    assert not database.is_same_database(open_store(f"{other_kind}:///{tmp_path}/people.db"))


def test_a_connection_is_the_same_as_itself_alone() -> None:
    with duckdb.connect() as first, duckdb.connect() as second:
        assert open_store(first).is_same_database(open_store(first))
        assert not open_store(first).is_same_database(open_store(second))
