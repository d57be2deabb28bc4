"""Execute SQL inside the server process, through SPI, in the caller's transaction.

Values that no log may contain are passed to statements as texts, through the memory of the process
(``given``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import TYPE_CHECKING

from dbanon.data.types import SqlRow
from dbanon.hierarchy.edges import with_pulses
from dbanon.sessions.names import RelationName, quote_list, to_sql_text
from dbanon.stores.postgresql import catalog
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.errors import translate_spi_errors
from dbanon.stores.postgresql.given import bind_parameters, provide_texts, provided_text_sql

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython, PlPythonResult, PlPythonRow

# Results with at most this many rows are converted without a check whether the query was cancelled.
_ROWS_PER_CANCEL_CHECK = 100


class PlpyConnection(PostgresqlConnection):
    """Executes SQL in the caller's transaction, through SPI.

    Parameters
    ----------
    plpy : the module that PL/Python provides.
    """

    def __init__(self, plpy: PlPython) -> None:
        super().__init__()
        self.plpy = plpy

    def run(self, sql: str, parameters: Sequence[object] = ()) -> None:
        self.execute(*bind_parameters(sql, parameters))

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        return self._rows(sql, parameters, cache_plan=False)

    def look_up(self, sql: str, parameters: Sequence[object] = ()) -> list[SqlRow]:
        # The same few queries of the catalog run in every call, so their plans are worth keeping.
        return self._rows(sql, parameters, cache_plan=True)

    def _rows(self, sql: str, parameters: Sequence[object], cache_plan: bool) -> list[SqlRow]:
        # SPI returns dictionaries, which drop duplicate column names; JSON text keeps them.
        text, values = bind_parameters(sql, parameters)
        query = f"SELECT row_to_json(q)::text AS row_json FROM ({text}) AS q"
        result = self.execute(query, values, cache_plan)
        records: Iterable[PlPythonRow] = result
        if len(result) > _ROWS_PER_CANCEL_CHECK:
            # This yields the same records, and checks for a cancel every few rows.
            records = with_pulses(result, self._check_for_cancel)
        return [_ROW_DECODER.decode(row["row_json"]) for row in records]

    def _check_for_cancel(self) -> None:
        """Run a statement, which fails if the query was cancelled.

        The server does not check this while Python code runs.
        """
        with translate_spi_errors():
            self.plpy.execute("SELECT 1")

    def insert_rows(
        self, relation: RelationName, columns: Sequence[str], rows: Sequence[Sequence[object]]
    ) -> None:
        typed_columns = self.rows(catalog.COLUMN_TYPES, (relation.quoted,))
        column_types: dict[str, str] = dict(typed_columns)
        names = [f"c{i}" for i in range(len(columns))]
        values = ", ".join(
            f"v.{name}::{column_types[column]}" for name, column in zip(names, columns, strict=True)
        )
        texts = ", ".join(provided_text_sql(i, "text[]") for i in range(len(columns)))
        self.execute(
            f"INSERT INTO {relation.quoted} ({quote_list(columns)})"
            f" SELECT {values} FROM unnest({texts}) AS v({', '.join(names)})",
            [
                to_sql_text([None if row[i] is None else to_sql_text(row[i]) for row in rows])
                for i in range(len(columns))
            ],
        )

    def execute(
        self, sql: str, values: Sequence[str] = (), cache_plan: bool = False
    ) -> PlPythonResult:
        """Execute one statement; returns the result of SPI.

        Parameters
        ----------
        values : the texts that ``provided_text_sql`` refers to by index.
        cache_plan : whether to keep the plan for later calls in this backend.
        """
        self.report(sql)
        with translate_spi_errors(), provide_texts(values):
            return self.plpy.execute(_prepare_cached(self.plpy.prepare, sql) if cache_plan else sql)

    def fetch_records(self, query: str, rows_per_fetch: int) -> Iterator[PlPythonRow]:
        """Yield the rows of a query as dictionaries, from column name to value."""
        with translate_spi_errors():
            cursor = self.plpy.cursor(query)
            while records := cursor.fetch(rows_per_fetch):
                yield from records
            # An open cursor would keep its tables from being dropped.
            cursor.close()

    def savepoint(self) -> AbstractContextManager[object]:
        return self.plpy.subtransaction()


@lru_cache(maxsize=64)
def _prepare_cached(prepare: Callable[[str], object], sql: str) -> object:
    """Cache the plan of a statement; the server replans it when its relations change."""
    return prepare(sql)


def _tuple_of_values(pairs: list[tuple[str, object]]) -> SqlRow:
    """Convert a JSON object, as pairs of key and value, to its values."""
    return tuple(value for _, value in pairs)


# To build a decoder takes longer than to decode a short row.
_ROW_DECODER = json.JSONDecoder(object_pairs_hook=_tuple_of_values)
