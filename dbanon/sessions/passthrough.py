"""Retained columns that travel through the client unread; only some databases support this."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dbanon.data.chunks import Chunk
from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.data.schema import Attribute
from dbanon.recoding import ReleasedColumn
from dbanon.sessions.base import Relation, passthrough_refused
from dbanon.sessions.names import RelationName


class PassthroughInterface:
    """Session methods for columns that travel through the client; the default refuses."""

    def require_passthrough(self, source: Relation, columns: Sequence[Attribute]) -> None:
        """Check that values of these columns can travel through the client unread.

        Raises
        ------
        InvalidParameter : this database, or this interface, does not support it.
        UnsupportedType : a column's type does not support it.
        """
        raise passthrough_refused()

    def read_passthrough(
        self,
        source: Relation,
        attributes: Sequence[Attribute],
        passthrough: Sequence[Attribute],
        chunk_rows: int,
        memory_limit: int | None,
    ) -> Iterator[Chunk]:
        """Read as ``read_chunks``, and keep the values of further columns, unread, for later.

        Raises
        ------
        MemoryLimit : they need more memory than allowed.
        """
        raise passthrough_refused()

    def insert_passthrough(
        self,
        table: RelationName,
        released: Sequence[tuple[str, str, str]],
        columns: Sequence[ReleasedColumn],
        passthrough: Sequence[str],
        microdata: Microdata,
        partition: Partition,
    ) -> None:
        """Fill a table with shuffled passthrough values and the values of their classes.

        Parameters
        ----------
        released : name, SQL type and SQL expression over staged classes, of each class column.
        columns : the values of classes.
        passthrough : names of the passthrough columns, in order.

        Raises
        ------
        DatabaseFailure : the database rejects a value.
        """
        raise passthrough_refused()
