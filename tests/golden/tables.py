"""The small tables that all cases are about: made by arithmetic, the same everywhere and always."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

N_ROWS = 72

TOWNS = {"north": ["Abo", "Bex", "Col"], "south": ["Dux", "Eno"], "west": ["Fox"]}
EDUCATION = [
    ["none", "school", "*"],
    ["primary", "school", "*"],
    ["secondary", "school", "*"],
    ["bachelor", "university", "*"],
    ["master", "university", "*"],
]
SIZES = ["small", "medium", "large", "huge"]
ILLNESSES = ["asthma", "cancer", "flu", "gout", "none"]

# Name and type, in the words of ``Database.types``.
COLUMNS = {
    "id": "integer",
    "age": "integer",
    "income": "decimal",
    "weight": "double",
    "born": "date",
    "seen": "timestamp",
    "sex": "text",
    "town": "text",
    "education": "text",
    "size": "text",
    "zip": "text",
    "holes": "integer",
    "illness": "text",
    "person": "integer",
    "note": "text",
}


def rows() -> list[tuple[Any, ...]]:
    """The records of the table ``people``, as its columns are listed."""
    towns = [town for region in TOWNS.values() for town in region]
    table_rows: list[tuple[Any, ...]] = []
    for i in range(N_ROWS):
        # Steps that are prime to the moduli: values look mixed, and each comes up.
        age = 18 + i * 29 % 67
        table_rows.append(
            (
                i + 1,
                age,
                Decimal(90_000 + i * 77_773 % 410_003) / 100,
                45 + i * 37 % 71 + (i * 13 % 8) / 8,
                date(1940, 1, 1) + timedelta(days=i * 6_113 % 24_000),
                datetime(2024, 1, 1) + timedelta(seconds=i * 7_654_321 % 31_000_000),
                ("f", "m")[i * 5 // 3 % 2],
                towns[i * i % len(towns)],
                EDUCATION[(i * 3 + i // 7) % len(EDUCATION)][0],
                SIZES[i * 7 // 4 % len(SIZES)],
                f"{10 + i % 3}{i * 11 % 4}{i * 17 % 7}",
                None if i % 9 == 4 else i * 19 % 31,
                ILLNESSES[(i * 2 + i // 11) % len(ILLNESSES)],
                1 + i * 31 % 40,
                f"note {i}",
            )
        )
    return table_rows


def town_edges() -> list[tuple[str, str]]:
    """The tree of towns as rows (child, parent) of the table ``ref.town``."""
    leaves = [(town, region) for region, towns in TOWNS.items() for town in towns]
    return leaves + [(region, "*") for region in TOWNS]
