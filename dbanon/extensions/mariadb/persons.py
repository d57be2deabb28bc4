"""The ledger's records of the persons in releases, on MariaDB."""

from __future__ import annotations

from dbanon.sessions import statements
from dbanon.sessions.connection import Connection
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import quote
from dbanon.sessions.person_records import PersonRecords

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
