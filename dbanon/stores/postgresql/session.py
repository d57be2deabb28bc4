"""A session on PostgreSQL, shared by the client and the backend.

The two differ only in how they transfer data. Everything else is here: reading the catalog,
checking rights, and writing and publishing releases.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

from numpy.typing import NDArray

from dbanon.data.schema import CASEFOLD, WHITE_SPACE, Attribute, Kind
from dbanon.data.words import json_text
from dbanon.errors import (
    InsufficientRights,
    InvalidName,
    SchemaNotFound,
    SourceChanged,
    TableNotFound,
)
from dbanon.ledger import postgresql as postgresql_ledger
from dbanon.ledger.postgresql import FIND_PERSONS_WRITER
from dbanon.ledger.postgresql_persons import joint_histories, pack_persons
from dbanon.ledger.postgresql_releases import RECORD_OIDS
from dbanon.ledger.postgresql_rules import tie_rules
from dbanon.sessions import statements
from dbanon.sessions.base import (
    ExistingRelation,
    Locator,
    OnSql,
    Relation,
    choose_key,
    is_integer_key,
    key_required,
    locate_by_key,
)
from dbanon.sessions.interface import Dialect
from dbanon.sessions.names import RelationName, check_length, quote
from dbanon.sessions.session import Session
from dbanon.sessions.statements import RELEASE_PERSONS, SALT
from dbanon.stores.postgresql import catalog, digest, foreign, rights
from dbanon.stores.postgresql import dialect as types
from dbanon.stores.postgresql.arrays import PostgresqlArraySession
from dbanon.stores.postgresql.digest import PostgresqlKeyedSession, PostgresqlPrivateSession
from dbanon.stores.postgresql.display import display_keys
from dbanon.stores.postgresql.pieces import PostgresqlPieces
from dbanon.stores.postgresql.publication import PostgresqlPublication
from dbanon.stores.postgresql.rules import PostgresqlRules
from dbanon.stores.postgresql.settings import (
    CALLER_PATH,
    CALLER_PATIENCE,
    LOCK_SECONDS,
    SETTINGS,
    lock_milliseconds,
    set_patience,
)

_STAGED = pack_persons(quote(RELEASE_PERSONS))
# The server evaluates the array, so it never passes through the client.
_COUNT = "SELECT dbanon._joint_histories(?::jsonb, {persons})::text"
_IS_SALTED = "SELECT person_salt IS NOT NULL FROM dbanon.release WHERE release_id = ?::uuid"
_READABLE = "SELECT has_table_privilege('dbanon.release_person', 'SELECT')"
_RECORD = (
    "INSERT INTO dbanon.release_person (release_id, part, persons)"
    f" SELECT ?::uuid, p.part, p.persons FROM unnest({_STAGED}) WITH ORDINALITY"
    " AS p(persons, part)"
)


class PostgresqlPersons(Session):
    """The part of a session that records persons of releases."""

    @abstractmethod
    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the catalog."""

    def stage_salt(self, salt: bytes) -> None:
        self.run(statements.create_staging(SALT, [("salt", "bytea")], self.staging_suffix))
        # Sent as text, since a backend cannot pass bytes.
        self.run(f"INSERT INTO {quote(SALT)} SELECT decode(?::text, 'hex')", (salt.hex(),))

    def salted_hash(self, text: str) -> str:
        salted = f"(SELECT salt FROM {quote(SALT)}) || convert_to({text}, 'UTF8')"
        return f"substr(sha256({salted}), 1, 8)"

    def joint_histories(
        self,
        releases: Sequence[str],
        k: int,
        in_progress: tuple[str, RelationName, RelationName] | None,
    ) -> tuple[int, int, int] | None:
        if in_progress is None and self.look_up(_READABLE) == [(True,)]:
            # The caller then reads the records once, and counts after each release.
            return None
        request: dict[str, Any] = {"releases": list(releases), "k": k}
        persons = "NULL::bytea[]" if in_progress is None else _STAGED
        if in_progress is not None:
            release_id, relation, source = in_progress
            request |= {
                "release_id": release_id,
                "relation_oid": self._number(relation),
                "source_oid": self._number(source),
            }
        if self.look_up(FIND_PERSONS_WRITER):
            rows = self.rows(_COUNT.format(persons=persons), (json_text(request),))
        else:
            ids = "ARRAY(SELECT jsonb_array_elements_text(?::jsonb)::uuid)"
            query = joint_histories(ids, persons, str(int(k)))
            rows = self.rows(
                f"SELECT counted::text FROM ({query}) AS q(counted)", (json.dumps(list(releases)),)
            )
        counts = json.loads(rows[0][0])
        return int(counts["persons"]), int(counts["below"]), int(counts["alone"])

    def record_persons_in_database(self, release_id: str) -> bool:
        # Entries without the oid of their source have no salt.
        if self.rows(_IS_SALTED, (release_id,)) == [(True,)]:
            if self.look_up(FIND_PERSONS_WRITER):
                self.rows(f"SELECT dbanon._record_persons(?::uuid, {_STAGED})", (release_id,))
            else:
                self.run(_RECORD, (release_id,))
        # The next release of this transaction creates its own table.
        self.run(f"DROP TABLE pg_temp.{quote(RELEASE_PERSONS)}")
        return True

    def _number(self, name: RelationName) -> int | None:
        existing = self.find_existing(name)
        return None if existing is None else existing.oid


class _Relation(NamedTuple):
    """Catalog data of a source relation."""

    oid: int
    kind: str
    has_children: bool


class PostgresqlSession(
    PostgresqlArraySession,
    PostgresqlKeyedSession,
    PostgresqlPrivateSession,
    PostgresqlPieces,
    PostgresqlPublication,
    PostgresqlRules,
    PostgresqlPersons,
):
    """One transaction on PostgreSQL."""

    dialect: ClassVar[Dialect] = types
    name_limit = 63
    staging_suffix = " ON COMMIT DROP"
    digest_way = digest.DIGEST_WAY
    # Maximum time to wait for locks on tables of the ledger.
    lock_seconds = LOCK_SECONDS
    _search_path: list[str]

    def __init__(self, on_sql: OnSql | None = None) -> None:
        super().__init__(on_sql)
        self._relations: dict[RelationName, _Relation] = {}
        self.release_id: str | None = None
        self._statements_with_output: list[str] = []
        self._ledger_trusted = False

    def enter(self) -> None:
        """Save the caller's search path, then pin the settings of the transaction."""
        self._search_path = self.caller_path()
        self.run(SETTINGS)
        patience = lock_milliseconds(self.rows(CALLER_PATIENCE)[0][0])
        self.run(set_patience(patience))
        self.lock_seconds = patience / 1000

    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement on the catalog; plans may be cached, results are not."""
        return self.rows(sql, parameters)

    def caller_path(self) -> list[str]:
        """Return the schemas in which unqualified names are looked up."""
        schemas: list[str] = self.rows(CALLER_PATH)[0][0]
        return schemas

    # -- source -----------------------------------------------------------------------------------

    def find_source(self, name: RelationName) -> Relation:
        row = self._lookup(name)
        if row is None:
            raise self._missing_error(name)
        oid, schema, relation, relkind, tuples, children, filtered = row
        resolved = RelationName(schema, relation)
        if relkind not in catalog.RELATION_KINDS:
            raise self._missing_error(name)
        if filtered:
            raise InsufficientRights(
                f"Row-level security filters {resolved} for this role.",
                hint="Use a role that sees all rows: the table's owner, or one with BYPASSRLS."
                " Otherwise a part that a policy chose would be taken for the whole table.",
            )
        kind = catalog.RELATION_KINDS[relkind]
        if children and relkind == "r":
            kind = "inherited table"
        self.require_own_code(oid)
        columns = catalog.schema_of(self.look_up, oid)
        source = Relation(resolved, columns, kind, max(tuples, 0))
        self._relations[resolved] = _Relation(oid, relkind, children)
        return source

    def staged_relation(self, name: RelationName, oid: int) -> Relation:
        """Return a staging table as a source whose rows are located by address."""
        self._relations[name] = _Relation(oid, "r", False)
        schema = catalog.schema_of(self.look_up, oid)
        return Relation(name, schema, "table", locator=Locator(("s.ctid",), ("tid",)))

    def require_own_code(self, oid: int) -> None:
        """Check that reading a relation runs no code of another role.

        Raises
        ------
        ForeignCode : it could.
        """
        if self.nothing_to_find(oid):
            return
        foreign.require_none(self.rows(foreign.foreign_code(f"{int(oid)}::oid")))

    def nothing_to_find(self, oid: int) -> bool:
        """Return True if no object that could contain code is attached to a relation."""
        return self.look_up(foreign.nothing_to_find(f"{int(oid)}::oid")) == [(True,)]

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

    def _missing_error(self, name: RelationName) -> TableNotFound | SchemaNotFound:
        schemas = [name.schema] if name.schema is not None else self._search_path
        return catalog.missing_relation(self, name, schemas)

    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        stated = bool(key)
        relation = self._relations[source.name]
        if not stated and not (relation.has_children and relation.kind == "r"):
            key = [name for (name,) in self.rows(catalog.PRIMARY_KEY, (relation.oid,))]
        attributes = choose_key(source, key)
        if attributes:
            compared: tuple[str, ...] = ()
            if any(attribute.by_output for attribute in attributes):
                compared = tuple(map(self.value_of_key, attributes))
            plain = is_integer_key(attributes)
            return locate_by_key(
                source, attributes, "bigint", as_it_is=plain, unchecked=stated, compared=compared
            )
        if relation.kind == "p" or relation.has_children:
            if self.rows(catalog.FOREIGN_CHILDREN, (relation.oid,))[0][0]:
                raise key_required(replace(source, kind=f"{source.kind} with a foreign part"))
            return replace(source, locator=Locator(("s.tableoid", "s.ctid"), ("oid", "tid")))
        if relation.kind in catalog.ADDRESSED:
            return replace(source, locator=Locator(("s.ctid",), ("tid",)))
        raise key_required(source)

    def sort_key(self, attribute: Attribute) -> str:
        column = super().sort_key(attribute)
        # User-defined types may have any name.
        is_uuid = "uuid" in attribute.sql_type and not attribute.by_output
        if attribute.by_output or (attribute.kind is Kind.CATEGORY and not is_uuid):
            return self.text_of(attribute)
        return column

    def value_of(self, attribute: Attribute) -> str:
        # Resolving = would consider the casts of a user-defined type.
        if attribute.normalize:
            # btrim keeps the column's collation; not all collations support replace().
            text = f"btrim({types.text(attribute)}, '{WHITE_SPACE}')"
            return self.folded(text) if attribute.normalize == CASEFOLD else text
        return self.text_of(attribute) if attribute.by_output else super().value_of(attribute)

    def value_of_key(self, attribute: Attribute) -> str:
        """SQL of a key column for comparisons."""
        return self.text_of(attribute) if attribute.by_output else f"s.{quote(attribute.name)}"

    def kept_value(self, attribute: Attribute) -> str:
        return types.retained_column(attribute)

    def require_rights(self, source: Relation, columns: Sequence[str]) -> None:
        if source.name.staged is None:
            rights.require_readable(self, source, columns, self._relations[source.name].oid)

    def readable(self, source: Relation, columns: Sequence[str]) -> frozenset[str]:
        names = [name for name in columns if not source.attribute(name).foreign_type]
        oid = self._relations[source.name].oid
        refused = {name for (name,) in self.rows(catalog.UNREADABLE, (names, oid, oid))}
        return frozenset(names) - refused

    def require_equality(self, source: Relation, columns: Sequence[str]) -> None:
        rights.require_equality(self, source, columns)

    def stage_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> list[tuple[str, ...]]:
        dictionaries = super().stage_values(source, attributes)
        # Without statistics the planner assumes large tables, and sorts the source for each.
        for table in self._value_tables:
            self.run(f"ANALYZE {quote(table)}")
        return dictionaries

    def text_of(self, attribute: Attribute) -> str:
        return f'{types.text(attribute)} COLLATE "C"'

    def compared(self, attribute: Attribute) -> str:
        # Resolving = would consider the casts of a user-defined type.
        return self.text_of(attribute) if attribute.by_output else super().compared(attribute)

    def display_keys_of(
        self, relation: RelationName, columns: Mapping[str, str]
    ) -> list[tuple[str, ...]]:
        existing = self.find_existing(relation)
        if existing is None or existing.oid is None:
            raise self._missing_error(relation)
        return display_keys(self.look_up, existing.oid, columns)

    def unique_columns(self, source: Relation) -> frozenset[str]:
        rows = self.rows(catalog.UNIQUE_COLUMNS, (self._relations[source.name].oid,))
        return frozenset(name for (name,) in rows)

    def sample(self, relation: RelationName, share: float) -> str:
        return f"{relation.quoted} AS s TABLESAMPLE BERNOULLI ({100 * share:.6f})"

    def inspect(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        open_scale = [a for a in attributes if a.scale == catalog.UNKNOWN_SCALE]
        if not open_scale:
            return tuple(attributes)
        scales = ", ".join(f"max(scale(s.{quote(a.name)}))" for a in open_scale)
        values = self.rows(f"SELECT {scales} FROM {source.relation.quoted} AS s{source.where}")[0]
        scale_by_name = {a.name: scale or 0 for a, scale in zip(open_scale, values, strict=True)}
        return tuple(replace(a, scale=scale_by_name.get(a.name, a.scale)) for a in attributes)

    # -- shared statements -------------------------------------------------------------------------

    def range_type(self, attribute: Attribute, borders: Sequence[NDArray[Any]] = ()) -> str:
        return types.range_type(attribute, borders)

    # -- output -----------------------------------------------------------------------------------

    def resolve_output(self, name: RelationName) -> RelationName:
        if name.schema is None:
            if not self._search_path:
                raise SchemaNotFound(
                    "The search path of this role names no schema that exists.",
                    hint="Name its schema, as in release.people.",
                )
            name = RelationName(self._search_path[0], name.name)
        if str(name.schema).startswith("pg_"):
            raise InvalidName(
                "The output's schema belongs to PostgreSQL or is temporary.",
                hint="Name another schema, as in release.people.",
            )
        return name

    def require_ledger_rights(self) -> None:
        self.require_trusted_ledger()
        rights.require_ledger_rights(self.look_up)

    def find_existing(self, name: RelationName) -> ExistingRelation | None:
        rows = self.look_up(catalog.EXISTING, (name.schema, name.name))
        if len(rows) > 1:
            # Besides ours, the snapshot shows one that another session has replaced.
            raise SourceChanged(
                f"Another session replaced {name} meanwhile; nothing was published.",
                hint="Try again.",
            )
        return ExistingRelation(*rows[0]) if rows else None

    def columns_of(self, relation: RelationName) -> list[tuple[str, str]]:
        rows = self.look_up(digest.COLUMNS_OF, (relation.schema, relation.name))
        return [(name, sql_type) for name, sql_type in rows]

    def digest_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        return digest.of_relation(self.look_up, self.rows, relation, salt)

    def digest_columns(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[int, int]:
        return digest.of_columns(self.rows, relation, names, salt)

    def digest_probe(self) -> str:
        return str(self.rows(digest.PROBE)[0][0])

    def analyze(self, relation: RelationName) -> None:
        self.run(f"ANALYZE {relation.quoted}")

    # -- ledger -----------------------------------------------------------------------------------

    def require_trusted_ledger(self) -> None:
        # Checked once: untrusted roles cannot attach anything to a trusted ledger.
        if not self._ledger_trusted:
            rights.require_trusted_ledger(self.look_up)
            self._ledger_trusted = True

    def have_release_recorded(
        self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
    ) -> str | None:
        if not self.look_up(postgresql_ledger.FIND_RELEASE_WRITER):
            return None
        column_rows = [{key: c[key] for key in c if key != "release_id"} for c in columns]
        arguments = postgresql_ledger.entry_arguments(row), column_rows, run
        parts = [json_text(part) for part in arguments]
        recorded = self.call("dbanon._record_release", parts)
        return str(json.loads(recorded)["created_at"])

    def have_run_recorded(self, run: Mapping[str, Any]) -> bool:
        if not self.look_up(postgresql_ledger.FIND_RELEASE_WRITER):
            return False
        self.call("dbanon._record_run", [json_text(run)])
        return True

    def call(self, function: str, parts: Sequence[str]) -> str:
        """Call a dbanon function with JSON that must not be logged; return its result as text."""
        marks = ", ".join("?::jsonb" for _ in parts)
        return str(self.rows(f"SELECT {function}({marks})::text", parts)[0][0])

    def tie_releases(self) -> None:
        self.run(RECORD_OIDS)
        self.run(tie_rules())

    def may_drop(self, existing: ExistingRelation) -> bool:
        return bool(self.rows(catalog.MAY_DROP, (existing.oid,))[0][0])

    def ledger_name(self, table: str) -> RelationName:
        return RelationName("dbanon", table)

    def current_user(self) -> str | None:
        return str(self.rows("SELECT current_user::text")[0][0])
