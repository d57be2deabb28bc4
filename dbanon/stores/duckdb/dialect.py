"""DuckDB's dialect: how values of each column type are read, staged and released.

It also chooses the types for columns that come from other databases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import duckdb

from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import SqlRow
from dbanon.errors import UnsupportedType
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import uncopyable_type_error
from dbanon.sessions.dialect import Dialect
from dbanon.sessions.names import RelationName, quote

# The bits of the signed integer type that holds all values: at least 16, as PostgreSQL has no
# smaller type; 128 stands for more than 64.
_INTEGER_BITS = {
    "TINYINT": 16,
    "SMALLINT": 16,
    "UTINYINT": 16,
    "INTEGER": 32,
    "USMALLINT": 32,
    "BIGINT": 64,
    "UINTEGER": 64,
    "UBIGINT": 128,
    "HUGEINT": 128,
}
# Digits of the fraction of seconds; nanoseconds are read as microseconds.
_TIMESTAMP_SCALES = {
    "TIMESTAMP": 6,
    "TIMESTAMP WITH TIME ZONE": 6,
    "TIMESTAMP_S": 0,
    "TIMESTAMP_MS": 3,
    "TIMESTAMP_NS": 6,
}
# The kinds of types without parameters.
_KINDS = {
    "DATE": Kind.DATE,
    "BOOLEAN": Kind.BOOLEAN,
    "VARCHAR": Kind.CATEGORY,
    "UUID": Kind.CATEGORY,
}


def to_attribute(name: str, sql_type: str, nullable: bool) -> Attribute:
    """Describe a column of a DuckDB type."""
    if decimal := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", sql_type):
        precision, scale = map(int, decimal.groups())
        return Attribute(
            name,
            Kind.DECIMAL,
            sql_type=sql_type,
            precision=precision,
            scale=scale,
            nullable=nullable,
        )
    if sql_type in _INTEGER_BITS:
        return Attribute(
            name, Kind.INTEGER, sql_type=sql_type, bits=_INTEGER_BITS[sql_type], nullable=nullable
        )
    if sql_type in ("FLOAT", "DOUBLE"):
        bits = 32 if sql_type == "FLOAT" else 64
        return Attribute(name, Kind.FLOAT, sql_type=sql_type, bits=bits, nullable=nullable)
    if sql_type in _TIMESTAMP_SCALES:
        return Attribute(
            name,
            Kind.TIMESTAMP,
            sql_type=sql_type,
            scale=_TIMESTAMP_SCALES[sql_type],
            has_time_zone="ZONE" in sql_type,
            nullable=nullable,
        )
    if sql_type.startswith("ENUM("):
        values = re.findall(r"'((?:[^']|'')*)'", sql_type)
        order = tuple(value.replace("''", "'") for value in values)
        return Attribute(name, Kind.CATEGORY, sql_type=sql_type, nullable=nullable, order=order)
    kind = _KINDS.get(sql_type, Kind.OTHER)
    return Attribute(name, kind, sql_type=sql_type, nullable=nullable)


def literal(text: str) -> str:
    """Write a text as an SQL literal, for places where no parameter can be bound."""
    return "'" + text.replace("'", "''") + "'"


def number_expression(position: int, attribute: Attribute) -> str:
    """SQL of a column as a number; categories become codes, and NULL stays NULL.

    Parameters
    ----------
    position : the position of the column among those to read. If its values are coded, a
        dictionary is staged that maps values to codes; its alias is ``d{position}``.
    """
    column = f"s.{quote(attribute.name)}"
    if attribute.kind is Kind.DATE:
        # DuckDB has infinite dates; subtracting from them would fail. Runs refuse infinite numbers.
        finite_value = f"CAST(({column} - DATE '1970-01-01') AS DOUBLE)"
        return f"CASE WHEN NOT isfinite({column}) THEN 'inf'::DOUBLE ELSE {finite_value} END"
    if attribute.kind is Kind.TIMESTAMP:
        finite_value = f"CAST({_microseconds(attribute, column)} AS DOUBLE)"
        return f"CASE WHEN NOT isfinite({column}) THEN 'inf'::DOUBLE ELSE {finite_value} END"
    if attribute.kind.is_coded:
        column = f"d{position}.code"
    return f"CAST({column} AS DOUBLE)"


def _microseconds(attribute: Attribute, timestamp: str) -> str:
    """SQL of a timestamp as microseconds since 1970."""
    if attribute.scale < 6:
        # Otherwise DuckDB converts through nanoseconds, which cover only the years 1678 to 2262.
        timestamp = f"CAST({timestamp} AS TIMESTAMP)"
    return f"epoch_us({timestamp})"


def staged_type(column: ReleasedColumn) -> str:
    """The SQL type for staging the values of classes."""
    if column.attribute.kind is Kind.DECIMAL:
        return f"DECIMAL(38,{column.attribute.scale})"
    if column.values.dtype == object:
        return "VARCHAR"
    return "DOUBLE" if column.values.dtype.kind == "f" else "BIGINT"


def portable_expression(attribute: Attribute) -> str:
    """SQL of a retained column, in a type that can be copied to other databases."""
    column = f"s.{quote(attribute.name)}"
    if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
        return f"CAST({column} AS VARCHAR)"
    if attribute.kind is Kind.TIMESTAMP and not attribute.has_time_zone:
        return f"CAST({column} AS TIMESTAMP)"
    return column


# Stored in digests; changes whenever rows are hashed in another way.
DIGEST_METHOD = "duckdb1"

# A query that hashes constants of all types: DuckDB does not guarantee that versions hash alike.
DIGEST_PROBE = (
    "SELECT hash(hash('a', 'longer than what stands in place', 7, 123456789012345, 1.5::DOUBLE,"
    " 2.5::FLOAT, 1.50::DECIMAL(10,2), 1.5::DECIMAL(38,2), DATE '2001-02-03', true, NULL,"
    " TIMESTAMP '2001-02-03 04:05:06', [1, 2], {'a': 'b'}, 'ab'::BLOB, 1::HUGEINT,"
    " '12345678-9abc-def0-1234-56789abcdef0'::UUID))"
)


def digest_statement(relation: RelationName, columns: Sequence[Attribute], salt: int) -> str:
    """Build a query for the number of rows, and the sum of their hashes."""
    hash_sum = f"coalesce(sum({row_hash(columns, salt)}), 0)"
    return f"SELECT count(*), {hash_sum} FROM {relation.quoted} AS s"


def row_hash(columns: Sequence[Attribute], salt: int) -> str:
    """SQL of a row's hash over these columns; the alias of the rows is s."""
    terms = [f"{salt}::BIGINT"]
    for column in columns:
        name = f"s.{quote(column.name)}"
        # Distinguish values that are equal but displayed differently: 0.0 and -0.0, and intervals.
        if column.sql_type in ("FLOAT", "DOUBLE"):
            terms += [name, f"signbit({name})"]
        elif column.sql_type == "INTERVAL" or column.sql_type.startswith("ENUM"):
            terms.append(f"CAST({name} AS VARCHAR)")
        else:
            terms.append(name)
    # Hash twice, because ``hash`` does not mix the hash of its last argument well.
    return f"hash(hash({', '.join(terms)}))"


# Catalog queries have few conditions, because planning a condition takes longer than reading all
# rows. But they do restrict the database: otherwise DuckDB would first build the internal schemas
# of a new connection, which takes 6 ms.
_DATABASES_QUERY = "SELECT current_database(), database_name FROM duckdb_databases()"
TEMPORARY_TABLES_QUERY = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'temp'"
_TEMPORARY_RELATION_QUERIES = (
    TEMPORARY_TABLES_QUERY,
    "SELECT view_name FROM duckdb_views() WHERE database_name = 'temp' AND NOT internal",
)


def find_databases(connection: duckdb.DuckDBPyConnection) -> tuple[str, frozenset[str]]:
    """Find the current database, and the names of all attached ones in lower case."""
    rows = connection.execute(_DATABASES_QUERY).fetchall()
    current_database, _ = rows[0]
    return current_database, frozenset(name.lower() for _, name in rows)


def qualified_name(
    connection: duckdb.DuckDBPyConnection,
    databases: tuple[str, frozenset[str]],
    schema: str,
    name: str,
) -> RelationName:
    """Name a relation of the current database, with the database if the name is ambiguous.

    Parameters
    ----------
    databases : the current database, and the names of all attached ones in lower case.
    """
    catalog, database_names = databases
    # DuckDB keeps temporary tables and views in the schema main.
    is_ambiguous = schema.lower() in database_names or (
        schema.lower() == "main"
        and any(
            temporary_name.lower() == name.lower()
            for statement in _TEMPORARY_RELATION_QUERIES
            for (temporary_name,) in connection.execute(statement).fetchall()
        )
    )
    return RelationName(schema, name, catalog=catalog if is_ambiguous else None)


def create_view(
    name: RelationName, columns: str, released_relation: RelationName, *, replaces: bool
) -> str:
    """Build CREATE VIEW on a relation of the same schema; run it within ``default_schema``.

    Parameters
    ----------
    columns : the quoted names of the columns, joined by commas.
    replaces : whether a view of this name is replaced.
    """
    view, relation = (
        relation_name.quoted if name.catalog is None else quote(relation_name.name)
        for relation_name in (name, released_relation)
    )
    create = "CREATE OR REPLACE" if replaces else "CREATE"
    return f"{create} VIEW {view} ({columns}) AS SELECT {columns} FROM {relation}"


@contextmanager
def default_schema(connection: duckdb.DuckDBPyConnection, name: RelationName) -> Iterator[None]:
    """While the block runs, make a relation's schema the default if its name is ambiguous.

    A view must be created in this block: DuckDB stores its text without the names of databases.
    """
    if name.catalog is None:
        yield
        return
    [(search_path,)] = connection.execute("SELECT current_setting('search_path')").fetchall()
    connection.execute(f"USE {quote(name.catalog)}.{quote(str(name.schema))}")
    restore_statement = f"SET search_path = {literal(search_path)}"
    try:
        yield
    except BaseException:
        # A failed transaction accepts no other statement.
        connection.execute("ROLLBACK")
        connection.execute(restore_statement)
        raise
    connection.execute(restore_statement)


READ_ONLY_QUERY = "SELECT readonly FROM duckdb_databases() WHERE database_name = current_database()"


def has_schema(fetch_rows: Callable[..., list[SqlRow]], name: RelationName) -> bool:
    """Whether the schema of a relation exists; ``fetch_rows`` runs a query with parameters."""
    return bool(
        fetch_rows(
            "SELECT 1 FROM duckdb_schemas() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?)",
            (name.schema,),
        )
    )


class DuckdbDialect(Dialect):
    """The SQL of DuckDB."""

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        # Enum values would sort in declared order; text sorts by code point on every database.
        return f"CAST({column} AS VARCHAR) COLLATE C" if attribute.kind is Kind.CATEGORY else column

    def normalized_sql(self, attribute: Attribute, value: str) -> str:
        # replace() does not accept a UUID. Do not cast a VARCHAR, which would lose its collation.
        if attribute.normalize and attribute.sql_type == "UUID":
            value = f"CAST({value} AS VARCHAR)"
        return super().normalized_sql(attribute, value)

    def count_distinct_sql(self, value: str) -> str:
        # Faster than count(DISTINCT …), which takes 2 ms per column even for few rows.
        return f"coalesce(list_unique(list({value})), 0)"

    def texts_query(self, values: Sequence[str]) -> tuple[str, object]:
        return "SELECT unnest(CAST(? AS VARCHAR[]))", list(values)

    def bounded_number(self, attribute: Attribute, low: str, high: str) -> str:
        # The bounds only serve to convert dates and timestamps without an error. Numbers need none.
        column, kind = f"s.{quote(attribute.name)}", attribute.kind
        if kind is Kind.FLOAT:
            return f"CASE WHEN NOT isnan({column}) THEN CAST({column} AS DOUBLE) END"
        if kind not in (Kind.DATE, Kind.TIMESTAMP):
            return f"CAST({column} AS DOUBLE)"
        # Clamp before converting: the conversion of infinite or very distant values would fail.
        sql_bounds = (f"CAST('{bound}' AS {attribute.sql_type})" for bound in (low, high))
        clamped_value = "least(greatest({}, {}), {})".format(column, *sql_bounds)
        days_or_microseconds = (
            f"{clamped_value} - DATE '1970-01-01'"
            if kind is Kind.DATE
            else _microseconds(attribute, clamped_value)
        )
        # The functions greatest and least ignore NULL.
        return f"CASE WHEN {column} IS NOT NULL THEN CAST(({days_or_microseconds}) AS DOUBLE) END"

    def shifted_date(self, attribute: Attribute, days: str) -> str:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.DATE:
            return f"{column} + CAST({days} AS INTEGER)"
        return f"CAST({column} + to_hours(24 * {days}) AS {attribute.sql_type})"

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        # The alias c has the staged values of the classes: dates as days, and timestamps as
        # microseconds since 1970.
        attribute, name = column.attribute, f"c.{statements.value_column(position)}"
        if attribute.kind is Kind.DATE:
            name = f"DATE '1970-01-01' + CAST({name} AS INTEGER)"
        elif attribute.kind is Kind.TIMESTAMP:
            name = f"make_timestamp{'tz' if attribute.has_time_zone else ''}({name})"
        return f"CAST({name} AS {attribute.sql_type})"

    def quotient_and_remainder(self, attribute: Attribute) -> tuple[str, str]:
        # Each value is divided by its class size. Quotients and remainders can be summed in each
        # class without overflow, and give the exact total.
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.TIMESTAMP:
            timestamp = _microseconds(attribute, column)
            unscaled = f"CAST({timestamp} AS HUGEINT) // {10 ** (6 - attribute.scale)}"
        elif attribute.kind is Kind.DECIMAL:
            # The text has all digits of the scale, so without the point it is the unscaled value.
            unscaled = f"CAST(replace(CAST({column} AS VARCHAR), '.', '') AS HUGEINT)"
        else:
            unscaled = f"CAST({column} AS HUGEINT)"
        # The alias n has the number of rows in each class.
        return f"({unscaled}) // n.size", f"({unscaled}) % n.size"

    def type_of(self, attribute: Attribute) -> str:
        if attribute.kind is Kind.INTEGER:
            return {16: "SMALLINT", 32: "INTEGER", 64: "BIGINT"}.get(attribute.bits, "HUGEINT")
        if attribute.kind is Kind.DECIMAL:
            if attribute.precision > 38 or attribute.scale < 0:
                raise UnsupportedType(
                    f'Column "{attribute.name}" of type {attribute.sql_type} does not fit DuckDB:'
                    " its decimals have at most 38 digits.",
                    hint="Cast it to at most 38 digits in a view, and anonymize the view.",
                )
            return f"DECIMAL({attribute.precision or 38},{attribute.scale})"
        if attribute.kind is Kind.FLOAT:
            return "REAL" if attribute.bits == 32 else "DOUBLE"
        if attribute.kind is Kind.TIMESTAMP:
            return "TIMESTAMP WITH TIME ZONE" if attribute.has_time_zone else "TIMESTAMP"
        if attribute.kind is Kind.OTHER:
            raise uncopyable_type_error(attribute)
        return {Kind.DATE: "DATE", Kind.BOOLEAN: "BOOLEAN", Kind.CATEGORY: "VARCHAR"}[
            attribute.kind
        ]

    def text_of(self, attribute: Attribute) -> str:
        column = f"s.{quote(attribute.name)}"
        if attribute.has_time_zone:
            # Use UTC and not the session's time zone: chains compare texts of different sessions.
            return f"(CAST({column} AT TIME ZONE 'UTC' AS VARCHAR) || '+00') COLLATE C"
        return f"CAST({column} AS VARCHAR) COLLATE C"
