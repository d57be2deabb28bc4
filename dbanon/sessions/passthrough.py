"""Pass retained columns through the client, which copies their values without parsing them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.partitioning.record_memory import RecordMemory
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import Relation, passthrough_error
from dbanon.sessions.names import RelationName


class ClassStaging(Protocol):
    """The session that stages the classes of a release."""

    def stage_classes(self, partition: Partition, columns: Sequence[ReleasedColumn]) -> None:
        """Stage the released values of every class, ordered by class number."""

    def classes_by_number(self, partition: Partition) -> NDArray[np.int64]:
        """Return the class of each random class number, int64 (n_classes,)."""


class ColumnPassthrough:
    """Reads and writes passthrough columns: retained columns that the client copies unparsed.

    These defaults are those of databases and interfaces that do not support it: all methods raise
    InvalidParameter.
    """

    def require(self, source: Relation, columns: Sequence[Attribute]) -> None:
        """Check that these columns can be passthrough columns.

        Raises
        ------
        InvalidParameter : the database, or the interface that runs the job, does not support it.
        UnsupportedType : a column's type does not support it.
        """
        raise passthrough_error()

    def read_chunks(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        passthrough: Sequence[Attribute],
        chunk_rows: int,
        memory: RecordMemory | None,
    ) -> Iterator[Chunk]:
        """Yield chunks as the session does, and keep the raw values of ``passthrough`` columns.

        Parameters
        ----------
        passthrough : the columns whose values ``insert`` will write.
        chunk_rows : the number of rows to read at a time.
        memory : counts the memory of records and raw values against a limit; None for no limit.

        Raises
        ------
        MemoryLimit : records and raw values need more than the limit.
        """
        raise passthrough_error()

    def estimate_value_bytes(self, source: Relation, columns: Sequence[Attribute]) -> int:
        """Estimate the bytes that the raw values of these columns take per row.

        Values are not read: fixed widths and statistics of the database decide. A column without
        either counts only the length of its values.
        """
        raise passthrough_error()

    def insert(
        self,
        staging: ClassStaging,
        table: RelationName,
        class_columns: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
        passthrough: Sequence[str],
        microdata: Microdata,
        partition: Partition,
    ) -> None:
        """Fill a table with rows in random order: passthrough values, and their class's values.

        Parameters
        ----------
        staging : the session that wrote the table.
        class_columns : name, SQL type and SQL expression of each column with class values; the
            expressions use the staging table of classes.
        columns : the released values of each class.
        passthrough : names of the passthrough columns, in the order of ``read_chunks``.

        Raises
        ------
        DatabaseFailure : the database rejects a value.
        """
        raise passthrough_error()
