"""The digest of rows on DuckDB, by its own ``hash``.

Within lists, structs and maps ``hash`` takes 0 and -0, and intervals of the same length, for equal;
in columns of these types themselves they are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.data.schema import Attribute
from dbanon.sessions.names import RelationName, quote

WAY = "duckdb1"

# Its manual does not promise that ``hash`` stays the same. Short and long text, and other kinds.
PROBE = (
    "SELECT hash(hash('a', 'longer than what stands in place', 7, 123456789012345, 1.5::DOUBLE,"
    " 2.5::FLOAT, 1.50::DECIMAL(10,2), 1.5::DECIMAL(38,2), DATE '2001-02-03', true, NULL,"
    " TIMESTAMP '2001-02-03 04:05:06', [1, 2], {'a': 'b'}, 'ab'::BLOB, 1::HUGEINT,"
    " '12345678-9abc-def0-1234-56789abcdef0'::UUID))"
)


def statement(relation: RelationName, columns: Sequence[Attribute], salt: int) -> str:
    """The number of rows, and the sum of their hashes."""
    total = f"coalesce(sum({row_hash(columns, salt)}), 0)"
    return f"SELECT count(*), {total} FROM {relation.quoted} AS s"


def row_hash(columns: Sequence[Attribute], salt: int) -> str:
    """The hash of these columns of a row with the alias s."""
    terms = [f"{salt}::BIGINT"]
    for column in columns:
        name = f"s.{quote(column.name)}"
        if column.sql_type in ("FLOAT", "DOUBLE"):
            terms += [name, f"signbit({name})"]
        elif column.sql_type == "INTERVAL" or column.sql_type.startswith("ENUM"):
            terms.append(f"CAST({name} AS VARCHAR)")
        else:
            terms.append(name)
    # Hashed again: the last column's hash is otherwise in the row's as it is.
    return f"hash(hash({', '.join(terms)}))"
