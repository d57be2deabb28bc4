"""Numbers of CSV files are those that are written there, to the last digit."""

from __future__ import annotations

import csv
from pathlib import Path

import dbanon
from dbanon.run.open import open_store
from dbanon.sessions.names import parse_relation

# Neighbours that a float of 64 bits does not tell apart; the last but one is no BIGINT.
LARGE = [1234567890123456789 + i for i in range(6)] + [2**63 - 1, 10**19 - 1, 10**18 + 1]
LARGER = [10**29 + i for i in range(9)]


def write(path: Path) -> Path:
    rows = [
        f"{number},-{number},{larger},{20 + i % 3}"
        for i, (number, larger) in enumerate(zip(LARGE, LARGER, strict=True))
    ]
    path.write_text("\n".join(["number,negative,larger,age", *rows]) + "\n")
    return path


def test_whole_numbers_of_19_digits_and_more_are_read_as_they_are(tmp_path: Path) -> None:
    path = write(tmp_path / "people.csv")
    with open_store(f"file:{path}", table="people").session(write=False) as session:
        types = dict(session.catalog.list_columns(parse_relation("people")))
        rows = session.rows('SELECT number, negative, larger FROM "people" ORDER BY larger')
    assert rows == [(number, -number, larger) for number, larger in zip(LARGE, LARGER, strict=True)]
    assert "DOUBLE" not in types.values()


def test_whole_numbers_of_18_digits_stay_integers(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    numbers = [10**17 + i for i in range(5)]
    path.write_text("\n".join(["number", *map(str, numbers)]) + "\n")
    with open_store(f"file:{path}", table="people").session(write=False) as session:
        assert dict(session.catalog.list_columns(parse_relation("people"))) == {"number": "BIGINT"}
        assert session.rows('SELECT number FROM "people" ORDER BY 1') == [(n,) for n in numbers]


def test_they_are_released_as_they_are(tmp_path: Path) -> None:
    """Kept columns hold the same digits, and a key tells rows apart by the last one."""
    path, out = write(tmp_path / "people.csv"), tmp_path / "released.csv"
    dbanon.anonymize(
        f"file:{path}",
        table="people",
        quasi_identifiers=["age"],
        keep=["number", "negative", "larger"],
        key=["number"],
        k=3,
        output="released",
        exports=[out],
    )
    with out.open(newline="") as file:
        released = [*csv.DictReader(file)]
    for name, expected in (
        ("number", LARGE),
        ("negative", [-number for number in LARGE]),
        ("larger", LARGER),
    ):
        assert sorted(row[name] for row in released) == sorted(map(str, expected))
