"""Types of SQL databases: which differ in how wide their values are, and in nothing else."""

from __future__ import annotations

import re

# Types of databases that differ in how wide their values are; a longer value changes no meaning.
_FAMILIES = {
    "integer": (
        "tinyint", "smallint", "mediumint", "int", "integer", "bigint", "hugeint", "int2", "int4",
        "int8", "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
    ),
    "decimal": ("decimal", "dec", "numeric", "num"),
    "float": ("real", "float", "double", "double precision", "float4", "float8"),
    "text": (
        "varchar", "character varying", "nvarchar", "text", "tinytext", "mediumtext", "longtext",
        "string",
    ),
    "character": ("char", "character", "bpchar", "nchar"),
    "timestamp": ("timestamp", "timestamp without time zone", "timestamp_s", "timestamp_ms",
                  "timestamp_ns"),
}  # fmt: skip
_FAMILY = {name: family for family, names in _FAMILIES.items() for name in names}
_WIDTH = re.compile(r"\s*\(\s*\d+\s*(,\s*\d+\s*)?\)|\s+unsigned\b")


def type_family(sql_type: str) -> str:
    """The kind of a type without its width: ``DECIMAL(5,2)`` and ``numeric`` are decimals."""
    plain = _WIDTH.sub("", sql_type).strip().lower()
    return _FAMILY.get(plain, plain)
