"""What a client's session does for chains by arrays: columns fetched and loaded, rows of cells.

A join of all persons costs the server several times what it costs to hand their tags over, once in
each direction, and COPY fills a table in less than half the time that an INSERT takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dbanon.data.microdata import Microdata
from dbanon.data.partition import Partition
from dbanon.sessions import statements
from dbanon.sessions.base import Relation
from dbanon.sessions.names import RelationName, quote, quote_list
from dbanon.sessions.pseudonym_session import Fetched
from dbanon.stores.postgresql import arrays, packed
from dbanon.stores.postgresql.client_passthrough import PassthroughSession
from dbanon.stores.postgresql.settings import SORT_MEM, WORK_MEM

# Rows that are taken at a time.
_ROWS = 65_536


class ChainsSession(PassthroughSession):
    """The part of a client's session that chains ask for."""

    brings_arrays = True
    nobodys_tag = "'\\x00000000000000000000000000000000'::bytea"

    def fetch(self, columns: Sequence[tuple[str, str]], rows: str) -> list[Fetched]:
        kinds = [kind for _, kind in columns]
        # Of the width that is said, whatever SQL gives.
        listed = ", ".join(f"({sql})::{kind}" for sql, kind in columns)
        found: list[list[Fetched]] = [[] for _ in kinds]
        query = f"COPY (SELECT {listed} FROM {rows}) TO STDOUT (FORMAT binary)"
        for buffer in self.copied(query, _ROWS):
            for column, piece in zip(found, packed.fixed_columns(buffer, kinds), strict=True):
                column.append(piece)
        nothing = packed.fixed_columns(np.empty(0, np.uint8), kinds)
        return [
            np.concatenate([none, *pieces]) for none, pieces in zip(nothing, found, strict=True)
        ]

    def load(self, table: str, columns: Sequence[tuple[str, str, Fetched]]) -> None:
        named = [(name, kind) for name, kind, _ in columns]
        self.run(statements.create_staging(table, named, self.staging_suffix))
        self.append(RelationName(None, table), columns)
        self.run(f"ANALYZE {quote(table)}")

    def append(self, table: RelationName, columns: Sequence[tuple[str, str, Fetched]]) -> None:
        names = quote_list(name for name, _, _ in columns)
        copy = f"COPY {table.quoted} ({names}) FROM STDIN (FORMAT binary)"
        self.copy_bytes(copy, packed.copy_binary(columns))

    def bring_cells(self, source: Relation, microdata: Microdata, partition: Partition) -> bool:
        self._arrays = None
        if self._staged is not partition:
            self._arrays = self._arrays_of(source, microdata, partition, [])
        if self._arrays is None:
            return False
        self.load_arrays(self._arrays)
        return True

    def insert_cells(
        self, table: RelationName, values: Mapping[str, str], source: Relation, reads: Sequence[str]
    ) -> bool:
        if self._arrays is None:
            return False
        self.run(f"SET LOCAL work_mem = '{SORT_MEM}'")
        self.run_with_arrays(
            arrays.insert(table, values, source, reads, self._arrays, self.array_sql, "")
        )
        self.run(f"SET LOCAL work_mem = '{WORK_MEM}'")
        return True
