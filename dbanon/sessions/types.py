"""Families of SQL types, which differ only in the width of their values."""

from __future__ import annotations

import re

# Replacing a column's type by another of its family is harmless: only the width changes.
_TYPES_OF_FAMILY = {
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
_FAMILY_OF_TYPE = {name: family for family, names in _TYPES_OF_FAMILY.items() for name in names}
# The width of a type, such as (5,2), and the word unsigned.
_WIDTH_PATTERN = re.compile(r"\s*\(\s*\d+\s*(,\s*\d+\s*)?\)|\s+unsigned\b")


def type_family(sql_type: str) -> str:
    """Return a type's family; ``DECIMAL(5,2)`` and ``numeric`` are both ``decimal``."""
    type_name = _WIDTH_PATTERN.sub("", sql_type).strip().lower()
    return _FAMILY_OF_TYPE.get(type_name, type_name)
