"""Statements and ledger tables on MariaDB.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar

from pymysql.cursors import SSCursor

from dbanon.errors import (
    BudgetsNotHere,
    ChainsNotHere,
    DbanonError,
    LedgerNotTrusted,
    PseudonymsNotHere,
    ReadOnly,
    sql_for_hint,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.dialect import quote_dotted
from dbanon.extensions.mariadb.errors import READ_ONLY_HINT, translate_errors
from dbanon.extensions.mariadb.relation_catalog import MariadbCatalog
from dbanon.ledger.tables import LEDGER_SCHEMA, ledger_ddl
from dbanon.sessions import statements
from dbanon.sessions.base import OnSql
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import (
    RelationName,
    quote,
)
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.session import Session

if TYPE_CHECKING:
    from pymysql.connections import Connection

# Ledger table of planned publications and their outcome.
PUBLICATION_TABLE = "publication"
# Ledger table of the secret that lock names are derived from: anyone who knows a lock's name can
# take the lock.
SECRET_TABLE = "lock_secret"
# Persons per row of the ledger table ``release_person``.
_PERSONS_PER_ROW = 32_768


def publication_ddl(name: RelationName) -> str:
    """Return the statement that creates the ledger table of publications.

    The column ``entry`` has the future ledger entry as JSON, from the recount of the release until
    it is known whether the release was published.
    """
    return (
        f"CREATE TABLE {name.quoted} (release_id VARCHAR(36) NOT NULL PRIMARY KEY,"
        " output_schema VARCHAR(64) NOT NULL, output_name VARCHAR(64) NOT NULL,"
        " state VARCHAR(10) NOT NULL, planned_at VARCHAR(40) NOT NULL, settled_at VARCHAR(40),"
        " entry LONGTEXT)"
    )


class MariadbPersonRecords(PersonRecords):
    """The records of a MariaDB database, which the server itself packs and writes."""

    def record_in_database(self, release_id: str) -> bool:
        # The server copies the persons from a staging table: values sent by a client would appear
        # in its general log. A packed person has 12 bytes, so the limit suffices for a row.
        self._session.run(f"SET SESSION group_concat_max_len = {16 * _PERSONS_PER_ROW}")
        table = self._session.ledger_name("release_person")
        self._session.run(
            f"INSERT INTO {table.quoted} (release_id, part, persons)"
            f" SELECT ?, n.part + 1, group_concat(n.packed ORDER BY n.packed SEPARATOR '')"
            " FROM (SELECT concat(t.person, unhex(lpad(hex(t.class), 8, '0'))) AS packed,"
            f" (row_number() OVER (ORDER BY t.person) - 1) DIV {_PERSONS_PER_ROW} AS part"
            f" FROM {quote(statements.RELEASE_PERSONS)} AS t) AS n GROUP BY n.part",
            (release_id,),
        )
        return True


class MariadbStatementSession(Session):
    """Session methods that execute statements and keep the ledger."""

    dialect: ClassVar[Dialect] = mariadb_dialect
    ledger_types: ClassVar[Mapping[str, str]] = {
        "uuid": "VARCHAR(36)",
        "timestamp": "VARCHAR(40)",
        "text": "LONGTEXT",
        "json": "LONGTEXT",
        "integer": "INT",
        "bigint": "BIGINT",
        "double": "DOUBLE",
        "bytes": "LONGBLOB",
        "amount": "DECIMAL(30,18)",
        # Types of columns that belong to a key of a ledger table: here the server needs a length.
        "text key": "VARCHAR(190)",
        "bytes key": "VARBINARY(64)",
    }

    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {
        "chains": ChainsNotHere,
        "budgets": BudgetsNotHere,
        "pseudonyms": PseudonymsNotHere,
    }

    def __init__(self, connection: Connection[Any], on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self.connection = connection
        self._catalog = MariadbCatalog(self)

    @property
    def catalog(self) -> MariadbCatalog:
        """The catalog of the server."""
        return self._catalog

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

    def make_database(self, name: RelationName) -> None:
        """Create the database (schema) of a relation, unless it exists."""
        if not self.catalog.has_schema(str(name.schema)):
            self.run(f"CREATE DATABASE IF NOT EXISTS {quote(str(name.schema))}")

    def lock_output(self, name: RelationName) -> None:
        # ``publication.plan`` takes the lock. Here only check that the session may write.
        [(server_setting, is_transaction_read_only)] = self.rows(
            "SELECT CAST(@@read_only AS CHAR), @@tx_read_only"
        )
        is_server_read_only = str(server_setting) not in ("0", "OFF")
        # Accounts with this right may write even on a read-only server. It is granted for the whole
        # server; the empty name stands for no schema.
        is_exempt = bool(
            {"READ_ONLY ADMIN", "READ ONLY ADMIN"} & self.catalog.find_granted_rights("")
        )
        if is_transaction_read_only or (is_server_read_only and not is_exempt):
            raise ReadOnly(hint=READ_ONLY_HINT)

    def require_ledger_rights(self) -> None:
        """Do nothing: ``catalog.must_create_schema`` checks the rights on the ledger, too."""

    def require_trusted_ledger(self) -> None:
        triggers = self.rows(
            "SELECT event_object_table, trigger_name FROM information_schema.triggers"
            " WHERE event_object_schema = ?",
            (LEDGER_SCHEMA,),
        )
        if triggers:
            table, trigger = triggers[0]
            raise LedgerNotTrusted(
                f"{LEDGER_SCHEMA}.{table} has a trigger, which could read or change its rows.",
                hint="Find out who created it, then run DROP TRIGGER"
                f" {sql_for_hint(quote_dotted(RelationName(LEDGER_SCHEMA, trigger)))}.",
            )

    def ensure_ledger(self) -> None:
        existing_columns: dict[str, list[str]] = {}
        for table, column in self.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?",
            (LEDGER_SCHEMA,),
        ):
            existing_columns.setdefault(table, []).append(column)
        changes = ledger_ddl(self.ledger_types, self.ledger_name, existing_columns)
        if PUBLICATION_TABLE not in existing_columns:
            changes.append(publication_ddl(self.ledger_name(PUBLICATION_TABLE)))
        secret_table = self.ledger_name(SECRET_TABLE)
        if SECRET_TABLE not in existing_columns:
            changes.append(
                f"CREATE TABLE IF NOT EXISTS {secret_table.quoted}"
                " (id INT NOT NULL PRIMARY KEY, secret VARCHAR(64) NOT NULL)"
            )
        if not changes:
            return
        # The empty name stands for no table: only its database is created.
        self.make_database(self.ledger_name(""))
        for statement in changes:
            creates_table = statement.startswith("CREATE TABLE")
            options = f" ENGINE=InnoDB {mariadb_dialect.TEXT_OPTIONS}" if creates_table else ""
            self.run(statement + options)

    def lock_name(self, kind: str, name: str) -> str:
        """Return the name of a server lock; only accounts with access to the ledger can compute it.

        The name is a digest, since the server limits lock names to 64 characters and ignores case.

        Parameters
        ----------
        kind, name : what the lock protects, e.g. ``job`` and the job's name.
        """
        table = self.ledger_name(SECRET_TABLE).quoted
        query = f"SELECT secret FROM {table}"
        if not self.rows(query):
            # IGNORE: if two first runs race, both use the secret that was inserted first. The
            # server generates it, since a secret sent by a client would appear in the general log.
            self.run(f"INSERT IGNORE INTO {table} SELECT 1, hex(random_bytes(32))")
            # Show it to other connections before this one takes a lock.
            self.run("COMMIT")
        [(secret,)] = self.rows(query)
        digest = hashlib.sha256(f"{secret} {kind} {name}".encode()).hexdigest()
        return f"dbanon {digest[:48]}"

    def update_release_oids(self) -> None:
        """Do nothing: MariaDB has no relation ids that a ledger entry could refer to."""

    def ledger_name(self, table: str) -> RelationName:
        return RelationName(LEDGER_SCHEMA, table)

    def timestamp(self, text: str) -> Any:
        # The ledger stores times as text; see ``ledger_types``.
        return text

    def keyed_tag(self, text: str) -> str:
        raise ChainsNotHere()

    def stage_salt(self, salt: bytes) -> None:
        columns = [("salt", "VARCHAR(64)")]
        self.run(statements.create_staging(statements.SALT, columns, self.staging_suffix))
        self.insert_rows(RelationName(None, statements.SALT), ["salt"], [(salt.hex(),)])

    @property
    def persons(self) -> PersonRecords:
        """The ledger's records of the persons in releases."""
        return MariadbPersonRecords(self)

    def salted_hash(self, text: str) -> str:
        digest = f"sha2(concat((SELECT salt FROM {quote(statements.SALT)}), {text}), 256)"
        # The ledger stores 8 bytes per person: 16 hexadecimal digits.
        return f"unhex(left({digest}, 16))"

    def random_order_key(self, alias: str) -> str:
        raise ChainsNotHere()
