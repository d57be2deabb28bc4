"""A published relation that was changed is distinguished from an unchanged one, and the change is
named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from dbanon.doors.cli.main import main
from dbanon.errors import RecountFailed, ReleaseChanged
from dbanon.run.open import open_store
from dbanon.run.verify import Verification, verify
from dbanon.sessions.names import parse_relation
from tests.stores.databases import Database, DuckdbDatabase, literal, quote

RELEASE = "release.people"
COLUMNS = {"age": "integer", "ill": "text", "cost": "decimal", "note": "text"}
# Four classes: values can be swapped within one and between two, and a row counted twice.
ROWS = [
    (20, "flu", 1.25, "a"),
    (20, "cough", 2.5, "b"),
    (20, "flu", 3.75, None),
    (20, "flu", 4, ""),
    (40, "cough", 5, "c"),
    (40, "flu", 6, "d"),
    (40, "gout", 7, "e"),
    (60, "flu", 8, "f"),
    (60, "gout", 9, "g"),
    (60, "gout", 10, "h"),
    (80, "flu", 11, "i"),
    (80, "gout", 12, "j"),
    (80, "gout", 13, "k"),
    (80, "flu", 14, "l"),
]
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": ["age"],
    "sensitive": ["ill"],
    "keep": ["cost", "note"],
}

Change = Callable[[Database, str], None]


def load(database: Database, **overrides: Any) -> None:
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    database.load("people", columns, ROWS)
    database.anonymize(**(OPTIONS | overrides))


def again(database: Database, name: str = RELEASE) -> Verification:
    return verify(open_store(database.url), parse_relation(name))


def released_table(database: Database) -> str:
    """The SQL name of the table with the rows: a view's table has its own name."""
    [(name,)] = database.rows(f"SELECT relation_name FROM {database.ledger()}")
    return quote(name) if database.name == "sqlite" else f"release.{quote(name)}"


def setting(column: str, value: str, where: str) -> Change:
    return lambda database, table: database.execute(
        f"UPDATE {table} SET {column} = {value} WHERE {where}"
    )


def swapping(column: str, note: str, other: str) -> Change:
    """Two rows, known by their note, change a value."""

    def change(database: Database, table: str) -> None:
        [(a,)] = database.rows(f"SELECT {column} FROM {table} WHERE note = '{note}'")
        [(b,)] = database.rows(f"SELECT {column} FROM {table} WHERE note = '{other}'")
        assert a != b
        database.execute(
            f"UPDATE {table} SET {column} = CASE note WHEN '{note}' THEN {literal(b)}"
            f" ELSE {literal(a)} END"
            f" WHERE note IN ('{note}', '{other}')"
        )

    return change


def one_row_for_another(database: Database, table: str) -> None:
    database.execute(
        f"DELETE FROM {table} WHERE note = 'j'",
        f"INSERT INTO {table} SELECT * FROM {table} WHERE note = 'k'",
    )


def pairs_for_pairs(database: Database, table: str) -> None:
    """Two equal rows become two equal ones of another kind: an exclusive or sees none of them."""
    database.execute(
        f"UPDATE {table} SET ill = 'gout', cost = 1, note = 'm' WHERE note IN ('i', 'j')",
    )


ROWS_CHANGED: Mapping[str, Change] = {
    "a kept value": setting("note", "'z'", "note = 'c'"),
    "a sensitive value": setting("ill", "'gout'", "note = 'c'"),
    "a value to NULL": setting("note", "NULL", "note = 'c'"),
    "NULL to nothing": setting("note", "''", "note IS NULL"),
    "nothing to NULL": setting("note", "NULL", "note = ''"),
    "a blank more": setting("note", "'c '", "note = 'c'"),
    "another case": setting("note", "'C'", "note = 'c'"),
    "a cent": setting("cost", "cost + 0.01", "note = 'c'"),
    "another sign": setting("cost", "-cost", "note = 'c'"),
    "two texts within a class": swapping("ill", "c", "d"),
    "two texts between classes": swapping("ill", "c", "f"),
    "two numbers within a class": swapping("cost", "c", "d"),
    "two numbers between classes": swapping("cost", "c", "k"),
    "one row for another": one_row_for_another,
    "two rows for two equal ones": pairs_for_pairs,
    "all classes moved": setting("age", "age + 1", "1 = 1"),
}


@pytest.mark.parametrize("kind", ["table", "view"])
def test_untouched(database: Database, kind: str) -> None:
    load(database, output_kind=kind)
    verification = again(database)
    assert (verification.unchanged, verification.digest) == (True, "unchanged")
    done = CliRunner().invoke(main, ["verify", database.url, RELEASE], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "yes: columns, types, rows, class sizes" in done.stdout


def test_changed_rows(database: Database) -> None:
    """Apply each change to one release, and undo it afterwards."""
    load(database)
    table, backup = released_table(database), database.relation("release.kept")
    database.execute(f"CREATE TABLE {backup} AS SELECT * FROM {table}")
    for change in ROWS_CHANGED.values():
        change(database, table)
        require_rows_differ(database)
        database.execute(f"DELETE FROM {table}", f"INSERT INTO {table} SELECT * FROM {backup}")
    assert again(database).unchanged


@pytest.mark.in_turn
@pytest.mark.parametrize("change", ROWS_CHANGED)
def test_changed_rows_of_a_view(database: Database, change: str) -> None:
    load(database, output_kind="view")
    ROWS_CHANGED[change](database, released_table(database))
    require_rows_differ(database)


def require_rows_differ(database: Database) -> None:
    with pytest.raises(ReleaseChanged, match=r": rows \(digest\) differ") as caught:
        again(database)
    assert caught.value.exit_code == 6
    assert caught.value.sqlstate == "ZK007"


def test_rows_in_another_order(database: Database) -> None:
    """The digest does not depend on the order of rows."""
    load(database)
    table = released_table(database)
    before = database.rows(f"SELECT * FROM {table}")
    copy = database.relation("release.copy")
    database.execute(
        f"CREATE TABLE {copy} AS SELECT * FROM {table}",
        f"DELETE FROM {table}",
        f"INSERT INTO {table} SELECT * FROM {copy} ORDER BY cost DESC",
    )
    assert database.rows(f"SELECT * FROM {table}") != before
    assert again(database).unchanged


def test_class_sizes_and_rows(database: Database) -> None:
    load(database)
    table = released_table(database)
    database.execute(f"INSERT INTO {table} SELECT * FROM {table} WHERE note = 'k'")
    with pytest.raises(ReleaseChanged, match=r"class sizes, rows \(digest\) differ"):
        again(database)
    database.execute(f"DELETE FROM {table} WHERE note IN ('c', 'd')")
    with pytest.raises(RecountFailed):
        again(database)


def remade(columns: str) -> Change:
    """The table made again from its rows, with other columns, as each database can do it."""

    def change(database: Database, table: str) -> None:
        copy = database.relation("release.copy")
        database.execute(f"CREATE TABLE {copy} AS SELECT * FROM {table}")
        if database.name == "sqlite":
            mark = database.rows("SELECT sql FROM sqlite_master WHERE name = 'release_people'")
            mark = mark[0][0].partition("/*")[2].partition("*/")[0]
            kinds = dict(
                database.rows("SELECT name, type FROM pragma_table_info('release_people')")
            )
        elif database.name == "duckdb":
            kinds = dict(database.rows(f"SELECT column_name, column_type FROM (DESCRIBE {table})"))
            [(mark,)] = database.rows(
                "SELECT comment FROM duckdb_tables() WHERE table_name = 'people'"
                " AND schema_name = 'release'"
            )
        else:
            kinds = dict(
                database.rows(
                    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
                    f" WHERE attrelid = '{table}'::regclass AND attnum > 0"
                )
            )
            [(mark,)] = database.rows(f"SELECT obj_description('{table}'::regclass)")
        body = ", ".join(
            f"{name} {kinds[name]}" for name in (c.strip() for c in columns.split(","))
        )
        comment = f"/* {mark.strip()} */ " if database.name == "sqlite" else ""
        database.execute(
            f"DROP TABLE {table}",
            f"CREATE TABLE {table} ({comment}{body})",
            f"INSERT INTO {table} SELECT {columns} FROM {copy}",
        )
        if database.name != "sqlite":
            database.execute(f"COMMENT ON TABLE {table} IS '{mark}'")
        if database.name == "postgresql":
            # The entry names the relation: whoever may change the ledger can do so, too.
            database.execute(
                f"UPDATE dbanon.release SET relation_oid = '{table}'::regclass::oid::bigint,"
                f" output_oid = '{table}'::regclass::oid::bigint"
            )

    return change


def altering(change: str) -> Change:
    return lambda database, table: database.execute(f"ALTER TABLE {table} {change}")


def another_type(database: Database, table: str) -> None:
    if database.name == "sqlite":
        # The way a schema editor does it.
        database.execute(
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_master SET sql = replace(sql, '\"age\" INTEGER', '\"age\" BIGINT')"
            " WHERE name = 'release_people'",
        )
    else:
        database.execute(f"ALTER TABLE {table} ALTER COLUMN age TYPE bigint")


def with_names(database: Database, table: str) -> None:
    database.execute(
        f"ALTER TABLE {table} ADD COLUMN full_name {database.types['text']}",
        f"UPDATE {table} SET full_name = 'Anna'",
    )


COLUMNS_CHANGED: Mapping[str, tuple[Change, str, str]] = {
    "names added": (with_names, "columns", 'New: "full_name"'),
    "an empty one added": (altering("ADD COLUMN x integer"), "columns", 'New: "x"'),
    "kept one renamed": (altering("RENAME COLUMN note TO remark"), "columns", 'Missing: "note"'),
    "quasi-identifier renamed": (altering("RENAME COLUMN age TO a"), "columns", 'Missing: "age"'),
    "kept one dropped": (altering("DROP COLUMN note"), "columns", 'Missing: "note"'),
    "quasi-identifier dropped": (altering("DROP COLUMN age"), "columns", 'Missing: "age"'),
    "others in its place": (remade("age, ill, note, cost"), "columns", "Columns now 4, released 4"),
    "another type": (another_type, "types", 'Type changed: "age"'),
}


# What a list of names shows is found alike wherever it was read.
_BY_NAME = {
    "an empty one added",
    "kept one renamed",
    "quasi-identifier renamed",
    "kept one dropped",
    "quasi-identifier dropped",
}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(name, marks=pytest.mark.in_turn if name in _BY_NAME else ())
        for name in COLUMNS_CHANGED
    ],
)
def test_changed_columns(database: Database, change: str) -> None:
    load(database)
    make, differing, detail = COLUMNS_CHANGED[change]
    make(database, released_table(database))
    with pytest.raises(ReleaseChanged, match=f": {differing} differ") as caught:
        again(database)
    assert detail in str(caught.value.detail)
    done = CliRunner().invoke(main, ["verify", database.url, RELEASE])
    assert done.exit_code == 6
    # Names of columns, never a value.
    for value in ("Anna", "cough", "3.75"):
        assert value not in str(caught.value.to_dict()) + done.output


def test_another_view_in_its_place(database: Database) -> None:
    """The same columns and classes with other rows, marked as the release."""
    load(database, output_kind="view")
    table, view = released_table(database), database.relation(RELEASE)
    columns = "age, CASE WHEN ill = 'flu' THEN 'gout' ELSE ill END AS ill, cost, note"
    if database.name == "sqlite":
        [(sql,)] = database.rows("SELECT sql FROM sqlite_master WHERE name = 'release_people'")
        mark = sql[sql.index("/*") : sql.index("*/") + 2]
        columns = columns.replace("CASE", "CAST(CASE").replace("END", "END AS TEXT)")
        database.execute(
            f"DROP VIEW {view}", f"CREATE VIEW {view} AS {mark} SELECT {columns} FROM {table}"
        )
    else:
        [(release,)] = database.rows(f"SELECT release_id FROM {database.ledger()}")
        database.execute(
            f"CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {table}",
            f"COMMENT ON VIEW {view} IS 'dbanon release {release}'",
        )
    with pytest.raises(ReleaseChanged, match=r"rows \(digest\) differ|types differ"):
        again(database)


def test_releases_of_before(database: Database) -> None:
    """Without a digest dbanon cannot say that rows are unchanged, but it compares column names."""
    load(database)
    database.execute(f"UPDATE {database.ledger()} SET digest = NULL")
    verification = again(database)
    assert (verification.unchanged, verification.digest) == (None, "not recorded")
    done = CliRunner().invoke(main, ["verify", database.url, RELEASE], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "rows not compared: digest not recorded" in done.stdout
    with_names(database, released_table(database))
    with pytest.raises(ReleaseChanged, match="columns differ"):
        again(database)


def test_another_version_of_the_database(database: Database) -> None:
    """One that hashes in another way can say nothing of the rows, and raises no false alarm."""
    load(database)
    database.execute(
        f"UPDATE {database.ledger()} SET digest ="
        " substr(digest, 1, instr(digest, ':')) || '1:2:3:4'"
        if database.name != "postgresql"
        else "UPDATE dbanon.release SET digest = 'pg1:1:2:3:4'"
    )
    verification = again(database)
    assert (verification.unchanged, verification.digest) == (
        None,
        "recorded by another version of the database",
    )
    database.execute(f"UPDATE {database.ledger()} SET digest = 'md5:1:2:3:4'")
    assert again(database).digest == "recorded by another version of the database"


def test_in_another_database(database: Database, make_database: Any) -> None:
    """The digest is taken, and compared, where the release is."""
    other = make_database("sqlite" if database.name == "duckdb" else "duckdb")
    load(database, target=other.url)
    assert again(other).unchanged
    setting("note", "'z'", "note = 'c'")(other, released_table(other))
    with pytest.raises(ReleaseChanged, match=r"rows \(digest\)"):
        again(other)


def test_salts_differ(database: Database) -> None:
    """The same rows have another digest each time: it tells nothing of rows to compare with."""
    load(database)
    database.anonymize(**OPTIONS, output="release.second")
    digests = [digest for (digest,) in database.rows(f"SELECT digest FROM {database.ledger()}")]
    salts, sums = ({digest.split(":")[i] for digest in digests} for i in (1, 4))
    assert len(digests) == len(salts) == len(sums) == 2


@pytest.mark.parametrize(
    ("sql_type", "first_value", "other"),
    [
        ("FLOAT", "'0.0'", "'-0.0'"),
        ("DOUBLE", "'0.0'", "'-0.0'"),
        ("INTERVAL", "'1 month'", "'30 days'"),
        ("ENUM ('a', 'b')", "'a'", "'b'"),
        ("VARCHAR", "NULL", "''"),
    ],
)
def test_values_that_duckdb_may_call_equal_have_digests_of_their_own(
    duckdb_file: DuckdbDatabase, sql_type: str, first_value: str, other: str
) -> None:
    duckdb_file.execute(
        *(
            f"CREATE TABLE {name} AS SELECT CAST({value} AS {sql_type}) AS x, 7 AS y"
            for name, value in (("one", first_value), ("same", first_value), ("other", other))
        )
    )
    digests = {}
    with open_store(duckdb_file.url).session(write=False) as session:
        for name in ("one", "same", "other"):
            relation = session.catalog.find_source(parse_relation(name))
            columns = [relation.attribute("x"), relation.attribute("y")]
            digests[name] = session.digests.of_attributes(
                parse_relation(f"main.{name}"), columns, 5
            )
    assert digests["one"] == digests["same"] != digests["other"]
