"""Relations, rights and ledger tables on MariaDB.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from pymysql.cursors import SSCursor

from dbanon.data.schema import Schema
from dbanon.errors import (
    BudgetsNotHere,
    ChainsNotHere,
    DbanonError,
    InsufficientRights,
    InvalidName,
    PseudonymsNotHere,
    TableNotFound,
    nearest_names,
    sql_for_hint,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.dialect import quote_account, quote_dotted, quote_name
from dbanon.extensions.mariadb.errors import translate_errors
from dbanon.extensions.mariadb.foreign import require_no_foreign_code
from dbanon.extensions.mariadb.publication import MariadbPublication
from dbanon.extensions.mariadb.tags import MariadbPersonTags
from dbanon.ledger.tables import LEDGER_SCHEMA
from dbanon.sessions import statements
from dbanon.sessions.base import ExistingRelation, OnSql, Relation
from dbanon.sessions.connection import Connection
from dbanon.sessions.interface import Dialect
from dbanon.sessions.ledger import Ledger
from dbanon.sessions.names import (
    RelationName,
    quote,
    quote_list,
    schema_not_found,
)
from dbanon.sessions.person_records import PersonRecords
from dbanon.sessions.session import Session

if TYPE_CHECKING:
    import pymysql

# Persons per row of the ledger table ``release_person``.
_PERSONS_PER_ROW = 32_768
# Rights that a run needs on the output's schema, and rights that it needs on the ledger's schema.
_OUTPUT_RIGHTS = ("CREATE", "INSERT", "ALTER", "DROP", "SELECT")
_LEDGER_RIGHTS = (*_OUTPUT_RIGHTS, "UPDATE", "DELETE")


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


class MariadbCatalog(Session):
    """Session methods that read and change the server's catalog."""

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
        self._publication = MariadbPublication(self, self.has_schema, self._granted_rights)

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

    def _look_up(self, name: RelationName) -> list[tuple[Any, ...]]:
        """Return type, engine and comment of a relation, as a single row; none if it is missing.

        Names are compared by their bytes, even if the server ignores case.
        """
        return self.rows(
            "SELECT table_type, engine, table_comment FROM information_schema.tables"
            " WHERE table_schema = ? AND table_name = ?"
            " AND BINARY table_schema = ? AND BINARY table_name = ?",
            (name.schema, name.name) * 2,
        )

    def find_source(self, name: RelationName) -> Relation:
        full_name = self.resolve_output(name)
        rows = self._look_up(full_name)
        if not rows:
            tables = self.rows(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = ?",
                (full_name.schema,),
            )
            raise TableNotFound(
                f"There is no table {full_name}, or this account may not see it.",
                hint=nearest_names(full_name.name, [table for (table,) in tables]),
            )
        columns = self.rows(
            "SELECT column_name, column_type, is_nullable, coalesce(numeric_precision, 0),"
            " coalesce(numeric_scale, 0), coalesce(datetime_precision, 0)"
            " FROM information_schema.columns WHERE table_schema = ? AND table_name = ?"
            " AND BINARY table_name = ? ORDER BY ordinal_position",
            (full_name.schema, full_name.name, full_name.name),
        )
        attributes = tuple(
            mariadb_dialect.build_attribute(
                column,
                declared_type,
                nullable=is_nullable == "YES",
                precision=int(precision),
                scale=int(scale),
                second_digits=int(second_digits),
            )
            for column, declared_type, is_nullable, precision, scale, second_digits in columns
        )
        [(table_type, _, _)] = rows
        kind = "view" if "VIEW" in table_type else "table"
        if kind == "view":
            require_no_foreign_code(self.rows, full_name, self.current_user())
        return Relation(full_name, Schema(attributes), kind)

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        rows = self.rows(
            "SELECT column_name, column_comment FROM information_schema.columns"
            " WHERE column_comment <> '' AND table_schema = ? AND table_name = ?"
            " AND BINARY table_name = ?",
            (source.schema, source.name, source.name),
        )
        return dict(rows)

    def _unique_indexes(self, name: RelationName) -> dict[str, list[str]]:
        """Return the columns of each unique index, in index order, by the name of the index."""
        indexes: dict[str, list[str]] = {}
        for index, column in self.rows(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE non_unique = 0"
            " AND table_schema = ? AND table_name = ? AND BINARY table_name = ?"
            " ORDER BY index_name, seq_in_index",
            (name.schema, name.name, name.name),
        ):
            indexes.setdefault(index, []).append(column)
        return indexes

    def _primary_key(self, name: RelationName) -> tuple[str, ...]:
        return tuple(self._unique_indexes(name).get("PRIMARY", ()))

    def unique_columns(self, source: Relation) -> frozenset[str]:
        indexes = self._unique_indexes(source.name).values()
        return frozenset(columns[0] for columns in indexes if len(columns) == 1)

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is not None:
            return name
        [(schema,)] = self.rows("SELECT database()")
        if schema is None:
            raise InvalidName(
                f"{name} has no schema, and the URL names no database.",
                hint="Write mysql+pymysql://user@host/database.",
            )
        return RelationName(schema, name.name)

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        [(ignores_case,)] = self.rows("SELECT @@lower_case_table_names")
        if ignores_case:
            return str(name).lower() == str(other_name).lower()
        return name == other_name

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        rows = self._look_up(name)
        if not rows:
            return None
        [(table_type, _, comment)] = rows
        if "VIEW" in table_type:
            # Views have no comments.
            return ExistingRelation("view", mark=None)
        return ExistingRelation("table", mark=comment or None)

    def has_schema(self, name: str) -> bool:
        """Return True if a schema with exactly this name exists."""
        return bool(
            self.rows(
                "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?"
                " AND BINARY schema_name = ?",
                (name, name),
            )
        )

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        try:
            self.rows(f"SELECT {quote_list(columns) or '1'} FROM {source.name.quoted} LIMIT 0")
        except InsufficientRights as error:
            missing_grants = self.find_missing_read_grants(source.name, columns)
            raise InsufficientRights(
                f"This account may not read all columns of {source.name} that the run needs.",
                detail=error.detail,
                hint=f"{sql_for_hint('; '.join(missing_grants))}.",
            ) from None

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        try:
            self.rows(f"SELECT {quote_list(columns) or '1'} FROM {name.quoted} LIMIT 0")
        except InsufficientRights:
            # A run also reads the primary key, to identify the rows.
            needed_columns = dict.fromkeys((*columns, *self._primary_key(name)))
            column_list = ", ".join(map(quote_name, needed_columns))
            account = quote_account(self.current_user())
            return [f"GRANT SELECT ({column_list}) ON {quote_dotted(name)} TO {account}"]
        return []

    def must_create_schema(self, name: RelationName, *, strict: bool = False) -> bool:
        grants = self.find_missing_write_grants(name)
        if grants:
            raise InsufficientRights(
                f"This account may not release into {name.schema}.",
                hint=f"{sql_for_hint('; '.join(grants))}.",
            )
        schema = str(name.schema)
        if self.has_schema(schema):
            return False
        if strict:
            raise schema_not_found(schema, sql_for_hint(f"CREATE DATABASE {quote_name(schema)}"))
        return True

    def find_missing_write_grants(self, output: RelationName) -> list[str]:
        grants = []
        [(database,)] = self.rows("SELECT database()")
        required_by_schema = {str(output.schema): _OUTPUT_RIGHTS, LEDGER_SCHEMA: _LEDGER_RIGHTS}
        # Staging tables are temporary tables in the database of the URL.
        required_by_schema[database] = (
            *required_by_schema.get(database, ()),
            "CREATE TEMPORARY TABLES",
        )
        for schema, required_rights in required_by_schema.items():
            granted_rights = self._granted_rights(schema)
            missing_rights = [right for right in required_rights if right not in granted_rights]
            if missing_rights:
                grants.append(
                    f"GRANT {', '.join(missing_rights)} ON {quote_name(schema)}.* TO"
                    f" {quote_account(self.current_user())}"
                )
        return grants

    def _granted_rights(self, schema: str) -> frozenset[str]:
        """Return the rights of this account and its roles on the server and on a whole schema."""
        # A grant names schemas by a pattern, so the pattern is the right side of LIKE.
        return frozenset(
            privilege
            for (privilege,) in self.rows(
                "SELECT privilege_type FROM information_schema.user_privileges UNION"
                " SELECT privilege_type FROM information_schema.schema_privileges"
                " WHERE ? LIKE table_schema",
                (schema,),
            )
        )

    def current_user(self) -> str | None:
        return str(self.rows("SELECT current_user()")[0][0])

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
