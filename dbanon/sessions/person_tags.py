"""Keyed and salted hashes of person identifiers, which the database computes.

A *tag* is the keyed hash of a person's identifier, by which a chain knows the person. A pseudonym
is a tag in hexadecimal digits. The ledger's records of persons have salted hashes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from dbanon.data.schema import Attribute
from dbanon.sessions import statements
from dbanon.sessions.connection import Connection
from dbanon.sessions.names import RelationName, quote

# The staging table with the key material of tags: the bytes before the identifier in the inner
# hash, and the bytes before the inner hash in the outer one (see ``PersonTags.stage_key``).
SECRET = "dbanon_secret"
# Names of the columns of the table ``SECRET``.
INNER_BLOCK, OUTER_BLOCK = "inner_block", "outer_block"


class PersonTags(ABC):
    """The keyed and salted hashes that a database computes in one transaction.

    Parameters
    ----------
    connection : stages keys and salts.
    """

    # SQL type of tags.
    sql_type: ClassVar[str] = "BLOB"

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Whether a key, or a salt in place of a key, is staged.
        self._is_key_staged = False
        # Whether tags are hashed twice, as in an HMAC: with the inner block, then with the outer
        # one. Otherwise, the tag is taken from the hash with the inner block.
        self._hashes_twice = True

    @abstractmethod
    def of_text(self, text: str) -> str:
        """SQL for the tag, 16 bytes, of a SQL text; call ``stage_key`` before."""

    def pseudonym_of(self, text: str) -> str:
        """SQL for the pseudonym of a SQL text, in hexadecimal digits; NULL for NULL."""
        return f"lower(hex({self.of_text(text)}))"

    def salted_hash_of(self, text: str) -> str:
        """SQL for an 8-byte salted hash of a SQL text; call ``stage_salt`` before."""
        return f"substr({self.of_text(text)}, 1, 8)"

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        """Stage the two blocks of bytes that make hashes keyed, in a way that never logs them.

        Parameters
        ----------
        inner : the bytes that precede the text in the inner hash.
        outer : the bytes that precede the inner hash in the outer hash; empty if there is no outer
            hash.
        """
        self._hashes_twice, self._is_key_staged = bool(outer), True
        blocks = [(INNER_BLOCK, self.sql_type), (OUTER_BLOCK, self.sql_type)]
        self._connection.run(
            statements.create_staging(SECRET, blocks, self._connection.dialect.staging_suffix)
        )
        self._connection.insert_rows(
            RelationName(None, SECRET), [INNER_BLOCK, OUTER_BLOCK], [(inner, outer)]
        )

    def replace_key(self, inner: bytes, outer: bytes) -> None:
        """Replace the staged key blocks by those of another key."""
        self.unstage_key()
        self.stage_key(inner, outer)

    def unstage_key(self) -> None:
        """Drop the staged key, so that another one can be staged."""
        self._connection.run(f"DROP TABLE {quote(SECRET)}")
        self._is_key_staged = False

    def stage_salt(self, salt: bytes) -> None:
        """Stage the salt of ``salted_hash_of``; it replaces a key that is staged already."""
        if self._is_key_staged:
            self.replace_key(salt, b"")
        else:
            self.stage_key(salt, b"")

    def has_padding(self, attribute: Attribute) -> bool:
        """Return whether reading a column adds padding that casting it to text would not add.

        The texts that are hashed here have no padding.
        """
        return False


def staged_block(name: str) -> str:
    """SQL for a block of the staged key: ``INNER_BLOCK`` or ``OUTER_BLOCK``."""
    return f"(SELECT {name} FROM {quote(SECRET)})"
