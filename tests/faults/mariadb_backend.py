"""The campaign's view of a MariaDB server."""

from __future__ import annotations

import time

from dbanon.run.open import open_store
from tests.faults.backends import Backend, Rows, Snapshot
from tests.faults.tables import literal, quote
from tests.mariadb_server import MariadbServer, digest_of

_SYSTEM = "('mysql', 'information_schema', 'performance_schema', 'sys')"


class MariadbBackend(Backend):
    """All databases of a server; they are dropped when the object is created and closed."""

    kind = "mariadb"

    def __init__(self, server: MariadbServer) -> None:
        self.server = server
        self.close()
        # The common default, in which 'a', 'A' and 'ä' are equal.
        server.execute("CREATE DATABASE app CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
        self.url = server.url("app")

    def execute(self, *statements: str) -> None:
        self.server.execute(*statements, database="app")

    def rows(self, sql: str) -> Rows:
        return self.server.execute(sql, database="app")

    def text(self, column: str) -> str:
        return f"CAST({column} AS CHAR)"

    def columns(self, schema: str, name: str) -> list[tuple[str, str]]:
        return self.rows(
            "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema ="
            f" {literal(schema)} AND BINARY table_name = {literal(name)} ORDER BY ordinal_position"
        )

    def snapshot(self) -> Snapshot:
        tables = self.rows(
            "SELECT table_schema, table_name, concat_ws(' ', table_type, engine, table_comment)"
            f" FROM information_schema.tables WHERE table_schema NOT IN {_SYSTEM}"
        )
        relations = {(schema, name): definition for schema, name, definition in tables}
        catalog_objects = self.rows(
            "SELECT 'schema', schema_name, '' FROM information_schema.schemata WHERE schema_name"
            f" NOT IN {_SYSTEM} UNION ALL SELECT 'column', concat(table_schema, '.', table_name),"
            " concat(column_name, ' ', column_type) FROM information_schema.columns WHERE"
            f" table_schema NOT IN {_SYSTEM}"
        )
        contents = {}
        for name_parts in relations:
            rows = sorted(map(repr, self.rows(f"SELECT * FROM {self.relation(*name_parts)}")))
            contents[name_parts] = (str(len(rows)), digest_of(rows))
        transactions = self.rows(
            "SELECT concat('session ', command) FROM information_schema.processlist WHERE id <>"
            " connection_id() AND user = 'root'"
        )
        return Snapshot(
            relations,
            frozenset(catalog_objects),
            contents,
            tuple(transaction for (transaction,) in transactions),
        )

    def settle(self) -> None:
        """Wait until there are no other connections; only then can the next writer clean up."""
        deadline = time.monotonic() + 60
        while self.rows(
            "SELECT 1 FROM information_schema.processlist WHERE id <> connection_id()"
            " AND user = 'root'"
        ):
            if time.monotonic() > deadline:
                raise TimeoutError("the server keeps a session whose client is gone")
            time.sleep(0.02)
        with open_store(self.url).session(write=True):
            pass

    def sessions(self) -> list[int]:
        """Identifiers of the other connections."""
        return [
            number
            for (number,) in self.rows(
                "SELECT id FROM information_schema.processlist WHERE id <> connection_id()"
                " AND user = 'root'"
            )
        ]

    def close(self) -> None:
        self.server.execute(*(f"DROP DATABASE {quote(schema)}" for schema in self.server.schemas()))
