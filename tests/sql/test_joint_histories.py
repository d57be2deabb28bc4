"""Joint histories inside PostgreSQL: only the ledger's owner reads persons."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

import dbanon
from dbanon.doors import install
from dbanon.ledger.person_record import PERSON_DTYPE, count_joint_histories_of_records
from tests.sql.ledger_entries import MAKE, RECORD, entry, mark, oid
from tests.sql.rule_owners import roles

__all__ = ["roles"]

Run = Callable[..., list[tuple[Any, ...]]]
Connect = Callable[..., psycopg.Connection[Any]]

pytestmark = pytest.mark.one_database

PEOPLE = (
    "CREATE TABLE app.people AS SELECT g AS id, g AS who, sin(g) AS a, cos(g) AS b"
    " FROM generate_series(1, 60) AS g"
)
CALL = (
    "SELECT rows_out FROM dbanon.mdav('app.people', 'release.{}', '{{a,b}}', 5, entity => 'id',"
    " keep => '{{who}}', options => '{{\"releases\": \"independent\"}}')"
)
COUNT = "SELECT dbanon._joint_histories(%s::jsonb, %s::bytea[])"
ENTITY: dict[str, Any] = {"arguments": {"by": [], "entity": "id"}}
PERSONS = [b"\\0" * 12 * 5]


def count_plainly(run_sql: Run, *outputs: str) -> tuple[int, int, int]:
    """Persons, persons in groups below k, and unique persons, counted with a dictionary."""
    histories: dict[int, list[Any]] = {}
    for at, output in enumerate(outputs):
        for who, *labels in run_sql(f"SELECT who, a, b FROM release.{output}"):
            histories.setdefault(who, [None] * len(outputs))[at] = tuple(labels)
    sizes = Counter(map(tuple, histories.values()))
    class_sizes = [sizes[tuple(history)] for history in histories.values()]
    return len(class_sizes), sum(size < 5 for size in class_sizes), class_sizes.count(1)


def test_a_warning_names_the_exposure(run_sql: Run, connect: Connect, sql_url: str) -> None:
    notices: list[tuple[str | None, str]] = []
    session = connect(sql_url)
    session.add_notice_handler(lambda d: notices.append((d.severity, str(d.message_primary))))
    session.execute(PEOPLE.encode())
    session.execute(CALL.format("one").encode())
    assert not [text for _, text in notices if "joint history" in text]
    session.execute(b"DELETE FROM app.people WHERE id % 7 = 1")
    session.execute(b"UPDATE app.people SET a = a + id % 3 WHERE id > 20")
    session.execute(CALL.format("two").encode())
    session.commit()
    persons, below, unique = count_plainly(run_sql, "one", "two")
    assert persons == 60
    assert below > 20
    [(severity, text)] = [notice for notice in notices if "joint history" in notice[1]]
    assert severity == "WARNING"
    assert f"{below} of 60 persons ({below / 60:.1%}) have a joint history over 2 releases" in text
    assert f"share, and {unique} have a unique one" in text
    [(recorded,)] = run_sql(
        "SELECT arguments -> 'joint_histories' FROM dbanon.release WHERE output_name = 'two'"
    )
    assert (recorded["persons"], recorded["below"], recorded["alone"]) == (persons, below, unique)
    # Readers of the summary see the share, but no count of arrivals and departures.
    [(published,)] = run_sql("SELECT arguments -> 'joint_histories' FROM release.two_summary")
    assert published == {"earlier": 1, "releases": 2, "k": 5, "share": round(below / 60, 2)}
    measured = dbanon.measure_releases(sql_url, ["release.one", "release.two"])
    last = measured.known[-1]
    assert (last.persons, last.below, last.alone) == (persons, below, unique)
    assert [risk.below for risk in measured.known] == [0, below]


def test_no_reader_sees_persons(
    roles: dict[str, str], run_sql: Run, connect: Connect, sql_url: str
) -> None:
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna")
    for door in ("one", "two"):
        connect(roles["anna"]).execute(CALL.format(door).encode())
    report = dbanon.anonymize(
        roles["anna"],
        table="app.people",
        output="release.three",
        quasi_identifiers=["a", "b"],
        k=5,
        entity="id",
        releases="independent",
    )
    # A runner's releases count persons through every interface, but the runner reads none of them.
    assert report.arguments["joint_histories"]["releases"] == 3
    # The function counts, as does an administrator who reads the record.
    pair = ["release.one", "release.three"]
    measured = dbanon.measure_releases(roles["anna"], pair)
    assert measured == dbanon.measure_releases(sql_url, pair)
    assert run_sql("SELECT count(DISTINCT release_id) FROM dbanon.release_person") == [(3,)]
    for reader in (roles["anna"], roles["mallory"]):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connect(reader).execute("SELECT persons FROM dbanon.release_person")


def test_persons_passed_by_a_caller_reveal_nothing(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A role that may not read a source learns nothing of its persons and records none."""
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO anna")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna, mallory")
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    mallory.autocommit = False
    anna.execute(CALL.format("one").encode())
    anna.commit()
    [(first,)] = run_sql("SELECT release_id::text FROM dbanon.release")
    mallory.execute(MAKE.format("release.mine").encode())
    mallory.execute("CREATE TABLE app.own (id integer, a integer)")
    mine = str(uuid.uuid4())
    mark(mallory, "release.mine", mine)
    request: dict[str, Any] = {
        "release_id": mine,
        "relation_oid": oid(mallory, "release.mine"),
        "k": 5,
        "releases": [first],
    }

    def expect_refusal(
        arguments: dict[str, Any], persons: Sequence[bytes | None] | None, *states: str
    ) -> None:
        with pytest.raises(psycopg.Error) as failure, mallory.transaction():
            mallory.execute(COUNT, (json.dumps(arguments), persons))
        assert failure.value.sqlstate in (states or ("42501",)), failure.value

    # Neither with the release's source, which mallory may not read, nor with another one.
    for source in (oid(anna, "app.people"), oid(mallory, "app.own"), None):
        expect_refusal(request | {"source_oid": source}, PERSONS)
    theirs = oid(anna, "release.one")
    own_source = {"source_oid": oid(mallory, "app.own")}
    expect_refusal(request | own_source | {"relation_oid": theirs}, PERSONS)
    expect_refusal(request | own_source | {"releases": [first, first]}, PERSONS, "22023")
    expect_refusal({"k": 5, "releases": [first]}, PERSONS, "22023")
    for broken in ([b"x"], [b"x" * 12, None], [b""], [b"x" * 1932]):
        expect_refusal(request | own_source, broken, "22023")
    # An entry naming a source that its publisher cannot read does not belong to the source: it adds
    # no persons and blocks no release.
    name: dict[str, Any] = {
        "source": "app.people",
        "person_salt": "0" * 64,
        **ENTITY,
        "source_oid": oid(anna, "app.people"),
        "request": {"source": {"oid": oid(anna, "app.people")}},
    }
    mallory.execute(RECORD, entry(mine, request["relation_oid"], **name))
    for release in (mine, first, str(uuid.uuid4())):
        with pytest.raises(psycopg.errors.InsufficientPrivilege), mallory.transaction():
            mallory.execute("SELECT dbanon._record_persons(%s, %s)", (release, PERSONS))
    mallory.commit()
    assert run_sql(
        "SELECT source_oid, person_salt FROM dbanon.release WHERE output_name = 'mine'"
    ) == [(None, None)]
    anna.execute(CALL.format("two").encode())
    anna.commit()
    [(recorded,)] = run_sql(
        "SELECT arguments -> 'joint_histories' FROM dbanon.release WHERE output_name = 'two'"
    )
    assert (recorded["earlier"], recorded["releases"], "not_measured" in recorded) == (1, 2, False)


def test_readers_of_the_source_can_forge_and_block_nothing(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """A record with arbitrary bytes: later releases are counted, or report missing ones."""
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO anna, mallory")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna, mallory")
    mallory = connect(roles["mallory"])
    mallory.autocommit = False
    for salt in ("1" * 64, "no salt"):
        mine = str(uuid.uuid4())
        name = f"release.m{mine[:8]}"
        mallory.execute(MAKE.format(name).encode())
        mark(mallory, name, mine)
        provenance: dict[str, Any] = {
            "person_salt": salt,
            "source_oid": oid(mallory, "app.people"),
            "source": "app.people",
        } | ENTITY
        mallory.execute(RECORD, entry(mine, oid(mallory, name), **provenance))
        if salt != "no salt":
            mallory.execute(
                "SELECT dbanon._record_persons(%s, %s)", (mine, [b"\xff" * 24, b"\0" * 36])
            )
            with pytest.raises(psycopg.Error), mallory.transaction():
                mallory.execute("SELECT dbanon._record_persons(%s, %s)", (mine, PERSONS))
        mallory.commit()
    # After its transaction no role can add persons to an entry.
    with pytest.raises(psycopg.errors.InsufficientPrivilege), mallory.transaction():
        mallory.execute("SELECT dbanon._record_persons(%s, %s)", (mine, PERSONS))
    connect(roles["anna"]).execute(CALL.format("one").encode())
    [(recorded,)] = run_sql(
        "SELECT arguments -> 'joint_histories' FROM dbanon.release WHERE output_name = 'one'"
    )
    assert recorded["earlier"] == 2
    assert (recorded["releases"], recorded["persons"]) == (2, 62)
    assert f"release.m{mine[:8]}, made before" in recorded["not_measured"]


def test_a_dropped_table_of_another_owner_is_another_source(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna, mallory")
    plain = CALL.replace(', options => \'{{"releases": "independent"}}\'', "")
    anna, mallory = connect(roles["anna"]), connect(roles["mallory"])
    mallory.execute(PEOPLE.encode())
    mallory.execute(plain.format("mine").encode())
    mallory.execute("DROP TABLE app.people")
    anna.execute(PEOPLE.encode())
    anna.execute(plain.format("one").encode())
    # It is the same source if its owner recreates it, even under another name.
    for table, output, change in (
        ("people", "two", f"DROP TABLE app.people; {PEOPLE}"),
        ("others", "three", "ALTER TABLE app.people RENAME TO others"),
    ):
        anna.execute(change.encode())
        with pytest.raises(psycopg.Error) as failure:
            anna.execute(plain.replace("people", table).format(output).encode())
        assert failure.value.sqlstate == "ZK011"
        assert "release.one" in str(failure.value.diag.message_detail)
        assert "release.mine" not in str(failure.value.diag.message_detail)
        anna.execute(CALL.replace("people", table).format(output).encode())
    outputs = run_sql(
        "SELECT output_name, arguments -> 'joint_histories' ->> 'releases' FROM dbanon.release"
        " ORDER BY created_at"
    )
    assert outputs == [("mine", None), ("one", None), ("two", "2"), ("three", "3")]


@pytest.mark.parametrize("is_repaired", [True, False])
def test_after_a_dump_was_restored_the_name_counts(run_sql: Run, is_repaired: bool) -> None:
    """The former database's oids are meaningless; its releases still count as earlier ones."""
    run_sql(PEOPLE)
    run_sql(CALL.format("one"))
    run_sql(
        "UPDATE dbanon.release SET ledger_oid = 1, source_oid = source_oid + 1000,"
        " source_owner_oid = source_owner_oid + 1000"
    )
    if is_repaired:
        assert run_sql("SELECT action FROM dbanon.repair()") == [("attached",)]
    with pytest.raises(psycopg.Error) as failure:
        run_sql(CALL.replace(', options => \'{{"releases": "independent"}}\'', "").format("two"))
    assert failure.value.sqlstate == "ZK011"
    run_sql(CALL.format("two"))
    [(recorded,)] = run_sql(
        "SELECT arguments -> 'joint_histories' FROM dbanon.release WHERE output_name = 'two'"
    )
    assert recorded["earlier"] == 1
    assert recorded["not_measured"].startswith("release.one, made before")
    run_sql(CALL.format("three"))
    [(recorded,)] = run_sql(
        "SELECT arguments -> 'joint_histories' FROM dbanon.release WHERE output_name = 'three'"
    )
    assert (recorded["earlier"], recorded["releases"]) == (2, 2)


def test_an_installation_takes_rights_on_the_record_back(
    run_sql: Run, sql_url: str, backend_path: Path
) -> None:
    run_sql("GRANT SELECT ON dbanon.release_person TO dbanon_runner, dbanon_admin, PUBLIC")
    install.upgrade(sql_url, python_paths=[str(backend_path)])
    granted = run_sql(
        "SELECT r.rolname, has_table_privilege(r.oid, 'dbanon.release_person', 'SELECT'),"
        " has_column_privilege(r.oid, 'dbanon.release_person', 'persons', 'SELECT')"
        " FROM pg_roles AS r WHERE r.rolname ~ '^dbanon_(runner|admin|reader)$' ORDER BY 1"
    )
    assert granted == [(f"dbanon_{role}", False, False) for role in ("admin", "reader", "runner")]


def test_the_order_of_releases_does_not_matter(run_sql: Run, sql_url: str) -> None:
    """Counted in SQL by the function, and with arrays from the same record."""
    run_sql(PEOPLE)
    for output in ("one", "two", "three"):
        run_sql(CALL.format(output))
        run_sql("UPDATE app.people SET a = a + id % 3, b = b - id % 2 WHERE id > 10")
        run_sql("DELETE FROM app.people WHERE id % 9 = (SELECT count(*) FROM dbanon.release)")
    rows = run_sql("SELECT release_id::text, persons FROM dbanon.release_person ORDER BY part")
    ids = [
        release_id
        for (release_id,) in run_sql(
            "SELECT release_id::text FROM dbanon.release ORDER BY created_at"
        )
    ]
    records = [
        np.frombuffer(
            b"".join(bytes(part) for id_, part in rows if id_ == release_id), PERSON_DTYPE
        )
        for release_id in ids
    ]
    counted = count_joint_histories_of_records(records, 5)
    measured = dbanon.measure_releases(sql_url, ["release.three"], k=5)
    assert [(risk.persons, risk.below, risk.alone) for risk in measured.known] == counted
    assert counted[-1] == count_plainly(run_sql, "one", "two", "three")
    other = dbanon.measure_releases(sql_url, [f"release.{n}" for n in ("three", "one", "two")])
    assert other.known[-1] == measured.known[-1]


def test_a_release_that_does_not_know_its_relation_counts_by_name(
    roles: dict[str, str], run_sql: Run, connect: Connect
) -> None:
    """As recorded for a cluster. It counts if its publisher may read the table; it is not
    measured.
    """
    run_sql(PEOPLE)
    run_sql("GRANT SELECT ON app.people TO anna, mallory")
    run_sql("GRANT CREATE, USAGE ON SCHEMA release TO anna, mallory")
    plain = CALL.replace(', options => \'{{"releases": "independent"}}\'', "")
    mallory, mine = connect(roles["mallory"], autocommit=False), str(uuid.uuid4())
    mallory.execute(MAKE.format("release.mine").encode())
    mark(mallory, "release.mine", mine)
    mallory.execute(RECORD, entry(mine, oid(mallory, "release.mine"), **ENTITY))
    mallory.commit()
    with pytest.raises(psycopg.Error) as failure:
        connect(roles["anna"]).execute(plain.format("one").encode())
    assert failure.value.sqlstate == "ZK011"
    run_sql("REVOKE SELECT ON app.people FROM mallory")
    connect(roles["anna"]).execute(plain.format("one").encode())
