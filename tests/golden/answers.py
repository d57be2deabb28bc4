"""The interfaces in a common form: each runs its cases and returns flat plain values."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

import dbanon
from tests.golden import tables
from tests.golden.cases import TREES, Arguments, all_cases
from tests.golden.doors import Answer, answer_of, with_models
from tests.postgres_server import conninfo
from tests.stores.databases import Database, DuckdbDatabase, PostgresqlDatabase, SqliteDatabase

OUTPUT = "release.people"
# Only used by jobs of files; and a copy of the arguments with server-dependent values.
_NOT_COMPARED = ("job", "source_types", "fingerprint", "source_counts", "request")
_LEDGER = ("release", "release_column", "run")


class Door(ABC):
    """An interface with the tables of ``tables``."""

    name: ClassVar[str]
    # Arguments that the interface lacks: cases with them are skipped.
    without: ClassVar[frozenset[str]] = frozenset()

    def cases(self) -> dict[str, Arguments]:
        """The cases that this interface supports."""
        return {
            name: arguments
            for name, arguments in all_cases().items()
            if self.without.isdisjoint(arguments)
        }

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Each case with its result."""
        for name, arguments in self.cases().items():
            yield name, self.answer(arguments)

    @abstractmethod
    def answer(self, arguments: Arguments) -> Answer: ...


def load(database: Database) -> None:
    """Create the tables, and store a hierarchy by name."""
    columns = {name: database.types[kind] for name, kind in tables.COLUMNS.items()}
    database.load("people", columns, tables.rows())
    # Give the first case the same state as the others: a report says if it created the schema.
    database.make_schema("release")
    text = database.types["text"]
    database.load("ref.town", {"child": text, "parent": text}, tables.town_edges())
    dbanon.store_hierarchy(database.url, "education_tree", TREES["education"])


def clear(database: Database) -> None:
    """Drop everything that a case wrote."""
    if isinstance(database, SqliteDatabase):
        for kind in ("view", "table"):
            names = database.rows(
                f"SELECT name FROM sqlite_master WHERE type = '{kind}' AND name LIKE 'release\\_%'"
                " ESCAPE '\\'"
            )
            database.execute(*(f'DROP {kind} "{name}"' for (name,) in names))
    else:
        database.execute("DROP SCHEMA IF EXISTS release CASCADE", "CREATE SCHEMA release")
    database.execute(
        *(f"DELETE FROM {database.ledger(table)}" for table in ledger_tables(database))
    )


def ledger_tables(database: Database) -> list[str]:
    """The existing tables of the ledger, except hierarchies and the revision."""
    relations = {name for _, name in database.relations()}
    prefix = "dbanon_" if isinstance(database, SqliteDatabase) else ""
    return [table for table in _LEDGER if prefix + table in relations]


def columns_of(database: Database, table: str) -> list[str]:
    """The column names of a ledger table."""
    if isinstance(database, SqliteDatabase):
        query = f"SELECT name FROM pragma_table_info('dbanon_{table}') ORDER BY cid"
    else:
        query = (
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'dbanon'"
            f" AND table_name = '{table}' ORDER BY ordinal_position"
        )
    return [name for (name,) in database.rows(query)]


def written(database: Database) -> Answer:
    """The released rows as a multiset, and the ledger's rows by column."""
    rows = database.rows(f"SELECT * FROM {database.relation(OUTPUT)}")
    answer: Answer = {"released": sorted(repr(row) for row in rows)}
    # Identifiers are random: sort releases by the order of their creation.
    releases = database.rows(
        f"SELECT release_id FROM {database.ledger()} ORDER BY CAST(created_at AS VARCHAR)"
    )
    ranks = {str(release): rank for rank, (release,) in enumerate(releases)}
    for table in ledger_tables(database):
        names = columns_of(database, table)
        entries = [dict(zip(names, row, strict=True)) for row in database.ledger_rows(table)]
        entries.sort(
            key=lambda row: (ranks.get(str(row["release_id"]), -1), int(row.get("position") or 0))
        )
        # Only runs of job files use these; test_job_*.py covers them.
        for name in (name for name in names if name not in _NOT_COMPARED):
            answer[f"{table}.{name}"] = [_plain(row[name]) for row in entries]
    return answer


def _plain(value: Any) -> Any:
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except ValueError:
            return value
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    return value if isinstance(value, (int, float, dict, list, type(None))) else str(value)


def report_of(report: dbanon.Report) -> Answer:
    """The report, by field."""
    plain = json.loads(json.dumps(report.to_dict()))
    return {f"report.{name}": value for name, value in plain.items()}


class Client(Door):
    """``dbanon.anonymize`` on a database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    def answer(self, arguments: Arguments) -> Answer:
        def work() -> Answer:
            call = {"table": "people", "output": OUTPUT} | with_models(arguments)
            report = dbanon.anonymize(self.database.url, **call)
            return report_of(report) | written(self.database)

        try:
            return answer_of(work)
        finally:
            clear(self.database)


class Duckdb(Client):
    name = "duckdb"

    def __init__(self, folder: Path) -> None:
        super().__init__(DuckdbDatabase(folder / "golden.duckdb"))
        # Opening a file again takes a tenth of the time while it is open elsewhere.
        self.held = duckdb.connect(str(folder / "golden.duckdb"))
        load(self.database)


class Sqlite(Client):
    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        super().__init__(SqliteDatabase(folder / "golden.db"))
        load(self.database)


class Postgresql(Client):
    name = "postgresql"

    def __init__(self, url: str) -> None:
        super().__init__(PostgresqlDatabase(url))


# Arguments of a method's function; all others are keys of its options.
_ARGUMENTS = ("entity", "keep", "sensitive", "hierarchies", "max_suppression", "nulls", "if_exists")


class Backend:
    """A connection to a database that has the functions, and the notices it received."""

    def __init__(self, url: str) -> None:
        self.notices: list[str] = []
        self.connection: psycopg.Connection[Any] = psycopg.connect(conninfo(url), autocommit=True)
        self.connection.add_notice_handler(
            lambda notice: self.notices.append(f"{notice.severity} {notice.message_primary}")
        )

    def rows(self, query: sql.Composable, values: Sequence[Any]) -> list[Answer]:
        """The rows by column, or the error as plain values."""
        self.notices.clear()
        try:
            done = self.connection.execute(query, values)
        except psycopg.Error as error:
            diagnostics = error.diag
            return [
                {
                    "refused.sqlstate": diagnostics.sqlstate,
                    "refused.message": diagnostics.message_primary,
                    "refused.detail": diagnostics.message_detail,
                    "refused.hint": diagnostics.message_hint,
                }
            ]
        names = [column.name for column in done.description or ()]
        return [dict(zip(names, map(_plain, row), strict=True)) for row in done.fetchall()]

    def close(self) -> None:
        self.connection.close()


class SqlCall(Door):
    """The functions of the methods inside PostgreSQL."""

    name = "sql"
    without = frozenset({"chunk_rows", "table"})

    def __init__(self, url: str) -> None:
        self.database = PostgresqlDatabase(url)
        self.backend = Backend(url)

    def answer(self, case: Arguments) -> Answer:
        arguments = {name: value for name, value in case.items() if name in _ARGUMENTS}
        options = {
            name: value
            for name, value in case.items()
            if name not in (*_ARGUMENTS, "method", "quasi_identifiers", "k", "options")
        } | case.get("options", {})
        call = {
            "quasi_identifiers": case["quasi_identifiers"],
            "k": case["k"],
            "options": Jsonb(options),
        } | {n: Jsonb(v) if n == "hierarchies" else v for n, v in arguments.items()}
        query = sql.SQL("SELECT * FROM dbanon.{}('public.people', 'release.people', {})").format(
            sql.Identifier(case.get("method", "mdav")),
            sql.SQL(", ").join(
                sql.SQL("{} => {}").format(sql.Identifier(name), _placeholder(name))
                for name in call
            ),
        )
        [row] = self.backend.rows(query, list(call.values()))
        answer = {name if "." in name else f"result.{name}": value for name, value in row.items()}
        answer["notices"] = list(self.backend.notices)
        if not any(name.startswith("refused.") for name in answer):
            answer |= written(self.database)
            [summary] = self.backend.rows(sql.SQL("TABLE release.people_summary"), ())
            answer |= {f"summary.{name}": value for name, value in summary.items()}
        clear(self.database)
        return answer


def _placeholder(name: str) -> sql.SQL:
    arrays = ("quasi_identifiers", "keep", "sensitive")
    return sql.SQL("%s::text[]") if name in arrays else sql.SQL("%s")


class Classes(Door):
    """``dbanon.classes``: the class of every row, record by record."""

    name = "classes"
    without = SqlCall.without | {
        *("recoding", "models", "withhold_failing", "intervals", "local_range", "steps"),
        *("guarantee", "output_kind", "if_exists", "max_suppression", "by", "sensitive", "keep"),
    }

    def __init__(self, url: str) -> None:
        self.backend = Backend(url)

    def answer(self, arguments: Arguments) -> Answer:
        main = ("method", "quasi_identifiers", "k", "options")
        options = {n: v for n, v in arguments.items() if n not in main} | arguments.get(
            "options", {}
        )
        rows = self.backend.rows(
            sql.SQL("SELECT * FROM dbanon.classes('public.people', %s, %s::text[], %s, %s)"),
            [
                arguments.get("method", "mdav"),
                arguments["quasi_identifiers"],
                arguments["k"],
                Jsonb(options),
            ],
        )
        if rows and "row_key" not in rows[0]:
            return rows[0]
        # Without a primary key the row address is the key; the table is written only once.
        keys = [json.dumps(row["row_key"]) for row in rows]
        return {"labels": [row["class"] for row in rows], "keys": keys}
