"""The campaign's view of a database: create tables, read rows as text, snapshot everything."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg

from tests.faults.tables import Column, Table, literal, quote
from tests.postgres_server import Server, conninfo

Rows = list[tuple[Any, ...]]
Text = list[tuple[str | None, ...]]


@dataclass(frozen=True)
class Snapshot:
    """Everything that a run can leave behind.

    ``relations``: kind and catalog definition by (schema, name); ``catalog_objects``: schemas,
    types, functions, roles, columns; ``contents``: row count and digest of each table; ``locks``:
    locks and open transactions of other sessions.
    """

    relations: dict[tuple[str, str], str]
    catalog_objects: frozenset[tuple[str, ...]]
    contents: dict[tuple[str, str], tuple[str, ...]]
    locks: tuple[str, ...] = ()

    def differences(self, other: Snapshot, ignore: Sequence[tuple[str, str]] = ()) -> list[str]:
        """Describe how ``other`` differs, without any values."""
        differences = [
            f"relation {name} is new" for name in other.relations.keys() - self.relations
        ]
        differences += [
            f"relation {name} is gone" for name in self.relations.keys() - other.relations
        ]
        differences += [
            f"relation {name} changed in the catalog"
            for name in self.relations.keys() & other.relations
            if self.relations[name] != other.relations[name]
        ]
        differences += [f"{thing} is new" for thing in other.catalog_objects - self.catalog_objects]
        differences += [
            f"{thing} is gone" for thing in self.catalog_objects - other.catalog_objects
        ]
        differences += [
            f"rows of {name} changed"
            for name in self.contents.keys() & other.contents
            if self.contents[name] != other.contents[name] and name not in ignore
        ]
        return sorted(differences) + [f"held: {lock}" for lock in other.locks]


class Backend(ABC):
    """A separate database."""

    kind: str
    url: str

    @abstractmethod
    def execute(self, *statements: str) -> None:
        """Run statements, each in its own transaction."""

    @abstractmethod
    def rows(self, sql: str) -> Rows: ...

    @abstractmethod
    def text(self, column: str) -> str:
        """A SQL expression that casts a column to text."""

    @abstractmethod
    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        """Names and types of a relation's columns, in order."""

    @abstractmethod
    def snapshot(self) -> Snapshot: ...

    def relation(self, schema: str, name: str) -> str:
        return f"{quote(schema)}.{quote(name)}"

    def make_schema(self, name: str) -> None:
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name)}")

    def read(self, schema: str, name: str, columns: Sequence[str]) -> Text:
        """Columns as text, in the order in which the database returns the rows."""
        selected = ", ".join(self.text(quote(column)) for column in columns) or "1"
        return self.rows(f"SELECT {selected} FROM {self.relation(schema, name)}")

    def load(self, table: Table) -> None:
        """Create and fill the table."""
        self.make_schema("app")
        self.make_schema(table.schema)
        stored = table.name if table.shape != "view" else "stored"
        relation = self.relation(table.schema, stored)
        body = [f"{quote(c.name)} {c.sql_type}" for c in table.columns]
        if table.shape == "dropped":
            body.insert(len(body) // 2, '"dropped before" integer')
        if table.shape == "key":
            body.append(f"PRIMARY KEY ({quote(table.unique or '')})")
        parts = ""
        if table.shape == "partitioned":
            parts = f" PARTITION BY HASH ({quote(table.unique or '')})"
        setup = [statement for column in table.columns for statement in column.setup]
        self.execute(*setup, f"CREATE TABLE {relation} ({', '.join(body)}){parts}")
        if table.shape == "partitioned":
            self.execute(
                *(
                    f"CREATE TABLE {self.relation(table.schema, f'part {i}')} PARTITION OF"
                    f" {relation} FOR VALUES WITH (MODULUS 3, REMAINDER {i})"
                    for i in range(3)
                )
            )
        if table.shape == "dropped":
            self.execute(f'ALTER TABLE {relation} DROP COLUMN "dropped before"')
        self.execute(*_inserts(relation, table.columns), *table.more)
        if table.shape == "view":
            self.execute(
                f"CREATE VIEW {self.relation(table.schema, table.name)} AS SELECT * FROM {relation}"
            )

    def settle(self) -> None:  # noqa: B027
        """Wait until the database has noticed that the client ended."""


def _inserts(relation: str, columns: Sequence[Column]) -> list[str]:
    rows = list(zip(*(column.values for column in columns), strict=True))
    return [
        f"INSERT INTO {relation} VALUES "
        + ", ".join("(" + ", ".join(map(literal, row)) + ")" for row in rows[start : start + 500])
        for start in range(0, len(rows), 500)
    ]


class DuckdbBackend(Backend):
    kind = "duckdb"

    def __init__(self, folder: Path, name: str = "place") -> None:
        self.path = folder / f"{name}.duckdb"
        self.url = f"duckdb:///{self.path}"
        duckdb.connect(str(self.path)).close()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Any]:
        connection = duckdb.connect(str(self.path))
        try:
            connection.execute("SET TimeZone = 'UTC'")
            yield connection
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        with self._connection() as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, sql: str) -> Rows:
        with self._connection() as connection:
            rows: Rows = connection.execute(sql).fetchall()
            return rows

    def text(self, column: str) -> str:
        return f"CAST({column} AS VARCHAR)"

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        return self.rows(
            "SELECT column_name, data_type FROM duckdb_columns() WHERE schema_name ="
            f" {literal(schema)} AND table_name = {literal(name)} ORDER BY column_index"
        )

    def snapshot(self) -> Snapshot:
        condition = "database_name = current_database() AND NOT internal"
        entries = self.rows(
            f"SELECT schema_name, table_name, 'table ' || coalesce(comment, '') ||"
            f" temporary FROM duckdb_tables() WHERE NOT internal UNION ALL SELECT schema_name,"
            f" view_name, 'view ' || coalesce(comment, '') || sql FROM duckdb_views()"
            f" WHERE {condition}"
        )
        relations = {(schema, name): definition for schema, name, definition in entries}
        catalog_objects = self.rows(
            f"SELECT 'schema', schema_name, '' FROM duckdb_schemas() WHERE {condition} UNION ALL"
            f" SELECT 'type', schema_name, type_name FROM duckdb_types() WHERE {condition}"
            " UNION ALL"
            f" SELECT 'sequence', schema_name, sequence_name FROM duckdb_sequences() UNION ALL"
            f" SELECT 'column', schema_name || '.' || table_name, column_name || ' ' || data_type"
            f" FROM duckdb_columns() WHERE {condition}"
        )
        contents = {
            key: tuple(
                map(
                    str,
                    self.rows(
                        "SELECT count(*), sum(CAST(hash(CAST(x AS VARCHAR)) AS HUGEINT))"
                        f" FROM {self.relation(*key)} AS x"
                    )[0],
                )
            )
            for key, definition in relations.items()
            if definition.startswith("table")
        }
        return Snapshot(relations, frozenset(catalog_objects), contents)


class SqliteBackend(Backend):
    kind = "sqlite"

    def __init__(self, folder: Path, name: str = "place") -> None:
        self.path = folder / f"{name}.db"
        self.url = f"sqlite:///{self.path}"
        sqlite3.connect(self.path).close()

    def execute(self, *statements: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = OFF")
            for statement in statements:
                connection.execute(statement)

    def rows(self, sql: str) -> Rows:
        with contextlib.closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql).fetchall()

    def relation(self, schema: str, name: str) -> str:
        return quote(f"{schema}_{name}")

    def make_schema(self, name: str) -> None:
        """SQLite has no schemas: the name gets a prefix."""

    def text(self, column: str) -> str:
        return f"CAST({column} AS TEXT)"

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        entries = self.rows(
            f"SELECT name, type FROM pragma_table_info({literal(f'{schema}_{name}')})"
        )
        return [(column, sql_type.upper()) for column, sql_type in entries]

    def snapshot(self) -> Snapshot:
        entries = self.rows("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
        relations = {("", name): f"{kind} {sql}" for kind, name, sql in entries}
        contents = {}
        for kind, name, _ in entries:
            if kind == "table":
                rows = sorted(map(repr, self.rows(f"SELECT * FROM {quote(name)}")))
                contents["", name] = (
                    str(len(rows)),
                    hashlib.sha256("\n".join(rows).encode()).hexdigest(),
                )
        return Snapshot(relations, frozenset(), contents)


class PostgresqlBackend(Backend):
    kind = "postgresql"

    def __init__(self, server: Server, template: str) -> None:
        self.server = server
        self.url = server.create_database(template=template)
        self._database = self.url.rpartition("/")[2]

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(
            conninfo(self.url), autocommit=True, options="-c TimeZone=UTC -c extra_float_digits=1"
        )

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def rows(self, sql: str) -> Rows:
        with self.connect() as connection:
            rows: Rows = connection.execute(sql).fetchall()  # type: ignore[call-overload]
            return rows

    def text(self, column: str) -> str:
        return f"{column}::text"

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        return self.rows(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a"
            " JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
            f" WHERE n.nspname = {literal(schema)} AND c.relname = {literal(name)}"
            " AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
        )

    def snapshot(self) -> Snapshot:
        ours = (
            "n.nspname NOT IN ('pg_catalog', 'information_schema')"
            " AND n.nspname NOT LIKE 'pg\\_toast%'"
        )
        with self.connect() as connection:

            def rows(sql: str) -> Rows:
                entries: Rows = connection.execute(sql).fetchall()  # type: ignore[call-overload]
                return entries

            relations = {
                (schema, name): definition
                for schema, name, definition in rows(
                    "SELECT n.nspname, c.relname, concat_ws(' ', c.relkind, c.relowner::regrole,"
                    " c.relacl, c.reloptions, c.relrowsecurity, obj_description(c.oid, 'pg_class'))"
                    f" FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {ours}"
                )
            }
            catalog_objects = rows(
                "SELECT 'schema', nspname, concat(nspowner::regrole, ' ', nspacl) FROM pg_namespace"
                " WHERE nspname NOT LIKE 'pg\\_%' UNION ALL"
                " SELECT 'type', n.nspname || '.' || typname, '' FROM pg_type t JOIN pg_namespace n"
                f" ON n.oid = t.typnamespace WHERE {ours} UNION ALL"
                " SELECT 'function', p.oid::regprocedure::text, '' FROM pg_proc p JOIN pg_namespace"
                f" n ON n.oid = p.pronamespace WHERE {ours} UNION ALL"
                " SELECT 'role', rolname, '' FROM pg_roles UNION ALL"
                " SELECT 'prepared', gid, '' FROM pg_prepared_xacts UNION ALL"
                " SELECT 'extension', extname, '' FROM pg_extension UNION ALL"
                " SELECT 'setting', setdatabase || ' ' || setrole, setconfig::text"
                " FROM pg_db_role_setting UNION ALL"
                " SELECT 'column', n.nspname || '.' || c.relname || '.' || attname,"
                " format_type(atttypid, atttypmod) || attnotnull FROM pg_attribute a JOIN pg_class"
                f" c ON c.oid = attrelid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {ours}"
                " AND attnum > 0 AND NOT attisdropped"
            )
            contents = {}
            for key, definition in relations.items():
                if definition[0] in "rpm" and not key[0].startswith("pg_temp"):
                    [content] = rows(
                        "SELECT count(*)::text, sum(hashtextextended(x::text, 0))::text"
                        f" FROM {self.relation(*key)} AS x"
                    )
                    contents[key] = content
            transactions = rows(
                "SELECT concat_ws(' ', 'lock', locktype, mode) FROM pg_locks WHERE pid <>"
                " pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname ="
                " current_database()) AND pid IN (SELECT pid FROM pg_stat_activity WHERE"
                " backend_type = 'client backend')"
                " UNION ALL SELECT concat('session ', state) FROM pg_stat_activity WHERE datname ="
                " current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in%'"
            )
        return Snapshot(
            relations, frozenset(catalog_objects), contents, tuple(h for (h,) in transactions)
        )

    def settle(self) -> None:
        """Wait until the server is up and has no other connections."""
        deadline = time.monotonic() + 60
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                if self.rows(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                ) == [(0,)]:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError("the server keeps a session whose client is gone")
            time.sleep(0.02)

    def close(self) -> None:
        self.server.drop_database(self._database)
