"""A session on PostgreSQL, shared by the client and the backend.

The client connects through psycopg; the backend is the server process that runs dbanon's SQL
functions. They differ only in how they transfer data. Everything else is here and in the parts of a
session: reading the catalog, checking rights, and writing and publishing releases.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import (
    Relation,
)
from dbanon.sessions.chain_dialect import ChainDialect
from dbanon.sessions.names import RelationName, quote
from dbanon.sessions.passthrough import ColumnPassthrough
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import arrays, catalog
from dbanon.stores.postgresql.connection import PostgresqlConnection
from dbanon.stores.postgresql.dialect import PostgresqlDialect, staged_columns
from dbanon.stores.postgresql.digest import PostgresqlDigests
from dbanon.stores.postgresql.ledger import PostgresqlLedger
from dbanon.stores.postgresql.persons import PostgresqlPersonRecords
from dbanon.stores.postgresql.publication import PostgresqlPublication
from dbanon.stores.postgresql.relation_catalog import PostgresqlCatalog
from dbanon.stores.postgresql.rules import PostgresqlRuleCatalog
from dbanon.stores.postgresql.settings import SORT_MEM, WORK_MEM
from dbanon.stores.postgresql.tags import PostgresqlPersonTags


class PostgresqlSession(Session):
    """One transaction on PostgreSQL.

    Classes and released values are sent as arrays where that is possible (``arrays``).

    Parameters
    ----------
    connection : executes SQL in the transaction.
    catalog, publication, ledger : the parts that differ between a client and the backend.
    chain_dialect, passthrough : parts that only a client has; None in the backend.
    """

    connection: PostgresqlConnection
    publication: PostgresqlPublication

    def __init__(
        self,
        connection: PostgresqlConnection,
        *,
        catalog: PostgresqlCatalog,
        publication: PostgresqlPublication,
        ledger: PostgresqlLedger,
        chain_dialect: ChainDialect | None = None,
        passthrough: ColumnPassthrough | None = None,
    ) -> None:
        super().__init__(
            connection,
            catalog=catalog,
            publication=publication,
            ledger=ledger,
            digests=PostgresqlDigests(connection),
            tags=PostgresqlPersonTags(connection),
            chain_dialect=chain_dialect,
            passthrough=passthrough,
            rules=PostgresqlRuleCatalog(connection, catalog),
            persons=PostgresqlPersonRecords(connection, catalog.find_existing),
        )
        # The arrays that are loaded; None if classes are staged as tables.
        self._arrays: arrays.ReleaseArrays | None = None

    @property
    def dialect(self) -> PostgresqlDialect:
        """How the database writes values and types."""
        return self.connection.dialect

    # -- source -----------------------------------------------------------------------------------

    def stage_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> list[tuple[str, ...]]:
        dictionaries = super().stage_values(source, attributes)
        # Without statistics the planner assumes large tables, and sorts the source for each of
        # them.
        for table in self._value_tables:
            self.run(f"ANALYZE {quote(table)}")
        return dictionaries

    def sample(self, relation: RelationName, share: float) -> str:
        return f"{relation.quoted} AS s TABLESAMPLE BERNOULLI ({100 * share:.6f})"

    def complete_attributes_from_values(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> tuple[Attribute, ...]:
        # A column of type numeric that declares no scale gets the largest scale of its values.
        unscaled_attributes = [a for a in attributes if a.scale == catalog.UNKNOWN_SCALE]
        if not unscaled_attributes:
            return tuple(attributes)
        maxima = ", ".join(f"max(scale(s.{quote(a.name)}))" for a in unscaled_attributes)
        from_clause = f"{source.relation_to_read.quoted} AS s{source.where_clause}"
        [scales] = self.rows(f"SELECT {maxima} FROM {from_clause}")
        scale_by_name = {
            a.name: scale or 0 for a, scale in zip(unscaled_attributes, scales, strict=True)
        }
        return tuple(replace(a, scale=scale_by_name.get(a.name, a.scale)) for a in attributes)

    # -- arrays -----------------------------------------------------------------------------------

    def stage(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> None:
        if not self.load_class_arrays(source, microdata, partition, columns):
            super().stage(source, microdata, partition, columns)

    def load_class_arrays(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> bool:
        """Load the class of each record, and the released values of each class, as arrays.

        Returns False if they must be staged as tables instead: if the labels of this partition are
        staged already, to count persons, or if the keys or the values fit no arrays.
        """
        self._arrays = None
        if self._staged_partition is not partition:
            self._arrays = self._build_arrays(source, microdata, partition, columns)
        if self._arrays is None:
            return False
        self.load_arrays(self._arrays)
        return True

    def _build_arrays(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> arrays.ReleaseArrays | None:
        """Return the arrays for a release; None if it must be written from staging tables."""
        slots_and_elements = arrays.assign_slots(source, microdata.keys)
        if slots_and_elements is None:
            return None
        slots, elements = slots_and_elements
        # The values of each class, in the order of class numbers. A released range has two parts,
        # its lower and its upper bounds, and each part is an array.
        values = arrays.build_value_arrays(staged_columns(self.parts_by_class(partition, columns)))
        if values is None:
            return None
        classes = self.classes_by_number(partition)
        class_positions, position_bits = arrays.pack_class_positions(
            slots.n_elements, elements, partition, classes
        )
        return arrays.ReleaseArrays(slots, class_positions, position_bits, values)

    @abstractmethod
    def load_arrays(self, release_arrays: arrays.ReleaseArrays) -> None:
        """Make arrays available to statements, which refer to them by ``array_sql``."""

    @abstractmethod
    def array_sql(self, index: int, column: arrays.ArrayColumn) -> str:
        """SQL of the loaded array with this index in ``arrays.ReleaseArrays.columns``."""

    def run_with_arrays(self, sql: str) -> None:
        """Execute a statement that reads arrays."""
        self.run(sql)

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        source_columns: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        # Without a source, the rows come from staging tables with values of another database.
        if source is not None and self.insert_from_arrays(
            table, values, source, source_columns, joins
        ):
            return
        # The staging table of each row's class is in key order, but rows are needed in class order.
        # Merge joins take a third less time here than hash joins, which access memory at random.
        self.run("SET LOCAL enable_hashjoin = off")
        super().insert(table, values, source, source_columns, joins)
        self.run("SET LOCAL enable_hashjoin = on")

    def insert_from_arrays(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation,
        source_columns: Sequence[str],
        joins: str = "",
    ) -> bool:
        """Fill a table as ``insert`` does, with the arrays that ``load_class_arrays`` has loaded.

        Returns False if no arrays are loaded.
        """
        if self._arrays is None:
            return False
        # The statement sorts all rows, and a small memory makes sorting faster.
        self.run(f"SET LOCAL work_mem = '{SORT_MEM}'")
        self.run_with_arrays(
            arrays.insert_statement(
                table, values, source, source_columns, self._arrays, self.array_sql, joins
            )
        )
        self.run(f"SET LOCAL work_mem = '{WORK_MEM}'")
        return True

    @property
    def staging_tables(self) -> tuple[str, ...]:
        return (*super().staging_tables, arrays.RELEASE_ARRAYS)

    # -- output -----------------------------------------------------------------------------------

    def analyze(self, relation: RelationName) -> None:
        self.run(f"ANALYZE {relation.quoted}")
