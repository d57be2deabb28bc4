"""Kept columns that travel with the client, unread: only some databases have them."""

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
    """What a session does with columns that the client keeps; by default it refuses."""

    def require_passthrough(self, source: Relation, columns: Sequence[Attribute]) -> None:
        """Check that values of these columns can travel with the client and back, unread.

        Raises
        ------
        InvalidParameter : on this database, or through this door, none can.
        UnsupportedType : one cannot for its type.
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
        """As ``read_chunks``; the client keeps the values of further columns, unread, for later.

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
        """Fill a table with what ``read_passthrough`` kept, shuffled, beside classes' values.

        Parameters
        ----------
        released : name, SQL type and SQL expression, over staged classes, of each column of these.
        columns : the values of classes.
        passthrough : the names of the columns that were kept, in their order.

        Raises
        ------
        DatabaseFailure : the database does not take a value back.
        """
        raise passthrough_refused()
