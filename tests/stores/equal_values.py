"""Values that a database takes for equal and shows differently: a few of one, many of the other."""

from __future__ import annotations

from typing import NamedTuple

from tests.stores.databases import Database


class EqualValues(NamedTuple):
    """A column of values that are equal, and are not shown alike.

    ``rare`` and ``common`` are SQL of the values; ``before`` are statements that the type needs.
    """

    sql_type: str
    rare: str
    common: str
    before: tuple[str, ...] = ()


_FOLDED = (
    "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"
)
POSTGRESQL = {
    "numeric": EqualValues("numeric", "7.50", "7.5"),
    "domain": EqualValues("amount", "7.50", "7.5", ("CREATE DOMAIN amount AS numeric",)),
    "float": EqualValues("double precision", "'-0'", "'0'"),
    "real": EqualValues("real", "'-0'", "'0'"),
    "blanks": EqualValues("bpchar", "'a '", "'a'"),
    "collation": EqualValues("text COLLATE folded", "'Ann'", "'ann'", (_FOLDED,)),
    "varying": EqualValues("varchar(9) COLLATE folded", "'Ann'", "'ann'", (_FOLDED,)),
    "citext": EqualValues("citext", "'Ann'", "'ann'", ("CREATE EXTENSION citext",)),
    "interval": EqualValues("interval", "'1 mon'", "'30 days'"),
    "jsonb": EqualValues("jsonb", "'1.0'", "'1'"),
    "range": EqualValues("numrange", "'[1.0,2)'", "'[1,2)'"),
    "array": EqualValues("numeric[]", "'{7.50}'", "'{7.5}'"),
    "row": EqualValues("pair", "'(7.50)'", "'(7.5)'", ("CREATE TYPE pair AS (a numeric)",)),
}
DUCKDB = {
    "float": EqualValues("DOUBLE", "'-0.0'::DOUBLE", "0.0"),
    "collation": EqualValues("VARCHAR COLLATE NOCASE", "'Ann'", "'ann'"),
    "interval": EqualValues("INTERVAL", "INTERVAL '1 month'", "INTERVAL '30 days'"),
    "list": EqualValues("INTERVAL[]", "[INTERVAL '1 month']", "[INTERVAL '30 days']"),
}
SQLITE = {
    "collation": EqualValues("TEXT COLLATE NOCASE", "'Ann'", "'ann'"),
    "blanks": EqualValues("TEXT COLLATE RTRIM", "'a '", "'a'"),
    "untyped": EqualValues("", "1.0", "1"),
}
MARIADB = {
    "collation": EqualValues("varchar(9) COLLATE utf8mb4_general_ci", "'Ann'", "'ann'"),
    "blanks": EqualValues("varchar(9)", "'a '", "'a'"),
}
EQUAL = {"postgresql": POSTGRESQL, "duckdb": DUCKDB, "sqlite": SQLITE, "mariadb": MARIADB}


def load(database: Database, values: EqualValues, *, table: str = "equal") -> str:
    """A table of 40 rows with one rare value and an age; its name as SQL has it."""
    relation = database.relation(table)
    rows = ", ".join(
        f"({i}, {20 + i % 10}, {values.rare if i == 0 else values.common})" for i in range(40)
    )
    database.execute(
        *values.before,
        f"CREATE TABLE {relation} (id integer PRIMARY KEY, age integer, x {values.sql_type})",
        f"INSERT INTO {relation} VALUES {rows}",
    )
    return relation
