"""The part of PL/Python's module ``plpy`` that dbanon uses, as a type.

Only type checkers import this module: PL/Python passes its own module to the functions that SQL
calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class PlPython(Protocol):
    """PL/Python's module for queries in the caller's session."""

    def execute(
        self, query: object, values: Sequence[object] = (), /
    ) -> Sequence[Mapping[str, Any]]:
        """Run a statement, which is text or a plan, and return its rows: values by column."""

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
