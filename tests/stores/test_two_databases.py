"""From one database into another: kept columns are copied, and the source is only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

import dbanon
from dbanon.errors import DbanonError, InvalidName, MixedTypes, UnsupportedType
from tests.stores.databases import (
    Database,
    DuckdbDatabase,
    PostgresqlDatabase,
    SqliteDatabase,
    inserts,
)
from tests.stores.people import QUASI_IDENTIFIERS, load_people, rows_of_people

PAIRS = [
    (source, target)
    for source in ("duckdb", "sqlite", "postgresql")
    for target in ("duckdb", "sqlite", "postgresql")
    if source != target
]


def plain(rows: list[tuple[Any, ...]]) -> Counter[tuple[str, ...]]:
    """Rows without what a database's types add to a value."""

    def text(value: Any) -> str:
        if isinstance(value, (float, Decimal)):
            return str(Decimal(str(value)).normalize() + 0)
        return "1" if value is True else "0" if value is False else str(value)

    return Counter(tuple(map(text, row)) for row in rows)


# Views are what the target makes of tables: each of them is one once.
@pytest.mark.parametrize(
    ("source", "target", "kind"),
    [(*pair, "table") for pair in PAIRS]
    + [
        ("duckdb", "sqlite", "view"),
        ("sqlite", "postgresql", "view"),
        ("postgresql", "duckdb", "view"),
    ],
)
def test_the_result_is_that_of_one_database(
    make_database: Callable[[str], Database], source: str, target: str, kind: str
) -> None:
    rows = rows_of_people(30)
    source_database, target_database = make_database(source), make_database(target)
    load_people(source_database, rows)
    before = source_database.state()
    report = source_database.anonymize(
        quasi_identifiers=QUASI_IDENTIFIERS,
        keep=["site"],
        sensitive=["name"],
        target=target_database.url,
        output_kind=kind,
        chunk_rows=7,
    )
    assert source_database.state() == before
    assert (report.rows_out, report.not_copied) == (30, ("id",))
    columns = ", ".join([*QUASI_IDENTIFIERS, "site", "name"])
    query = "SELECT {} FROM {}"
    copied = target_database.rows(query.format(columns, target_database.relation("release.people")))
    source_database.anonymize(
        quasi_identifiers=QUASI_IDENTIFIERS, keep=["site"], sensitive=["name"]
    )
    within_source = source_database.rows(
        query.format(columns, source_database.relation("release.people"))
    )
    assert plain(copied) == plain(within_source)
    [(release_id,)] = target_database.rows(
        f"SELECT CAST(release_id AS VARCHAR(36)) FROM {target_database.ledger()}"
    )
    assert release_id == report.release_id
    assert not [
        name for name in target_database.relations() if "dbanon_" in name[1] and target != "sqlite"
    ]


def test_two_databases_of_one_server(postgresql: PostgresqlDatabase, pg_server: Any) -> None:
    load_people(postgresql)
    with pg_server.database() as url:
        other = PostgresqlDatabase(url)
        report = postgresql.anonymize(
            quasi_identifiers=["age", "height"], keep=["site"], target=url
        )
        assert other.rows("SELECT count(*) FROM release.people") == [(report.rows_out,)]
    assert ("release", "") not in postgresql.relations()


def test_the_same_file_by_another_name_is_one_database(sqlite_file: SqliteDatabase) -> None:
    load_people(sqlite_file)
    other = sqlite_file.path.parent / "." / "link.db"
    other.symlink_to(sqlite_file.path)
    report = sqlite_file.anonymize(quasi_identifiers=["age"], target=f"sqlite:///{other}")
    assert sqlite_file.rows("SELECT count(*) FROM release_people") == [(report.rows_out,)]


POSTGRESQL_TYPES = {
    "a": ("smallint", [-1, None, 32767]),
    "b": ("integer", [0, -(2**31), None]),
    "c": ("bigint", [2**63 - 1, -(2**63), 0]),
    "d": ("numeric(12,3)", [Decimal("1.500"), Decimal("-999999999.999"), None]),
    "e": ("real", [0.5, -1.25, None]),
    "f": ("double precision", [0.1, 1e300, -5e-324]),
    "g": ("date", [date(1, 1, 1), date(9999, 12, 31), None]),
    "h": (
        "timestamp(3)",
        [
            datetime(1969, 12, 31, 23, 59, 59, 999_000),
            None,
            datetime(9999, 12, 31, 23, 59, 59, 999_000),
        ],
    ),
    "i": (
        "timestamptz",
        [
            datetime(2020, 6, 1, 12, tzinfo=timezone.utc),
            None,
            datetime(1900, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc),
        ],
    ),
    "j": ("boolean", [True, False, None]),
    "k": ("text", ["", "tab\tand\nline \\N \\", None]),
    "l": ("varchar(5)", ["é€", "NULL", "%s?:x"]),
    "m": ("char(3)", ["a  ", "bcd", None]),
    "n": (
        "uuid",
        ["00000000-0000-4000-8000-00000000000a", None, "00000000-0000-4000-8000-00000000000b"],
    ),
}


@pytest.mark.parametrize("target", ["duckdb", "sqlite"])
def test_kept_columns_of_postgresql_arrive(
    postgresql: PostgresqlDatabase, make_database: Callable[[str], Database], target: str
) -> None:
    target_database = make_database(target)
    columns = {name: kind for name, (kind, _) in POSTGRESQL_TYPES.items()}
    rows = [(i, *(values[i % 3] for _, values in POSTGRESQL_TYPES.values())) for i in range(9)]
    postgresql.load("people", {"x": "integer"} | columns, rows)
    # No key: rows are arrived_rows by their place.
    dbanon.anonymize(
        postgresql.url,
        table="people",
        quasi_identifiers=["x"],
        keep=list(columns),
        k=3,
        output="release.people",
        target=target_database.url,
        chunk_rows=2,
    )
    select_list = [f'"{name}"' for name in columns]
    if target == "duckdb":
        select_list[list(columns).index("i")] = "epoch_us(i)"
    arrived_rows = target_database.rows(
        f"SELECT {', '.join(select_list)} FROM {target_database.relation('release.people')}"
    )

    def arrived(value: Any, name: str) -> Any:
        if value is None:
            return None
        if target == "duckdb" and name == "i":
            epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
            return (value - epoch) // timedelta(microseconds=1)
        if name == "m":
            return value.rstrip()
        return value

    expected = plain(
        [
            tuple(arrived(value, name) for name, value in zip(columns, row[1:], strict=True))
            for row in rows
        ]
    )
    assert plain(arrived_rows) == expected


def test_rows_of_partitions_are_found_again(
    postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase
) -> None:
    postgresql.execute(
        "CREATE TABLE people (x integer, kept text) PARTITION BY LIST (x)",
        *(f"CREATE TABLE p{i} PARTITION OF people FOR VALUES IN ({i})" for i in range(4)),
        *inserts("people", [(i % 4, f"kept {i % 4}") for i in range(40)]),
    )
    postgresql.anonymize(
        quasi_identifiers=["x"], keep=["kept"], k=10, target=duckdb_file.url, chunk_rows=3
    )
    counts = Counter(duckdb_file.rows("SELECT x, kept FROM release.people"))
    assert counts == {(i, f"kept {i}"): 10 for i in range(4)}


def test_suppressed_rows_do_not_travel(database: Database, tmp_path: Any) -> None:
    rows = [(i, None if i % 4 == 0 else i, f"kept {i}") for i in range(20)]
    columns = {"id": "integer PRIMARY KEY", "x": "integer", "kept": database.types["text"]}
    database.load("people", columns, rows)
    target_database = DuckdbDatabase(tmp_path / "target.duckdb")
    report = database.anonymize(
        quasi_identifiers=["x"],
        keep=["kept"],
        nulls="suppress",
        max_suppression=1,
        target=target_database.url,
        chunk_rows=3,
    )
    assert (report.rows_out, report.suppressed) == (15, 5)
    kept_values = target_database.rows("SELECT kept FROM release.people")
    assert Counter(kept_values) == Counter((f"kept {i}",) for i in range(20) if i % 4)


def test_nothing_is_kept(database: Database, tmp_path: Any) -> None:
    load_people(database)
    target_database = SqliteDatabase(tmp_path / "target.db")
    database.anonymize(quasi_identifiers=["age"], target=target_database.url)
    assert target_database.rows("SELECT count(*) FROM release_people") == [(40,)]


def refused(
    source: Database, target: Database, error: type[DbanonError], **options: Any
) -> DbanonError:
    before = source.state(), target.state()
    with pytest.raises(error) as caught:
        source.anonymize(quasi_identifiers=["x"], keep=["kept"], target=target.url, **options)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert (source.state(), target.state()) == before
    return caught.value


@pytest.mark.parametrize("kind", ["json", "integer[]", "interval", "bytea"])
def test_types_that_do_not_travel(
    postgresql: PostgresqlDatabase, duckdb_file: DuckdbDatabase, kind: str
) -> None:
    postgresql.load("people", {"x": "integer", "kept": kind}, [(i, None) for i in range(9)])
    error = refused(postgresql, duckdb_file, UnsupportedType)
    assert "view" in str(error.hint)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "infinity"),
        ("timestamp", "-infinity"),
        ("date", "4000-01-01 BC"),
        ("numeric", "NaN"),
        ("numeric(10,2)", "NaN"),
    ],
)
@pytest.mark.parametrize("target", ["duckdb", "sqlite"])
def test_kept_values_that_python_or_the_target_cannot_hold(
    postgresql: PostgresqlDatabase,
    make_database: Callable[[str], Database],
    target: str,
    kind: str,
    value: str,
) -> None:
    rows = [(i, value) for i in range(9)]
    postgresql.load("people", {"x": "integer", "kept": kind}, rows)
    error = refused(postgresql, make_database(target), UnsupportedType)
    assert value == "NaN" or value not in str(error)


@pytest.mark.parametrize("target", ["duckdb", "postgresql"])
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("INTEGER", "secret"),
        ("DATE", "secret"),
        ("DATE", 7),
        ("DATE", "2020-13-01"),
        ("DATE", "2021-02-29"),
        ("TIMESTAMP", "2020-01-01 25:00:00"),
        ("BOOLEAN", "secret"),
        ("BOOLEAN", 7),
        ("REAL", "secret"),
        ("TEXT", 7.5),
    ],
)
def test_kept_values_of_sqlite_that_are_not_what_they_declare(
    make_database: Callable[[str], Database],
    sqlite_file: SqliteDatabase,
    target: str,
    kind: str,
    value: Any,
) -> None:
    target_database = make_database(target)
    sqlite_file.load("people", {"x": "INTEGER", "kept": kind}, [(i, value) for i in range(9)])
    if kind == "TEXT":
        # Text columns turn numbers into text.
        sqlite_file.anonymize(quasi_identifiers=["x"], keep=["kept"], target=target_database.url)
        return
    error = refused(sqlite_file, target_database, MixedTypes)
    assert str(value) not in error.message.replace("9 of its values", "")


@pytest.mark.parametrize("name", ["xmin", "xmax", "cmin", "cmax", "ctid", "tableoid"])
@pytest.mark.parametrize("role", ["keep", "quasi_identifiers"])
def test_columns_that_every_table_of_postgresql_has(
    duckdb_file: DuckdbDatabase, postgresql: PostgresqlDatabase, name: str, role: str
) -> None:
    rows = [(i, i % 7, i % 3) for i in range(20)]
    duckdb_file.load(
        "people", {"id": "integer PRIMARY KEY", "age": "integer", name: "integer"}, rows
    )
    roles = {"quasi_identifiers": ["age"]}
    roles[role] = [*roles.get(role, []), name]
    before = postgresql.state()
    with pytest.raises(InvalidName, match=f'column "{name}"'):
        duckdb_file.anonymize(**roles, target=postgresql.url)
    assert postgresql.state() == before
