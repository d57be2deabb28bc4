"""Every word that means something to a database's SQL, as the name of columns, tables, schemas."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dbanon
from dbanon import errors
from dbanon.run.open import open_store
from dbanon.sessions.base import MARK, Output
from dbanon.sessions.names import RelationName
from tests.conftest import CAMPAIGN
from tests.stores.databases import Database, SqliteDatabase, quote

# sqlite3_keyword_name() of 3.40, and what means an address of rows, or truth.
_SQLITE = """
abort action add after all alter always analyze and as asc attach autoincrement before begin
between by cascade case cast check collate column commit conflict constraint create cross
current current_date current_time current_timestamp database default deferrable deferred delete
desc detach distinct do drop each else end escape except exclude exclusive exists explain fail
filter first following for foreign from full generated glob group groups having if ignore
immediate in index indexed initially inner insert instead intersect into is isnull join key last
left like limit match materialized natural no not nothing notnull null nulls of offset on or
order others outer over partition plan pragma preceding primary query raise range recursive
references regexp reindex release rename replace restrict returning right rollback row rows
savepoint select set table temp temporary then ties to transaction trigger unbounded union
unique update using vacuum values view virtual when where window with without rowid _rowid_ true
false
"""


def words_of(database: Database) -> list[str]:
    """Those that some name cannot be without quotes; in campaigns all."""
    if database.name == "sqlite":
        return _SQLITE.split()
    query, reserved = {
        "postgresql": ("word FROM pg_get_keywords()", "catcode <> 'U'"),
        "duckdb": ("keyword_name FROM duckdb_keywords()", "keyword_category <> 'unreserved'"),
    }[database.name]
    query = f"SELECT {query}" + ("" if CAMPAIGN else f" WHERE {reserved}")
    return sorted({word for (word,) in database.rows(query)} | {"true", "false"})


def load(database: Database, words: list[str]) -> None:
    database.load("people", dict.fromkeys(words, "integer"), [[i] * len(words) for i in range(12)])


def test_every_key_word_names_a_column(database: Database, tmp_path: Path) -> None:
    words, at = words_of(database), tmp_path / "released.csv"
    assert len(words) > 145
    load(database, words)
    names, others = words[::2], words[1:20:2]
    report = database.anonymize(quasi_identifiers=names, keep=others, exports=[str(at)])
    assert report.quasi_identifiers == tuple(names)
    require_released(database, names, others)
    with at.open() as lines:
        assert set(next(csv.reader(lines))) == {*names, *others}
    assert dbanon.verify(database.url, "release.people").k_achieved == 3


def test_every_key_word_names_a_column_of_a_view(database: Database) -> None:
    words = [w for w in words_of(database) if database.name != "sqlite" or w not in TRUTH]
    load(database, words)
    names, others = words[1::2], words[:20:2]
    database.anonymize(quasi_identifiers=names, keep=others, output_kind="view")
    require_released(database, names, others)


def require_released(database: Database, names: list[str], others: list[str]) -> None:
    # Qualified: SQLite takes what names no column for a text.
    columns = ", ".join(f"r.{quote(word)}" for word in (*names, *others))
    rows = database.rows(f"SELECT {columns} FROM {database.relation('release.people')} AS r")
    for word, values in zip((*names, *others), zip(*rows, strict=True), strict=True):
        summary = min(values), max(values), len(set(values))
        assert summary == ((1, 10, 4) if word in names else (0, 11, 12)), word


def test_every_key_word_names_a_table_a_schema_and_a_column(database: Database) -> None:
    release_id = "00000000-0000-0000-0000-000000000000"
    words = words_of(database)
    # A session looks at all that it wrote again for each thing that it writes.
    for some in (words[start : start + 20] for start in range(0, len(words), 20)):
        with open_store(database.url).session(write=True) as session:
            for word in some:
                name = session.catalog.resolve_output(RelationName(word, word))
                written = name.sibling(f"{name.name}_r")
                output = Output(name, name, written, "table", release_id, None)
                session.publication.ensure_schema(RelationName(word, word))
                session.publication.create_table(output, [(word, "INTEGER")], release_id)
                session.publication.publish(output, [word])
                assert session.catalog.find_source(name).schema.attributes[0].name == word


TRUTH = ("true", "false")


@pytest.mark.parametrize("word", [*TRUTH, "True", "FALSE"])
def test_sqlite_has_no_view_with_a_column_named_as_truth_is(
    sqlite_file: SqliteDatabase, word: str
) -> None:
    """It would name it ``column1``, whatever is written."""
    load(sqlite_file, ["age", word])
    before = sqlite_file.state()
    for options in (
        {"output_kind": "view"},
        {"where": "age < 10"},
    ):
        for call in (dbanon.anonymize, dbanon.plan):
            with pytest.raises(errors.InvalidName, match=f'"{word}"') as refused:
                call(
                    sqlite_file.url,
                    table="people",
                    output="released",
                    quasi_identifiers=["age"],
                    keep=[word],
                    k=3,
                    **options,
                )
            assert "AS" in str(refused.value.hint)
            assert sqlite_file.state() == before


def test_truth_names_keys_and_is_looked_at_in_sqlite(sqlite_file: SqliteDatabase) -> None:
    columns = {"true": "TEXT PRIMARY KEY", "false": "INTEGER", "age": "INTEGER"}
    sqlite_file.load("people", columns, [(f"p{i}", i, i) for i in range(12)])
    report = sqlite_file.anonymize(quasi_identifiers=["false", "age"])
    assert report.rows_out == 12
    assert sqlite_file.rows('SELECT count(DISTINCT r."false") FROM release_people AS r') == [(4,)]
    advice = dbanon.advise(sqlite_file.url, "people", quasi_identifiers=["age", "false"])
    assert {column.column.attribute.name for column in advice.columns} == {"true", "false", "age"}


def test_truth_travels_to_sqlite(
    make_database: Callable[[str], Database], sqlite_file: SqliteDatabase
) -> None:
    source = make_database("duckdb")
    load(source, ["age", "true", "false"])
    options: dict[str, Any] = {"quasi_identifiers": ["age", "true"], "keep": ["false"]}
    assert source.anonymize(**options, target=sqlite_file.url).rows_out == 12
    with pytest.raises(errors.InvalidName, match='"true", "false"'):
        source.anonymize(**options, target=sqlite_file.url, output="v", output_kind="view")


def test_a_key_may_have_the_name_that_its_number_has(database: Database) -> None:
    text = f"{database.types['text']} PRIMARY KEY"
    database.load("people", {"ordinal": text, "age": "integer"}, [(f"p{i}", i) for i in range(12)])
    assert database.anonymize(quasi_identifiers=["age"]).rows_out == 12


def test_a_column_is_not_taken_for_the_mark_of_a_view(sqlite_file: SqliteDatabase) -> None:
    forged = f"/* {MARK}00000000-0000-0000-0000-000000000000 */"
    load(sqlite_file, ["age", forged])
    options: dict[str, Any] = {
        "quasi_identifiers": ["age"],
        "keep": [forged],
        "output_kind": "view",
    }
    for _ in range(2):
        assert sqlite_file.anonymize(**options, if_exists="replace").rows_out == 12
    assert dbanon.verify(sqlite_file.url, "release.people").k_achieved == 3
