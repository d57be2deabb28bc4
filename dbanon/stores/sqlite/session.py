"""One transaction on SQLite, through Python's own client.

SQLite has no schemas, so a schema becomes a name prefix (``release.people`` is the table
``release_people``). It does not enforce types either, so values are checked against the declared
type.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError

from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import (
    DatabaseBusy,
    DatabaseFailure,
    DatabaseUnreachable,
    DbanonError,
    DiskFull,
    InsufficientRights,
    MixedTypes,
    OutputExists,
    TableNotFound,
    nearest_names,
)
from dbanon.job.job import DEFAULT_CHUNK_ROWS
from dbanon.ledger.tables import ledger_is_current
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import (
    MARK,
    ExistingRelation,
    Locator,
    OnSql,
    Output,
    Relation,
    address_hidden,
    choose_key,
    is_integer_key,
    key_required,
    labelled_rows,
    locate_by_key,
)
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.storable_rows import storable_rows
from dbanon.stores.sqlite import dialect as types
from dbanon.stores.sqlite.dialect import SqliteStagingSession
from dbanon.stores.sqlite.display import display_key

if TYPE_CHECKING:
    from sqlalchemy import Connection


@contextmanager
def translated() -> Iterator[None]:
    """Raise SQLite's errors as dbanon's own, without their text, which may quote a value."""
    try:
        yield
    except DbanonError:
        raise
    except (sqlite3.Error, DBAPIError) as caught:
        error = caught.orig if isinstance(caught, DBAPIError) else caught
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise DatabaseBusy(
                detail=name, hint="End the other connection's transaction, then run it again."
            ) from None
        if name.startswith("SQLITE_FULL"):
            raise DiskFull(
                "The disk of the database, or of SQLite's temporary files, is full; nothing was"
                " published.",
                detail=name,
                hint="Make room on the disk of the database's file, and in SQLITE_TMPDIR"
                " (/var/tmp if"
                " it is not set), and run it again.",
            ) from None
        if name.startswith("SQLITE_INTERRUPT"):
            # Only the progress handler interrupts, when a signal handler raised in it.
            raise KeyboardInterrupt from None
        if name.startswith(("SQLITE_READONLY", "SQLITE_PERM")):
            raise InsufficientRights("The database file cannot be written.", detail=name) from None
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_NOTADB")):
            raise DatabaseUnreachable("The database cannot be opened.", detail=name) from None
        if "already" in str(error):
            raise OutputExists(detail=name) from None
        raise DatabaseFailure("The database refused a statement.", detail=name) from None


_ROWIDS = ("rowid", "_rowid_", "oid")


class SqliteSession(SqliteStagingSession):
    """One transaction on SQLite."""

    dialect: ClassVar[Dialect] = types
    ledger_types: ClassVar[Mapping[str, str]] = {
        "uuid": "TEXT",
        "timestamp": "TEXT",
        "text": "TEXT",
        "json": "TEXT",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "REAL",
        "bytes": "BLOB",
        "amount": "NUMERIC",
    }
    digest_way = types.DIGEST_WAY
    display_key = staticmethod(display_key)
    # SQLite renames such columns to column1 and so on.
    unsupported_in_views = frozenset(["true", "false"])

    def __init__(self, connection: Connection, on_sql: OnSql | None = None) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        super().__init__(driver, on_sql)
        self._connection = connection

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.note(sql)
        with translated():
            self._driver.execute(sql, tuple(parameters)).close()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.note(sql)
        with translated():
            return self._driver.execute(sql, tuple(parameters)).fetchall()

    def _pieces(self, sql: str, chunk_rows: int) -> Iterator[list[tuple[Any, ...]]]:
        self.note(sql)
        with translated():
            cursor = self._driver.execute(sql)
            while rows := cursor.fetchmany(chunk_rows):
                yield rows

    # -- source -----------------------------------------------------------------------------------

    def find_source(self, name: RelationName) -> Relation:
        resolved = self.resolve_output(name)
        matches = self.rows(
            "SELECT type FROM sqlite_master WHERE name = ? AND type IN ('table', 'view')",
            (resolved.name,),
        )
        if not matches:
            table_names = self.rows(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            )
            raise TableNotFound(
                f"There is no table {resolved}.",
                hint=nearest_names(resolved.name, [n for (n,) in table_names]),
            )
        attributes = tuple(
            types.attribute(column, declared, not not_null)
            for _, column, declared, not_null, *_ in self._columns(resolved)
        )
        return Relation(resolved, Schema(attributes), matches[0][0])

    def _columns(self, name: RelationName) -> list[tuple[Any, ...]]:
        return self.rows("SELECT * FROM pragma_table_xinfo(?)", (name.name,))

    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        columns = self._columns(source.name)
        if not key:
            # Column 5 is the position in the primary key, from 1; 0 for other columns.
            key = [row[1] for row in sorted(columns, key=lambda row: row[5]) if row[5]]
        attributes = choose_key(source, key)
        if attributes:
            holds_integers = is_integer_key(attributes) and self._holds_integers(
                source, attributes[0]
            )
            return locate_by_key(
                source, attributes, "INTEGER", as_it_is=holds_integers, unchecked=True
            )
        names = {row[1].lower() for row in columns}
        free = [name for name in _ROWIDS if name not in names]
        if source.kind == "table" and free:
            return replace(source, locator=Locator((f"s.{free[0]}",), ("INTEGER",)))
        raise key_required(source)

    def _holds_integers(self, source: Relation, attribute: Attribute) -> bool:
        """Return False if a column declared as integer holds other values."""
        column = f"s.{quote(attribute.name)}"
        query = f"SELECT 1 FROM {source.name.quoted} AS s WHERE typeof({column}) <> 'integer'"
        return not self.rows(f"{query} LIMIT 1")

    def unique_columns(self, source: Relation) -> frozenset[str]:
        primary = [row[1] for row in self._columns(source.name) if row[5]]
        unique = self.rows(
            "SELECT min(i.name) FROM pragma_index_list(?) AS l, pragma_index_info(l.name) AS i"
            ' WHERE l."unique" AND NOT l.partial GROUP BY l.name HAVING count(*) = 1',
            (source.name.name,),
        )
        single_primary = primary if len(primary) == 1 else []
        return frozenset([*single_primary, *(name for (name,) in unique if name is not None)])

    def sort_key(self, attribute: Attribute) -> str:
        return f"{super().sort_key(attribute)} COLLATE BINARY"

    def text_of(self, attribute: Attribute) -> str:
        return f"CAST(s.{quote(attribute.name)} AS TEXT) COLLATE BINARY"

    def sample(self, relation: RelationName, share: float) -> str:
        n_buckets = 2**32
        # Alias the table, not a subquery in FROM, which might rename columns.
        threshold = round(share * n_buckets)
        return f"{relation.quoted} AS s WHERE (random() & {n_buckets - 1}) < {threshold}"

    def inspect(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        checked = [a for a in attributes if a.kind in types.STORED_AS and not a.nominal]
        if not checked:
            return tuple(attributes)
        checks = [
            f"sum(s.{quote(a.name)} IS NOT NULL AND ({types.is_well_formed(a)}) IS NOT 1),"
            f" {types.extent(a)}"
            for a in checked
        ]
        results = self.rows(
            f"SELECT {', '.join(checks)} FROM {source.relation.quoted} AS s{source.where}"
        )[0]
        inspected = {}
        for attribute, n_invalid, extent in zip(checked, results[::2], results[1::2], strict=True):
            if n_invalid:
                raise MixedTypes(
                    f'Column "{attribute.name}" of {source.name} declares {attribute.sql_type}, but'
                    f" {n_invalid} of its values are not {types.expected(attribute)}.",
                    hint="Correct these values, or cast the column in a view.",
                )
            inspected[attribute.name] = types.with_extent(attribute, extent)
        return tuple(inspected.get(a.name, a) for a in attributes)

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.required_locator
        parts = [
            *locator.expressions,
            *(
                f"d{i}.code" if a.kind.is_coded else f"s.{quote(a.name)}"
                for i, a in enumerate(attributes)
            ),
        ]
        joins = self.value_joins(attributes)
        query = f"SELECT {', '.join(parts)} FROM {source.from_clause}{joins}{source.where}"
        for rows in self._pieces(query, chunk_rows):
            keys, *columns = zip(*rows, strict=True)
            yield types.chunk(np.array(keys, np.int64).reshape(-1, 1), columns, attributes)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        parts = [*source.required_locator.expressions, *(f"s.{quote(name)}" for name in columns)]
        query = f"SELECT {', '.join(parts)} FROM {source.from_clause}{source.where}"
        for rows in self._pieces(query, chunk_rows):
            keys = np.array([row[0] for row in rows], np.int64).reshape(-1, 1)
            yield keys, [row[1:] for row in rows]

    def bound_of(self, sql_type: str) -> str:
        # Column affinity converts the value; CAST to DATE would turn it into a number.
        return "?"

    def texts(self, values: Sequence[str]) -> tuple[str, Any]:
        return "SELECT value FROM json_each(?)", json.dumps(values)

    def figures(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        return (np.array(rows, np.float64) for rows in self._pieces(query, chunk_rows))

    # -- staging ----------------------------------------------------------------------------------

    def _load(
        self, table: str, columns: Sequence[tuple[str, str]], rows: Iterable[tuple[Any, ...]]
    ) -> None:
        self.run(statements.create_staging(table, columns))
        marks = ", ".join("?" for _ in columns)
        insert = f"INSERT INTO {quote(table)} VALUES ({marks})"
        self.note(insert)
        with translated():
            self._driver.executemany(insert, rows).close()

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        # The join looks labels up one by one, so a primary key pays off.
        columns = [("key0", "INTEGER PRIMARY KEY"), ("class", "INTEGER"), ("position", "INTEGER")]
        order = np.argsort(keys[:, 0])
        lists = (values[order].tolist() for values in (keys[:, 0], classes, positions))
        self._load(statements.LABELS, columns, zip(*lists, strict=True))

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        class_columns = [("class", "INTEGER PRIMARY KEY")]
        lists: list[Sequence[Any]] = [range(n_classes)]
        for position, column in enumerate(columns):
            class_columns.append((statements.value_column(position), ""))
            lists.append(types.stored_values(column))
        self._load(statements.CLASSES, class_columns, zip(*lists, strict=True))

    def load_rows(self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]) -> None:
        columns = [("class", "INTEGER"), ("position", "INTEGER")]
        columns += [(statements.kept_column(i), self.type_of(a)) for i, a in enumerate(attributes)]
        rows = storable_rows(attributes, labelled_rows(pieces), types.storable)
        self._load(statements.ROWS, columns, rows)

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        self.run(statements.create_staging(statements.FILE_ROWS, columns))
        schema = Schema(tuple(types.attribute(*column, True) for column in columns))
        relation = Relation(replace(name, staged=statements.FILE_ROWS), schema, "table")
        column_names = {column.lower() for column, _ in columns}
        free = [address for address in _ROWIDS if address not in column_names]
        if not free:
            raise address_hidden(relation, _ROWIDS[0])
        return replace(relation, locator=Locator((f"s.{free[0]}",), ("INTEGER",)))

    def fill_file_rows(
        self, attributes: Sequence[Attribute], pieces: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        marks = ", ".join("?" for _ in attributes)
        insert = f"INSERT INTO {quote(statements.FILE_ROWS)} VALUES ({marks})"
        self.note(insert)
        rows = (row for piece in pieces for row in piece)
        with translated():
            storable = storable_rows(attributes, rows, types.storable, first=0)
            self._driver.executemany(insert, storable).close()

    def exact_totals(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        attributes: Sequence[Attribute],
    ) -> dict[str, NDArray[np.object_]]:
        """As in every session, except that decimals are summed here with unlimited precision."""
        self.stage_labels(microdata, partition, source.required_locator.types)
        others = [a for a in attributes if a.kind is not Kind.DECIMAL]
        totals_by_column = (
            super().exact_totals(source, microdata, partition, others) if others else {}
        )
        labels = np.argsort(self.class_numbers(partition))
        for attribute in (a for a in attributes if a.kind is Kind.DECIMAL):
            unit = 10**attribute.scale
            totals = np.zeros(partition.n_classes, object)
            query = statements.class_values(
                f"s.{quote(attribute.name)}",
                source.from_clause,
                source.required_locator.expressions,
            )
            for rows in self._pieces(query, DEFAULT_CHUNK_ROWS):
                for number, value in rows:
                    totals[labels[number]] += round(Fraction(value or 0) * unit)
            totals_by_column[attribute.name] = totals
        return totals_by_column

    # -- output -----------------------------------------------------------------------------------

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None or name.schema == "main":
            return RelationName(None, name.name)
        return RelationName(None, f"{name.schema}_{name.name}")

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        matches = self.rows(
            "SELECT type, sql FROM sqlite_master"
            " WHERE name = ? COLLATE NOCASE AND type IN ('table', 'view')",
            (name.name,),
        )
        if not matches:
            return None
        kind, sql = matches[0]
        mark = re.search(rf"/\* ({MARK}[0-9a-f-]{{36}}) \*/", sql or "")
        return ExistingRelation(kind, mark.group(1) if mark else None)

    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        # SQLite keeps the text of CREATE, so the release mark is a comment in it.
        body = ", ".join(f"{quote(name)} {self.declared(kind)}" for name, kind in columns)
        self.run(f"CREATE TABLE {output.written.quoted} (/* {MARK}{release_id} */ {body})")

    def declared(self, sql_type: str) -> str:
        return types.declared(sql_type)

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        if output.kind == "view":
            if output.replaces:
                self.run(f"DROP VIEW {output.name.quoted}")
            # Put the mark before the column names, which could look like a mark.
            self.run(
                f"CREATE VIEW {output.name.quoted} /* {MARK}{output.release_id} */"
                f" ({quote_list(columns)}) AS"
                f" SELECT {quote_list(columns)} FROM {output.relation.quoted}"
            )
            return
        if output.replaces:
            self.drop_table(output.name)
        # Otherwise views that still refer to the dropped table would make RENAME fail.
        self.run("PRAGMA legacy_alter_table = ON")
        try:
            self.run(f"ALTER TABLE {output.written.quoted} RENAME TO {quote(output.name.name)}")
        finally:
            self.run("PRAGMA legacy_alter_table = OFF")

    def digest(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        names = quote_list((column.name for column in columns), "s.")
        query = f"SELECT {names} FROM {relation.quoted} AS s"
        self.note(query)
        with translated():
            return types.digest_of_query(self._driver, query, salt)

    def digest_probe(self) -> str:
        return types.digest_probe()

    # -- ledger -----------------------------------------------------------------------------------

    def ensure_ledger(self) -> None:
        if ledger_is_current(self):
            return
        from dbanon.ledger.migrate import create_or_migrate

        with translated():
            create_or_migrate(self, self._connection)

    def ledger_name(self, table: str) -> RelationName:
        return RelationName(None, f"dbanon_{table}")

    def timestamp(self, text: str) -> Any:
        return text
