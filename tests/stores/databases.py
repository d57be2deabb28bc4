"""The databases in one form, so that one test body runs over every store."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pyarrow as pa

import dbanon
from tests.mariadb_server import MariadbServer
from tests.postgres.connection_pool import pooled
from tests.postgres_server import conninfo
from tests.stores import kept_duckdb

Rows = list[tuple[Any, ...]]

NAMES = ("duckdb", "sqlite", "postgresql")
# For the tests of behaviour that differs between databases.
ALL_NAMES = (*NAMES, "mariadb")


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# DuckDB parses a list of so many rows longer than a release takes.
MANY = 200


def plain_text(value: Any) -> str | None:
    """A value as text that DuckDB casts to its column's type."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def literal(value: Any) -> str:
    """A value as SQL text that all three databases read alike."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float, Decimal)):
        return str(value)
    if isinstance(value, datetime):
        value = value.isoformat(sep=" ")
    elif isinstance(value, date):
        value = value.isoformat()
    return "'" + str(value).replace("'", "''") + "'"


class Database(ABC):
    """A database with what tests need of it beside dbanon.

    ``types`` are its words for: text, integer, bigint, double, decimal (10,2), date, timestamp.
    """

    name: ClassVar[str]
    types: ClassVar[Mapping[str, str]]
    url: str

    @abstractmethod
    def execute(self, *statements: str) -> None:
        """Run statements, each in its own transaction."""

    @abstractmethod
    def rows(self, sql: str) -> Rows: ...

    def reader_rows(self, sql: str) -> Rows:
        """Rows of a query as a reader gets them, with the database's default settings."""
        return self.rows(sql)

    @abstractmethod
    def relations(self) -> set[tuple[str, str]]:
        """Every table and view that is not the system's, staging included, and every schema."""

    def relation(self, name: str) -> str:
        """A released relation, named ``schema.name``, as SQL has it here."""
        return ".".join(quote(part) for part in name.split("."))

    def load(self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> None:
        """Create a table, ``schema.name`` or ``name``, and fill it."""
        body = ", ".join(f"{quote(name)} {kind}" for name, kind in columns.items())
        statements = [f"CREATE TABLE {self.relation(table)} ({body})"]
        if "." in table:
            self.make_schema(table.split(".")[0])
        statements += inserts(self.relation(table), list(rows))
        self.execute(*statements)

    def make_schema(self, name: str) -> None:
        self.execute(f"CREATE SCHEMA IF NOT EXISTS {quote(name)}")

    def ledger(self, table: str = "release") -> str:
        return self.relation(f"dbanon.{table}")

    def ledger_rows(self, table: str) -> Rows:
        return self.rows(f"SELECT * FROM {self.ledger(table)} ORDER BY 1, 2")

    def state(self) -> tuple[Any, ...]:
        """All that a failed run must leave as it was."""
        relations = self.relations()
        ledger = ("dbanon", "release") if self.name != "sqlite" else ("", "dbanon_release")
        releases = None
        if ledger in relations:
            releases = self.ledger_rows("release")
        return relations, releases

    def anonymize(self, **overrides: Any) -> dbanon.Report:
        """``dbanon.anonymize`` with defaults for what a test does not care about."""
        arguments: dict[str, Any] = {"table": "people", "output": "release.people", "k": 3}
        database = overrides.pop("database", self.url)
        return dbanon.anonymize(database, **(arguments | overrides))


def inserts(table: str, rows: Sequence[Sequence[Any]]) -> list[str]:
    """INSERT statements of at most 500 rows."""
    return [
        f"INSERT INTO {table} VALUES "
        + ", ".join(
            "(" + ", ".join(literal(value) for value in row) + ")"
            for row in rows[start : start + 500]
        )
        for start in range(0, len(rows), 500)
    ]


class DuckdbDatabase(Database):
    name = "duckdb"
    types: ClassVar[Mapping[str, str]] = {
        "text": "VARCHAR",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "DOUBLE",
        "decimal": "DECIMAL(10,2)",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
    }

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"duckdb:///{path}"
        with kept_duckdb.connection_to(path):
            pass

    def execute(self, *statements: str) -> None:
        with kept_duckdb.connection_to(self.path) as connection:
            for statement in statements:
                connection.execute(statement)

    def load(self, table: str, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> None:
        row_list = list(rows)
        if len(row_list) < MANY:
            super().load(table, columns, row_list)
            return
        super().load(table, columns, [])
        by_column = enumerate(zip(*row_list, strict=True))
        texts = {str(index): list(map(plain_text, values)) for index, values in by_column}
        with kept_duckdb.connection_to(self.path) as connection:
            connection.register("given", pa.table(texts))
            connection.execute(f"INSERT INTO {self.relation(table)} FROM given")
            connection.unregister("given")

    def rows(self, sql: str) -> Rows:
        with kept_duckdb.connection_to(self.path) as connection:
            return connection.execute(sql).fetchall()

    def ledger_rows(self, table: str) -> Rows:
        # Without pytz the client has no type for TIMESTAMP WITH TIME ZONE.
        return self.rows(
            f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM {self.ledger(table)} ORDER BY 1, 2"
        )

    def relations(self) -> set[tuple[str, str]]:
        return set(
            self.rows(
                "SELECT schema_name, table_name FROM duckdb_tables() UNION ALL"
                " SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal UNION ALL"
                " SELECT schema_name, '' FROM duckdb_schemas()"
                " WHERE database_name = current_database()"
            )
        )


class SqliteDatabase(Database):
    name = "sqlite"
    types: ClassVar[Mapping[str, str]] = {
        "text": "TEXT",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "REAL",
        "decimal": "DECIMAL(10,2)",
        "date": "DATE",
        "timestamp": "TIMESTAMP",
    }

    def __init__(self, path: Path) -> None:
        self.path = path
        self.url = f"sqlite:///{path}"
        sqlite3.connect(path).close()

    def execute(self, *statements: str) -> None:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    def rows(self, sql: str) -> Rows:
        with closing(sqlite3.connect(self.path)) as connection:
            return connection.execute(sql).fetchall()

    def relations(self) -> set[tuple[str, str]]:
        return {
            ("", name)
            for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type <> 'index'")
        }

    def relation(self, name: str) -> str:
        return quote(name.replace(".", "_"))

    def make_schema(self, name: str) -> None:
        """A schema is a prefix here."""


class PostgresqlDatabase(Database):
    name = "postgresql"
    types: ClassVar[Mapping[str, str]] = {
        "text": "text",
        "integer": "integer",
        "bigint": "bigint",
        "double": "double precision",
        "decimal": "numeric(10,2)",
        "date": "date",
        "timestamp": "timestamp",
    }

    def __init__(self, url: str) -> None:
        self.url = url

    def clear(self) -> None:
        """Drop everything that is not the system's."""
        self.execute(
            *(
                f"DROP {kind} {quote(name)} CASCADE"
                for kind, query in (
                    ("EXTENSION", "SELECT extname FROM pg_extension WHERE extname <> 'plpgsql'"),
                    (
                        "SCHEMA",
                        "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'"
                        " AND nspname <> 'information_schema'",
                    ),
                )
                for (name,) in self.rows(query)
            ),
            "CREATE SCHEMA public",
            "GRANT USAGE ON SCHEMA public TO PUBLIC",
        )

    def connect(self, url: str | None = None) -> psycopg.Connection[Any]:
        return psycopg.connect(conninfo(url or self.url), autocommit=True)

    def execute(self, *statements: str) -> None:
        with pooled(conninfo(self.url)) as connection:
            for statement in statements:
                connection.execute(statement)  # type: ignore[call-overload]

    def rows(self, sql: str) -> Rows:
        with pooled(conninfo(self.url)) as connection:
            rows: Rows = connection.execute(sql).fetchall()  # type: ignore[call-overload]
            return rows

    def relations(self) -> set[tuple[str, str]]:
        return set(
            self.rows(
                "SELECT CASE WHEN n.nspname LIKE 'pg_temp%' THEN 'pg_temp' ELSE n.nspname END,"
                " c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')"
                " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')"
                " UNION ALL SELECT nspname, '' FROM pg_namespace WHERE nspname NOT LIKE 'pg_t%'"
            )
        )


class MariadbDatabase(Database):
    name = "mariadb"
    types: ClassVar[Mapping[str, str]] = {
        "text": "varchar(200)",
        "integer": "int",
        "bigint": "bigint",
        "double": "double",
        "decimal": "decimal(10,2)",
        "date": "date",
        "timestamp": "datetime(6)",
    }

    def __init__(self, server: MariadbServer) -> None:
        self.server = server
        self.url = server.url("app")

    def clear(self) -> None:
        """Drop everything that is not the system's."""
        drops = (f"DROP DATABASE {quote(name)}" for name in self.server.schemas())
        # The usual collation of servers: 'a', 'A' and 'ä' are equal.
        self.server.execute(
            *drops, "CREATE DATABASE app CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database="app")

    def rows(self, sql: str) -> Rows:
        return self.server.execute(sql, database="app")

    def reader_rows(self, sql: str) -> Rows:
        with closing(self.server.connect("app")) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT @@sql_mode = @@GLOBAL.sql_mode, @@sql_mode LIKE '%ANSI_QUOTES%'")
            assert cursor.fetchall() == ((1, 0),)
            cursor.execute(sql)
            return list(cursor.fetchall())

    def relations(self) -> set[tuple[str, str]]:
        return set(
            self.rows(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema"
                " NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')"
                " UNION ALL SELECT schema_name, '' FROM information_schema.schemata"
            )
        )

    def state(self) -> tuple[Any, ...]:
        # The ledger is created before a release is written, and stays: it records refusals.
        ledger_tables = {
            "publication",
            "lock_secret",
            "run",
            "release_column",
            "hierarchy",
            "hierarchy_node",
            "chain",
            "chain_cell",
            "chain_definition",
            "chain_member",
            "chain_release",
            "chain_waiting",
            "budget",
            "spending",
            "release",
            "release_internal",
            "release_person",
            "rule",
            "",
        }
        relations = self.relations()
        releases = self.ledger_rows("release") if ("dbanon", "release") in relations else []
        return {
            relation
            for relation in relations
            if relation[0] != "dbanon" or relation[1] not in ledger_tables
        }, releases


def make_ledger_older(database: Database) -> None:
    """Make the ledger as version 0.1.0 had it."""
    chains = (
        "chain_release",
        "chain_waiting",
        "chain_member",
        "chain_cell",
        "chain_definition",
        "chain",
    )
    newer = {
        "release": (
            "relation_oid",
            "output_oid",
            "digest",
            "evaluation",
            "chain_id",
            "chain_sequence",
            "epsilon",
            "neighbours",
            "budget",
            "request",
            "delta",
            "rho",
            "owner_oid",
            "publisher_oid",
            "ledger_oid",
            "source_oid",
            "source_owner_oid",
            "person_salt",
        ),
        "run": ("job", "source_types", "fingerprint", "source_counts"),
    }
    unused = "BYTEA" if database.name == "postgresql" else "BLOB"
    database.execute(
        *(
            f"DROP TABLE {database.ledger(table)}"
            for table in (
                *chains,
                "budget",
                "spending",
                "rule",
                "release_person",
                "release_internal",
            )
        ),
        *(
            f"ALTER TABLE {database.ledger(table)} DROP COLUMN {name}"
            for table, names in newer.items()
            for name in names
        ),
        *(
            f"ALTER TABLE {database.ledger('release')} ADD COLUMN {name} {unused}"
            for name in ("class_signature", "entity_hash")
        ),
    )
    if database.name != "duckdb":
        database.execute(f"UPDATE {database.ledger('alembic_version')} SET version_num = '0002'")
