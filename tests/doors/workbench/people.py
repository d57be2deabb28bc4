"""Invented persons, four of them with unique values, and decisions about their columns."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.doors.workbench.client import Client

# Values of one row, or of fewer than k rows, in all spellings that a page could use.
PLANTED = ("zyxomma", "98765", "98,765", "1899-07", "July 1899", "QX77")
# Keys and digests contain random digits.
RANDOM = re.compile(r"[0-9a-f]{8}[0-9a-f-]{8,}|[\w-]{22,}")
COLUMNS = {
    "id": "integer",
    "born": "date",
    "code": "text",
    "area": "text",
    "pay": "integer",
    "illness": "text",
    "note": "text",
}


def rows(n: int = 400) -> list[list[Any]]:
    """Invented persons; four of them have unique values."""
    table_rows: list[list[Any]] = [
        [
            i + 10_000_000,
            f"{1950 + i * 7 % 40}-{1 + i * 5 % 12:02d}-{1 + i * 3 % 28:02d}",
            ("A10", "A12", "B20", "B25")[i * 3 % 4],
            ("north", "south", "east")[i % 3],
            1000 + i * 37 % 900,
            ("flu", "asthma", "gout")[i * 5 % 3],
            f"note {i % 50}",
        ]
        for i in range(n)
    ]
    for i in range(4):
        table_rows[i * 50][1:] = [
            "1899-07-03",
            "QX77",
            "zyxomma",
            98765,
            "zyxomma petiolatum",
            "zyxomma",
        ]
    return table_rows


def load(folder: Path, table: str, columns: Iterable[str], records: Iterable[Sequence[Any]]) -> str:
    """Create this table, with names quoted by the caller, and return the database's URL."""
    with closing(sqlite3.connect(folder / "people.db")) as connection:
        connection.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        filled = [tuple(row) for row in records]
        marks = ", ".join("?" * len(filled[0]))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", filled)
        connection.commit()
    return "sqlite:///people.db"


def decide_roles(client: Client, **roles: str) -> str:
    """Decide on roles by name; the other columns keep theirs."""
    names = list(client.routes.bench.roles)
    fields = client.form(client.page("columns"), "columns")
    fields |= {f"role-{names.index(name)}": role for name, role in roles.items()}
    fields |= {f"reason-{names.index(n)}": "of no person" for n, r in roles.items() if r == "keep"}
    return client.sent("columns", fields)


ROLES = {
    "id": "identifier",
    "born": "quasi_identifier",
    "code": "quasi_identifier",
    "note": "drop",
    "area": "quasi_identifier",
    "pay": "quasi_identifier",
    "illness": "sensitive",
}


def swept(client: Client, **more: Any) -> str:
    fields = {"from": 3, "to": 5, "sample": 2000, "seed": 0, "limit": 60, "method": ["gaa_cp"]}
    return client.done("sweep", fields | more)


def trees(client: Client, **kinds: str) -> dict[str, str]:
    names = list(client.routes.bench.roles)
    return {f"tree-{names.index(name)}": kind for name, kind in kinds.items()}
