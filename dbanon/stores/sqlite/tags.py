"""Keyed and salted hashes of person identifiers on SQLite, by a function written in Python."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import suppress

from dbanon.sessions.person_tags import PersonTags
from dbanon.stores.sqlite.connection import SqliteConnection

# The SQL function that computes tags; it is defined only while a key is staged.
_TAG_FUNCTION = "dbanon_keyed_tag"


class SqlitePersonTags(PersonTags):
    """The keyed and salted hashes that a function on a connection to SQLite computes."""

    _connection: SqliteConnection

    def __init__(self, connection: SqliteConnection) -> None:
        super().__init__(connection)
        # The two blocks of the staged key; empty if none is staged.
        self._blocks: list[bytes] = []

    def of_text(self, text: str) -> str:
        return f"{_TAG_FUNCTION}({text})"

    def pseudonym_of(self, text: str) -> str:
        # hex(NULL) is the empty text in SQLite.
        return f"nullif({super().pseudonym_of(text)}, '')"

    def stage_key(self, inner: bytes, outer: bytes) -> None:
        # The SQL function refers to this list and not to the key, so that ``drop_key`` can always
        # take the key from it.
        blocks = self._blocks
        blocks[:] = inner, outer

        # The tag is an HMAC, or the inner hash alone if ``outer`` is empty; see the base class.
        def tag(text: str | None) -> bytes | None:
            if text is None:
                return None
            inner, outer = blocks
            inner_hash = hashlib.sha256(inner + text.encode()).digest()
            return (hashlib.sha256(outer + inner_hash).digest() if outer else inner_hash)[:16]

        self._connection.driver.create_function(_TAG_FUNCTION, 1, tag, deterministic=True)
        self._is_key_staged = True

    def replace_key(self, inner: bytes, outer: bytes) -> None:
        # A new definition of the SQL function replaces the one with the previous key.
        self.stage_key(inner, outer)

    def unstage_key(self) -> None:
        self.drop_key()
        self._is_key_staged = False

    def drop_key(self) -> None:
        """Drop the staged key and its function, which the caller's connection must not keep."""
        if not self._is_key_staged:
            return
        self._blocks.clear()
        # While a statement is open, as after an interrupt, SQLite cannot remove the function.
        with suppress(sqlite3.OperationalError):
            self._connection.driver.create_function(_TAG_FUNCTION, 1, None)
