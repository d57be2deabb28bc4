"""What a session does for chains: tags under a key, rows in an order that nobody can foretell."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from dbanon.data.schema import Attribute
from dbanon.stores import statements
from dbanon.stores.base import Relation
from dbanon.stores.names import RelationName, quote
from dbanon.stores.session_interface import SessionInterface

# Of chains: the key's blocks, who is in the source, what becomes of each cell, the rows that stand
# for it, how many of these changed, what histories are refined to, and what rows are shuffled by.
SECRET = "dbanon_secret"
PRESENT = "dbanon_present"
VERDICT = "dbanon_verdict"
CURRENT = "dbanon_current"
DIFFERING = "dbanon_differing"
TRACES = "dbanon_traces"
SHUFFLE = "dbanon_shuffle"
STAGING = (SECRET, PRESENT, VERDICT, CURRENT, DIFFERING, TRACES, SHUFFLE)

INNER, OUTER = "inner_block", "outer_block"


class KeyedSession(SessionInterface):
    """The part of a session that chains ask for."""

    bytes_type: ClassVar[str] = "BLOB"

    @abstractmethod
    def keyed_tag(self, text: str) -> str:
        """SQL of the keyed tag, 16 bytes, of a text that SQL gives, once a key is staged."""

    @abstractmethod
    def shuffled(self, alias: str) -> str:
        """SQL by which the rows of a table are ordered at random, as nobody can foretell."""

    def tells_all_apart(self, source: Relation, attribute: Attribute) -> bool:
        """True where two values of a column of text are equal only if all of their bytes are."""
        column = f"s.{quote(attribute.name)}"
        [(wider,)] = self.rows(
            f"SELECT count(*) FROM (SELECT {column} AS told FROM {source.name.quoted} AS s"
            " WHERE 1 = 0 UNION ALL SELECT 'a') AS t WHERE t.told = 'A' OR t.told = 'a '"
        )
        return not wider

    def keys_as_read(self, source: Relation) -> list[str]:
        """SQL of the columns of a row's key, as numbers, as ``read`` gives them."""
        return list(source.located.expressions)

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the two blocks of a keyed hash, in the way in which values are never logged."""
        blocks = [(INNER, self.bytes_type), (OUTER, self.bytes_type)]
        self.run(statements.create_staging(SECRET, blocks, self.staging_suffix))
        self.insert_rows(RelationName(None, SECRET), [INNER, OUTER], [(inner, outer)])

    def empty(self, relation: RelationName) -> None:
        """Take all rows out of a table of dbanon's own."""
        self.run(f"DELETE FROM {relation.quoted}")


def staged_block(name: str) -> str:
    """SQL of a block of the key that is staged."""
    return f"(SELECT {name} FROM {quote(SECRET)})"
