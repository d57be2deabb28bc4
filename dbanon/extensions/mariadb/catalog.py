"""The catalog of a MariaDB server: relations, keys and rights.

Public methods without a docstring override documented ones of ``sessions.catalog.Catalog``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dbanon.data.schema import Schema
from dbanon.data.types import SqlRow
from dbanon.errors import (
    EngineUnsuitable,
    InsufficientRights,
    InvalidName,
    TableNotFound,
    nearest_names,
    sql_for_hint,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.dialect import quote_account, quote_dotted, quote_name
from dbanon.extensions.mariadb.display import expression_as_displayed
from dbanon.extensions.mariadb.foreign import require_no_foreign_code
from dbanon.ledger.tables import LEDGER_SCHEMA
from dbanon.sessions.base import (
    ExistingRelation,
    Locator,
    Relation,
    choose_key,
    key_required_error,
)
from dbanon.sessions.catalog import Catalog
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote_list, schema_not_found

# Rights that a run needs on the output's schema, and rights that it needs on the ledger's schema.
_OUTPUT_RIGHTS = ("CREATE", "INSERT", "ALTER", "DROP", "SELECT")
_LEDGER_RIGHTS = (*_OUTPUT_RIGHTS, "UPDATE", "DELETE")


class MariadbCatalog(Catalog):
    """The catalog of a MariaDB server, which calls a schema a database."""

    expression_as_displayed = staticmethod(expression_as_displayed)

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        # The columns of each source's key, by the source.
        self._keys: dict[RelationName, tuple[str, ...]] = {}

    def find_source(self, name: RelationName) -> Relation:
        full_name = self.resolve_output(name)
        rows = self._look_up(full_name)
        if not rows:
            tables = self._connection.rows(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = ?",
                (full_name.schema,),
            )
            raise TableNotFound(
                f"There is no table {full_name}, or this account may not see it.",
                hint=nearest_names(full_name.name, [table for (table,) in tables]),
            )
        columns = self._connection.rows(
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
            require_no_foreign_code(self._connection.rows, full_name, self.find_current_user())
        return Relation(full_name, Schema(attributes), kind)

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        rows = self._look_up(name)
        if not rows:
            return None
        [(table_type, _, comment)] = rows
        if "VIEW" in table_type:
            # Views have no comments.
            return ExistingRelation("view", mark=None)
        return ExistingRelation("table", mark=comment or None)

    def _look_up(self, name: RelationName) -> list[SqlRow]:
        """Return type, engine and comment of a relation, as a single row; none if it is missing.

        Names are compared by their bytes, even if the server ignores case.
        """
        return self._connection.rows(
            "SELECT table_type, engine, table_comment FROM information_schema.tables"
            " WHERE table_schema = ? AND table_name = ?"
            " AND BINARY table_schema = ? AND BINARY table_name = ?",
            (name.schema, name.name) * 2,
        )

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is not None:
            return name
        [(schema,)] = self._connection.rows("SELECT database()")
        if schema is None:
            raise InvalidName(
                f"{name} has no schema, and the URL names no database.",
                hint="Write mysql+pymysql://user@host/database.",
            )
        return RelationName(schema, name.name)

    def is_same_name(self, name: RelationName, other_name: RelationName) -> bool:
        [(ignores_case,)] = self._connection.rows("SELECT @@lower_case_table_names")
        if ignores_case:
            return str(name).lower() == str(other_name).lower()
        return name == other_name

    def find_unique_columns(self, source: Relation) -> frozenset[str]:
        indexes = self._unique_indexes(source.name).values()
        return frozenset(columns[0] for columns in indexes if len(columns) == 1)

    def _unique_indexes(self, name: RelationName) -> dict[str, list[str]]:
        """Return the columns of each unique index, in index order, by the name of the index."""
        indexes: dict[str, list[str]] = {}
        for index, column in self._connection.rows(
            "SELECT index_name, column_name FROM information_schema.statistics WHERE non_unique = 0"
            " AND table_schema = ? AND table_name = ? AND BINARY table_name = ?"
            " ORDER BY index_name, seq_in_index",
            (name.schema, name.name, name.name),
        ):
            indexes.setdefault(index, []).append(column)
        return indexes

    def _primary_key(self, name: RelationName) -> tuple[str, ...]:
        return tuple(self._unique_indexes(name).get("PRIMARY", ()))

    def with_row_locator(self, source: Relation, key: Sequence[str]) -> Relation:
        [(table_type, engine, _)] = self._look_up(source.name)
        if table_type == "BASE TABLE" and engine != "InnoDB":
            table = sql_for_hint(mariadb_dialect.quote_dotted(source.name))
            raise EngineUnsuitable(
                f"{source.name} uses the storage engine {engine}, whose rows can change while they"
                " are read.",
                hint=f"Run ALTER TABLE {table} ENGINE InnoDB, or anonymize a copy that has this"
                " engine.",
            )
        primary_key = self._primary_key(source.name)
        attributes = choose_key(source, key or primary_key)
        # A key that the job names may have NULLs and duplicates, so reading the source checks it.
        unverified_key = tuple(key) if key and tuple(key) != primary_key else ()
        if not attributes and source.kind != "table":
            raise key_required_error(source)
        names = tuple(attribute.name for attribute in attributes)
        self.require_readable(source, names)
        # ``pin`` numbers the rows of the copy in the order of these columns.
        self._keys[source.name] = names
        # Add 0 so that this is no plain column. For the rows that a job's condition selects, plain
        # columns are read from the source itself, which has no row numbers.
        expression = f"s.{mariadb_dialect.row_number_column(source)} + 0"
        return replace(
            source, locator=Locator((expression,), ("BIGINT",), columns_to_check=unverified_key)
        )

    def key_columns_of(self, source: Relation) -> tuple[str, ...]:
        """Return the key columns of a source that has a locator; empty if it has no key."""
        return self._keys.get(source.name, ())

    def read_column_comments(self, source: RelationName) -> dict[str, str]:
        rows = self._connection.rows(
            "SELECT column_name, column_comment FROM information_schema.columns"
            " WHERE column_comment <> '' AND table_schema = ? AND table_name = ?"
            " AND BINARY table_name = ?",
            (source.schema, source.name, source.name),
        )
        return dict(rows)

    def has_schema(self, name: str) -> bool:
        """Return True if a schema with exactly this name exists."""
        return bool(
            self._connection.rows(
                "SELECT 1 FROM information_schema.schemata WHERE schema_name = ?"
                " AND BINARY schema_name = ?",
                (name, name),
            )
        )

    def find_current_user(self) -> str | None:
        return str(self._connection.rows("SELECT current_user()")[0][0])

    def require_readable(self, source: Relation, columns: Sequence[str]) -> None:
        try:
            self._connection.rows(
                f"SELECT {quote_list(columns) or '1'} FROM {source.name.quoted} LIMIT 0"
            )
        except InsufficientRights as error:
            missing_grants = self.find_missing_read_grants(source.name, columns)
            raise InsufficientRights(
                f"This account may not read all columns of {source.name} that the run needs.",
                detail=error.detail,
                hint=f"{sql_for_hint('; '.join(missing_grants))}.",
            ) from None

    def find_missing_read_grants(self, name: RelationName, columns: Sequence[str]) -> list[str]:
        try:
            self._connection.rows(f"SELECT {quote_list(columns) or '1'} FROM {name.quoted} LIMIT 0")
        except InsufficientRights:
            # A run also reads the primary key, to identify the rows.
            needed_columns = dict.fromkeys((*columns, *self._primary_key(name)))
            column_list = ", ".join(map(quote_name, needed_columns))
            account = quote_account(self.find_current_user())
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
        [(database,)] = self._connection.rows("SELECT database()")
        required_by_schema = {str(output.schema): _OUTPUT_RIGHTS, LEDGER_SCHEMA: _LEDGER_RIGHTS}
        # Staging tables are temporary tables in the database of the URL.
        required_by_schema[database] = (
            *required_by_schema.get(database, ()),
            "CREATE TEMPORARY TABLES",
        )
        for schema, required_rights in required_by_schema.items():
            granted_rights = self.find_granted_rights(schema)
            missing_rights = [right for right in required_rights if right not in granted_rights]
            if missing_rights:
                grants.append(
                    f"GRANT {', '.join(missing_rights)} ON {quote_name(schema)}.* TO"
                    f" {quote_account(self.find_current_user())}"
                )
        return grants

    def find_granted_rights(self, schema: str) -> frozenset[str]:
        """Return the rights of this account and its roles on the server and on a whole schema."""
        # A grant names schemas by a pattern, so the pattern is the right side of LIKE.
        return frozenset(
            privilege
            for (privilege,) in self._connection.rows(
                "SELECT privilege_type FROM information_schema.user_privileges UNION"
                " SELECT privilege_type FROM information_schema.schema_privileges"
                " WHERE ? LIKE table_schema",
                (schema,),
            )
        )
