"""Labels as databases get them: what each reveals about its rows, and that no other rows influence
it.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from dbanon.data.grid import ends_around, grid_for
from dbanon.data.scales import Scale
from dbanon.data.schema import Attribute, Kind
from dbanon.errors import KeptColumnTells
from dbanon.release.evaluation import parse_intervals
from tests.stores.databases import ALL_NAMES, Database

DATABASES = ALL_NAMES

# More than twenty values, so no number keeps a label of its own.
N = 120
COLUMNS = {"id": "integer", "age": "integer", "pay": "decimal", "born": "date", "ill": "text"}
KINDS = {
    "age": Attribute("age", Kind.INTEGER),
    "pay": Attribute("pay", Kind.DECIMAL, scale=2),
    "born": Attribute("born", Kind.DATE),
}
OPTIONS: dict[str, Any] = {
    "quasi_identifiers": list(KINDS),
    "sensitive": ["ill"],
    "keep": ["id"],
    "k": 3,
    "method": "gaa_cp",
    "refine": "fast",
}


def rows(age: int | None = None) -> list[tuple[Any, ...]]:
    """N rows, the first with this age, or its own."""
    rng = np.random.default_rng(7)
    generated = [
        (
            i,
            int(rng.integers(18, 91)),
            Decimal(int(rng.integers(90_000, 590_000))) / 100,
            date(1950, 1, 1) + timedelta(int(rng.integers(0, 9_000))),
            ("flu", "gout")[i % 2],
        )
        for i in range(N)
    ]
    if age is not None:
        generated[0] = (0, age, *generated[0][2:])
    return generated


def load(database: Database, table_rows: list[tuple[Any, ...]]) -> None:
    columns = {name: database.types[kind] for name, kind in COLUMNS.items()}
    columns["id"] += " PRIMARY KEY"
    database.load("people", columns, table_rows)


def number(value: Any) -> float:
    return float((value - date(1970, 1, 1)).days if isinstance(value, date) else value)


def released(database: Database, **more: Any) -> list[tuple[Any, ...]]:
    """The released quasi-identifiers, by id."""
    with pytest.warns(KeptColumnTells, match="id"):
        database.anonymize(**{**OPTIONS, **more}, if_exists="replace")
    columns = ", ".join(["id", *more.get("quasi_identifiers", KINDS)])
    released_rows = database.rows(f"SELECT {columns} FROM {database.relation('release.people')}")
    return [tuple(row[1:]) for row in sorted(released_rows)]


def test_labels_are_those_of_the_cells_that_rows_begin_and_end_in(database: Database) -> None:
    """The properties proved in tests/unit/data/test_grid.py also hold for the written labels."""
    table_rows = rows()
    load(database, table_rows)
    released_labels = released(database)
    classes = defaultdict(list)
    for row, labels in zip(table_rows, released_labels, strict=True):
        classes[labels].append(row)
    assert min(map(len, classes.values())) >= 3
    for at, (name, attribute) in enumerate(KINDS.items()):
        values = np.array([number(row[at + 1]) for row in table_rows])
        scale = Scale.of(values)
        grid = grid_for(attribute, scale, None)
        for labels, members in classes.items():
            inside = np.array([number(row[at + 1]) for row in members])
            ends = ends_around(
                attribute, grid, inside.min(keepdims=True), inside.max(keepdims=True)
            )
            first, after = (float(part[0]) for part in ends)
            read = parse_intervals([labels[at]], attribute, scale)
            assert (read[0][0], round(read[1][0], 6)) == (first, round(after - unit(name), 6))
            assert after - first >= 2 * unit(name), name


def unit(name: str) -> float:
    return 0.01 if name == "pay" else 1.0


def test_no_label_follows_a_value_inside_its_cell(database: Database) -> None:
    """Three that are all 30, or 30 and 31 in any way: the label is that of the cell."""
    texts = []
    for inside in ((0, 0, 0), (0, 0, 1), (0, 1, 1), (1, 1, 1)):
        # The first and the last age, which the grid's steps follow from, stay.
        ages = [20, 21, 21, 90, 90, 91] + [30 + 6 * i + more for i in range(8) for more in inside]
        table_rows = [(i, age, *rows()[0][2:]) for i, age in enumerate(ages)]
        load(database, table_rows)
        texts.append(released(database, quasi_identifiers=["age"], refine=None))
        database.execute(f"DROP TABLE {database.relation('people')}")
    assert [set(labels) for labels in texts] == [set(texts[0])] * 4
    assert ("[30, 32)",) in texts[0]
