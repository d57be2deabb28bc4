"""A table becomes a release: outputs, recount, ledger, and what never changes a result."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
import sqlalchemy

import dbanon
from dbanon.errors import OutputExists, OutputNotOurs
from dbanon.ledger import tables as ledger_tables
from dbanon.ledger.migrate import migrate
from dbanon.run.gc import collect_garbage
from dbanon.run.open import open_store
from dbanon.run.verify import verify
from dbanon.sessions.names import parse_relation
from dbanon.version import share_path
from tests.prerequisites import skip_case
from tests.stores.databases import Database, PostgresqlDatabase, SqliteDatabase, make_ledger_older
from tests.stores.people import (
    QUASI_IDENTIFIERS,
    frame_of_people,
    load_people,
    rows_of_people,
)

NUMERIC = ["age", "height"]


def released(database: Database, columns: str = "*", name: str = "release.people") -> list[Any]:
    return database.rows(f"SELECT {columns} FROM {database.relation(name)}")


@pytest.mark.parametrize("kind", ["table", "view"])
def test_a_release_is_what_its_report_says(database: Database, kind: str) -> None:
    rows = load_people(database)
    report = database.anonymize(
        quasi_identifiers=QUASI_IDENTIFIERS, keep=["site"], sensitive=["name"], output_kind=kind
    )
    names = ", ".join(QUASI_IDENTIFIERS)
    sizes = sorted(
        size
        for (size,) in database.rows(
            f"SELECT count(*) FROM {database.relation('release.people')} GROUP BY {names}"
        )
    )
    middle = len(sizes) // 2
    assert report.rows_in == report.rows_out == sum(sizes) == len(rows)
    assert (report.classes, report.smallest_class, report.largest_class) == (
        len(sizes),
        sizes[0],
        sizes[-1],
    )
    assert report.median_class == (sizes[middle] + sizes[~middle]) / 2
    assert report.k_achieved == sizes[0] >= report.k_requested == 3
    assert report.suppressed == report.null_rows == 0
    assert report.not_copied == ("id",)
    assert report.earlier_releases == "not checked against earlier releases"
    # The table behind a view has its own name.
    released_table = dict(report.rows()).get("released table")
    assert released_table == (report.relation if kind == "view" else None)
    assert 0 < report.information_loss < 1
    assert set(report.seconds) == {"read", "cluster", "write", "verify", "digest", "total"}
    rows_kept = released(database, "name, site")
    assert Counter(rows_kept) == Counter((row[1], row[7]) for row in rows)


def test_columns_keep_the_order_and_the_types_of_the_source(database: Database) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=QUASI_IDENTIFIERS, keep=["site", "id"])
    source = dict(columns_of(database, "people"))
    assert columns_of(database, "release.people") == [
        (name, source[name]) for name in source if name != "name"
    ]


def columns_of(database: Database, name: str) -> list[tuple[str, str]]:
    if database.name == "sqlite":
        table = database.relation(name).strip('"')
        columns = database.rows(f"SELECT name, type FROM pragma_table_info('{table}')")
    elif database.name == "duckdb":
        columns = database.rows(
            f"SELECT column_name, column_type FROM (DESCRIBE {database.relation(name)})"
        )
    else:
        columns = database.rows(
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            f" WHERE attrelid = '{name}'::regclass AND attnum > 0"
            " AND NOT attisdropped ORDER BY attnum"
        )
    return columns


def test_replace_replaces_only_what_dbanon_made(database: Database) -> None:
    load_people(database)
    first = database.anonymize(quasi_identifiers=NUMERIC)
    with pytest.raises(OutputExists):
        database.anonymize(quasi_identifiers=NUMERIC)
    second = database.anonymize(quasi_identifiers=NUMERIC, k=5, if_exists="replace")
    assert second.k_achieved >= 5
    superseded = dict(
        database.rows(
            "SELECT CAST(release_id AS VARCHAR(36)), superseded_at IS NULL"
            f" FROM {database.ledger()}"
        )
    )
    assert superseded == {first.release_id: False, second.release_id: True}
    state = database.state()
    with pytest.raises(OutputNotOurs):
        database.anonymize(quasi_identifiers=NUMERIC, output="people", if_exists="replace")
    assert database.state() == state


@pytest.mark.parametrize(("existing_kind", "new_kind"), [("table", "view"), ("view", "table")])
def test_a_release_of_the_other_kind_is_not_replaced(
    database: Database, existing_kind: str, new_kind: str
) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=NUMERIC, output_kind=existing_kind)
    state = database.state()
    with pytest.raises(
        OutputExists, match=rf"is a {existing_kind}, and a {new_kind} was requested"
    ):
        database.anonymize(quasi_identifiers=NUMERIC, output_kind=new_kind, if_exists="replace")
    assert database.state() == state


def test_a_copied_mark_does_not_make_a_table_ours(database: Database) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=NUMERIC)
    mark = "dbanon release 00000000-0000-4000-8000-000000000000"
    if database.name == "sqlite":
        database.execute(f"CREATE TABLE release_other (x INTEGER /* {mark} */)")
    else:
        database.execute(
            "CREATE TABLE release.other (x INTEGER)", f"COMMENT ON TABLE release.other IS '{mark}'"
        )
    with pytest.raises(OutputNotOurs):
        database.anonymize(quasi_identifiers=NUMERIC, output="release.other", if_exists="replace")


def test_a_view_shows_the_newest_release_and_gc_drops_the_old(database: Database) -> None:
    load_people(database)
    reports = [
        database.anonymize(quasi_identifiers=NUMERIC, k=k, output_kind="view", if_exists="replace")
        for k in (3, 5, 8)
    ]
    sizes = database.rows(
        f"SELECT min(n) FROM (SELECT count(*) AS n FROM {database.relation('release.people')}"
        " GROUP BY age, height) AS classes"
    )
    assert sizes[0][0] >= 8
    store = open_store(database.url)
    assert verify(store, parse_relation("release.people")).release_id == reports[2].release_id
    dropped = collect_garbage(store)
    assert dropped == [reports[0].relation]
    assert collect_garbage(store, keep_last=0) == [reports[1].relation]
    assert collect_garbage(store, keep_last=0) == []
    assert len(released(database)) == 40


def test_a_view_of_the_users_stands_on_a_replaced_table(database: Database) -> None:
    if database.name == "postgresql":
        skip_case("PostgreSQL refuses to drop a table that a view shows")
    load_people(database)
    database.anonymize(quasi_identifiers=NUMERIC)
    database.execute(f"CREATE VIEW mine AS SELECT age FROM {database.relation('release.people')}")
    database.anonymize(quasi_identifiers=NUMERIC, k=5, if_exists="replace")
    assert len(database.rows("SELECT age FROM mine")) == 40


def test_a_table_that_others_depend_on_is_not_replaced(postgresql: PostgresqlDatabase) -> None:
    load_people(postgresql)
    postgresql.anonymize(quasi_identifiers=NUMERIC)
    postgresql.execute("CREATE VIEW mine AS SELECT age FROM release.people")
    state = postgresql.state()
    with pytest.raises(dbanon.DbanonError, match="Other objects depend on the output"):
        postgresql.anonymize(quasi_identifiers=NUMERIC, if_exists="replace")
    assert postgresql.state() == state


def test_grants_on_a_view_survive_and_open_nothing_else(pg_url: str, pg_role: Any) -> None:
    postgresql = PostgresqlDatabase(pg_url)
    load_people(postgresql)
    how: dict[str, Any] = {
        "quasi_identifiers": NUMERIC,
        "output_kind": "view",
        "if_exists": "replace",
    }
    postgresql.anonymize(**how)
    reader = PostgresqlDatabase(pg_role("reader"))
    postgresql.execute(
        "GRANT USAGE ON SCHEMA release TO reader", "GRANT SELECT ON release.people TO reader"
    )
    report = postgresql.anonymize(k=7, **how)
    [(count, smallest)] = reader.rows(
        "SELECT sum(n), min(n) FROM (SELECT count(*) AS n FROM release.people"
        " GROUP BY age, height) AS classes"
    )
    assert count == 40
    assert smallest >= 7
    for hidden in (report.relation, "people", "dbanon.release", "dbanon.release_column"):
        with pytest.raises(Exception, match="permission denied"):
            reader.rows(f"SELECT * FROM {hidden}")


def test_the_result_is_the_same_for_every_chunk_size(database: Database) -> None:
    load_people(database)
    results = []
    for rows in (1, 7, 1000, None):
        report = database.anonymize(
            quasi_identifiers=QUASI_IDENTIFIERS,
            keep=["site"],
            chunk_rows=rows,
            if_exists="replace",
        )
        results.append((Counter(released(database)), report.information_loss))
    assert results[1:] == results[:-1]


def test_the_result_is_the_same_in_every_database(make_database: Any) -> None:
    rows = rows_of_people(60)
    results = []
    for kind in ("duckdb", "sqlite", "postgresql"):
        database = make_database(kind)
        load_people(database, rows)
        report = database.anonymize(quasi_identifiers=QUASI_IDENTIFIERS, keep=["site"], k=4)
        # SQLite keeps decimals as floats, and dates as text.
        rows_found = [
            (Decimal(str(income)).quantize(Decimal("0.01")), *map(str, others))
            for income, *others in released(database, "income, age, height, born, seen, site")
        ]
        results.append((sorted(rows_found), report.information_loss, report.column_losses))
    assert results[0] == results[1] == results[2]


def test_the_result_is_the_same_in_a_frame(database: Database) -> None:
    names = ["age", "height", "seen"]
    rows = load_people(database, rows_of_people(60))
    # A report says so where its schema was created.
    database.make_schema("release")
    report = database.anonymize(quasi_identifiers=names, keep=["site"], k=4)
    frame, of_frame = dbanon.anonymize_frame(
        frame_of_people(rows), quasi_identifiers=names, keep=["site"], k=4
    )
    released_rows = frame[[*names, "site"]].itertuples(index=False, name=None)
    assert sorted(tuple(map(str, row)) for row in released_rows) == sorted(
        tuple(map(str, row)) for row in released(database, "age, height, seen, site")
    )
    assert of_frame.information_loss == report.information_loss
    assert of_frame.column_losses == report.column_losses
    # Apart from differences of the type: both report the same in the same form.
    assert of_frame.arguments == report.arguments
    assert re.sub(r"\d", "0", of_frame.created_at) == re.sub(r"\d", "0", report.created_at)


def test_the_result_is_the_same_through_every_door(database: Database) -> None:
    load_people(database)
    database.anonymize(quasi_identifiers=NUMERIC, keep=["site"], output="release.by_url")
    engine: Any
    if database.name == "duckdb":
        engine = duckdb.connect(database.url.removeprefix("duckdb:///"))
    else:
        engine = sqlalchemy.create_engine(database.url)
    database.anonymize(
        database=engine, quasi_identifiers=NUMERIC, keep=["site"], output="release.by_engine"
    )
    # Staging links rows to classes: it must not outlive the run on a connection that is kept.
    if database.name == "duckdb":
        left = engine.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
        engine.close()
    else:
        catalog = "sqlite_temp_master" if database.name == "sqlite" else "pg_catalog.pg_class"
        column = "name" if database.name == "sqlite" else "relname"
        with engine.connect() as connection:
            left = connection.exec_driver_sql(
                f"SELECT {column} FROM {catalog} WHERE substr({column}, 1, 7) = 'dbanon_'"
            ).fetchall()
        engine.dispose()
    assert left == []
    both = [released(database, name=f"release.{name}") for name in ("by_url", "by_engine")]
    assert Counter(both[0]) == Counter(both[1])


def test_the_ledger_is_the_same_in_every_database(make_database: Any) -> None:
    rows = rows_of_people(30)
    entries = {}
    for kind in ("duckdb", "sqlite", "postgresql"):
        database = make_database(kind)
        load_people(database, rows)
        database.make_schema("release")
        report = database.anonymize(
            quasi_identifiers=NUMERIC, sensitive=["name"], keep=["site"], output_kind="view"
        )
        tables = []
        for table, columns in (
            ("release", ledger_tables.RELEASE_COLUMNS),
            ("release_column", ledger_tables.TABLES["release_column"][0]),
        ):
            prefix = "dbanon_" if kind == "sqlite" else "dbanon."
            assert [name for name, _ in columns_of(database, f"{prefix}{table}")] == [
                name for name, _, _ in columns
            ]
            frame = pd.DataFrame(
                database.ledger_rows(table),
                columns=[name for name, _, _ in columns],
            )
            tables.append(frame.astype(str))
        release, column = tables
        assert release["release_id"].tolist() == [report.release_id]
        # Values that differ by nature: database names, times, and the spelling of types.
        varying_columns = ["release_id", "created_at", "seconds", "output_schema", "output_name"]
        varying_columns += [
            "relation_name",
            "source",
            "published_by",
            "relation_oid",
            "output_oid",
            "digest",
        ]
        # Numbers that only PostgreSQL gives to roles and relations.
        varying_columns += [
            "owner_oid",
            "publisher_oid",
            "ledger_oid",
            "source_oid",
            "source_owner_oid",
        ]
        # The types of the source, and counters.
        varying_columns += ["request"]
        release["histogram"] = release["histogram"].str.replace("'", '"')
        release["arguments"] = [
            sorted(
                re.findall(
                    r"\w+",
                    re.sub(
                        "None|True|False", lambda m: {"None": "null"}.get(m[0], m[0].lower()), text
                    ),
                )
            )
            for text in release.arguments
        ]
        entries[kind] = (
            release.drop(columns=varying_columns).to_dict("list"),
            column.drop(columns=["release_id", "sql_type"]).to_dict("list"),
        )
    assert entries["duckdb"] == entries["sqlite"] == entries["postgresql"]


def test_a_ledger_without_the_newest_columns_gets_them(database: Database) -> None:
    load_people(database, rows_of_people(30))
    first = database.anonymize(quasi_identifiers=NUMERIC)
    make_ledger_older(database)
    second = database.anonymize(quasi_identifiers=NUMERIC, output="release.second")
    assert [name for name, _ in columns_of(database, database.ledger().replace('"', ""))] == [
        name for name, _, _ in ledger_tables.RELEASE_COLUMNS
    ]
    tied = database.name == "postgresql"
    assert database.rows(
        "SELECT CAST(release_id AS VARCHAR(36)), relation_oid IS NOT NULL, output_oid IS NOT NULL"
        f" FROM {database.ledger()} ORDER BY created_at"
    ) == [(first.release_id, tied, tied), (second.release_id, tied, tied)]


def test_a_new_ledger_is_that_of_the_history(tmp_path: Path) -> None:
    """On SQLite; tests/sql/test_install.py has PostgreSQL."""
    new, migrated = (SqliteDatabase(tmp_path / name) for name in ("new.db", "migrated.db"))
    with open_store(new.url).session(write=True) as session:
        session.ledger.ensure_current()
    with sqlalchemy.create_engine(
        migrated.url, poolclass=sqlalchemy.NullPool
    ).begin() as connection:
        migrate(connection)
    tables = sorted(name for _, name in new.relations())
    assert tables == sorted(name for _, name in migrated.relations())
    for table in tables:
        for facts in (f"PRAGMA table_info({table})", f"PRAGMA index_list({table})"):
            assert new.rows(facts) == migrated.rows(facts)
    assert new.rows("SELECT * FROM dbanon_alembic_version") == [("0017",)]
    # What it holds back, too.
    for database in (new, migrated):
        with pytest.raises(sqlite3.IntegrityError, match="spending_only_adds"):
            database.execute(
                "INSERT INTO dbanon_spending VALUES ('a', 'b', '', 0, 'spent', '', '')"
            )


def test_the_history_of_the_ledger_has_one_head() -> None:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(share_path("migrations")))
    assert ScriptDirectory.from_config(config).get_heads() == ["0017"]
