"""k counts what readers see: values that a database takes for equal, and shows differently."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

import dbanon
from dbanon.errors import RecountFailed
from tests.stores.databases import ALL_NAMES, Database
from tests.stores.equal_values import EQUAL, EqualValues, load

DATABASES = ALL_NAMES
# Types that `also_k` accepts: those that all databases compare.
SETS = {
    "postgresql": ("numeric", "domain", "float", "real", "blanks", "collation", "varying"),
    "duckdb": ("float", "collation"),
    "sqlite": ("collation", "blanks"),
    "mariadb": ("collation", "blanks"),
}
# Equal values that are shown alike.
INDISTINGUISHABLE = {
    "postgresql": (
        EqualValues("numeric(9,2)", "7.50", "7.5"),
        EqualValues("char(3)", "'a '", "'a'"),
        EqualValues("timestamptz", "'2000-01-01 12:00+00'", "'2000-01-01 13:00+01'"),
    ),
    "duckdb": (
        EqualValues("DECIMAL(9,2)", "7.50", "7.5"),
        EqualValues("TIMESTAMPTZ", "'2000-01-01 12:00+00'", "'2000-01-01 13:00+01'"),
    ),
    "sqlite": (EqualValues("DECIMAL(9,2)", "7.50", "7.5"), EqualValues("REAL", "-0.0", "0.0")),
    "mariadb": (EqualValues("decimal(9,2)", "7.50", "7.5"), EqualValues("double", "-0e0", "0e0")),
}


def test_a_recount_tells_apart_what_readers_do(database: Database) -> None:
    prepared: set[str] = set()
    for name, values in EQUAL[database.name].items():
        before = tuple(statement for statement in values.before if statement not in prepared)
        prepared.update(before)
        load(database, values._replace(before=before), table=f"equal_{name}")
        with pytest.raises(RecountFailed, match="holds 1 row, fewer than"):
            dbanon.verify(database.url, f"equal_{name}", quasi_identifiers=["x"], k=5)
    for index, values in enumerate(INDISTINGUISHABLE[database.name]):
        load(database, values, table=f"alike_{index}")
        verification = dbanon.verify(database.url, f"alike_{index}", quasi_identifiers=["x"], k=5)
        assert (verification.classes, verification.smallest_class) == (1, 40)


def readable_counts(database: Database, output: str) -> Counter[str]:
    """How many rows of a release readers see with each value."""
    return Counter(repr(value) for (value,) in database.rows(f"SELECT x FROM {output}"))


def test_a_set_holds_of_what_readers_see(database: Database) -> None:
    prepared: set[str] = set()
    for name in SETS[database.name]:
        values = EQUAL[database.name][name]
        before = tuple(statement for statement in values.before if statement not in prepared)
        prepared.update(before)
        load(database, values._replace(before=before), table=f"equal_{name}")
        report = database.anonymize(
            table=f"equal_{name}",
            output=f"release.{name}_of",
            quasi_identifiers=["age"],
            keep=["x"],
            k=3,
            also_k=[{"columns": ["x"], "k": 5}],
            max_suppression=0.2,
        )
        assert report.suppressed == 1
        sizes = readable_counts(database, database.relation(f"release.{name}_of"))
        assert min(sizes.values()) == report.arguments["also_k"][0]["counted"] == 39


STRATA = {
    "postgresql": "numeric",
    "duckdb": "collation",
    "sqlite": "collation",
    "mariadb": "blanks",
}


def test_models_hold_in_the_classes_that_readers_see(database: Database) -> None:
    """Two strata that are equal are two classes: neither has the other's values."""
    values = EQUAL[database.name][STRATA[database.name]]
    load(database, values)
    relation = database.relation("equal")
    database.execute(
        f"ALTER TABLE {relation} ADD COLUMN ill integer",
        f"UPDATE {relation} SET x = CASE WHEN id < 20 THEN {values.rare} ELSE {values.common} END,"
        " ill = CASE WHEN id < 20 THEN id % 2 ELSE 2 + id % 3 END, age = 30",
    )
    options: dict[str, Any] = {
        "table": "equal",
        "quasi_identifiers": ["age"],
        "by": ["x"],
        "sensitive": ["ill"],
        "k": 5,
        "models": [dbanon.Model("distinct_l", "ill", 2)],
        "if_exists": "replace",
    }
    for entity in (None, "id"):
        report = database.anonymize(**options, entity=entity)
        assert (report.classes, report.smallest_class) == (2, 20)
        assert [level.achieved for level in report.models] == [2]
    report = database.anonymize(**options)
    verification = dbanon.verify(database.url, "release.people")
    assert [model.counted for model in verification.models] == [2]


@pytest.mark.parametrize(
    ("rare", "common"),
    [(Decimal("7.50"), Decimal("7.5")), (-0.0, 0.0)],
)
def test_frames_are_counted_by_what_is_shown(rare: Any, common: Any) -> None:
    frame = pd.DataFrame({"age": [20 + i % 10 for i in range(40)], "x": [rare] + [common] * 39})
    released, report = dbanon.anonymize_frame(
        frame,
        quasi_identifiers=["age"],
        keep=["x"],
        k=3,
        also_k=[{"columns": ["x"], "k": 5}],
        max_suppression=0.2,
    )
    assert report.suppressed == 1
    assert len(released) == len([x for x in released["x"] if repr(x) == repr(common)])
    assert report.arguments["also_k"][0]["counted"] == 39
