"""Releases of a chain's persons outside the chain are reported, at its creation and later."""

from __future__ import annotations

from pathlib import Path

import pytest

import dbanon
from tests.stores.chain_cases import OPTIONS, Chained, Months, load
from tests.stores.databases import Database

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

ORDINARY = {**OPTIONS, "entity": None}


def test_ordinary_releases_of_the_source_are_named(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=20).now)
    database.anonymize(**ORDINARY, output="release.january")
    chained = Chained(database, tmp_path / "chain.key")
    created = dbanon.create_chain(
        database.url, "patients", table="people", entity="id", changes="show", key_out=chained.key
    )
    [message] = created.beside
    assert message.startswith("1 release of")
    assert "january" in message
    report = chained.release()
    assert report.arguments["chain"]["outside"] == 1
    assert "january" in report.earlier_releases
    # And one that is made in between.
    database.anonymize(**ORDINARY, output="release.february")
    again = chained.release()
    assert again.arguments["chain"]["outside"] == 2
    assert "2 releases of" in again.earlier_releases
    assert "february" in again.earlier_releases
    assert "february" in dict(chained.show().pairs())["not covered"]


def test_nothing_is_told_where_there_is_nothing(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=20).now)
    chained = Chained.create(database, tmp_path)
    report = chained.release()
    assert "outside" not in report.earlier_releases
    assert "outside" not in chained.release().arguments["chain"]
    assert chained.show().beside == ()


def test_another_chain_over_the_same_persons_is_found(database: Database, tmp_path: Path) -> None:
    """Under another table's name, as a yearly table has, or in a view."""
    load(database, Months(n=20).now)
    first = Chained.create(database, tmp_path)
    first.release()
    database.execute(
        "CREATE TABLE people_2027 AS SELECT * FROM people WHERE id > 5",
        "CREATE VIEW them AS SELECT * FROM people",
        "CREATE TABLE others (id integer)",
        "INSERT INTO others SELECT id + 1000 FROM people",
    )
    for table, prefix in (("people_2027", "15 of 15"), ("them", "20 of 20"), ("others", "")):
        created = dbanon.create_chain(
            database.url,
            table,
            table=table,
            entity="id",
            changes="show",
            key_out=tmp_path / f"{table}.key",
        )
        messages = [text for text in created.beside if "chain patients" in text]
        assert len(messages) == bool(prefix), table
        assert all(text.startswith(prefix) for text in messages)


def test_a_chain_whose_source_was_dropped_is_reported(database: Database, tmp_path: Path) -> None:
    load(database, Months(n=20).now)
    first = Chained.create(database, tmp_path)
    first.release()
    database.execute("CREATE TABLE later AS SELECT * FROM people", "DROP TABLE people")
    options = {"table": "later", "entity": "id", "changes": "show"}
    created = dbanon.create_chain(database.url, "later", key_out=tmp_path / "later.key", **options)
    assert created.beside == (
        "whether chain patients (" + first.show().source + ") has the same persons is unknown:"
        " its source cannot be read",
    )


def test_a_table_of_another_name_follows_a_chain(database: Database, tmp_path: Path) -> None:
    """This counts what both expose together."""
    load(database, Months(n=40).now)
    first = Chained.create(database, tmp_path)
    first.release()
    dbanon.close_chain(database.url, "patients")
    database.execute("CREATE TABLE people_2027 AS SELECT * FROM people WHERE id > 9")
    created = dbanon.create_chain(
        database.url,
        "next",
        table="people_2027",
        entity="id",
        changes="show",
        class_size=7,
        new_chain_from="patients",
        key=f"file:{first.key}",
    )
    assert created.beside == ()
    later = Chained(database, first.key, "next")
    report = later.release(table="people_2027", output="release.next")
    assert report.arguments["chain"]["pair_known"] == 40
    assert report.arguments["chain"]["pair_exposed"] > 3
