"""A database that no store of dbanon's knows: SQLite under another name, to SQLAlchemy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from sqlalchemy.dialects import registry
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

registry.register("warehouse", __name__, "Warehouse")


class Warehouse(SQLiteDialect_pysqlite):
    """SQLite, which says that it is something else."""

    name = "warehouse"
    supports_statement_cache = True


def create_warehouse(path: Path, rows: int = 60) -> str:
    """A warehouse with a table of people; its URL, with a password in it."""
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TABLE people (id INTEGER, who TEXT, age INTEGER, income NUMERIC(12, 2),"
        " size NUMERIC, born DATE, seen DATETIME, ok BOOLEAN, ill VARCHAR(20), diary TEXT,"
        " photo BLOB)"
    )
    connection.executemany(
        f"INSERT INTO people VALUES ({', '.join('?' * 11)})",
        [
            (
                i,
                f"p{i // 2}",
                20 + i // 2 % 30,
                100 * i + 0.25,
                i + 0.5,
                f"19{50 + i % 40}-01-02",
                f"2024-05-06 07:08:{i % 60:02}.000000",
                i % 2,
                ("flu", None, "gout")[i % 3],
                "my secret",
                b"\0\1",
            )
            for i in range(rows)
        ],
    )
    connection.commit()
    connection.close()
    return f"warehouse:///{path}"
