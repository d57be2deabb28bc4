"""The ledger's records of the persons in releases: who is in which class, as salted hashes."""

from __future__ import annotations

from collections.abc import Sequence

from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName


class PersonRecords:
    """The records of a database that leaves counting to the client; others have a subclass.

    Parameters
    ----------
    connection : reads and writes the records in the session's transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def count_joint_histories(
        self,
        releases: Sequence[str],
        k: int,
        in_progress: tuple[str, RelationName, RelationName] | None,
    ) -> tuple[int, int, int] | None:
        """Count persons by their joint history, i.e. their classes in several releases.

        Returns the number of persons, of those whose joint history fewer than k persons share, and
        of those whose joint history is unique. Returns None if this database cannot count them, so
        that the client must do it.

        Parameters
        ----------
        releases : ids of the releases.
        k : a joint history that fewer than k persons share is counted as below k.
        in_progress : id, written table and source of the release whose persons are staged; None if
            none is being written.
        """
        return None

    def record_in_database(self, release_id: str) -> bool:
        """Record the staged persons of a release by calling a function of the database.

        Returns False if this is not supported.
        """
        return False
