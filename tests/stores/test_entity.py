"""Persons of many rows through the databases: counted there, and never released."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dbanon
from dbanon.doors.cli.render import verification_table
from dbanon.errors import (
    InvalidParameter,
    NullInEntity,
    RecountFailed,
    TooFewRecords,
    UnsupportedType,
)
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from tests.conftest import CAMPAIGN
from tests.stores.databases import (
    NAMES,
    Database,
    PostgresqlDatabase,
    SqliteDatabase,
)
from tests.stores.refusal import refuse

# No engine decides of these.
pytestmark = pytest.mark.in_turn(of="file")

COLUMNS = {"id": "integer", "who": "text", "age": "integer", "place": "text", "site": "text"}
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age", "place"],
    "keep": ["id"],
    "method": "gaa_cp",
    "k": 4,
    "entity": "who",
}


def visits(seed: int = 1, n: int = 150, persons: int = 40) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(seed)
    return [
        (
            i + 1,
            f"person {rng.integers(0, persons)}",
            int(rng.integers(20, 60)),
            str(rng.choice(["north", "south", "east"])),
            str(rng.choice(["a", "b"])),
        )
        for i in range(n)
    ]


def load(database: Database, rows: list[tuple[Any, ...]] | None = None, who: str = "text") -> None:
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    columns["who"] = database.types.get(who, who)
    database.load("people", columns, visits() if rows is None else rows)


def fewest(database: Database, columns: str = "age, place", person: str = "p.who") -> int:
    """Persons in the class of fewest, by a join on the kept key."""
    released = database.relation("release.people")
    named = ", ".join(f"r.{name}" for name in columns.split(", "))
    [(fewest_persons,)] = database.rows(
        f"SELECT min(persons) FROM (SELECT count(DISTINCT {person}) AS persons FROM {released} AS r"
        f" JOIN people AS p ON p.id = r.id GROUP BY {named}) AS classes"
    )
    return int(fewest_persons)


@pytest.mark.parametrize("method", ["gaa_cp", "mondrian", "full_domain"])
@pytest.mark.parametrize("kind", ["table", "view"])
def test_classes_hold_persons(database: Database, method: str, kind: str) -> None:
    load(database)
    report = database.anonymize(**OPTIONS | {"method": method}, output_kind=kind)
    assert fewest(database) == report.k_achieved >= 4
    assert (report.rows_out, report.persons) == (150, len({row[1] for row in visits()}))
    assert report.smallest_class > report.k_achieved
    assert "who" in report.not_copied
    [(k, smallest, arguments)] = database.rows(
        f"SELECT k_achieved, smallest_class, arguments FROM {database.ledger()}"
    )
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert (k, smallest) == (report.k_achieved, report.smallest_class)
    assert (arguments["entity"], arguments["persons"]) == ("who", report.persons)


def test_strata_and_nulls(database: Database) -> None:
    rows = visits(3, 400, 60)
    rows = [(*r[:2], None if r[0] % 5 == 0 else r[2], *r[3:]) for r in rows]
    load(database, rows)
    report = database.anonymize(**OPTIONS, by=["site"], nulls="category")
    assert fewest(database, "age, place, site") == report.k_achieved >= 4
    assert report.null_rows == 80
    report = database.anonymize(
        **OPTIONS, nulls="suppress", max_suppression=1, if_exists="replace", releases="independent"
    )
    assert fewest(database) == report.k_achieved >= 4
    assert report.suppressed == 80


def test_models_keep_persons_together(database: Database) -> None:
    load(database)
    model = dbanon.Model("distinct_l", "site", 2)
    report = database.anonymize(**OPTIONS, sensitive=["site"], models=[model])
    assert fewest(database) == report.k_achieved >= 4
    assert report.models[0].achieved == 2


def test_a_later_recount_says_that_it_counts_rows(database: Database) -> None:
    load(database)
    database.anonymize(**OPTIONS)
    verification = verify(open_store(database.url), parse_relation("release.people"))
    assert (verification.entity, verification.k_achieved) == ("who", verification.smallest_class)
    table = verification_table(verification)
    cells = list(table.columns[1].cells)
    assert any('rows; the release counted persons by "who"' in str(cell) for cell in cells)


PAIRS = [(source, target) for source in NAMES for target in NAMES if source != target]


@pytest.mark.parametrize(
    ("source", "target", "keep"),
    [
        pytest.param(*pair, keep, marks=pytest.mark.postgresql if "postgresql" in pair else ())
        for number, pair in enumerate(PAIRS)
        for keep in ([["id"], []] if CAMPAIGN or number % 4 == 0 else [["id"]])
    ],
)
def test_from_one_database_to_another(
    make_database: Callable[[str], Database], source: str, target: str, keep: list[str]
) -> None:
    source_database, target_database = make_database(source), make_database(target)
    load(source_database)
    before = source_database.state()
    options = OPTIONS | {"keep": keep, "chunk_rows": 17, "by": ["site"]}
    report = source_database.anonymize(**options, target=target_database.url)
    assert source_database.state() == before
    within_source = source_database.anonymize(**options)
    for name in ("k_achieved", "persons", "smallest_class", "classes", "information_loss"):
        assert getattr(report, name) == getattr(within_source, name), name
    assert report.k_achieved >= 4
    columns = target_database.rows(f"SELECT * FROM {target_database.relation('release.people')}")
    assert len(columns[0]) == 3 + len(keep)
    assert not any("person 1" in str(value) for row in columns for value in row)


def test_what_does_not_hold_is_not_published(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(database)
    rows = dbanon.partitioning.classes.find_classes

    def by_rows(microdata: Any, policy: Any, *more: Any) -> Any:
        object.__setattr__(microdata, "entities", None)
        return rows(microdata, policy, *more)

    monkeypatch.setattr("dbanon.partitioning.partition_for.find_classes", by_rows)
    refuse(database, RecountFailed, 'distinct values of "who", fewer than k = 4', **OPTIONS)


def test_refusals(database: Database) -> None:
    load(database)
    for role in ("quasi_identifiers", "keep", "sensitive", "by"):
        refuse(database, InvalidParameter, 'entity column "who"', **OPTIONS | {role: ["who"]})
    error = refuse(database, TooFewRecords, "There are 39 persons", **OPTIONS | {"k": 60})
    assert error.hint == "Choose k=39 or less."
    assert error.sqlstate == "ZK002"


def test_null_is_nobody(database: Database) -> None:
    load(database, [(*r[:1], None if r[0] < 4 else r[1], *r[2:]) for r in visits()])
    refuse(database, NullInEntity, '"who" holds NULL in 3 of 150 rows', **OPTIONS)


@pytest.mark.parametrize("kind", ["integer", "bigint", "double", "decimal", "date", "timestamp"])
def test_persons_of_every_type(database: Database, kind: str) -> None:
    values = {
        "date": "2020-01-{:02d}",
        "timestamp": "2020-01-{:02d} 10:00:00",
        "double": "{}.5",
        "decimal": "{}.25",
    }.get(kind, "{}")
    rows = [(*r[:1], values.format(1 + hash_of(r[1]) % 28), *r[2:]) for r in visits()]
    load(database, rows, kind)
    report = database.anonymize(**OPTIONS)
    assert fewest(database) == report.k_achieved >= 4
    assert report.persons == len({row[1] for row in rows})


def hash_of(text: str) -> int:
    return int(text.split()[1])


def test_equal_to_the_database_is_one_person(
    sqlite_file: SqliteDatabase, duckdb_file: Database
) -> None:
    rows = [(*r[:1], r[1].upper() if r[0] % 2 else r[1], *r[2:]) for r in visits()]
    for database, kind in (
        (sqlite_file, "TEXT COLLATE NOCASE"),
        (duckdb_file, "VARCHAR COLLATE NOCASE"),
    ):
        load(database, rows, kind)
        report = database.anonymize(**OPTIONS)
        assert fewest(database, person="lower(p.who)") == report.k_achieved >= 4
        assert report.persons == len({row[1].lower() for row in rows})


@pytest.mark.postgresql
def test_equal_to_postgresql_is_one_person(postgresql: PostgresqlDatabase) -> None:
    postgresql.execute(
        "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2',"
        " deterministic = false)"
    )
    rows = [(*r[:1], r[1].upper() if r[0] % 2 else r[1], *r[2:]) for r in visits()]
    load(postgresql, rows, "text COLLATE nocase")
    report = postgresql.anonymize(**OPTIONS)
    assert fewest(postgresql, person="lower(p.who)") == report.k_achieved >= 4
    assert report.persons == len({row[1].lower() for row in rows})
    postgresql.execute("DROP TABLE people")
    numbers = [
        (*r[:1], f"{hash_of(r[1])}.{'0' * (r[0] % 3)}".rstrip("."), *r[2:]) for r in visits()
    ]
    load(postgresql, numbers, "numeric")
    report = postgresql.anonymize(**OPTIONS, if_exists="replace", releases="independent")
    assert report.persons == len({row[1] for row in visits()})
    assert fewest(postgresql) == report.k_achieved >= 4


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["char(12)", "uuid", "varchar(20)"])
def test_types_of_postgresql(postgresql: PostgresqlDatabase, kind: str) -> None:
    rows = visits()
    if kind == "uuid":
        rows = [(*r[:1], f"00000000-0000-4000-8000-{hash_of(r[1]):012}", *r[2:]) for r in rows]
    load(postgresql, rows, kind)
    report = postgresql.anonymize(**OPTIONS)
    assert fewest(postgresql) == report.k_achieved >= 4


@pytest.mark.postgresql
def test_types_without_equality_are_refused(postgresql: PostgresqlDatabase) -> None:
    load(postgresql, [(*r[:1], json.dumps(r[1]), *r[2:]) for r in visits()], "json")
    refuse(postgresql, UnsupportedType, 'entity column "who"', **OPTIONS)


def test_names_are_names(database: Database) -> None:
    names = {"id": "INTEGER PRIMARY KEY", 'who"? %s': "INTEGER", "v0": "INTEGER"}
    names |= {"person": database.types["text"], "class": "INTEGER"}
    database.load("people", names, [(i, i // 2, i, "abcd"[i % 4], i % 3) for i in range(48)])
    report = database.anonymize(
        quasi_identifiers=["v0", "person"], keep=["class"], method="gaa_cp", entity='who"? %s'
    )
    assert (report.persons, report.k_achieved) == (24, 3)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_every_class_holds_k_persons(data: st.DataObject) -> None:
    n = data.draw(st.integers(6, 60))
    k = data.draw(st.integers(2, 4))
    by = data.draw(st.sampled_from([[], ["site"]]))
    method = data.draw(st.sampled_from(["gaa_cp", "kaca", "mondrian", "mdav"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    persons = data.draw(st.integers(k, 20))
    rows = [
        tuple(int(x) for x in (i, rng.integers(0, persons), rng.integers(0, 9), rng.integers(0, 2)))
        for i in range(n)
    ]
    with TemporaryDirectory() as folder:
        database = SqliteDatabase(Path(folder) / "people.db")
        database.load("people", dict.fromkeys(("id", "who", "age", "site"), "INTEGER"), rows)
        try:
            report = database.anonymize(
                quasi_identifiers=["age"],
                keep=["id"],
                by=by,
                k=k,
                method=method,
                entity="who",
                output="released",
            )
        except TooFewRecords:
            sites = {row[3] for row in rows} if by else {None}
            least = min(len({r[1] for r in rows if not by or r[3] == site}) for site in sites)
            assert least < k
            return
        released_rows = database.rows("SELECT * FROM released")
    who = {row[0]: row[1] for row in rows}
    columns = [c for c in ("id", "age", "site") if c in ("id", "age", *by)]
    classes: dict[Any, set[int]] = {}
    for row in released_rows:
        values = dict(zip(columns, row, strict=True))
        classes.setdefault((values["age"], values.get("site")), set()).add(who[values["id"]])
    assert min(map(len, classes.values())) == report.k_achieved >= k
