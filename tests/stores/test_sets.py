"""Sets of columns beside k on every database: counted where they were written, and again later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import dbanon
from dbanon.doors.cli.main import main
from dbanon.errors import DbanonError, KeptColumnTells, RecountFailed
from dbanon.run.verify import Verification
from dbanon.run.verify_file import verify_file
from tests.stores.databases import Database, quote
from tests.stores.test_models import COLUMNS, load

__all__ = ["COLUMNS"]

SETS = [{"columns": ["age", "ill"], "k": 3}, ["place", "site"], {"columns": ["age"], "k": 20}]
OPTIONS: dict[str, Any] = {
    "table": "people",
    "output": "release.people",
    "quasi_identifiers": ["age", "place"],
    "sensitive": ["ill"],
    "by": ["site"],
    "k": 4,
    "method": "mondrian",
    "also_k": SETS,
    "max_suppression": 0.3,
}


def released(database: Database, **more: Any) -> dbanon.Report:
    return dbanon.anonymize(database.url, **(OPTIONS | more))


def smallest(database: Database, columns: list[str], count: str = "count(*)") -> int:
    names = ", ".join(map(quote, columns))
    [(size,)] = database.rows(
        f"SELECT min(n) FROM (SELECT {count} AS n FROM {database.relation('release.people')}"
        f" GROUP BY {names}) AS t"
    )
    return int(size)


def test_each_set_is_counted_on_what_was_written_and_again(database: Database) -> None:
    load(database)
    # A report says so where its schema was created.
    database.make_schema("release")
    report = released(database)
    for recorded in report.arguments["also_k"]:
        assert recorded["counted"] == smallest(database, recorded["columns"]) >= recorded["k"]
    assert "every combination of (age, ill) by at least 3 rows" in report.guarantee
    verification = dbanon.verify(database.url, "release.people")
    assert [
        (list(column_set.columns), column_set.k, column_set.counted)
        for column_set in verification.also_k
    ] == [
        (recorded["columns"], recorded["k"], recorded["counted"])
        for recorded in report.arguments["also_k"]
    ]
    again = dict(dbanon.refresh(database.url, "release.people").arguments)
    assert "people was released before" in again.pop("intersects")
    assert again == report.arguments
    line = [
        "anonymize",
        database.url,
        "--table",
        "people",
        "-q",
        "age",
        "-q",
        "place",
        "-s",
        "ill",
        "--by",
        "site",
        "--k",
        "4",
        "--method",
        "mondrian",
        "--also-k",
        "age,ill=3",
        "--also-k",
        "place,site",
        "--also-k",
        "age=20",
        "--max-suppression",
        "0.3",
        "--output",
        "release.people",
        "--if-exists",
        "replace",
    ]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    assert "k of (age, ill)" in done.stdout
    assert smallest(database, ["age"]) >= 20


def test_persons_are_counted_in_each_set(database: Database) -> None:
    load(database)
    relation, text = database.relation("people"), database.types["text"]
    database.execute(
        f"ALTER TABLE {relation} ADD COLUMN who {text}",
        f"ALTER TABLE {relation} ADD COLUMN same {text}",
    )
    # Three rows a person, alike in age and illness; `same` says in the release whose they are.
    person = "concat('p', id % 40)" if database.name == "mariadb" else "'p' || (id % 40)"
    database.execute(
        f"UPDATE {relation} SET who = {person}, same = {person}, age = 20 + id % 40,"
        " ill = CASE id % 4 WHEN 0 THEN 'flu' ELSE 'cough' END"
    )
    report = released(
        database,
        entity="who",
        also_k=[{"columns": ["age", "ill"], "k": 4}],
        k=2,
        keep=["same"],
        by=[],
        max_suppression=0.5,
    )
    [recorded] = report.arguments["also_k"]
    persons = smallest(database, ["age", "ill"], "count(DISTINCT same)")
    rows = smallest(database, ["age", "ill"])
    assert recorded["counted"] == persons >= 4
    assert rows > persons
    assert 'persons (distinct values of "who"), too' in report.guarantee
    # The release does not identify persons, so a later recount can only count rows.
    [column_set] = dbanon.verify(database.url, "release.people").also_k
    assert column_set.counted == rows


def test_a_copied_column_is_no_range_of_others(database: Database) -> None:
    """A column x beside quasi-identifiers x_low and x_high: x itself is counted, now and later."""
    load(database)
    relation, kind = database.relation("people"), database.types["integer"]
    for name, value in (("x_low", "age % 2"), ("x_high", "age % 2"), ("x", "id % 20")):
        database.execute(f"ALTER TABLE {relation} ADD COLUMN {name} {kind}")
        database.execute(f"UPDATE {relation} SET {name} = {value}")
    report = released(
        database,
        quasi_identifiers=["x_low", "x_high"],
        keep=["x"],
        by=[],
        sensitive=[],
        also_k=[{"columns": ["x"], "k": 6}],
    )
    [recorded] = report.arguments["also_k"]
    assert recorded == {"columns": ["x"], "k": 6, "counted": smallest(database, ["x"])}
    assert recorded["counted"] == 6
    [column_set] = dbanon.verify(database.url, "release.people").also_k
    assert (column_set.columns, column_set.counted) == (("x",), 6)


@pytest.mark.in_turn(of="file")
@pytest.mark.parametrize("kind", ["parquet", "other"])
def test_other_places_are_counted_as_well(
    database: Database, tmp_path: Path, kind: str, duckdb_file: Database
) -> None:
    load(database)
    if kind == "parquet":
        report = released(database, exports=[str(tmp_path / "people.parquet")])
        verification = verify_file(tmp_path / "people.parquet")
    else:
        report = released(database, target=duckdb_file.url)
        verification = dbanon.verify(duckdb_file.url, "release.people")
    assert isinstance(verification, Verification)
    recorded = report.arguments["also_k"]
    assert [column_set.counted for column_set in verification.also_k] == [
        record["counted"] for record in recorded
    ]
    assert [column_set.counted >= column_set.k for column_set in verification.also_k] == [True] * 3


@pytest.mark.in_turn(of="file")
def test_what_was_changed_fails(database: Database) -> None:
    load(database)
    with pytest.warns(KeptColumnTells):
        released(database, keep=["id"])
    # Ages, places and sites stay, so that classes do: one row has an illness that no other has.
    relation = database.relation("release.people")
    database.execute(
        f"UPDATE {relation} SET ill = 'one of its own' WHERE id ="
        f" (SELECT first FROM (SELECT min(id) AS first FROM {relation}) AS t)"
    )
    with pytest.raises(RecountFailed, match=r"\(age, ill\)"):
        dbanon.verify(database.url, "release.people")


@pytest.mark.in_turn(of="file")
def test_a_written_set_that_does_not_hold_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the search has an error, the count in the transaction stops it."""
    from dbanon.partitioning import sets

    load(database)
    monkeypatch.setattr(
        sets, "coarsen_for_column_sets", lambda microdata, partition, *more: partition
    )
    with pytest.raises(RecountFailed) as failed:
        released(database, also_k=[{"columns": ["age", "ill"], "k": 9}])
    assert "(age, ill)" in failed.value.message
    assert ("release", "people") not in database.relations()


@pytest.mark.in_turn(of="file")
def test_chains_and_unknown_columns_are_refused(database: Database) -> None:
    load(database)
    chain = dbanon.Chain("c", "env:NOWHERE")
    for more in ({"chain": chain, "entity": "id"}, {"also_k": [["cost"]]}):
        with pytest.raises(DbanonError) as refused:
            released(database, **more)
        assert refused.value.code == "invalid_parameter"
