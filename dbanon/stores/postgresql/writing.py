"""How PostgreSQL writes a release: from arrays where rows have numbers, else from staging."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName
from dbanon.sessions.session import Session
from dbanon.stores.postgresql import arrays
from dbanon.stores.postgresql import dialect as types
from dbanon.stores.postgresql.settings import SORT_MEM, WORK_MEM


class PostgresqlWriting(Session):
    """The part of a session that brings classes to the server and writes rows with them."""

    _arrays: arrays.Arrays | None = None

    def stage(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> None:
        self._arrays = None
        if self._staged is not partition:
            self._arrays = self._arrays_of(source, microdata, partition, columns)
        if self._arrays is None:
            super().stage(source, microdata, partition, columns)
        else:
            self.load_arrays(self._arrays)

    def _arrays_of(
        self,
        source: Relation,
        microdata: Microdata,
        partition: Partition,
        columns: Sequence[ReleasedColumn],
    ) -> arrays.Arrays | None:
        found = arrays.slots_of(source, microdata.keys)
        if found is None:
            return None
        slots, elements = found
        values = arrays.columns_of(types.staged_columns(self.by_number(partition, columns)))
        if values is None:
            return None
        classes = self.classes_by_number(partition)
        return arrays.Arrays(slots, *arrays.order_of(slots.n, elements, partition, classes), values)

    @abstractmethod
    def load_arrays(self, loaded: arrays.Arrays) -> None:
        """Bring arrays to where statements find them."""

    @abstractmethod
    def array_sql(self, place: int, column: arrays.Column) -> str:
        """SQL of an array that was brought, the one at this place of ``Arrays.columns``."""

    def run_with_arrays(self, sql: str) -> None:
        """Execute a statement that reads arrays."""
        self.run(sql)

    def insert(
        self,
        table: RelationName,
        values: Mapping[str, str],
        source: Relation | None,
        reads: Sequence[str] = (),
        joins: str = "",
    ) -> None:
        if self._arrays is not None and source is not None:
            self.run(f"SET LOCAL work_mem = '{SORT_MEM}'")
            self.run_with_arrays(
                arrays.insert(table, values, source, reads, self._arrays, self.array_sql, joins)
            )
            self.run(f"SET LOCAL work_mem = '{WORK_MEM}'")
            return
        # Labels lie in key order and are wanted in class order: merge joins read and sort what a
        # hash join would look up at random, in a third less time.
        self.run("SET LOCAL enable_hashjoin = off")
        super().insert(table, values, source, reads, joins)
        self.run("SET LOCAL enable_hashjoin = on")

    @property
    def staging_tables(self) -> tuple[str, ...]:
        return (*super().staging_tables, arrays.PLACES)
