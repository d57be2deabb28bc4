"""The session of SQL functions: in the server process, through SPI, in the caller's transaction.

At READ COMMITTED, the default of psql and pg_cron, each statement of a function has a new snapshot.
So the first statement copies the needed columns, in record order, into a temporary table, which no
other session can change. Later statements read the copy and identify its rows by ctid.

The *locator* of a source has the SQL that identifies its rows: by row address (ctid), by an integer
column, or by their number in a *key map*, a staging table that numbers all other keys.

Values that no log may contain are passed to statements as texts, through the memory of the process
(``given``).

This module never commits. Settings come from the SET clauses of the calling SQL function, and end
with the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakMethod

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.data.types import SqlRow
from dbanon.errors import OutputExists
from dbanon.recoding import ReleasedColumn
from dbanon.sessions import statements
from dbanon.sessions.base import Locator, Relation
from dbanon.sessions.names import RelationName, array_text, literal, quote, quote_list
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import arrays, packed_rows
from dbanon.stores.postgresql import dialect as postgresql_dialect
from dbanon.stores.postgresql.backend_catalog import PlpyCatalog
from dbanon.stores.postgresql.backend_connection import PlpyConnection
from dbanon.stores.postgresql.backend_ledger import PlpyLedger
from dbanon.stores.postgresql.errors import translate_spi_errors
from dbanon.stores.postgresql.given import provided_text_sql
from dbanon.stores.postgresql.publication import PlpyPublication
from dbanon.stores.postgresql.session import PostgresqlSession
from dbanon.stores.postgresql.settings import lock_milliseconds

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython

# Maximum number of rows or classes that are passed to one statement in an array.
_ELEMENTS_PER_ARRAY = 65_536
# The temporary table with the source's rows, which all statements but the first read.
SOURCE_COPY = RelationName("pg_temp", "dbanon_source")
# Settings to copy rows in the order of a query: no parallel workers.
_QUERY_ORDER_SETTINGS = ("max_parallel_workers_per_gather = 0",)
# Settings to copy rows in the order of their addresses: a sequential scan from the first page.
_ADDRESS_ORDER_SETTINGS = (
    *_QUERY_ORDER_SETTINGS,
    "synchronize_seqscans = off",
    "enable_indexscan = off",
    "enable_indexonlyscan = off",
    "enable_bitmapscan = off",
    "enable_seqscan = on",
)


class PlpySession(PostgresqlSession):
    """The caller's transaction, through SPI.

    Parameters
    ----------
    plpy : the module that PL/Python provides.
    oid : oid of the source, from the caller's ``regclass``; None if there is no source.
    """

    connection: PlpyConnection
    catalog: PlpyCatalog

    def __init__(self, plpy: PlPython, oid: int | None = None) -> None:
        connection = PlpyConnection(plpy)
        catalog = PlpyCatalog(connection, oid)
        super().__init__(
            connection,
            catalog=catalog,
            publication=PlpyPublication(
                connection, catalog.list_columns, WeakMethod(self.drop_staging)
            ),
            ledger=PlpyLedger(connection, catalog.find_existing),
        )
        # SQL that selects rows of the copied source, with a leading AND; empty for all.
        self._and_condition = ""

    # -- source -----------------------------------------------------------------------------------

    def pin(self, source: Relation, columns: Sequence[str]) -> Relation:
        # The copy has the rows in record order, so that its row addresses replace the key of the
        # source.
        self.require_no_staging()
        self._n_pages, self._n_rows = copy_source(
            self, source, columns, lambda sql: int(self.connection.execute(sql).nrows())
        )
        # The columns of the key, unless it is a row address, or an integer column that the database
        # keeps unique.
        key_columns = (
            source.required_locator.key_map_columns or source.required_locator.columns_to_check
        )
        source = replace(source, copy=SOURCE_COPY)
        if key_columns:
            self._require_unique_keys(source, key_columns)
        # ``stage_labels`` numbers the rows of the copy that were read as records: those that are
        # not withheld for a NULL.
        self._and_condition = source.and_not_null_condition
        return replace(source, estimated_rows=self._n_rows, locator=Locator(("s.ctid",), ("tid",)))

    def check_keys(self, source: Relation) -> None:
        """Check that the key of a source, from ``with_row_locator``, is unique and never NULL."""
        self._require_unique_keys(
            source,
            source.required_locator.key_map_columns or source.required_locator.columns_to_check,
        )

    def require_no_staging(self) -> None:
        """Check that the caller's session has no temporary tables named like staging tables."""
        if staging := self._existing_staging():
            raise OutputExists(
                "This session has a temporary relation whose name starts with dbanon_.",
                hint=f"Drop or rename pg_temp.{quote(staging[0])}: dbanon stages rows under this"
                " name.",
            )

    def read_chunks(
        self, source: Relation, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        key_types = source.required_locator.types
        pages_per_chunk = max(chunk_rows * self._n_pages // max(self._n_rows, 1), 1)
        # Most tables have no NULLs, so records only get a mask of their NULLs from the first chunk
        # with a NULL on. Without masks, the query leaves out rows with a NULL: their bytes are
        # missing.
        has_mask = False
        record_bytes = packed_rows.unmasked_record_bytes(key_types, attributes)
        plan = self._prepare_chunk_query(source, attributes, has_mask=False)
        for page in range(0, self._n_pages, pages_per_chunk):
            address_range = [f"({page},0)", f"({page + pages_per_chunk},0)"]
            buffer, n_rows = self._fetch_records_between(plan, address_range)
            if not has_mask and len(buffer) != n_rows * record_bytes:
                has_mask = True
                plan = self._prepare_chunk_query(source, attributes, has_mask=True)
                buffer, n_rows = self._fetch_records_between(plan, address_range)
            if n_rows:
                yield packed_rows.unpack(buffer, key_types, attributes, has_mask=has_mask)

    def _prepare_chunk_query(
        self, source: Relation, attributes: Sequence[Attribute], *, has_mask: bool
    ) -> object:
        """Prepare the query for the records between two addresses."""
        locator = source.required_locator
        record = packed_rows.packed_record(
            locator.expressions, locator.types, attributes, has_mask=has_mask
        )
        joins = self.dialect.value_joins(attributes)
        query = packed_rows.select_address_range(
            source.relation_to_read, record, ("$1", "$2"), joins, source.and_not_null_condition
        )
        with translate_spi_errors():
            return self.connection.plpy.prepare(query, ["text", "text"])

    def _fetch_records_between(self, plan: object, address_range: list[str]) -> tuple[bytes, int]:
        """Return the bytes of the records between two addresses, and the number of rows."""
        with translate_spi_errors():
            [record] = self.connection.plpy.execute(plan, address_range)
        return record["string_agg"] or b"", record["count"]

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        rows = (tuple(row.values()) for row in self.connection.fetch_records(query, chunk_rows))
        while chunk := list(islice(rows, chunk_rows)):
            yield np.array(chunk, np.float64)

    # -- staging ----------------------------------------------------------------------------------

    def stage_labels(
        self, microdata: Microdata, partition: Partition, types: Sequence[str]
    ) -> None:
        """Stage the class of each released record, unless this partition is staged already.

        Row addresses are not sent: the copy is scanned in order, and its i-th row gets the i-th
        element of an array of classes, -1 for suppressed records.
        """
        if self._staged_partition is partition:
            return
        self.unstage_labels()
        self._staged_partition = partition
        n = microdata.n_records
        # The random class number of each record. The label -1 of suppressed records selects the
        # last element, which is -1, too.
        classes = np.append(self.class_numbers(partition), np.int32(-1))[partition.labels]
        # The released rows are sorted by class and position. So these positions, which are unique
        # among all rows, put the rows of each class in random order.
        positions = self.draw_positions(partition, records=None)
        table = quote(statements.LABELS)
        self.run(
            statements.create_staging(
                statements.LABELS,
                [("key0", "tid"), ("class", "integer"), ("position", "integer")],
                self.dialect.staging_suffix,
            )
        )
        # Texts 0 and 1 are the range of addresses, 2 and 3 the arrays of classes and positions.
        # Scalar subqueries decode the arrays once instead of once per row.
        query = (
            f"INSERT INTO {table} SELECT l.key0, l.class, l.position FROM (SELECT s.ctid AS key0,"
            f" {provided_text_sql(2, 'integer[]')}[s.n] AS class,"
            f" {provided_text_sql(3, 'integer[]')}[s.n] AS position FROM"
            f" (SELECT s.ctid, row_number() OVER () AS n FROM ONLY {SOURCE_COPY.quoted} AS s"
            f" WHERE s.ctid >= {provided_text_sql(0, 'tid')}"
            f" AND s.ctid <= {provided_text_sql(1, 'tid')}"
            f"{self._and_condition}) AS s) AS l"
            " WHERE l.class >= 0"
        )
        keys = microdata.keys[:, 0]
        for start in range(0, n, _ELEMENTS_PER_ARRAY):
            stop = min(start + _ELEMENTS_PER_ARRAY, n)
            address_range = (_address_text(keys[start]), _address_text(keys[stop - 1]))
            array_texts = [array_text(numbers[start:stop]) for numbers in (classes, positions)]
            self.connection.execute(query, (*address_range, *array_texts))
        self.run(f"ANALYZE {table}")

    def load_arrays(self, release_arrays: arrays.ReleaseArrays) -> None:
        # Nothing is staged: ``run_with_arrays`` passes the arrays to the statement as texts.
        self._arrays = release_arrays

    def array_sql(self, index: int, column: arrays.ArrayColumn) -> str:
        return provided_text_sql(index, column.sql_type)

    def run_with_arrays(self, sql: str) -> None:
        assert self._arrays is not None
        self.connection.execute(sql, [_array_text(column) for column in self._arrays.columns])

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        staging_columns = postgresql_dialect.staged_columns(columns)
        table = quote(statements.CLASSES)
        self.run(
            statements.create_staging(
                statements.CLASSES,
                [
                    ("class", "integer"),
                    *((name, sql_type) for name, sql_type, _ in staging_columns),
                ],
                self.dialect.staging_suffix,
            )
        )
        value_arrays = ", ".join(
            provided_text_sql(i, f"{sql_type}[]")
            for i, (_, sql_type, _) in enumerate(staging_columns)
        )
        values = quote_list((name for name, _, _ in staging_columns), "v.")
        names = quote_list([*(name for name, _, _ in staging_columns), "ordinal"])
        for start in range(0, n_classes, _ELEMENTS_PER_ARRAY):
            stop = start + _ELEMENTS_PER_ARRAY
            self.connection.execute(
                f"INSERT INTO {table} SELECT {start} + v.ordinal::integer - 1, {values}"
                f" FROM unnest({value_arrays}) WITH ORDINALITY AS v({names})",
                [array_text(column[start:stop]) for _, _, column in staging_columns],
            )
        self.run(f"ANALYZE {table}")

    def drop_staging(self) -> None:
        """Drop the staging tables, so that another call in this transaction can create them.

        ``RELEASE_PERSONS`` is kept: the ledger records its persons later, after the release.
        """
        names = [name for name in self._existing_staging() if name != statements.RELEASE_PERSONS]
        self.run(f"DROP TABLE {quote_list(names, 'pg_temp.')}")
        self._staged_partition = self._class_numbers = self._arrays = None

    def _existing_staging(self) -> list[str]:
        names = ", ".join(map(literal, (SOURCE_COPY.name, *self.staging_tables)))
        return [
            name
            for (name,) in self.rows(
                "SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema()"
                f" AND relname IN ({names})"
            )
        ]

    # Not needed here: rows never leave the database, ``stage_labels`` stages labels itself, and SQL
    # functions make no releases of chains.

    def load_labels(self, *_: object) -> None:
        raise NotImplementedError

    def read_rows(self, *_: object) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        raise NotImplementedError

    def load_rows(self, *_: object) -> None:
        raise NotImplementedError


def limit_locks(plpy: PlPython) -> str:
    """Limit this transaction's lock timeout to ``settings.LOCK_SECONDS``.

    Returns the former timeout, as text with its unit.
    """
    [row] = plpy.execute("SELECT current_setting('lock_timeout') AS lock_timeout")
    limit_ms = lock_milliseconds(row["lock_timeout"])
    plpy.execute(f"SELECT set_config('lock_timeout', '{limit_ms}', true)")
    return str(row["lock_timeout"])


def _array_text(column: arrays.ArrayColumn) -> str:
    """Return an array as text that casts to its SQL type."""
    return column.as_json() if column.element_type == "jsonb" else array_text(column.values)


def _address_text(key: np.int64) -> str:
    """Return the row address that a key encodes, as text that casts to ``tid``."""
    return f"({int(key) >> 16},{int(key) & 0xFFFF})"


def copy_source(
    session: Session, source: Relation, columns: Sequence[str], run: Callable[[str], int]
) -> tuple[int, int]:
    """Copy these columns and the key of a source, from ``with_row_locator``, in record order.

    Returns the numbers of pages and rows of the copy.

    Parameters
    ----------
    run : executes a statement and returns the number of affected rows.
    """
    locator = source.required_locator
    if locator.key_map_columns:
        sort_keys = [
            session.dialect.sort_key(source.attribute(key)) for key in locator.key_map_columns
        ]
    else:
        sort_keys = list(locator.expressions)
    is_in_address_order = locator.expressions == ("s.ctid",)
    order = "" if is_in_address_order else f" ORDER BY {', '.join(sort_keys)}"
    key_columns = locator.key_map_columns or locator.columns_to_check
    copied_columns = quote_list(dict.fromkeys([*columns, *key_columns]), "s.")
    former_settings = _change_settings(
        session, _ADDRESS_ORDER_SETTINGS if is_in_address_order else _QUERY_ORDER_SETTINGS
    )
    n_rows = run(
        f"CREATE TEMPORARY TABLE {quote(SOURCE_COPY.name)} ON COMMIT DROP AS"
        f" SELECT {copied_columns} FROM {source.name.quoted} AS s{order}"
    )
    _change_settings(session, former_settings)
    [(n_pages,)] = session.rows(
        f"SELECT pg_relation_size({literal(SOURCE_COPY.quoted)}::regclass)"
        " / current_setting('block_size')::integer"
    )
    return int(n_pages), n_rows


def _change_settings(session: Session, settings: Iterable[str]) -> list[str]:
    """Change settings ("name = value") for this transaction, and return the former ones."""
    pairs = [setting.split(" = ") for setting in settings]
    # Expressions are evaluated from left to right, so each setting is read before it changes.
    expression = "current_setting(?), set_config(?, ?, true)"
    [values] = session.rows(
        f"SELECT {', '.join([expression] * len(pairs))}",
        [parameter for name, value in pairs for parameter in (name, name, value)],
    )
    former_values = values[::2]
    return [f"{name} = {value}" for (name, _), value in zip(pairs, former_values, strict=True)]
