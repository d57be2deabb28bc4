"""One transaction on MariaDB, through PyMySQL.

The source is first copied by a single statement, so that all later steps see the same rows. The
snapshot of a transaction is not enough for that: ``CREATE TABLE … SELECT`` and ``INSERT … SELECT``
ignore the snapshot; they read and lock the current rows. DDL statements commit the transaction, so
releases are published in the steps that ``publication`` describes.

Public methods without a docstring override documented ones of ``sessions.session.Session``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dbanon.data.schema import Attribute, Kind
from dbanon.data.types import SqlRow
from dbanon.errors import (
    BudgetsNotHere,
    ChainsNotHere,
    DbanonError,
    MixedTypes,
    PseudonymsNotHere,
    UnsupportedType,
)
from dbanon.extensions.mariadb import dialect as mariadb_dialect
from dbanon.extensions.mariadb.catalog import MariadbCatalog
from dbanon.extensions.mariadb.connection import MariadbConnection
from dbanon.extensions.mariadb.digests import MariadbDigests
from dbanon.extensions.mariadb.ledger import MariadbLedger
from dbanon.extensions.mariadb.persons import MariadbPersonRecords
from dbanon.extensions.mariadb.publication import MariadbPublication
from dbanon.extensions.mariadb.staging import MariadbStaging
from dbanon.extensions.mariadb.tags import MariadbPersonTags
from dbanon.sessions.base import (
    OnSql,
    Relation,
)
from dbanon.sessions.names import RelationName, quote

if TYPE_CHECKING:
    from pymysql.connections import Connection
    from pymysql.cursors import Cursor

# Names of temporary tables: copies of sources (a prefix), and a random sample.
_COPY_PREFIX = "dbanon_source"
_SAMPLE = "dbanon_sample"
# Maximum bytes of a text that sorting compares; ``store`` sets max_sort_length accordingly.
_SORTED_BYTES = 65_535
BEGIN_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
_SET_ISOLATION_LEVEL = "SET SESSION TRANSACTION ISOLATION LEVEL {}"


class MariadbSession(MariadbStaging):
    """One transaction on MariaDB.

    Parameters
    ----------
    may_copy : whether ``pin`` copies the source; otherwise the source itself is read.
    """

    catalog: MariadbCatalog
    publication: MariadbPublication

    unsupported_features: ClassVar[Mapping[str, type[DbanonError]]] = {
        "chains": ChainsNotHere,
        "budgets": BudgetsNotHere,
        "pseudonyms": PseudonymsNotHere,
    }

    def __init__(
        self, driver: Connection[Cursor], on_sql: OnSql | None = None, *, may_copy: bool = True
    ) -> None:
        connection = MariadbConnection(driver, on_sql)
        catalog = MariadbCatalog(connection)
        publication = MariadbPublication(self, connection, catalog)
        ledger = MariadbLedger(
            connection,
            catalog.find_existing,
            make_database=publication.ensure_database,
            insert_encrypted=self.insert_encrypted,
            keep_entry=publication.keep_entry,
        )
        super().__init__(
            connection,
            catalog=catalog,
            publication=publication,
            ledger=ledger,
            digests=MariadbDigests(connection, catalog.find_source),
            tags=MariadbPersonTags(connection),
            chain_dialect=None,
            persons=MariadbPersonRecords(connection, ledger),
        )
        self._may_copy, self._n_copies = may_copy, 0

    # -- source -----------------------------------------------------------------------------------

    def pin(self, source: Relation, columns: Sequence[str]) -> Relation:
        """Copy these columns in one statement, and number the rows in key order.

        Raises
        ------
        MixedTypes : a column holds zero dates, or values that are not in its enum.
        """
        if not self._may_copy or source.copy is not None:
            return source
        key_names = self.catalog.key_columns_of(source)
        names = tuple(
            dict.fromkeys(
                [*columns, *source.required_locator.columns_to_check, *source.non_null_columns]
            )
        )
        attributes = [source.attribute(name) for name in names]
        key_attributes = [source.attribute(name) for name in key_names]
        is_integer_key = (
            len(key_attributes) == 1
            and key_attributes[0].kind is Kind.INTEGER
            and key_attributes[0].bits <= 64
            and not source.required_locator.columns_to_check
        )
        self._n_copies += 1
        copy = RelationName(None, f"{_COPY_PREFIX}_{self._n_copies}")
        row_column = mariadb_dialect.row_number_column(source)
        definition = f"{row_column} BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"
        row_value = order = ""
        if is_integer_key:
            definition = f"PRIMARY KEY ({row_column})"
            row_value = f"{quote(key_attributes[0].name)} AS {row_column}, "
        elif key_attributes:
            # Texts are sorted by code point.
            sort_keys = ", ".join(
                mariadb_dialect.copied_column(a, quote(a.name)) for a in key_attributes
            )
            order = f" ORDER BY {sort_keys}"
        # The condition by which the job selects rows. The line breaks end any comments in it.
        condition = source.selected_rows and source.selected_rows.condition
        where = f" WHERE (\n{condition}\n)" if condition else ""
        values = ", ".join(
            f"{mariadb_dialect.copied_column(a, quote(a.name))} AS {quote(a.name)}"
            for a in attributes
        )
        # Without columns, as when rows are only counted, a constant takes their place.
        values = values or "1 AS one"
        # At REPEATABLE READ the statement would lock all rows it reads, and ignore the snapshot.
        self.run("COMMIT")
        self.run(_SET_ISOLATION_LEVEL.format("READ COMMITTED"))
        self.run(
            f"CREATE TEMPORARY TABLE {copy.quoted} ({definition})"
            f"{self.dialect.staging_suffix} AS SELECT {row_value}{values}"
            f" FROM {source.name.quoted}{where}{order}"
        )
        self.run(_SET_ISOLATION_LEVEL.format("REPEATABLE READ"))
        self.run(BEGIN_SNAPSHOT)
        pinned_source = replace(
            source,
            copy=copy,
            selected_rows=None,
            locator=replace(source.required_locator, expressions=(f"s.{row_column}",)),
        )
        self._require_valid_values(pinned_source, attributes)
        return pinned_source

    def _require_valid_values(self, source: Relation, attributes: Sequence[Attribute]) -> None:
        """Check that dates are valid, and that enum values belong to their enum."""
        invalid_conditions = {}
        for attribute in attributes:
            column = f"s.{quote(attribute.name)}"
            if attribute.sql_type.startswith("enum") and "" not in attribute.order:
                # Instead of a value that is not in the enum, the server stores an empty text.
                invalid_conditions[attribute.name] = f"{column} = ''"
            elif attribute.kind in (Kind.DATE, Kind.TIMESTAMP):
                invalid_conditions[attribute.name] = (
                    f"month({column}) = 0 OR dayofmonth({column}) = 0"
                )
        if not invalid_conditions:
            return
        sums = ", ".join(
            f"coalesce(sum({condition}), 0)" for condition in invalid_conditions.values()
        )
        [counts] = self.rows(f"SELECT {sums} FROM {source.relation_to_read.quoted} AS s")
        for name, count in zip(invalid_conditions, counts, strict=True):
            if count:
                attribute = source.attribute(name)
                problem = "dates whose month or day is 0"
                if attribute.kind is Kind.CATEGORY:
                    problem = "values that are not in its enum"
                raise MixedTypes(
                    f'Column "{name}" of {source.name} holds {int(count)} {problem}.',
                    hint="Correct these values, or make them NULL in a view: nullif(…).",
                )

    def sample(self, relation: RelationName, share: float) -> str:
        # Store the sample in a table, so that a query that refers to it twice sees the same rows.
        self.run(f"DROP TEMPORARY TABLE IF EXISTS {_SAMPLE}")
        self.run(
            f"CREATE TEMPORARY TABLE {_SAMPLE} {self.dialect.staging_suffix} AS"
            f" SELECT * FROM {relation.quoted}"
            f" WHERE {self.dialect.random_number} < {share:.9f}"
        )
        return f"{_SAMPLE} AS s"

    def complete_attributes_from_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        # Declared types are complete here, so the attributes stay as they are: only values are
        # checked. By column: SQL condition for invalid values, and two phrases for messages, which
        # describe the type and these values.
        checks: dict[str, tuple[str, str, str]] = {}
        for attribute in attributes:
            column = f"s.{quote(attribute.name)}"
            if attribute.sql_type.startswith("float"):
                raise UnsupportedType(
                    f'Column "{attribute.name}"'
                    f" of {source.name} is FLOAT, where different values can print the same.",
                    hint="Change its type to DOUBLE or DECIMAL, or cast it to one of them in a"
                    " view, and anonymize the view.",
                )
            if attribute.kind is Kind.BOOLEAN:
                type_description, problem = "tinyint(1), which is BOOLEAN", "not 0 or 1"
                invalid_condition = f"{column} NOT IN (0, 1)"
            elif attribute.sql_type in ("mediumtext", "longtext"):
                # The server sorts texts by this many bytes only.
                problem = f"longer than {_SORTED_BYTES} bytes"
                type_description = attribute.sql_type
                invalid_condition = (
                    f"octet_length({mariadb_dialect.as_text(attribute, column)}) > {_SORTED_BYTES}"
                )
            else:
                continue
            checks[attribute.name] = invalid_condition, type_description, problem
        if checks:
            sums = ", ".join(
                f"coalesce(sum({condition}), 0)" for condition, _, _ in checks.values()
            )
            [counts] = self.rows(
                f"SELECT {sums} FROM {source.relation_to_read.quoted} AS s{source.where_clause}"
            )
            for (name, check), count in zip(checks.items(), counts, strict=True):
                if count:
                    _, type_description, problem = check
                    raise MixedTypes(
                        f'Column "{name}" of {source.name} is {type_description}, but'
                        f" {int(count)} of its values are {problem}.",
                        hint="Change the type of the column, or cast it in a view, and anonymize"
                        " the view.",
                    )
        return tuple(attributes)

    def read_rows(
        self, source: Relation, columns: Sequence[str], chunk_rows: int
    ) -> Iterator[tuple[NDArray[np.int64], list[SqlRow]]]:
        # Only copies have row numbers. Output tables are read in storage order, with 0 as the key.
        keys = source.required_locator.expressions if source.copy is not None else ("0",)
        select_list = ", ".join([*keys, *(f"s.{quote(name)}" for name in columns)])
        query = f"SELECT {select_list} FROM {source.from_clause}{source.where_clause}"
        for rows in self.connection.fetch_chunks(query, chunk_rows):
            row_keys = np.array([row[0] for row in rows], np.int64).reshape(-1, 1)
            yield row_keys, [row[1:] for row in rows]

    def read_numbers(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.float64]]:
        return (
            np.array(rows, np.float64) for rows in self.connection.fetch_chunks(query, chunk_rows)
        )

    # -- output -----------------------------------------------------------------------------------

    def analyze(self, relation: RelationName) -> None:
        """Do nothing: InnoDB updates statistics automatically."""
