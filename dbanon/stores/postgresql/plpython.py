"""The part of PL/Python's module ``plpy`` that dbanon uses, as a type.

Only type checkers import this module: PL/Python passes its own module to the functions that SQL
calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

# A row of a result: its values by column, such as ``bytes`` for ``bytea``.
PlPythonRow: TypeAlias = Mapping[str, Any]


class PlPythonResult(Protocol):
    """The rows that a statement returns."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[PlPythonRow]: ...

    def __getitem__(self, index: int, /) -> PlPythonRow: ...

    def nrows(self) -> int:
        """Return the number of rows that the statement returned or changed."""


class PlPythonCursor(Protocol):
    """A cursor of a query."""

    def fetch(self, n_rows: int, /) -> PlPythonResult:
        """Return the next rows, at most this many."""

    def close(self) -> None:
        """Close the cursor."""


class PlPython(Protocol):
    """PL/Python's module for queries in the caller's session."""

    def execute(self, query: object, values: Sequence[object] = (), /) -> PlPythonResult:
        """Run a statement, which is text or a plan, and return its rows."""

    def cursor(self, query: str, /) -> PlPythonCursor:
        """Return a cursor of a query."""

    def prepare(self, query: str, types: Sequence[str] = (), /) -> object:
        """Return the plan of a statement whose parameters have these SQL types."""

    def subtransaction(self) -> AbstractContextManager[object]:
        """Return a subtransaction for a ``with`` block, which an error rolls back."""

    def commit(self) -> None:
        """Commit the transaction and begin another one, in a procedure."""

    def rollback(self) -> None:
        """Roll the transaction back and begin another one, in a procedure."""

    def log(self, message: str, /) -> None:
        """Write a message to the server's log."""

    def notice(self, message: str, /) -> None:
        """Send a notice to the client."""

    def warning(self, message: str, /) -> None:
        """Send a warning to the client."""
