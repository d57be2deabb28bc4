"""PostgreSQL through a client: SQLAlchemy for the connection, psycopg for what is large.

A session is one REPEATABLE READ transaction: the reads, the join and the recount see one snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import URL, Engine, create_engine

from dbanon.errors import (
    ConnectionLost,
    DatabaseUnreachable,
    InsufficientRights,
    MissingDependency,
    SchemaNotFound,
    TableNotFound,
    UnsupportedType,
    nearest_names,
)
from dbanon.microdata import Chunk
from dbanon.recoding import ReleasedColumn
from dbanon.schema import Attribute, Kind
from dbanon.stores import packed, statements
from dbanon.stores import postgresql_catalog as catalog
from dbanon.stores.base import (
    MARK,
    Existing,
    Locator,
    OnSql,
    Output,
    Source,
    choose_key,
    is_integer_key,
    key_required,
)
from dbanon.stores.names import RelationName, check_length, quote, quote_list
from dbanon.stores.session import Session
from dbanon.stores.postgresql_errors import translated

if TYPE_CHECKING:
    from sqlalchemy import Connection

PAGES_AT_LEAST = 64
ADDRESSED = ("r", "m")

# SET LOCAL ends with the transaction. row_security: PostgreSQL shall refuse, not filter.
# The sort and the hash joins of one release fit this, whatever the server's default is.
SETTINGS = """
SET LOCAL row_security = off;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL timezone = 'UTC';
SET LOCAL lock_timeout = '60s';
SET LOCAL work_mem = '192MB';
SET LOCAL jit = off;
SET LOCAL client_min_messages = warning"""


class PostgresqlSession(Session):
    """One transaction on PostgreSQL."""

    name_limit = 63
    staging_suffix = " ON COMMIT DROP"

    def __init__(self, connection: Connection, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._connection = connection
        self._driver: Any = connection.connection.driver_connection
        self._search_path: list[str] = self.rows("SELECT current_schemas(false)::text[]")[0][0]
        for statement in SETTINGS.split(";"):
            self.run(statement.strip())

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        with self._cursor(sql, parameters):
            pass

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._cursor(sql, parameters) as cursor:
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    @contextmanager
    def _cursor(self, sql: str, parameters: Sequence[Any] = (), **how: Any) -> Iterator[Any]:
        self.note(sql)
        with translated(), self._driver.cursor(**how) as cursor:
            if parameters:
                cursor.execute(sql.replace("%", "%%").replace("?", "%s"), parameters)
            else:
                cursor.execute(sql)
            yield cursor

    # -- source -----------------------------------------------------------------------------------

    def find_source(self, name: RelationName) -> Source:
        found = self._lookup(name)
        if found is None:
            raise self._not_found(name)
        oid, schema, relation, relkind, tuples, children, filtered = found
        resolved = RelationName(schema, relation)
        if relkind not in catalog.RELATION_KINDS:
            raise self._not_found(name)
        if filtered:
            raise InsufficientRights(
                f"Row-level security filters {resolved} for this role.",
                hint="Use a role that sees all rows (BYPASSRLS or the table's owner): a release of"
                " a part that a policy chose would be taken for the whole.",
            )
        kind = catalog.RELATION_KINDS[relkind]
        if children and relkind == "r":
            kind = "inherited table"
        source = Source(
            resolved, catalog.schema_of(self.rows(catalog.COLUMNS, (oid,))), kind, max(tuples, 0)
        )
        self._oid, self._relkind, self._children = oid, relkind, children
        return source

    def _lookup(self, name: RelationName) -> tuple[Any, ...] | None:
        schemas = [name.schema] if name.schema is not None else self._search_path
        for schema in schemas:
            check_length(schema, self.name_limit, "name of the schema")
            check_length(name.name, self.name_limit, "name of the table")
            oid = self.rows(
                "SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                " WHERE n.nspname = ? AND c.relname = ?",
                (schema, name.name),
            )
            if oid:
                return self.rows(catalog.RELATION, (oid[0][0],))[0]
        return None

    def _not_found(self, name: RelationName) -> TableNotFound | SchemaNotFound:
        schemas = [name.schema] if name.schema is not None else self._search_path
        known = [schema for (schema,) in self.rows("SELECT nspname FROM pg_namespace")]
        if name.schema is not None and name.schema not in known:
            return SchemaNotFound(
                f'There is no schema "{name.schema}".', hint=nearest_names(name.schema, known)
            )
        near = [
            relation
            for schema in schemas
            for (relation,) in self.rows(catalog.RELATIONS_NEAR, (schema,))
        ]
        return TableNotFound(
            f"There is no table {name}.",
            hint=nearest_names(name.name, near)
            or (None if name.schema else "Name its schema, as in app.people."),
        )

    def locate(self, source: Source, key: Sequence[str]) -> Source:
        stated = bool(key)
        if not stated and not (self._children and self._relkind == "r"):
            key = [name for (name,) in self.rows(catalog.PRIMARY_KEY, (self._oid,))]
        attributes = choose_key(source, key)
        if is_integer_key(attributes):
            column = f"s.{quote(attributes[0].name)}"
            return replace(
                source,
                locator=Locator((column,), ("bigint",), unchecked=tuple(key) if stated else ()),
            )
        if attributes:
            return replace(source, locator=Locator(("m.ordinal",), ("bigint",), tuple(key)))
        if self._relkind == "p" or self._children:
            return replace(source, locator=Locator(("s.tableoid", "s.ctid"), ("oid", "tid")))
        if self._relkind in ADDRESSED:
            return replace(source, locator=Locator(("s.ctid",), ("tid",)))
        raise key_required(source)

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        if attribute.kind is Kind.CATEGORY and "uuid" not in attribute.sql_type:
            return f'{column}::text COLLATE "C"'
        return column

    def require_rights(self, source: Source, columns: Sequence[str]) -> None:
        locator = source.located
        system = [e.removeprefix("s.") for e in locator.expressions if e in ("s.ctid", "s.tableoid")]
        wanted = [*dict.fromkeys([*columns, *locator.mapped, *locator.unchecked]), *system]
        refused = self.rows(catalog.UNREADABLE, (wanted, self._oid, self._oid))
        if refused:
            names = ", ".join(f'"{name}"' for (name,) in refused)
            raise InsufficientRights(
                f"This role may not read {names} of {source.name}.",
                hint=f"GRANT SELECT ON {source.name.quoted} to it.",
            )
        schema = source.name.schema
        if not self.rows("SELECT has_schema_privilege(?, 'USAGE')", (schema,))[0][0]:
            raise InsufficientRights(
                f'This role may not use schema "{schema}".',
                hint=f"GRANT USAGE ON SCHEMA {quote(str(schema))} to it.",
            )
        if not self.rows(catalog.DATABASE_RIGHTS)[0][1]:
            raise InsufficientRights(
                "This role may not create temporary tables, which staging needs.",
                hint="GRANT TEMPORARY ON DATABASE … to it.",
            )

    def inspect(self, source: Source, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        open_scale = [a for a in attributes if a.scale == catalog.UNKNOWN_SCALE]
        if not open_scale:
            return tuple(attributes)
        scales = ", ".join(f"max(scale(s.{quote(a.name)}))" for a in open_scale)
        found = self.rows(f"SELECT {scales} FROM {source.name.quoted} AS s")[0]  # noqa: S608
        known = {a.name: scale or 0 for a, scale in zip(open_scale, found, strict=True)}
        return tuple(replace(a, scale=known.get(a.name, a.scale)) for a in attributes)

    def read_chunks(
        self, source: Source, attributes: Sequence[Attribute], chunk_rows: int
    ) -> Iterator[Chunk]:
        locator = source.located
        record = packed.packed_record(locator.expressions, locator.types, attributes)
        for buffer in self._buffers(source, record, chunk_rows):
            yield packed.unpack(buffer, locator.types, attributes)

    def _buffers(self, source: Source, record: str, chunk_rows: int) -> Iterator[bytes]:
        if self._relkind not in ADDRESSED or self._children or source.located.mapped:
            query = packed.in_one_pass(source.from_clause, record, chunk_rows)
            with self._cursor(query, name="dbanon_read", binary=True) as cursor:
                cursor.itersize = 1
                yield from (buffer for (buffer,) in cursor)
            return
        pages, rows = self.rows(
            "SELECT pg_relation_size(?::oid) / current_setting('block_size')::integer,"
            " (SELECT reltuples::bigint FROM pg_class WHERE oid = ?::oid)",
            (self._oid, self._oid),
        )[0]
        density = max(rows / pages, 1.0) if pages and rows > 0 else 64.0
        step = max(int(chunk_rows / density), 1)
        query = packed.by_address(source.name, record).replace("$1", "%s").replace("$2", "%s")
        self.note(query)
        for first in range(0, int(pages), step):
            with translated(), self._driver.cursor(binary=True) as cursor:
                cursor.execute(query, (f"({first},0)", f"({first + step},0)"))
                (buffer,) = cursor.fetchone()
            if buffer:
                yield buffer

    def read_rows(
        self, source: Source, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        locator = source.located
        kept = ", ".join(self._portable(source.attribute(name)) for name in columns)
        keys = ", ".join(
            {
                "tid": f"(({e}::text::point)[0]::bigint << 16) | ({e}::text::point)[1]::bigint",
                "oid": f"{e}::bigint",
            }.get(kind, f"({e})::bigint")
            for e, kind in zip(locator.expressions, locator.types, strict=True)
        )
        query = f"SELECT {keys}, {kept} FROM {source.from_clause}"  # noqa: S608
        width = len(locator.types)
        with self._cursor(query, name="dbanon_rows") as cursor:
            cursor.itersize = chunk_rows
            while rows := cursor.fetchmany(chunk_rows):
                yield (
                    np.array([row[:width] for row in rows], np.int64),
                    [row[width:] for row in rows],
                )

    @staticmethod
    def _portable(attribute: Attribute) -> str:
        column = f"s.{quote(attribute.name)}"
        return f"{column}::text" if attribute.kind in (Kind.CATEGORY, Kind.OTHER) else column

    # -- staging ----------------------------------------------------------------------------------

    def load_labels(
        self,
        keys: NDArray[np.int64],
        classes: NDArray[np.int32],
        positions: NDArray[np.int32],
        types: Sequence[str],
    ) -> None:
        columns = [(f"key{i}", kind, keys[:, i]) for i, kind in enumerate(types)]
        columns += [("class", "integer", classes), ("position", "integer", positions)]
        self._load_binary(statements.LABELS, columns)
        self.analyze_staging(statements.LABELS)

    def load_classes(self, columns: Sequence[ReleasedColumn], n_classes: int) -> None:
        staged: list[tuple[str, str, NDArray[Any]]] = [
            ("class", "integer", np.arange(n_classes, dtype=np.int32))
        ]
        texts = []
        for position, column in enumerate(columns):
            name = statements.value_column(position)
            if column.values.dtype == object:
                texts.append((name, "text", column.values))
            elif column.values.dtype == np.float64:
                staged.append((name, "double precision", column.values))
            else:
                staged.append((name, "bigint", column.values))
            if column.missing is not None:
                staged.append((f"{name}_null", "boolean", column.missing))
        if texts:
            self._load_text(statements.CLASSES, [*staged, *texts])
        else:
            self._load_binary(statements.CLASSES, staged)
        self.analyze_staging(statements.CLASSES)

    def load_rows(
        self, attributes: Sequence[Attribute], pieces: Iterable[tuple[Any, ...]]
    ) -> None:
        columns = [("class", "integer"), ("position", "integer")]
        columns += [(a.name, self.type_of(a)) for a in attributes]
        self.run(statements.create_staging(statements.ROWS, columns, self.staging_suffix))
        copy = f"COPY {quote(statements.ROWS)} FROM STDIN"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for classes, positions, rows in pieces:
                for label, position, row in zip(
                    classes.tolist(), positions.tolist(), rows, strict=True
                ):
                    stream.write_row((label, position, *row))
        self.analyze_staging(statements.ROWS)

    def analyze_staging(self, table: str) -> None:
        """Tell the planner how large a staging table is; it is never analyzed by itself."""
        self.run(f"ANALYZE {quote(table)}")

    def _load_binary(self, table: str, columns: Sequence[tuple[str, str, NDArray[Any]]]) -> None:
        self.run(
            statements.create_staging(
                table, [(name, kind) for name, kind, _ in columns], self.staging_suffix
            )
        )
        copy = f"COPY {quote(table)} FROM STDIN (FORMAT binary)"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for piece in packed.copy_binary(columns):
                stream.write(piece)

    def _load_text(self, table: str, columns: Sequence[tuple[str, str, NDArray[Any]]]) -> None:
        self.run(
            statements.create_staging(
                table, [(name, kind) for name, kind, _ in columns], self.staging_suffix
            )
        )
        copy = f"COPY {quote(table)} FROM STDIN"
        self.note(copy)
        with translated(), self._driver.cursor() as cursor, cursor.copy(copy) as stream:
            for row in zip(*(values.tolist() for _, _, values in columns), strict=True):
                stream.write_row(row)

    # -- what the shared statements need ----------------------------------------------------------

    def released_expression(self, position: int, column: ReleasedColumn) -> str:
        attribute, name = column.attribute, f"c.{statements.value_column(position)}"
        if attribute.kind is Kind.INTEGER:
            value = f"{name}::numeric" if column.values.dtype == object else name
        elif attribute.kind is Kind.DECIMAL:
            value = f"{name}::numeric * {Decimal(1).scaleb(-attribute.scale):f}"
        elif attribute.kind is Kind.DATE:
            value = f"date '1970-01-01' + {name}::integer"
        elif attribute.kind is Kind.TIMESTAMP:
            start = "timestamptz" if attribute.zoned else "timestamp"
            # In two parts: an interval is multiplied in floating point.
            days = f"({name} / 86400000000)::integer * interval '1 day'"
            micros = f"({name} % 86400000000)::double precision * interval '1 microsecond'"
            value = f"{start} 'epoch' + {days} + {micros}"
        else:
            value = name
        value = f"({value})::{attribute.sql_type}"
        if column.missing is None:
            return value
        return f"CASE WHEN {name}_null THEN NULL ELSE {value} END"

    def wide_parts(self, attribute: Attribute) -> tuple[str, str]:
        column = f"s.{quote(attribute.name)}"
        if attribute.kind is Kind.TIMESTAMP:
            column = f"(extract(epoch FROM {column}) * 1000000)"
        else:
            column = f"({column}::numeric * {10**attribute.scale})"
        return f"div({column}, n.size)", f"mod({column}, n.size)"

    def type_of(self, attribute: Attribute) -> str:
        if attribute.kind is Kind.INTEGER:
            return {16: "smallint", 32: "integer", 64: "bigint"}.get(attribute.bits, "numeric")
        if attribute.kind is Kind.DECIMAL:
            limits = f"({attribute.precision},{attribute.scale})" if attribute.precision else ""
            return f"numeric{limits}"
        if attribute.kind is Kind.FLOAT:
            return "real" if attribute.bits == 32 else "double precision"
        if attribute.kind is Kind.TIMESTAMP:
            zone = " with time zone" if attribute.zoned else ""
            return f"timestamp({min(attribute.scale, 6)}){zone}"
        if attribute.kind is Kind.OTHER:
            raise UnsupportedType(
                f'Column "{attribute.name}" of type {attribute.sql_type} cannot be copied to'
                " another database.",
                hint="Cast it to text or to a number in a view, and anonymize the view.",
            )
        return {Kind.DATE: "date", Kind.BOOLEAN: "boolean", Kind.CATEGORY: "text"}[attribute.kind]

    # -- output -----------------------------------------------------------------------------------

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is not None:
            return name
        if not self._search_path:
            raise SchemaNotFound(
                "The search path of this role names no schema that exists.",
                hint="Name the schema of the output, as in release.people.",
            )
        return RelationName(self._search_path[0], name.name)

    def prepare_schema(self, name: RelationName) -> None:
        schema = str(name.schema)
        found = self.rows(catalog.SCHEMA_RIGHTS, (schema,))
        if not found:
            if not self.rows(catalog.DATABASE_RIGHTS)[0][0]:
                raise InsufficientRights(
                    f'There is no schema "{schema}", and this role may not create it.',
                    hint=f"CREATE SCHEMA {quote(schema)} AUTHORIZATION this role.",
                )
            self.run(f"CREATE SCHEMA {quote(schema)}")
        elif not all(found[0]):
            raise InsufficientRights(
                f'This role may not create tables in schema "{schema}".',
                hint=f"GRANT USAGE, CREATE ON SCHEMA {quote(schema)} to it.",
            )

    def find_existing(self, name: RelationName) -> Existing | None:
        found = self.rows(catalog.EXISTING, (name.schema, name.name))
        return Existing(*found[0]) if found else None

    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        body = ", ".join(f"{quote(name)} {sql_type}" for name, sql_type in columns)
        written = output.written.quoted
        self.run(f"CREATE TABLE {written} ({body})")
        self.run(f"COMMENT ON TABLE {written} IS '{MARK}{release_id}'")

    def analyze(self, relation: RelationName) -> None:
        self.run(f"ANALYZE {relation.quoted}")

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        if output.kind == "view":
            self.run(
                f"CREATE OR REPLACE VIEW {output.name.quoted} AS"
                f" SELECT {quote_list(columns)} FROM {output.relation.quoted}"  # noqa: S608
            )
            self.run(f"COMMENT ON VIEW {output.name.quoted} IS '{MARK}{output.release_id}'")
            return
        if output.replaces:
            self.drop_table(output.name)
        self.run(f"ALTER TABLE {output.written.quoted} RENAME TO {quote(output.name.name)}")

    def drop_table(self, relation: RelationName) -> None:
        self.run(f"DROP TABLE {relation.quoted}")

    def write(
        self,
        output: Output,
        columns: Sequence[tuple[str, str, str]],
        source: Source | None,
    ) -> None:
        # Labels lie in key order and are wanted in class order: merge joins read and sort what a
        # hash join would look up at random, in a third less time.
        self.run("SET LOCAL enable_hashjoin = off")
        super().write(output, columns, source)
        self.run("SET LOCAL enable_hashjoin = on")

    # -- ledger -----------------------------------------------------------------------------------

    def has_ledger(self) -> bool:
        return self.find_existing(self.ledger_name("release")) is not None

    def ensure_ledger(self) -> None:
        from dbanon.stores.history import migrate

        # Two first releases at once: the second waits here and finds the ledger made.
        self.run("SELECT pg_advisory_xact_lock(hashtextextended('dbanon ledger', 0))")
        with translated():
            migrate(self._connection)

    def ledger_name(self, table: str) -> RelationName:
        return RelationName("dbanon", table)

    def current_user(self) -> str | None:
        return str(self.rows("SELECT current_user::text")[0][0])


class PostgresqlStore:
    """A PostgreSQL database."""

    def __init__(self, engine: Engine | URL, on_sql: OnSql | None = None) -> None:
        url = engine.url if isinstance(engine, Engine) else engine
        if not isinstance(engine, Engine) or engine.driver != "psycopg":
            try:
                engine = create_engine(url.set(drivername="postgresql+psycopg"))
            except ModuleNotFoundError:
                raise MissingDependency(
                    "PostgreSQL needs the package psycopg.",
                    hint='Install it with: pip install "dbanon[postgres]"',
                ) from None
        self._engine, self._url, self._on_sql = engine, url, on_sql

    @property
    def url(self) -> str:
        """Where it is, without secrets."""
        return self._url.render_as_string(hide_password=True)

    @contextmanager
    def session(self, *, write: bool) -> Iterator[PostgresqlSession]:
        """One REPEATABLE READ transaction; one that only reads when ``write`` is False."""
        try:
            with translated():
                connection = self._engine.connect()
        except ConnectionLost as error:
            raise DatabaseUnreachable(
                f"The database {self.url} cannot be reached.", detail=error.detail
            ) from None
        connection = connection.execution_options(isolation_level="REPEATABLE READ")
        try:
            with translated():
                connection.begin()
                yield PostgresqlSession(connection, self._on_sql)
                connection.commit()
        except BaseException:
            # Staging goes with the transaction; a connection in doubt is not used again.
            connection.invalidate()
            raise
        finally:
            connection.close()

    def same_database(self, other: object) -> bool:
        """True when both have the same host, port and database."""
        if not isinstance(other, PostgresqlStore):
            return False
        mine, theirs = self._url, other._url
        return (mine.host, mine.port or 5432, mine.database, mine.query) == (
            theirs.host,
            theirs.port or 5432,
            theirs.database,
            theirs.query,
        )
