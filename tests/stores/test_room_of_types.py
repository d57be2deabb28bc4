"""Values that a method moves away from the originals must fit the type that they are written as."""

from __future__ import annotations

import pytest

from dbanon.errors import UnsupportedType
from tests.prerequisites import skip_case
from tests.stores.databases import Database

NARROW = {
    "duckdb": ("TINYINT", 127),
    "postgresql": ("smallint", 32767),
    # SQLite keeps any integer in any column: its narrowest type is the widest there is.
}


@pytest.mark.parametrize("exact", ["integer", "decimal"])
def test_a_type_without_room_is_refused_by_name(database: Database, exact: str) -> None:
    if exact == "decimal":
        sql_type, most = "numeric(3,0)", 999
    elif database.name in NARROW:
        sql_type, most = NARROW[database.name]
    else:
        skip_case("SQLite has one integer type")
    if database.name == "sqlite" and exact == "decimal":
        skip_case("SQLite does not hold a decimal to its digits")
    rows = [(i, most - i % 3) for i in range(20)]
    database.load("people", {"id": "integer PRIMARY KEY", "age": sql_type}, rows)
    before = database.relations()
    with pytest.raises(UnsupportedType) as refused:
        database.anonymize(
            quasi_identifiers=["age"],
            k=5,
            method="secure_kward",
            options={"epsilon": 3.0, "gamma0": 1.0},
        )
    assert "wider type" in str(refused.value.hint)
    assert str(most) not in str(refused.value)
    assert {relation for relation in database.relations() if "release" in relation[0]} <= before


@pytest.mark.parametrize("intervals", ["bounds", "midpoint"])
def test_a_border_without_room_is_refused_by_name(database: Database, intervals: str) -> None:
    if database.name == "sqlite":
        skip_case("SQLite has one integer type")
    # With 52,000 values ranges are 2,000 wide: the last ends at 34,000, its midpoint is 33,000.
    rows = [(i, 32767 if i % 2 else -19233) for i in range(24)]
    database.load("people", {"id": "integer PRIMARY KEY", "age": "smallint"}, rows)
    before = database.relations()
    options = {"quasi_identifiers": ["age"], "k": 5, "method": "gaa_cp"}
    with pytest.raises(UnsupportedType, match=r'(?i)"age" of type smallint') as refused:
        database.anonymize(**options, intervals=intervals)
    assert "as text" in str(refused.value.hint)
    assert {relation for relation in database.relations() if "release" in relation[0]} <= before
    assert database.anonymize(**options, intervals="text").k_achieved >= 5


def test_a_middle_that_has_room_is_released(database: Database) -> None:
    """With 40,000 values ranges are 1,000 wide: 32,500 is in the last one, and fits the type."""
    rows = [(i, 32767 if i % 2 else -7233) for i in range(24)]
    database.load("people", {"id": "integer PRIMARY KEY", "age": "smallint"}, rows)
    database.anonymize(quasi_identifiers=["age"], k=5, method="gaa_cp", intervals="midpoint")
    released = database.rows(f"SELECT DISTINCT age FROM {database.relation('release.people')}")
    assert sorted(released) == [(-7500,), (32500,)]
