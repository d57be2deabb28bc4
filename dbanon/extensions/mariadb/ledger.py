"""The ledger of a MariaDB server: a database whose tables are created and migrated one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypedDict

from dbanon.errors import LedgerNotTrusted, sql_for_hint
from dbanon.extensions.mariadb.dialect import TEXT_OPTIONS, quote_dotted
from dbanon.ledger.tables import INTERNAL_TABLE, LEDGER_SCHEMA, LedgerRow, ledger_ddl
from dbanon.sessions.base import ExistingRelation
from dbanon.sessions.connection import Connection
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import RelationName

# Ledger table of planned publications and their outcome.
PUBLICATION_TABLE = "publication"
# Ledger table of the secret that lock names are derived from: anyone who knows a lock's name can
# take the lock.
SECRET_TABLE = "lock_secret"


class UnpublishedEntry(TypedDict):
    """What the ledger will record of a release, as rows by ledger column.

    Parameters
    ----------
    columns : a row for each column of the release.
    """

    row: LedgerRow
    columns: list[LedgerRow]
    run: LedgerRow


class MariadbLedger(Ledger):
    """The ledger of a MariaDB server.

    Parameters
    ----------
    make_database : creates the database (schema) of a relation, unless it exists.
    insert_encrypted : inserts a key (a UUID) and a text into a table, without showing the text to
        any log.
    keep_entry : keeps the ledger entry of the unpublished release, to be written after publication.
    """

    column_types: ClassVar[Mapping[str, str]] = {
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

    def __init__(
        self,
        connection: Connection,
        find_existing: Callable[[RelationName], ExistingRelation | None],
        *,
        make_database: Callable[[RelationName], None],
        insert_encrypted: Callable[[RelationName, str, str], None],
        keep_entry: Callable[[UnpublishedEntry], None],
    ) -> None:
        super().__init__(connection, find_existing)
        self._make_database = make_database
        self._insert_encrypted, self._keep_entry = insert_encrypted, keep_entry

    def table(self, name: str) -> RelationName:
        return RelationName(LEDGER_SCHEMA, name)

    def ensure_current(self) -> None:
        existing_columns: dict[str, list[str]] = {}
        for table, column in self._connection.rows(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = ?",
            (LEDGER_SCHEMA,),
        ):
            existing_columns.setdefault(table, []).append(column)
        changes = ledger_ddl(self.column_types, self.table, existing_columns)
        if PUBLICATION_TABLE not in existing_columns:
            changes.append(_publication_ddl(self.table(PUBLICATION_TABLE)))
        secret_table = self.table(SECRET_TABLE)
        if SECRET_TABLE not in existing_columns:
            changes.append(
                f"CREATE TABLE IF NOT EXISTS {secret_table.quoted}"
                " (id INT NOT NULL PRIMARY KEY, secret VARCHAR(64) NOT NULL)"
            )
        if not changes:
            return
        # The empty name stands for no table: only its database is created.
        self._make_database(self.table(""))
        for statement in changes:
            creates_table = statement.startswith("CREATE TABLE")
            options = f" ENGINE=InnoDB {TEXT_OPTIONS}" if creates_table else ""
            self._connection.run(statement + options)

    def update_oids(self) -> None:
        """Do nothing: MariaDB has no relation ids that a ledger entry could refer to."""

    def require_rights(self) -> None:
        """Do nothing: ``must_create_schema`` checks the rights on the ledger, too."""

    def require_trusted(self) -> None:
        triggers = self._connection.rows(
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

    def record_release_as_owner(
        self,
        row: Mapping[str, object],
        columns: Sequence[Mapping[str, object]],
        run: Mapping[str, object],
    ) -> str | None:
        """Keep the ledger entry in the unpublished release, to be written after publication."""
        # No log may contain the exact figures (loss, evaluation and certificate). So they are not
        # part of the entry, which is sent as plain text, but are sent encrypted now.
        exact_figures = row.get("internal")
        row = {name: value for name, value in row.items() if name != "internal"}
        if exact_figures is not None:
            # If the release is not published, the publication deletes these figures.
            self._insert_encrypted(
                self.table(INTERNAL_TABLE), str(row["release_id"]), str(exact_figures)
            )
        self._keep_entry({"row": dict(row), "columns": [*map(dict, columns)], "run": dict(run)})
        return str(row["created_at"])

    def to_timestamp(self, text: str) -> str:
        # The ledger stores times as text; see ``column_types``.
        return text


def _publication_ddl(name: RelationName) -> str:
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
