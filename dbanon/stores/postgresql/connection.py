"""What the parts of a PostgreSQL session need of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbanon.sessions.connection import Connection, StagingConnection


class PostgresqlConnection(Connection, Protocol):
    """Executes SQL in one transaction on PostgreSQL."""

    @property
    def lock_seconds(self) -> float:
        """Maximum seconds to wait for a lock."""

    def look_up(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the catalog, whose plan the connection may cache."""

    def call(self, function: str, arguments: Sequence[str]) -> str:
        """Call a dbanon function with JSON that must not be logged; return its result as text.

        Parameters
        ----------
        function : the function's qualified name.
        arguments : one JSON text per argument.
        """

    def savepoint(self) -> AbstractContextManager[Any]:
        """If the block raises, roll back only its own statements."""


class CopyConnection(StagingConnection, PostgresqlConnection, Protocol):
    """Executes SQL in one transaction, and copies rows in bulk through a client."""

    def copy_chunks(self, query: str, chunk_rows: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the rows of a COPY … TO STDOUT as bytes, uint8 (m,), without header and trailer.

        Parameters
        ----------
        chunk_rows : the number of rows to yield at a time.
        """

    def copy_bytes(self, copy: str, chunks: Iterable[bytes | memoryview]) -> None:
        """Execute a COPY … FROM STDIN with these bytes, in chunks of any size."""
