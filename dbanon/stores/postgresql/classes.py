"""The store and read-only sources for SQL functions, which run in a server process.

``StableSource`` serves ``dbanon.classes``, which returns the class of each row, and the functions
that give advice. ``PlpyStore`` serves the others, such as those that release.

The *locator* of a source has the SQL that identifies its rows: by row address (ctid), by an integer
column, or by their number in a *key map*, which other stores stage for all other keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dbanon.data.chunks import Chunk, microdata_from_chunks
from dbanon.data.frozen import dataclass
from dbanon.data.microdata import ColumnRoles, Microdata
from dbanon.data.partition import Partition, positions_among
from dbanon.data.schema import Attribute
from dbanon.job.job import DEFAULT_CHUNK_ROWS, Job
from dbanon.partitioning.record_memory import RecordMemory
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, literal, quote, quote_list
from dbanon.stores.ports import Progress
from dbanon.stores.postgresql import packed_rows
from dbanon.stores.postgresql.backend import PlpySession
from dbanon.stores.sql_source import SqlSource

if TYPE_CHECKING:
    from dbanon.stores.postgresql.plpython import PlPython


@dataclass(frozen=True)
class StableSource(SqlSource):
    """A source that is read by a STABLE SQL function, whose queries share the caller's snapshot.

    Such functions cannot create tables. So records are numbered in the order of the source's key,
    from 1, and these numbers replace the key in ``Microdata.keys``.
    """

    session: PlpySession

    def pin(self, relation: Relation, names: Sequence[str]) -> Relation:
        """Check the key, and return the relation unchanged; raises DuplicateKeys."""
        if relation.required_locator.key_map_columns or relation.required_locator.columns_to_check:
            self.session.check_keys(relation)
        return relation

    def read(
        self, relation: Relation, roles: ColumnRoles, job: Job, progress: Progress
    ) -> Microdata:
        """Read all rows with these column roles; raises the errors of ``microdata_from_chunks``."""
        # ``categories`` has the texts of each coded column, in the order of their codes.
        microdata = roles.assign_roles(
            microdata_from_chunks(
                roles.columns,
                self._read_chunks(relation, roles.columns),
                categories=[
                    tuple(value for value, _ in self.session.rows(f"{query} ORDER BY code"))
                    for _, _, query in self._dictionary_queries(relation, roles.columns)
                ],
                require_memory=RecordMemory.of(job, roles.columns, spills=False).require_so_far,
            )
        )
        return replace(microdata, n_withheld=self.session.count_withheld(relation))

    def label_rows(
        self, relation: Relation, microdata: Microdata, partition: Partition
    ) -> Iterator[tuple[str, int | None]]:
        """Yield the key, as JSON text, and the class of each row; withheld rows have no class."""
        # ``microdata.keys`` count the rows from 1 in the order of ``_read_keys``. ``records`` has
        # the index of each row's record, or -1 for a withheld row. ``take`` labels these -1, too.
        records = positions_among(microdata.keys[:, 0] - 1, microdata.n_read)
        labels = partition.take(records).labels.tolist()
        for row_key, label in zip(self._read_keys(relation), labels, strict=True):
            yield row_key, None if label < 0 else label

    def _order_by(self, relation: Relation) -> str:
        """The sort keys of records, for ORDER BY; the relation has the alias s."""
        keys = [
            self.session.dialect.sort_key(relation.attribute(name))
            for name in relation.required_locator.key_map_columns
        ]
        return ", ".join(keys or relation.required_locator.expressions)

    def _read_chunks(self, source: Relation, attributes: Sequence[Attribute]) -> Iterator[Chunk]:
        """Yield the records, in key order; their keys are their numbers from 1."""
        columns = quote_list([attribute.name for attribute in attributes], "s.")
        numbered_rows = (
            f"(SELECT row_number() OVER (ORDER BY {self._order_by(source)}) AS dbanon_ordinal,"
            f" {columns} FROM {source.name.quoted} AS s) AS s"
        )
        for position, text, query in self._dictionary_queries(source, attributes):
            # Join the query instead of a table: a STABLE function cannot create tables.
            alias = f"d{position}"
            numbered_rows += f" LEFT JOIN ({query}) AS {alias} ON {text} = {alias}.value"
        record = packed_rows.packed_record(["s.dbanon_ordinal"], ["bigint"], attributes)
        query = packed_rows.select_all_records(
            f"{numbered_rows}{source.where_clause}", record, DEFAULT_CHUNK_ROWS
        )
        # Each row of the query is a whole chunk.
        for row in self.session.connection.fetch_records(query, rows_per_fetch=1):
            yield packed_rows.unpack(row["string_agg"], ["bigint"], attributes)

    def _dictionary_queries(
        self, source: Relation, attributes: Sequence[Attribute]
    ) -> list[tuple[int, str, str]]:
        """Return position, SQL of the text, and dictionary query of each coded attribute.

        A dictionary query returns the distinct values and their codes.
        """
        queries = []
        for position, attribute in enumerate(attributes):
            if attribute.kind.is_coded:
                text = self.session.dialect.value_of(attribute)
                column = f"s.{quote(attribute.name)}"
                query = statements.numbered_values(
                    f"{source.name.quoted} AS s", text, column, source.and_not_null_condition
                )
                queries.append((position, text, query))
        return queries

    def _read_keys(self, source: Relation) -> list[str]:
        """Return the key of each row as JSON text, in record order."""
        locator = source.required_locator
        if locator.key_map_columns or locator.types == ("bigint",):
            columns = [
                (name, self.session.dialect.value_of_key(source.attribute(name)))
                for name in locator.key_map_columns or self._key_columns(source)
            ]
        else:
            columns = [
                (expression.removeprefix("s."), f"{expression}::text")
                for expression in locator.expressions
            ]
        pairs = ", ".join(f"{literal(name)}, {column}" for name, column in columns)
        query = (
            f"SELECT jsonb_build_object({pairs})::text AS row_key"
            f" FROM {source.name.quoted} AS s ORDER BY {self._order_by(source)}"
        )
        return [
            row["row_key"]
            for row in self.session.connection.fetch_records(query, DEFAULT_CHUNK_ROWS)
        ]

    @staticmethod
    def _key_columns(source: Relation) -> list[str]:
        """Return the integer column whose values are the row keys, as the only element."""
        expression = source.required_locator.expressions[0]
        return [a.name for a in source.schema.attributes if f"s.{quote(a.name)}" == expression]


class PlpyStore:
    """The database in whose server process this code runs, for one source.

    Parameters
    ----------
    plpy : the module that PL/Python provides.
    oid : the oid of the source.
    """

    is_persistent = True

    def __init__(self, plpy: PlPython, oid: int) -> None:
        self._session = PlpySession(plpy, oid)

    @property
    def url(self) -> str:
        """A URL for messages."""
        return "postgresql:///"

    @property
    def source_name(self) -> RelationName:
        """The name of the source."""
        return self._session.catalog.find_source_name()

    @contextmanager
    def session(self, *, write: bool, create: bool = False) -> Iterator[PlpySession]:
        """Return the caller's transaction, which only the caller commits or rolls back."""
        yield self._session

    def planning(
        self, *, staging: bool, create: bool = False
    ) -> AbstractContextManager[PlpySession]:
        """Return the caller's transaction."""
        return self.session(write=False)

    @property
    def shares_memory(self) -> bool:
        """False: see ``Store``."""
        return False

    def spill(self, directory: Path | None, memory_bytes: int | None) -> None:
        """Do nothing: the server manages its memory."""

    def is_same_database(self, other: object) -> bool:
        """Whether the other store is this object."""
        return other is self
