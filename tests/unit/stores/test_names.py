from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dbanon.errors import InvalidName, NameTooLong
from dbanon.sessions.names import RelationName, parse_relation, quote, require_length

parts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(parts, st.none() | parts)
def test_what_is_quoted_is_read_back(name: str, schema: str | None) -> None:
    relation = RelationName(schema, name)
    assert parse_relation(relation.quoted) == relation
    assert parse_relation(str(relation)) == relation


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        relation = parse_relation(text)
    except InvalidName:
        return
    assert relation.name
    assert "\0" not in relation.quoted


@given(parts)
def test_a_database_reads_what_is_quoted(name: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        cursor = connection.execute(f"SELECT 1 AS {quote(name)}")
        assert cursor.description[0][0] == name


@pytest.mark.parametrize(
    "text", ["", ".", "a.", ".a", "a.b.c", '"a', 'a"', '"a"b', '""', '"a".', "a\0", '"\0"', 'a"b"']
)
def test_no_names(text: str) -> None:
    with pytest.raises(InvalidName):
        parse_relation(text)


@pytest.mark.parametrize(
    ("text", "schema", "name"),
    [
        ("people", None, "people"),
        ("App.People", "App", "People"),
        ('"a.b"', None, "a.b"),
        ('"a""b".c', 'a"b', "c"),
        ("Peo ple", None, "Peo ple"),
        ('a."b.c"', "a", "b.c"),
    ],
)
def test_names(text: str, schema: str | None, name: str) -> None:
    assert parse_relation(text) == RelationName(schema, name)


@pytest.mark.parametrize("identifier", ["", "a\0b"])
def test_what_cannot_be_quoted(identifier: str) -> None:
    with pytest.raises(InvalidName):
        quote(identifier)


def test_length_counts_bytes() -> None:
    require_length("x" * 63, 63, "name")
    require_length("x" * 1000, None, "name")
    with pytest.raises(NameTooLong, match="64 bytes long; at most 63 bytes are allowed"):
        require_length("é" * 32, 63, "name")
