"""Several tables of the same persons in one chain: hospital stays, and what a laboratory found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon.errors import (
    ChainEntityRows,
    ChainFirstTable,
    InvalidParameter,
)
from tests.stores.databases import Database, inserts
from tests.stores.test_chain_several import OPTIONS, Stays, changed, load, persons

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")


def load_labs(database: Database, labs: list[tuple[Any, ...]]) -> None:
    if not any(name == "labs" for _, name in database.relations()):
        integer = database.types["integer"]
        columns = {"patient": integer, "smoker": integer, "test": database.types["text"]}
        database.load("labs", columns, [])
    database.execute("DELETE FROM labs")
    database.execute(*inserts("labs", labs))


LABS = [(i, i % 2, test) for i in range(12) for test in "XY"[: 1 + i % 2] if i % 4]


class Both(Stays):
    """Stays and what the laboratory found, of the same patients."""

    def __init__(self, database: Database, folder: Path, **rules: Any) -> None:
        load(database, persons())
        load_labs(database, LABS)
        super().__init__(database, folder, tables=["labs"], **rules)

    def chain(self, **more: Any) -> dbanon.Chain:
        chain_options = {"outputs": {"labs": "released_labs"}, "kept": {"labs": ["test"]}} | more
        return dbanon.Chain("stays", key=f"file:{self.key}", accept_turnover=True, **chain_options)

    def release(self, patients: Mapping[int, Any], **more: Any) -> dbanon.Report:
        load(self.database, patients)
        return dbanon.anonymize(self.database.url, **(OPTIONS | {"chain": self.chain()} | more))

    def labs(self) -> Counter[tuple[Any, ...]]:
        relation = self.database.relation("released_labs")
        return Counter(self.database.rows(f"SELECT age, postcode, test FROM {relation}"))


def test_tables_have_the_same_classes(database: Database, tmp_path: Path) -> None:
    both = Both(database, tmp_path)
    report = both.release(persons())
    of_stays = {(age, code) for age, code, *_ in both.rows()}
    assert {(age, code) for age, code, _ in both.labs()} <= of_stays
    assert sum(both.labs().values()) == len(LABS)
    chain_record = report.arguments["chain"]
    assert chain_record["combinations"] == len(of_stays) == 4
    assert [table["rows"] for table in chain_record["tables"]] == [len(LABS)]
    # One release of the chain has one number, and the ledger lists both tables.
    table_counts = database.rows(
        f"SELECT output_name, chain_sequence, rows_out FROM {database.ledger('release')}"
    )
    assert {name: (number, rows) for name, number, rows in table_counts} == {
        "released": (1, 24),
        "released_labs": (1, len(LABS)),
    }
    # A class of three persons may contain a single laboratory patient.
    verified = dbanon.verify(database.url, "released_labs")
    assert verified.unchanged
    assert "persons over all of its tables" in verified.counted
    assert "in any of the 2 tables" in str(report.guarantee)


def test_a_change_in_one_table_holds_the_other(database: Database, tmp_path: Path) -> None:
    both = Both(database, tmp_path)
    both.release(persons())
    stays, labs = both.rows(), both.labs()
    load_labs(database, [*LABS, (1, 1, "Z")])
    both.release(changed(persons(), 1, [("C", 99)]))
    assert (both.rows(), both.labs()) == (stays, labs)
    # She is one person: two more make three.
    load_labs(database, [*LABS, (1, 1, "Z"), (2, 0, "Z")])
    both.release(changed(persons(), 0, [("C", 99)]))
    assert sum((both.labs() - labs).values()) == 2
    assert sum((both.rows() - stays).values()) == 1


def test_who_is_in_any_of_the_tables_is_there(database: Database, tmp_path: Path) -> None:
    both = Both(database, tmp_path)
    both.release(persons())
    before = both.rows()
    without = {i: patient for i, patient in persons().items() if i != 1}
    # Three differ in their rows and are there: the patient is known to the laboratory.
    load_labs(database, [(i, i % 2, "Z") for i in range(12) if i % 4])
    report = both.release(without)
    assert report.arguments["chain"]["left"] == 0
    load_labs(database, [row for row in LABS if row[0] != 1])
    report = both.release(without)
    assert report.arguments["chain"]["left"] == 1
    assert sum((before - both.rows()).values()) in (0, 2)


def test_tables_are_named_as_the_chain_has_them(database: Database, tmp_path: Path) -> None:
    both = Both(database, tmp_path)
    for wrong, match in (
        ({"outputs": {}, "kept": {}}, "must name each further table"),
        ({"outputs": {"labs": "released"}}, "to the same output"),
        ({"kept": {"labs": ["patient"]}}, "person identifier: patient"),
    ):
        with pytest.raises(InvalidParameter, match=match):
            both.release(persons(), chain=both.chain(**wrong))
    with pytest.raises(InvalidParameter, match="where selects rows"):
        both.release(persons(), where="age > 3")
    both.release(persons())
    with pytest.raises(dbanon.errors.ChainChanged, match="tables"):
        both.release(persons(), chain=both.chain(kept={"labs": []}))
    assert dbanon.show_chain(database.url, "stays").sequence == 1
    with pytest.raises(dbanon.errors.ChainSamePersons):
        dbanon.create_chain(
            database.url,
            "labs",
            table="labs",
            entity="patient",
            changes="show",
            key_out=tmp_path / "labs.key",
        )


def test_tables_are_released_together_elsewhere(tmp_path: Path, make_database: Any) -> None:
    """Both are written in one transaction of the other database, after the state is committed."""
    both, target = Both(make_database("duckdb"), tmp_path), make_database("sqlite")
    target.load("released_labs", {"a": "integer"}, [])
    with pytest.raises(dbanon.errors.OutputNotOurs):
        both.release(persons(), target=target.url)
    # Refused before anything was committed.
    assert dbanon.show_chain(both.database.url, "stays").sequence == 0
    target.execute("DROP TABLE released_labs")
    report = both.release(persons(), target=target.url)
    assert report.arguments["chain"]["combinations"] is None
    for name, rows in (("released", 24), ("released_labs", len(LABS))):
        assert target.rows(f"SELECT count(*) FROM {target.relation(name)}") == [(rows,)]


def test_a_quasi_identifier_that_the_first_table_lacks_is_refused(
    database: Database, tmp_path: Path
) -> None:
    """Only the laboratory knows who smokes; everyone unknown to it would have NULL."""
    both = Both(database, tmp_path, max_rows_per_person=9)
    names = [*OPTIONS["quasi_identifiers"], "smoker"]
    options = OPTIONS | {"chain": both.chain(), "quasi_identifiers": names, "nulls": "category"}
    match = r'"smoker" is a column of .*labs, and not of .*stays, the first table'
    with pytest.raises(ChainFirstTable, match=match):
        dbanon.plan(database.url, **options)
    with pytest.raises(ChainFirstTable, match=match) as caught:
        dbanon.anonymize(database.url, **options)
    assert caught.value.hint is not None
    assert "view" in caught.value.hint
    assert dbanon.show_chain(database.url, "stays").sequence == 0
    # As a column of the first table it applies to the persons of both.
    database.execute(
        f"ALTER TABLE stays ADD COLUMN smoker {database.types['integer']}",
        "UPDATE stays SET smoker = patient % 2",
    )
    dbanon.anonymize(database.url, **options)
    for name in ("released", "released_labs"):
        query = f"SELECT count(*), count(smoker) FROM {database.relation(name)}"
        [(rows, known_rows)] = database.rows(query)
        assert rows == known_rows > 0


def test_newcomers_wait_for_a_row_in_the_first_table(database: Database, tmp_path: Path) -> None:
    """Rows in a further table affect neither the newcomers' number, classes nor waiting."""
    both = Both(database, tmp_path, max_wait=0)
    labs = [(i, i % 2, "X") for i in range(12, 24)]
    load_labs(database, [*LABS, *labs])
    both.release(persons())
    assert dbanon.show_chain(database.url, "stays").releases[-1]["joined"] == 12
    planned = dbanon.plan(database.url, **(OPTIONS | {"chain": both.chain()}))
    assert planned.chain.coming.came == 0
    assert sum(both.labs().values()) == len(LABS)
    # The laboratory knows three of the six persons now in the first table.
    load_labs(database, [*LABS, *labs[:3]])
    both.release(persons(18))
    assert dbanon.show_chain(database.url, "stays").releases[-1]["joined"] == 6
    assert sum(both.labs().values()) == len(LABS) + 3


def test_a_person_has_one_value_in_all_tables(database: Database, tmp_path: Path) -> None:
    both = Both(database, tmp_path)
    database.execute("ALTER TABLE labs ADD COLUMN age " + database.types["integer"])
    database.execute("UPDATE labs SET age = 20 + 3 * patient")
    database.execute("UPDATE labs SET age = 1 WHERE patient IN (1, 2, 3)")
    with pytest.raises(ChainEntityRows, match=r'"age" has more than one value .* of 3 persons'):
        both.release(persons())
