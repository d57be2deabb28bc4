"""Statements on MariaDB, and the records of persons.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pymysql.cursors import SSCursor

from dbanon.errors import (
    BudgetsNotHere,
    ChainsNotHere,
    DbanonError,
    PseudonymsNotHere,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.catalog import MariadbCatalog
from dbanon.extensions.mariadb.errors import translate_errors
from dbanon.extensions.mariadb.publication import MariadbPublication
from dbanon.extensions.mariadb.tags import MariadbPersonTags
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql
from dbanon.sessions.connection import Connection
from dbanon.sessions.interface import Dialect
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import (
    quote,
)
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.session import Session

if TYPE_CHECKING:
    import pymysql

# Persons per row of the ledger table ``release_person``.
_PERSONS_PER_ROW = 32_768


class MariadbPersonRecords(PersonRecords):
    """The records of a MariaDB database, which the server itself packs and writes.

    Parameters
    ----------
    ledger : names the table of the records.
    """

    def __init__(self, connection: Connection, ledger: Ledger) -> None:
        super().__init__(connection)
        self._ledger = ledger

    def record_in_database(self, release_id: str) -> bool:
        # The server copies the persons from a staging table: values sent by a client would appear
        # in its general log. A packed person has 12 bytes, so the limit suffices for a row.
        self._connection.run(f"SET SESSION group_concat_max_len = {16 * _PERSONS_PER_ROW}")
        table = self._ledger.table("release_person")
        self._connection.run(
            f"INSERT INTO {table.quoted} (release_id, part, persons)"
            f" SELECT ?, n.part + 1, group_concat(n.packed ORDER BY n.packed SEPARATOR '')"
            " FROM (SELECT concat(t.person, unhex(lpad(hex(t.class), 8, '0'))) AS packed,"
            f" (row_number() OVER (ORDER BY t.person) - 1) DIV {_PERSONS_PER_ROW} AS part"
            f" FROM {quote(statements.RELEASE_PERSONS)} AS t) AS n GROUP BY n.part",
            (release_id,),
        )
        return True


class MariadbStatementSession(Session):
    """Session methods that execute statements."""

    dialect: ClassVar[Dialect] = mariadb_dialect

    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {
        "chains": ChainsNotHere,
        "budgets": BudgetsNotHere,
        "pseudonyms": PseudonymsNotHere,
    }

    def __init__(
        self, connection: pymysql.connections.Connection[Any], on_sql: OnSql | None = None
    ) -> None:
        super().__init__(on_sql)
        self.connection = connection
        self._catalog = MariadbCatalog(self)
        self._publication = MariadbPublication(
            self, self._catalog.has_schema, self._catalog.find_granted_rights
        )

    @property
    def catalog(self) -> MariadbCatalog:
        """The catalog of the server."""
        return self._catalog

    @property
    def publication(self) -> MariadbPublication:
        """The tables that this session writes and publishes."""
        return self._publication

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        if sql.startswith('DROP TABLE "') and '"."' not in sql:
            # A name without a schema is a temporary table. Without TEMPORARY, the statement would
            # commit the transaction.
            sql = sql.replace("DROP TABLE", "DROP TEMPORARY TABLE", 1)
        self.rows(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.report_sql(sql)
        with translate_errors(), closing(self.connection.cursor()) as cursor:
            cursor.execute(
                mariadb_dialect.to_mariadb(sql, has_parameters=bool(parameters)),
                tuple(parameters) or None,
            )
            return list(cursor.fetchall())

    def _fetch_chunks(self, sql: str, chunk_rows: int) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in chunks, without loading all of them into memory."""
        self.report_sql(sql)
        with translate_errors(), closing(self.connection.cursor(SSCursor)) as cursor:
            cursor.execute(mariadb_dialect.to_mariadb(sql, has_parameters=False))
            while rows := cursor.fetchmany(chunk_rows):
                yield list(rows)

    @property
    def persons(self) -> PersonRecords:
        """The ledger's records of the persons in releases."""
        return MariadbPersonRecords(self, self.ledger)

    @property
    def tags(self) -> MariadbPersonTags:
        """The salted hashes of person identifiers."""
        return MariadbPersonTags(self, self._staged_key)

    @property
    def chain_dialect(self) -> NoReturn:
        raise ChainsNotHere()
