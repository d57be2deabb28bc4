"""Lock, create, publish and drop the outputs of releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Literal

from dbanon.sessions.base import Output
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, released_name


class Publication(ABC):
    """Writes the tables and views of releases, and makes them visible.

    Parameters
    ----------
    connection : executes the statements.
    """

    # How releases become visible. With ``transaction``, the session's commit publishes the release
    # and its ledger entry together; with ``swap``, a separate statement at the end of the session
    # renames the release into place, and the ledger entry follows.
    mode: ClassVar[Literal["transaction", "swap"]] = "transaction"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def lock(self, name: RelationName) -> None:  # noqa: B027
        """Lock the output against other runs until the transaction ends; call before reading.

        Does nothing on databases that allow only one writer, or if planning has locked the output.

        Raises
        ------
        OutputBusy : another run is writing it.
        ReadOnly : the transaction is read-only.
        """

    def ensure_schema(self, name: RelationName) -> None:  # noqa: B027
        """Create the output's schema if it is missing.

        Raises
        ------
        SourceChanged : another session created it in the meantime.
        """

    def staging_name(self, name: RelationName, kind: str, release_id: str) -> RelationName:
        """Return the name under which a release's table is written.

        Raises
        ------
        ViewsNotHere : a view is requested, and this database cannot release views.
        """
        return released_name(name, release_id, self._connection.dialect.name_limit)

    @abstractmethod
    def create_table(
        self, output: Output, columns: Sequence[tuple[str, str]], release_id: str
    ) -> None:
        """Create the table of a release, with a comment that marks it as one.

        Parameters
        ----------
        columns : pairs of name and SQL type.
        """

    def set_swap_timeout(self, seconds: float) -> None:  # noqa: B027
        """Limit the time that the swap waits for readers of the replaced table.

        Does nothing unless ``mode`` is ``swap``.
        """

    @abstractmethod
    def publish(self, output: Output, columns: Sequence[str]) -> None:
        """Publish the written table: rename it, or point the view to it.

        Other sessions see the release once this session ends without an error.

        Parameters
        ----------
        columns : the names of the released columns, for the view.
        """

    def drop_view(self, relation: RelationName) -> None:
        """Drop the view that shows a release."""
        self._connection.run(f"DROP VIEW {relation.quoted}")

    def drop_table(self, relation: RelationName) -> None:
        """Drop a released table."""
        self._connection.run(f"DROP TABLE {relation.quoted}")
