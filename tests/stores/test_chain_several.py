"""Persons with several rows in a chain: hospital stays, whose cells are k persons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import (
    ChainEntityRows,
    ChainModel,
    InvalidParameter,
    NullInEntity,
    TellingColumnRefused,
)
from tests.stores.databases import Database, inserts

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

# By person: age, postcode, and the ward and costs of each stay.
Persons = dict[int, tuple[int, int, list[tuple[str, int]]]]
OPTIONS: dict[str, Any] = {
    "table": "stays",
    "entity": "patient",
    "quasi_identifiers": ["age", "postcode"],
    "keep": ["ward", "cost"],
    "k": 3,
    "output": "released",
    "if_exists": "replace",
}


def persons(n: int = 12, first: int = 0) -> Persons:
    wards = "ABC"
    return {
        i: (20 + 3 * i, 1000 + i, [(wards[(i + j) % 3], 10 * j) for j in range(1 + i % 3)])
        for i in range(first, first + n)
    }


def load(database: Database, persons_by_id: Mapping[int, Any]) -> None:
    if not any(name == "stays" for _, name in database.relations()):
        integer = database.types["integer"]
        columns = {
            "patient": integer,
            "age": integer,
            "postcode": integer,
            "ward": database.types["text"],
            "cost": integer,
        }
        database.load("stays", columns, [])
    rows = [
        (i, age, code, *stay) for i, (age, code, stays) in persons_by_id.items() for stay in stays
    ]
    database.execute("DELETE FROM stays")
    database.execute(*inserts("stays", rows))


class Stays:
    def __init__(self, database: Database, folder: Path, **rules: Any) -> None:
        self.database, self.key = database, folder / "stays.key"
        options = {"changes": "hold", "min_newcomers": 0, "max_rows_per_person": 5} | rules
        self.created = dbanon.create_chain(
            database.url, "stays", table="stays", entity="patient", key_out=self.key, **options
        )

    def release(self, persons_by_id: Mapping[int, Any], **more: Any) -> dbanon.Report:
        load(self.database, persons_by_id)
        chain = dbanon.Chain("stays", key=f"file:{self.key}", accept_turnover=True)
        return dbanon.anonymize(self.database.url, **(OPTIONS | {"chain": chain} | more))

    def rows(self) -> Counter[tuple[Any, ...]]:
        relation = self.database.relation("released")
        return Counter(self.database.rows(f"SELECT age, postcode, ward, cost FROM {relation}"))


def changed(persons_by_id: Persons, person: int, stays: list[tuple[str, int]]) -> Persons:
    age, code, _ = persons_by_id[person]
    return persons_by_id | {person: (age, code, stays)}


def test_all_rows_of_a_person_stand_under_one_class(database: Database, tmp_path: Path) -> None:
    load(database, persons())
    chained = Stays(database, tmp_path)
    report = chained.release(persons())
    patients = persons()
    assert report.rows_out == report.rows_in == sum(len(stays) for *_, stays in patients.values())
    assert report.arguments["chain"]["persons"] == 12
    assert report.arguments["chain"]["outlying"] == 0
    # Each class of three has the rows of all three persons, and k counts persons.
    sizes = Counter[Any]()
    for (age, code, *_), n in chained.rows().items():
        sizes[age, code] += n
    assert sorted(sizes.values()) == [6, 6, 6, 6]
    assert report.k_achieved == 3
    [counts] = {
        tuple(row)
        for row in database.rows(
            f"SELECT count(*), count(DISTINCT tag) FROM {database.ledger('chain_member')}"
        )
    }
    assert counts == (12, 12)


def test_a_person_whose_rows_change_is_one_change(database: Database, tmp_path: Path) -> None:
    """However many of her rows do: who knows of her change must not see it alone."""
    patients = persons()
    load(database, patients)
    chained = Stays(database, tmp_path)
    chained.release(patients)
    before = chained.rows()
    patients = changed(patients, 2, [("C", 99), ("A", 99), ("B", 99), ("B", 98)])
    report = chained.release(patients)
    assert chained.rows() == before
    assert report.rows_out == sum(before.values())
    # Her two neighbours' as well, and it is shown.
    for neighbour in (0, 1):
        patients = changed(patients, neighbour, [("C", 97)])
    chained.release(patients)
    new_rows = chained.rows() - before
    assert sorted(cost for *_, cost in new_rows.elements()) == [97, 97, 98, 99, 99, 99]


def test_rows_that_persons_take_from_one_another_are_a_change(
    database: Database, tmp_path: Path
) -> None:
    """The cell's rows are the same, but the multisets of persons differ: three changes."""
    patients = persons()
    load(database, patients)
    chained = Stays(database, tmp_path, changes="show")
    chained.release(patients)
    before = chained.rows()
    stays = [patients[i][2] for i in (0, 1, 2)]
    assert [len(rows) for rows in stays] == [1, 2, 3]
    patients = changed(
        changed(patients, 0, stays[0] + stays[2][1:2]), 2, stays[2][:1] + stays[2][2:]
    )
    chained.release(patients)
    assert chained.rows() == before
    [(recorded,)] = database.rows(
        f"SELECT counts FROM {database.ledger('chain_release')} WHERE sequence = 2"
    )
    assert '"changed": 2' in (
        recorded if isinstance(recorded, str) else str(recorded).replace("'", '"')
    )


def test_of_many_rows_some_are_shown_and_the_same_ones(database: Database, tmp_path: Path) -> None:
    patients = changed(persons(), 4, [("A", cost) for cost in range(40)])
    load(database, patients)
    chained = Stays(database, tmp_path, changes="show")
    first = chained.release(patients)
    assert (first.rows_out, first.suppressed) == (22 + 5, 35)
    assert "1 persons have more than 5 rows, of which 35 are withheld" in first.earlier_releases
    before = chained.rows()
    # Rows in another order are the same, even if they now belong to another person.
    chained.release(changed(patients, 4, list(reversed(patients[4][2]))))
    assert chained.rows() == before
    swapped = changed(changed(patients, 4, patients[3][2]), 3, patients[4][2])
    chained.release(swapped)
    assert chained.rows() == before


def test_a_quasi_identifier_is_a_persons(database: Database, tmp_path: Path) -> None:
    load(database, persons())
    chained = Stays(database, tmp_path)
    database.execute("UPDATE stays SET age = age + 1 WHERE cost = 10")
    chain = dbanon.Chain("stays", key=f"file:{chained.key}")
    with pytest.raises(ChainEntityRows, match=r'"age" has more than one value .* of 8 persons'):
        dbanon.anonymize(database.url, **OPTIONS, chain=chain)
    load(database, persons())
    database.execute("UPDATE stays SET postcode = NULL WHERE cost = 20 AND patient = 5")
    with pytest.raises(ChainEntityRows, match="of fewer than 3 persons"):
        dbanon.anonymize(database.url, **OPTIONS, chain=chain, nulls="category")
    load(database, persons())
    database.execute("UPDATE stays SET patient = NULL WHERE cost = 20 AND patient = 5")
    with pytest.raises(NullInEntity, match="in 1 of 24 rows"):
        dbanon.anonymize(database.url, **OPTIONS, chain=chain)
    # A member's rows may be: those of the day of admission are used.
    chained.release(persons())
    before = chained.rows()
    moved = persons()
    load(database, moved)
    database.execute("UPDATE stays SET age = age + 1 WHERE cost = 10")
    dbanon.anonymize(database.url, **OPTIONS, chain=chain)
    assert chained.rows() == before


def test_a_chain_of_one_row_says_what_it_would_take(database: Database, tmp_path: Path) -> None:
    load(database, persons())
    with pytest.raises(InvalidParameter, match="one row per person"):
        Stays(database, tmp_path, mode="measure")
    chained = Stays(database, tmp_path, max_rows_per_person=None)
    with pytest.raises(ChainEntityRows) as refused:
        chained.release(persons())
    assert "at most 3" in str(refused.value)
    assert "max_rows_per_person" in str(refused.value)


def test_what_would_be_held_back_is_said_when_a_chain_is_made(
    database: Database, tmp_path: Path
) -> None:
    patients = persons()
    load(database, patients)
    created = Stays(database, tmp_path, max_rows_per_person=2).created
    many = sum(len(stays) > 2 for *_, stays in patients.values())
    beyond = sum(max(len(stays) - 2, 0) for *_, stays in patients.values())
    [message] = created.held_back
    assert f"{many} persons have more than 2 rows" in message
    assert f"withhold {beyond} of their rows" in message
    assert dict(created.pairs())["held back"] == message
    assert created.to_dict()["held_back"] == (message,)
    # That is what the release holds back.
    chain = dbanon.Chain("stays", key=f"file:{tmp_path / 'stays.key'}")
    assert dbanon.anonymize(database.url, **OPTIONS, chain=chain).suppressed == beyond


def test_what_would_be_refused_is_said_when_a_chain_is_made(
    database: Database, tmp_path: Path
) -> None:
    load(database, changed(persons(3), 0, [("A", 1)]))
    database.execute("INSERT INTO stays VALUES (NULL, 1, 2, 'A', 3)")
    many_rows, nobodys = Stays(database, tmp_path, max_rows_per_person=None).created.held_back
    assert "2 persons have more than one row" in many_rows
    assert "chain_entity_rows" in many_rows
    assert "1 row without a value" in nobodys
    assert "null_in_entity" in nobodys
    chain = dbanon.Chain("stays", key=f"file:{tmp_path / 'stays.key'}")
    with pytest.raises(NullInEntity):
        dbanon.anonymize(database.url, **OPTIONS, chain=chain)


def test_nothing_is_reported_if_nothing_would_be_held_back(
    database: Database, tmp_path: Path
) -> None:
    load(database, persons())
    created = Stays(database, tmp_path, max_rows_per_person=3).created
    assert created.held_back == ()
    assert "held back" not in dict(created.pairs())


def test_models_are_refused(database: Database, tmp_path: Path) -> None:
    load(database, persons())
    chained = Stays(database, tmp_path)
    model = dbanon.Model("distinct_l", "ward", 2)
    with pytest.raises(ChainModel, match="several rows per person"):
        chained.release(persons(), keep=["cost"], sensitive=["ward"], models=[model])


def test_a_column_that_tells_rows_apart_is_found(database: Database, tmp_path: Path) -> None:
    """If all rows of a person have one value that no other person has, it identifies that
    person.
    """
    patients = {
        i: (age, code, [(f"w{i}", 1)] * len(stays)) for i, (age, code, stays) in persons().items()
    }
    load(database, patients)
    chained = Stays(database, tmp_path)
    with pytest.raises(TellingColumnRefused, match="ward"):
        chained.release(patients, strict=True)
    with pytest.warns(dbanon.errors.PrivacyWarning, match='"ward" is nearly unique'):
        chained.release(patients)


def test_persons_come_leave_and_are_planned(database: Database, tmp_path: Path) -> None:
    patients = persons(30)
    load(database, patients)
    chained = Stays(database, tmp_path)
    chained.release(patients)
    patients = {i: patient for i, patient in patients.items() if i != 7} | persons(4, first=50)
    load(database, patients)
    chain = dbanon.Chain("stays", key=f"file:{chained.key}")
    planned = dbanon.plan(database.url, **OPTIONS, chain=chain)
    assert (planned.chain.coming.came, planned.chain.coming.left) == (4, 1)
    assert planned.chain.coming.cells == {"live": 9, "held": 1}
    report = chained.release(patients)
    assert report.arguments["chain"]["persons"] == 34
    assert dbanon.withdraw(database.url, "stays", ["50"], key=f"file:{chained.key}") == 1
    assert chained.release(patients).arguments["chain"]["persons"] == 30
