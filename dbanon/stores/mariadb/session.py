"""One transaction on MariaDB, through PyMySQL.

The source is copied first, by one statement, which sees one snapshot: ``CREATE TABLE … SELECT``
and ``INSERT … SELECT`` read and lock current rows, whatever snapshot the transaction has. DDL
commits the transaction, so releases are published as described in ``publication``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.data.words import json_text
from dbanon.errors import (
    EngineUnsuitable,
    MixedTypes,
    OutputExists,
    SchemaCreated,
    UnsupportedType,
    ViewsNotHere,
    sql_for_hint,
    warn_caller,
)
from dbanon.ledger.tables import INTERNAL_TABLE, LEDGER_SCHEMA
from dbanon.sessions.base import (
    MARK,
    Locator,
    OnSql,
    Output,
    Relation,
    choose_key,
    key_required_error,
)
from dbanon.sessions.names import RelationName, quote
from dbanon.stores.mariadb import dialect as types
from dbanon.stores.mariadb import publication
from dbanon.stores.mariadb.display import display_key
from dbanon.stores.mariadb.staging import ROW, SUFFIX, MariadbStaging, unused

if TYPE_CHECKING:
    from pymysql.connections import Connection

_COPY = "dbanon_source"
_SAMPLE = "dbanon_sample"
# Texts are sorted by this many bytes; the store sets it.
_SORTED = 65_535
BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL {}"


class MariadbSession(MariadbStaging):
    """One transaction on MariaDB."""

    atomic = "swap"
    digest_method = types.DIGEST_WAY
    display_key = staticmethod(display_key)
    name_limit = 64
    staging_suffix = SUFFIX

    def __init__(
        self, connection: Connection[Any], on_sql: OnSql | None = None, *, copies: bool = True
    ) -> None:
        super().__init__(connection, on_sql)
        self._copies, self._n_copies = copies, 0
        self._keys: dict[RelationName, tuple[str, ...]] = {}
        # The release to publish when the session ends.
        self.pending: publication.UnpublishedRelease | None = None

    # -- source -----------------------------------------------------------------------------------

    def locate(self, source: Relation, key: Sequence[str]) -> Relation:
        [(kind, engine, _)] = self._catalog(source.name)
        if kind == "BASE TABLE" and engine != "InnoDB":
            raise EngineUnsuitable(
                f"{source.name} is a table of the engine {engine}, whose rows change while they"
                " are read.",
                hint=f"Run ALTER TABLE {sql_for_hint(types.quote_dotted(source.name))} ENGINE"
                " InnoDB, or anonymize a copy that has this engine.",
            )
        primary = self._primary_key(source.name)
        attributes = choose_key(source, key or primary)
        stated = tuple(key) if key and tuple(key) != primary else ()
        if not attributes and source.kind != "table":
            raise key_required_error(source)
        names = tuple(attribute.name for attribute in attributes)
        self.require_rights(source, names)
        # The copy numbers the rows by these columns.
        self._keys[source.name] = names
        # An expression, since the job's condition may run where the column does not exist.
        expression = f"s.{_row(source)} + 0"
        return replace(
            source, locator=Locator((expression,), ("BIGINT",), unchecked_columns=stated)
        )

    def pin(self, source: Relation, columns: Sequence[str]) -> Relation:
        """Copy these columns in one statement, and number the rows in key order.

        Raises
        ------
        MixedTypes : a column holds zero dates, or values outside of its enum.
        DuplicateKeys : the key is not unique.
        """
        if not self._copies or source.copy is not None:
            return source
        keys = self._keys.get(source.name, ())
        names = tuple(
            dict.fromkeys(
                [*columns, *source.required_locator.unchecked_columns, *source.required_columns]
            )
        )
        attributes = [source.attribute(name) for name in names]
        ordered = [source.attribute(name) for name in keys]
        is_integer_key = (
            len(ordered) == 1
            and ordered[0].kind is Kind.INTEGER
            and ordered[0].bits <= 64
            and not source.required_locator.unchecked_columns
        )
        self._n_copies += 1
        copy = RelationName(None, f"{_COPY}_{self._n_copies}")
        row = _row(source)
        body, numbered, order = f"{row} BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", "", ""
        if is_integer_key:
            body, numbered = f"PRIMARY KEY ({row})", f"{quote(ordered[0].name)} AS {row}, "
        elif ordered:
            by = ", ".join(self._sorted(attribute, quote(attribute.name)) for attribute in ordered)
            order = f" ORDER BY {by}"
        condition = source.selected_rows and source.selected_rows.condition
        where = f" WHERE (\n{condition}\n)" if condition else ""
        rows = ", ".join(
            f"{types.retained_column(a, quote(a.name))} AS {quote(a.name)}" for a in attributes
        )
        # At REPEATABLE READ the statement would lock all rows it reads, and ignore the snapshot.
        self.run("COMMIT")
        self.run(_LEVEL.format("READ COMMITTED"))
        self.run(
            f"CREATE TEMPORARY TABLE {copy.quoted} ({body}){SUFFIX} AS"
            f" SELECT {numbered}{rows or '1 AS one'} FROM {source.name.quoted}{where}{order}"
        )
        self.run(_LEVEL.format("REPEATABLE READ"))
        self.run(BEGIN)
        pinned = replace(
            source,
            copy=copy,
            selected_rows=None,
            locator=replace(source.required_locator, expressions=(f"s.{row}",)),
        )
        self._require_values(pinned, attributes)
        return pinned

    def _require_values(self, source: Relation, attributes: Sequence[Attribute]) -> None:
        """Check that dates are valid, and that enum values belong to their enum."""
        wrong = {}
        for a in attributes:
            column = f"s.{quote(a.name)}"
            if a.sql_type.startswith("enum") and "" not in a.order:
                wrong[a.name] = f"{column} = ''"
            elif a.kind in (Kind.DATE, Kind.TIMESTAMP):
                wrong[a.name] = f"month({column}) = 0 OR dayofmonth({column}) = 0"
        if not wrong:
            return
        counts = ", ".join(f"coalesce(sum({condition}), 0)" for condition in wrong.values())
        [totals] = self.rows(f"SELECT {counts} FROM {source.relation.quoted} AS s")
        for name, count in zip(wrong, totals, strict=True):
            if count:
                attribute = source.attribute(name)
                problem = "dates of month 0 or day 0"
                if attribute.kind is Kind.CATEGORY:
                    problem = "values that are not of its enum"
                raise MixedTypes(
                    f'Column "{name}" of {source.name} holds {int(count)} {problem}.',
                    hint="Correct these values, or make them NULL in a view: nullif(…).",
                )

    def _sorted(self, attribute: Attribute, column: str) -> str:
        return types.text(attribute, column) if attribute.kind is Kind.CATEGORY else column

    def sort_key(self, attribute: Attribute) -> str:
        return self._sorted(attribute, f"s.{quote(attribute.name)}")

    def text_of(self, attribute: Attribute) -> str:
        return types.text(attribute, f"s.{quote(attribute.name)}")

    def matches(self, text: str, pattern: str) -> str:
        return f"{text} REGEXP '{pattern}'"

    def value_of(self, attribute: Attribute) -> str:
        return self.normalized_sql(attribute, self.text_of(attribute))

    def compared(self, attribute: Attribute) -> str:
        if attribute.kind in (Kind.CATEGORY, Kind.OTHER):
            return self.text_of(attribute)
        return super().compared(attribute)

    def sample(self, relation: RelationName, share: float) -> str:
        # Stored, since a query that names it twice would sample twice.
        self.run(f"DROP TEMPORARY TABLE IF EXISTS {_SAMPLE}")
        self.run(
            f"CREATE TEMPORARY TABLE {_SAMPLE} {SUFFIX} AS SELECT * FROM {relation.quoted}"
            f" WHERE rand() < {share:.9f}"
        )
        return f"{_SAMPLE} AS s"

    def inspect(self, source: Relation, attributes: Sequence[Attribute]) -> tuple[Attribute, ...]:
        checks = {}
        for a in attributes:
            column = f"s.{quote(a.name)}"
            if a.sql_type.startswith("float"):
                raise UnsupportedType(
                    f'Column "{a.name}"'
                    f" of {source.name} is FLOAT, where different values can print the same.",
                    hint="Change its type to DOUBLE or DECIMAL, or cast it to one of them in a"
                    " view, and"
                    " anonymize the view.",
                )
            if a.kind is Kind.BOOLEAN:
                explanation = "is tinyint(1), which is BOOLEAN", "not 0 or 1"
                checks[a.name] = (f"{column} NOT IN (0, 1)", *explanation)
            elif a.sql_type in ("mediumtext", "longtext"):
                # Sorting compares no more than this.
                explanation = f"is {a.sql_type}", f"longer than {_SORTED} bytes"
                checks[a.name] = (
                    f"octet_length({types.text(a, column)}) > {_SORTED}",
                    *explanation,
                )
        if checks:
            counts = ", ".join(
                f"coalesce(sum({condition}), 0)" for condition, *_ in checks.values()
            )
            [totals] = self.rows(
                f"SELECT {counts} FROM {source.relation.quoted} AS s{source.where_clause}"
            )
            for (name, (_, is_, not_)), count in zip(checks.items(), totals, strict=True):
                if count:
                    raise MixedTypes(
                        f'Column "{name}" of {source.name} {is_}, but {int(count)} of its values'
                        f" are {not_}.",
                        hint="Change the type of the column, or cast it in a view, and anonymize"
                        " the view.",
                    )
        return tuple(attributes)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Any, ...]]]]:
        # Output tables have no key, and are read in storage order.
        keys = source.required_locator.expressions if source.copy is not None else ("0",)
        parts = [*keys, *(f"s.{quote(name)}" for name in columns)]
        query = f"SELECT {', '.join(parts)} FROM {source.from_clause}{source.where_clause}"
        for rows in self._pieces(query, chunk_rows):
            row_keys = np.array([row[0] for row in rows], np.int64).reshape(-1, 1)
            yield row_keys, [row[1:] for row in rows]

    def texts(self, values: Sequence[str]) -> tuple[str, Any]:
        table = f"JSON_TABLE(?, '$[*]' COLUMNS(value LONGTEXT {types.TEXT} PATH '$')) AS t"
        return f"SELECT value FROM {table}", json_text(values)

    def figures(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        return (np.array(rows, np.float64) for rows in self._pieces(query, chunk_rows))

    # -- output -----------------------------------------------------------------------------------

    def staging_name_of(self, name: RelationName, kind: str, release_id: str) -> RelationName:
        """Return the staging table's name, in a schema that readers have no rights on."""
        if kind == "view":
            raise ViewsNotHere(hint='Release a table: `output_kind="table"`.')
        return RelationName(LEDGER_SCHEMA, f"r_{release_id.replace('-', '')}")

    def create_released(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        self.ensure_ledger()
        self.pending = publication.plan(self, output)
        body = ", ".join(f"{quote(name)} {self.declared_type(kind)}" for name, kind in columns)
        self.run(
            f"CREATE TABLE {output.staging_name.quoted} ({body}) ENGINE=InnoDB {types.TEXT}"
            f" COMMENT='{MARK}{release_id}'"
        )

    def publish(self, output: Output, columns: Sequence[str]) -> None:
        """Check that the release can be published; ``publication`` does so at the end."""
        assert self.pending is not None
        if output.replaced_kind is None and self.find_existing(output.name) is not None:
            raise OutputExists(f"The output {output.name} already exists.")
        self.require_trusted_ledger()

    def record_release_as_owner(
        self, row: Mapping[str, Any], columns: Sequence[Mapping[str, Any]], run: Mapping[str, Any]
    ) -> str | None:
        """Store the entry in the pending release; it is written once the release is published."""
        assert self.pending is not None
        internal = row.get("internal")
        row = {name: value for name, value in row.items() if name != "internal"}
        if internal is not None:
            # If the release is not published, ``publication.refuse`` deletes these figures.
            self.insert_encrypted(self.ledger_name(INTERNAL_TABLE), row["release_id"], internal)
        self.pending.entry = {"row": dict(row), "columns": [*map(dict, columns)], "run": dict(run)}
        return str(row["created_at"])

    def declared_type(self, sql_type: str) -> str:
        return types.declared(sql_type)

    def make_schema(self, name: RelationName) -> None:
        # The schema is created at publication: creating it here could not be rolled back.
        if not self.has_schema(str(name.schema)):
            warn_caller(
                SchemaCreated(f'There is no schema "{name.schema}": the release creates it.')
            )

    def analyze(self, relation: RelationName) -> None:
        """Do nothing: InnoDB updates statistics automatically."""

    def digest_rows(self, relation: RelationName, salt: int) -> tuple[int, int]:
        columns = self.find_source(relation).schema.attributes
        return self._digest(relation, columns, salt, "")

    def digest_columns(
        self, relation: Relation, names: Sequence[str], salt: int
    ) -> tuple[int, int]:
        columns = [relation.attribute(name) for name in names]
        return self._digest(relation.relation, columns, salt, "")

    def _digest(
        self, relation: RelationName, columns: Sequence[Attribute], salt: int, where: str
    ) -> tuple[int, int]:
        [(rows, total)] = self.rows(types.digest_statement(relation, columns, salt, where))
        return int(rows), int(total)

    def digest_probe(self) -> str:
        value = str(self.rows(types.DIGEST_PROBE)[0][0])
        return hashlib.sha256(value.encode()).hexdigest()[:16]


def _row(source: Relation) -> str:
    """Return an unused name for the copy's column of row numbers."""
    return unused(ROW, [attribute.name for attribute in source.schema.attributes])
