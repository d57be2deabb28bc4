"""Sessions on DuckDB, through its own client, with Arrow for large data."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.schema import Attribute, Kind, Schema
from dbanon.errors import UnsupportedType
from dbanon.ledger.tables import LEDGER_SCHEMA, ledger_ddl
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import (
    MARK,
    ExistingRelation,
    Locator,
    OnSql,
    Output,
    Relation,
    choose_key,
    hidden_address_error,
    is_integer_key,
    key_required_error,
    locate_by_key,
    uncopyable_value_error,
)
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.pseudonym_session import INNER_BLOCK, OUTER_BLOCK, SHUFFLE, staged_block
from dbanon.stores.duckdb import dialect as types
from dbanon.stores.duckdb.dialect import column_of, create_view, default_schema, table_of, values_of
from dbanon.stores.duckdb.display import display_key
from dbanon.stores.duckdb.errors import source_not_found, translated
from dbanon.stores.file_session import FileSession

_INCOMING = "dbanon_incoming"


class DuckdbSession(FileSession):
    """One transaction on DuckDB."""

    dialect: ClassVar[Dialect] = types
    digest_method = types.DIGEST_WAY
    display_key = staticmethod(display_key)
    read_only_query = types.READ_ONLY
    temporary = "temp.main"
    ledger_types: ClassVar[Mapping[str, str]] = {
        "uuid": "UUID",
        "timestamp": "TIMESTAMP WITH TIME ZONE",
        "text": "VARCHAR",
        "json": "VARCHAR",
        "integer": "INTEGER",
        "bigint": "BIGINT",
        "double": "DOUBLE",
        "bytes": "BLOB",
        "amount": "DECIMAL(18,9)",
    }

    def __init__(self, connection: duckdb.DuckDBPyConnection, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._connection = connection
        self._is_table = self._shuffles = False
        self._reader: pa.RecordBatchReader | None = None
        self._ledger: RelationName | None = None
        self._attached: tuple[str, frozenset[str]] | None = None
        # Previous values of settings that this session changed, for its store to restore.
        self.settings_before: dict[str, str] = {}

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        self.report_sql(sql)
        with translated():
            self._connection.execute(sql, list(parameters))

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.report_sql(sql)
        with translated():
            return self._connection.execute(sql, list(parameters)).fetchall()

    def _batches(self, sql: str, chunk_rows: int) -> Iterator[pa.RecordBatch]:
        self.report_sql(sql)
        with translated():
            self._reader = self._connection.sql(sql).to_arrow_reader(chunk_rows)
            yield from self._reader

    def stop_reading(self) -> None:
        """Close the current reader, which would keep the file open even after an error."""
        if self._reader is not None:
            self._reader.close()

    # -- source -----------------------------------------------------------------------------------

    def find_source(self, name: RelationName) -> Relation:
        schema = name.schema if name.schema is not None else self._current_schema()
        relations = self.rows(
            "SELECT table_name, 'table', estimated_size FROM duckdb_tables()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            " UNION ALL SELECT view_name, 'view', 0 FROM duckdb_views()"
            " WHERE database_name = current_database() AND schema_name = ? AND view_name = ?",
            (schema, name.name) * 2,
        )
        if not relations:
            raise source_not_found(self.rows, name, schema)
        _, kind, size = relations[0]
        resolved = self._qualified_name(schema, name.name)
        columns = self.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            " ORDER BY column_index",
            (schema, name.name),
        )
        attributes = tuple(
            types.attribute(column, sql_type, nullable or kind == "view")
            for column, sql_type, nullable in columns
        )
        return Relation(resolved, Schema(attributes), kind, int(size or 0))

    def unique_columns(self, source: Relation) -> frozenset[str]:
        keys = self._keys(source, "IN ('PRIMARY KEY', 'UNIQUE')")
        return frozenset(names[0] for names in keys if len(names) == 1)

    def _keys(self, source: Relation, kinds: str) -> list[list[str]]:
        """The columns of each constraint of this kind."""
        rows = self.rows(
            "SELECT constraint_column_names FROM duckdb_constraints()"
            " WHERE database_name = current_database() AND schema_name = ? AND table_name = ?"
            f" AND constraint_type {kinds}",
            (source.name.schema, source.name.name),
        )
        return [names for (names,) in rows]

    def _qualified_name(self, schema: str, name: str) -> RelationName:
        with translated():
            if self._attached is None:
                self._attached = types.catalogs(self._connection)
            return types.qualified_name(self._connection, self._attached, schema, name)

    def _current_schema(self) -> str:
        return str(self.rows("SELECT current_schema()")[0][0])

    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        stated = bool(key)
        self._is_table = source.kind == "table"
        if not stated and self._is_table:
            key = next(iter(self._keys(source, "= 'PRIMARY KEY'")), ())
        attributes = choose_key(source, key)
        if attributes:
            narrow = is_integer_key(attributes) and attributes[0].bits <= 64
            return locate_by_key(
                source, attributes, "BIGINT", is_used_directly=narrow, is_unchecked=stated
            )
        if self._is_table and not any(a.name.lower() == "rowid" for a in source.schema.attributes):
            return replace(source, locator=Locator(("s.rowid",), ("BIGINT",)))
        raise key_required_error(source, hidden="rowid" if self._is_table else None)

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        # Enum values would sort in declared order; text sorts by code point on every database.
        return f"CAST({column} AS VARCHAR) COLLATE C" if attribute.kind is Kind.CATEGORY else column

    def text_of(self, attribute: Attribute) -> str:
        return types.text(attribute)

    def normalized_sql(self, attribute: Attribute, value: str) -> str:
        # replace() does not accept a UUID; casting a VARCHAR would lose its collation.
        if attribute.normalize and attribute.sql_type == "UUID":
            value = f"CAST({value} AS VARCHAR)"
        return super().normalized_sql(attribute, value)

    def sample(self, relation: RelationName, share: float) -> str:
        return f"{relation.quoted} AS s TABLESAMPLE BERNOULLI ({100 * share:.6f} PERCENT)"

    def count_distinct_sql(self, value: str) -> str:
        return f"coalesce(list_unique(list({value})), 0)"  # DISTINCT takes 2 ms a column.

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        parts = [f"{key} AS key{i}" for i, key in enumerate(source.required_locator.expressions)]
        parts += [
            f"{types.number(i, a)} AS {statements.value_column(i)}"
            for i, a in enumerate(attributes)
        ]
        joins = self.value_joins(attributes)
        query = f"SELECT {', '.join(parts)} FROM {source.from_clause}{joins}{source.where_clause}"
        for batch in self._batches(query, chunk_rows):
            yield types.chunk(batch, attributes)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        keys = [f"{key} AS key{i}" for i, key in enumerate(source.required_locator.expressions)]
        for batch in self.read_pieces(source, columns, chunk_rows, keys):
            lists = []
            for name, column in zip(columns, batch.columns[1:], strict=True):
                try:
                    lists.append(column.to_pylist())
                except (pa.ArrowException, ValueError, OverflowError):
                    raise uncopyable_value_error(name) from None
            rows = list(zip(*lists, strict=True)) if lists else [()] * batch.num_rows
            yield values_of(batch.column(0)).astype(np.int64).reshape(-1, 1), rows

    def read_pieces(
        self, source: Relation, columns: Sequence[str], chunk_rows: int, more: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        self._require_microseconds(source, columns)
        parts = [*more, *(types.portable(source.attribute(name)) for name in columns)]
        query = f"SELECT {', '.join(parts)} FROM {source.from_clause}{source.where_clause}"
        return self._batches(query, chunk_rows)

    def _require_microseconds(self, source: Relation, columns: Sequence[str]) -> None:
        """Check that timestamps can be copied in microseconds without loss.

        Raises
        ------
        UnsupportedType : a column has nanoseconds.
        """
        fine = [n for n in columns if source.attribute(n).sql_type == "TIMESTAMP_NS"]
        if not fine:
            return
        moments = (f"epoch_ns(s.{quote(name)})" for name in fine)
        flags = (f"coalesce(bool_or({moment} % 1000 <> 0), false)" for moment in moments)
        query = f"SELECT {', '.join(flags)} FROM {source.from_clause}{source.where_clause}"
        [row] = self.rows(query)
        for name, has_nanoseconds in zip(fine, row, strict=True):
            if has_nanoseconds:
                raise UnsupportedType(
                    f'Column "{name}"'
                    " has nanoseconds, which other databases and files cannot store: they would be"
                    " cut off.",
                    hint="Cast it to TIMESTAMP in a view, and anonymize the view.",
                )

    def texts(self, values: Sequence[str]) -> tuple[str, Any]:
        return "SELECT unnest(CAST(? AS VARCHAR[]))", list(values)

    def figures(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        for batch in self._batches(query, chunk_rows):
            yield np.column_stack([values_of(c.fill_null(types.NAN)) for c in batch.columns])

    # -- staging ----------------------------------------------------------------------------------

    def drop_staging(self) -> None:
        existing = (
            {name for (name,) in self.rows(types.TEMPORARY_TABLES)} if self.stays_open else ()
        )
        for name in sorted({*self.staging_tables}.intersection(existing)):
            self.run(f"DROP TABLE {self.temporary}.{quote(name)}")

    def _load(self, table: str, columns: Sequence[tuple[str, str]], data: pa.Table) -> None:
        self.run(statements.create_staging(table, columns))
        self._append(table, data)

    def _append(self, table: str, data: pa.Table) -> None:
        self._connection.register(_INCOMING, data)
        try:
            self.run(f"INSERT INTO {quote(table)} SELECT * FROM {_INCOMING}")
        finally:
            # Refused in a failed transaction.
            with suppress(duckdb.Error):
                self._connection.unregister(_INCOMING)

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        key_types: Sequence[str],
    ) -> None:
        named = [("key0", key_types[0]), ("class", "INTEGER"), ("position", "INTEGER")]
        arrays = [column_of(a) for a in (keys[:, 0], classes, positions)]
        self._load(statements.LABELS, named, table_of(arrays))

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        named = [("class", "INTEGER")]
        arrays = [column_of(np.arange(n_classes, dtype=np.int32))]
        for position, column in enumerate(columns):
            kind, array = types.staged_values(column)
            named.append((statements.value_column(position), kind))
            arrays.append(array)
        self._load(statements.CLASSES, named, table_of(arrays))

    def load_rows(self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]) -> None:
        named = [("class", "INTEGER"), ("position", "INTEGER")]
        named += [(statements.kept_column(i), self.type_of(a)) for i, a in enumerate(attributes)]
        self.run(statements.create_staging(statements.ROWS, named))
        for classes, positions, rows in pieces:
            lists = list(zip(*rows, strict=True)) if attributes else []
            arrays = [column_of(classes), column_of(positions)]
            for attribute, values in zip(attributes, lists, strict=True):
                try:
                    arrays.append(types.array_of(attribute, list(values)))
                except (pa.ArrowException, OverflowError):
                    raise uncopyable_value_error(attribute.name) from None
            self._append(statements.ROWS, table_of(arrays))

    def create_file_rows(self, name: RelationName, columns: Sequence[tuple[str, str]]) -> Relation:
        # Rows of files stay in memory: spilled rows would remain on disk if the run is killed.
        # DuckDB refuses this on a connection that has spilled already.
        [(directory,)] = self.rows("SELECT system.main.current_setting('temp_directory')")
        with suppress(duckdb.Error):
            self._connection.execute("SET temp_directory = ''")
            self.settings_before["temp_directory"] = str(directory)
        self.run(statements.create_staging(statements.FILE_ROWS, columns))
        column_rows = self.rows(
            "SELECT column_name, data_type, is_nullable FROM duckdb_columns()"
            " WHERE database_name = 'temp' AND table_name = ? ORDER BY column_index",
            (statements.FILE_ROWS,),
        )
        schema = Schema(tuple(types.attribute(*column) for column in column_rows))
        relation = Relation(replace(name, staged=statements.FILE_ROWS), schema, "table")
        if any(column.lower() == "rowid" for column, _ in columns):
            raise hidden_address_error(relation, "rowid")
        self._is_table = True
        return replace(relation, locator=Locator(("s.rowid",), ("BIGINT",)))

    def fill_file_rows(
        self, attributes: Sequence[Attribute], pieces: Iterable[Sequence[tuple[Any, ...]]]
    ) -> None:
        for rows in pieces:
            arrays = []
            for attribute, values in zip(attributes, zip(*rows, strict=True), strict=True):
                try:
                    arrays.append(types.array_of(attribute, list(values)))
                except (pa.ArrowException, OverflowError):
                    raise uncopyable_value_error(attribute.name) from None
            self._append(statements.FILE_ROWS, table_of(arrays))

    # -- output -----------------------------------------------------------------------------------

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        comments = self.rows(
            "SELECT column_name, comment FROM duckdb_columns() WHERE comment IS NOT NULL"
            " AND database_name = current_database() AND schema_name = ? AND table_name = ?",
            (source.schema, source.name),
        )
        return dict(comments)

    def resolve_output(self, name: RelationName) -> RelationName:
        return self._qualified_name(name.schema or self._current_schema(), name.name)

    def has_schema(self, name: RelationName) -> bool:
        return types.has_schema(self.rows, name)

    def create_schema(self, name: RelationName) -> None:
        schema = RelationName(name.catalog, str(name.schema)).quoted
        self.run(f"CREATE SCHEMA IF NOT EXISTS {schema}")

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        relations = self.rows(
            "SELECT 'table', comment FROM duckdb_tables() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?) UNION ALL"
            " SELECT 'view', comment FROM duckdb_views() WHERE database_name = current_database()"
            " AND lower(schema_name) = lower(?) AND lower(view_name) = lower(?)",
            (name.schema, name.name) * 2,
        )
        return ExistingRelation(*relations[0]) if relations else None

    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        body = ", ".join(f"{quote(name)} {sql_type}" for name, sql_type in columns)
        self.run(f"CREATE TABLE {output.staging_name.quoted} ({body})")

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        mark = f"'{MARK}{output.release_id}'"
        if output.kind == "view":
            replaces = output.replaced_kind is not None
            with default_schema(self._connection, output.name):
                self.run(
                    create_view(
                        output.name, quote_list(columns), output.relation, replaces=replaces
                    )
                )
            self.run(f"COMMENT ON VIEW {output.name.quoted} IS {mark}")
        else:
            if output.replaced_kind:
                self.drop_table(output.name)
            self.run(
                f"ALTER TABLE {output.staging_name.quoted} RENAME TO {quote(output.name.name)}"
            )
        self.run(f"COMMENT ON TABLE {output.relation.quoted} IS {mark}")

    def drop_view(self, relation: RelationName) -> None:
        super().drop_view(self.resolve_output(relation))

    def drop_table(self, relation: RelationName) -> None:
        super().drop_table(self.resolve_output(relation))

    def digest(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int
    ) -> tuple[int, int]:
        [(rows, total)] = self.rows(types.digest_statement(relation, columns, salt))
        return int(rows), int(total)

    def digest_probe(self) -> str:
        return str(self.rows(types.DIGEST_PROBE)[0][0])

    def keyed_tag(self, text: str) -> str:
        hashed = f"sha256({staged_block(INNER_BLOCK)} || encode({text}))"
        outer = f"sha256({staged_block(OUTER_BLOCK)} || unhex({hashed}))"
        return f"unhex(substr({outer if self._hashes_twice else hashed}, 1, 32))"

    def salted_hash(self, text: str) -> str:
        return f"unhex(substr(sha256({staged_block(INNER_BLOCK)} || encode({text})), 1, 16))"

    def row_hash(self, relation: RelationName, names: Sequence[str]) -> str | None:
        source = self.find_source(relation)
        columns = [source.attribute(name) for name in names]
        return types.row_hash(columns, secrets.randbits(62) + 1)

    def random_order_key(self, alias: str) -> str:
        # DuckDB's random functions can be controlled with setseed.
        if not self._shuffles:
            self._shuffles = True
            self.run(statements.create_staging(SHUFFLE, [("secret", "BLOB")]))
            secret = [(secrets.token_bytes(32),)]
            self.insert_rows(RelationName(None, SHUFFLE), ["secret"], secret)
        secret_of = f"(SELECT secret FROM {quote(SHUFFLE)})"
        return f"sha256({secret_of} || encode(CAST({alias}.rowid AS VARCHAR)))"

    def ensure_ledger(self) -> None:
        self.make_schema(self.ledger_name(""))
        existing: dict[str, list[str]] = {}
        for table, column in self.rows(
            "SELECT table_name, column_name FROM duckdb_columns()"
            " WHERE database_name = current_database() AND schema_name = ?",
            (LEDGER_SCHEMA,),
        ):
            existing.setdefault(table, []).append(column)
        for statement in ledger_ddl(self.ledger_types, self.ledger_name, existing):
            self.run(statement)

    def ledger_name(self, table: str) -> RelationName:
        if self._ledger is None:
            self._ledger = self._qualified_name(LEDGER_SCHEMA, "")
        return self._ledger.sibling(table)
